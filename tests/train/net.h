// The recorded nets (record.py) and how to train them with pockc.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pock/ir/graph.h"
#include "support/support.h"

namespace pock::test {

extern const std::vector<std::string> kNets;  // small: for all tests
extern const std::vector<std::string> kZoo;   // architectures that people use, and one net at several sizes
extern const std::vector<std::string> kText;  // nets that read tokens

struct Net {
  explicit Net(const std::string& name);
  std::string name, folder, data, optimizer, loss;  // data: the folder of data.npy and labels.npy
  std::vector<std::string> inputs;                  // each with a file NAME.npy instead of data.npy
  std::map<std::string, int64_t> sizes;             // of axes that the file leaves open besides the batch
  std::vector<std::string> input_flags;             // how pockc compile is told about bytes
  int batch = 0, steps = 0;
  double tolerance = 0;
  std::vector<double> loss64, loss32;
  std::map<std::string, double> distance32;  // how far PyTorch's float32 is from float64, of each tensor
  std::vector<std::string> zero_gradient;    // tensors whose gradient is zero but for rounding

  std::map<std::string, std::string> data_files() const;  // by input; "" where there is one
  std::vector<std::string> data_flags() const;
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
// `emulator`: what runs the trainer, where this machine does not.
Trained run_trainer(const Net&, const TempDir&, int steps, const std::vector<std::string>& train_flags = {},
                    const std::vector<std::string>& emulator = {});
// What runs a trainer's command line in an emulator.
std::vector<std::string> emulated(const std::vector<std::string>& emulator, std::vector<std::string> argv);
void compile(const Net&, const TempDir&, const std::vector<std::string>& flags = {});
// Kernels and where everything lies, as text: programs of which these are the same do the same.
std::string program_of(const Net&, const std::vector<std::string>& flags = {});

// What a tensor holds in the model's file.
Array initial(const Graph&, const std::string& name);

}  // namespace pock::test
