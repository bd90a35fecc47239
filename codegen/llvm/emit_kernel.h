// A kernel of the loop IR as LLVM functions.
#pragma once

#include <string>
#include <vector>

#include "pock/codegen/target.h"
#include "pock/loop/loop.h"

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace pock {

// Phases run one after the other, all threads joined in between. A top-level `parallel` loop is a phase over
// its iterations; what stands between such loops is a phase of one iteration.
struct Phase {
  llvm::Function* function = nullptr;  // a pock_kernel (runtime/pock.h)
  int64_t iterations = 1;
};
// Of a repeated kernel, all of them `times` times, with the number of the time behind the kernel's arguments.
struct Phases : std::vector<Phase> {
  int64_t times = 1;
};

// Adds the kernel's functions to the module, with internal linkage, as NAME, NAME.1, ...
Phases emit_kernel(llvm::Module&, const Target&, const loop::Kernel&, const std::string& name);

}  // namespace pock
