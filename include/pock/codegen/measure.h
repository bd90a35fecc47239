// How fast the kernels of a program are on this machine, on one thread.
//
//   Limits limits = measure_limits(target);
//   StepRunner runner(program);
//   std::vector<double> seconds = runner.kernels();   // one for each of program.train_uses
//   double whole = runner.step();                     // the same kernels with nothing in between
#pragma once

#include <memory>
#include <vector>

#include "pock/codegen/compile.h"

namespace pock {

// What no kernel can exceed.
struct Limits {
  double flops = 0;      // a second, of independent fused multiply-adds in registers; each counts twice
  double bandwidth = 0;  // bytes a second that y = a * x + b reads and writes, in memory and not in caches
};
// The best of several runs, which take about half a second. Throws Error where this machine cannot run the target's code.
Limits measure_limits(const Target&);

// Compiles the training step into this process and runs it, in memory laid out as the trainer's: the same plan, huge
// pages where the system has them. The samples are made up, the optimizer's numbers small.
class StepRunner {
 public:
  // Throws Error where this machine cannot run the target's code, or has too little memory.
  explicit StepRunner(const Program&);
  ~StepRunner();
  std::vector<double> kernels();  // seconds of each of Program::train_uses in one step
  double step();  // seconds that one step has of the core; to ask for them takes too long for kernels

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pock
