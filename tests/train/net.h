// The recorded nets (record.py) and how to train them with pockc.
#pragma once

#include <string>
#include <vector>

#include "support/support.h"

namespace pock::test {

extern const std::vector<std::string> kNets;

struct Net {
  explicit Net(const std::string& name);
  std::string name, folder, optimizer;
  int batch = 0, steps = 0;
  std::vector<double> loss64, loss32;
  std::vector<std::string> zero_gradient;  // tensors whose gradient is zero but for rounding

  std::vector<std::string> compile_command(const std::string& out,
                                           const std::vector<std::string>& more = {}) const;
  std::vector<std::string> train_command(const std::string& trainer, int steps, const std::string& checkpoint,
                                         const std::vector<std::string>& more = {}) const;
};

struct Trained {
  std::vector<double> losses;  // of each step
  Safetensors checkpoint;
  std::string bytes;  // of the checkpoint's tensors, in order of name
};

// Compiles and trains in a temporary folder; a failure of either is a test failure with what they printed.
Trained train(const Net&, int steps, const std::vector<std::string>& compile_flags = {},
              const std::vector<std::string>& train_flags = {});
Trained run_trainer(const Net&, const TempDir&, int steps, const std::vector<std::string>& train_flags = {});
void compile(const Net&, const TempDir&, const std::vector<std::string>& flags = {});

}  // namespace pock::test
