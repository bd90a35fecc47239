// Runs a kernel, plain or scheduled, exactly as its text says: the oracle that compiled code is compared
// with.
//
//   Kernel k = parse_kernel("kernel @neg(in x: f32[2], out y: f32[2]) { each i in 0..2 { y[i] = -x[i] } }");
//   float x[2] = {1, 2}, y[2];
//   interpret(k, {x, y});
//
// In f32 every operation rounds once to float with denormals flushed to zero on input and output (x86's rule:
// tininess after rounding), and exp, log, ... are the arithmetic of math.cpp. In double, f32 buffers hold
// doubles and exp, log, ... come from libm: for gradient checks.
#pragma once

#include "pock/loop/loop.h"

namespace pock::loop {

enum class Precision { f32, f64 };

// `args[i]` points to the elements of kernel.args[i] (f32 buffers: float or double by precision; workspace
// included). Iterations of `each` loops run forwards, or backwards where `reverse`: the result must not
// depend on it. So do the threads of a block, from barrier to barrier. Throws std::logic_error at an element out of
// bounds, and where blocks of threads break the rules of loop.h.
void interpret(const Kernel&, const std::vector<void*>& args, Precision = Precision::f32,
               bool reverse = false);

// Memory for a kernel's workspace, full of NaN.
struct Workspace {
  explicit Workspace(const Kernel&, Precision = Precision::f32);
  std::vector<void*> pointers;  // in the kernel's order
 private:
  std::vector<std::vector<std::byte>> memory_;
};

// Flush-to-zero, denormals-are-zero and round-to-nearest for the calling thread while it lives.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;

 private:
  unsigned saved_;
};

}  // namespace pock::loop
