// Programs that run the kernels of another one, each once (runtime/main_kernels.c), and what there is to know of their code.
#pragma once

#include <string>
#include <vector>

#include "kernels.h"
#include "pock/codegen/compile.h"

namespace pock {

struct KernelCode {
  std::vector<std::pair<uint64_t, uint64_t>>
      ranges;               // addresses of its functions: first, and behind the last
  int64_t stack_bytes = 0;  // the most that one of them takes
  int64_t spills = 0;       // instructions that put what no register holds on the stack
  int64_t bytes() const;
};
struct KernelProgram {
  std::string file;
  int64_t stack_bytes = 0;          // of the whole program, where it has none of a system
  std::vector<KernelCode> kernels;  // of each of Program::kernels
};
// `arguments[i]` are those of program.kernels[i].scheduled.
KernelProgram kernel_program(const Program&, const std::vector<std::vector<pock_kernel_argument>>& arguments);

// The emulator's plugin, runtime/count_plugin.c: a shared library for this machine.
std::string counting_plugin();

}  // namespace pock
