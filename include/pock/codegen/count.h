// What the kernels of a program take on a machine that need not be here, counted in its emulator; and whether they are right.
//
//   std::vector<KernelCount> counts = count_kernels(program);   // one for each of program.kernels
//   counts[0].instructions, counts[0].right
#pragma once

#include <optional>
#include <vector>

#include "pock/codegen/compile.h"

namespace pock {

struct KernelCount {
  std::optional<int64_t> instructions;  // that one call executes; none where no emulator knows the cpu
  int64_t code_bytes = 0;
  int64_t stack_bytes = 0;
  int64_t spills = 0;  // instructions that put on the stack what no register holds
  bool right = false;  // on made-up numbers, the interpreter's bits for the plain kernel
};

// Makes a program that runs each kernel once, and runs it as the target's very core. Throws Error where the emulator is
// not installed, or the machine has too little memory for a kernel.
std::vector<KernelCount> count_kernels(const Program&);

// Multiply-accumulates of the products and convolutions of a kernel, those with padding included; 0 of other kernels.
int64_t multiply_accumulates(const KernelUse&);

}  // namespace pock
