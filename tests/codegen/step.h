// The training step of a program, compiled to an object file and loaded into this process.
//
//   Step step(program);
//   step.table->forward(&step.memory, &step.threads);
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "../../runtime/pock.h"
#include "pock/codegen/compile.h"
#include "pock/ops/evaluate.h"
#include "pock/passes/pass.h"
#include "support/support.h"

namespace pock {

// As a caller of the library would drive it. `table` is null where it cannot be loaded.
class Step {
 public:
  explicit Step(Program&);
  ~Step();
  Step(const Step&) = delete;

  const struct pock_program* table = nullptr;
  pock_buffers memory;   // an arena of NaN, parameters as the program has them
  pock_threads threads;  // cuts in two pieces

 private:
  test::TempDir folder_;
  void* handle_ = nullptr;
  std::vector<uint64_t> arena_, params_, state_;
  std::vector<float> scalars_;
};

std::vector<float> random_floats(int64_t n, unsigned seed);  // from -1 to 1
std::vector<int32_t> random_ids(int64_t n, int64_t classes, unsigned seed);

struct Learned {
  std::vector<float> losses;  // of each step
  std::map<std::string, std::string>
      tensors;  // bytes of parameters, statistics and optimizer state at the end, in the model's order
};
// Trains for three steps on random samples, compiled and interpreted: every bit must be the same after each.
// `alone`: the program is given no threads.
Learned train_both_ways(Program&, int64_t classes, bool alone = false);

// What may be left out of the pipeline.
std::set<std::string> optional_passes();
// Of a model, in that way.
Learned learn(const Graph& model, const PassOptions&, const std::set<std::string>& left_out, int64_t classes,
              bool updates_in_place = true);
// What there is after one step on random samples, interpreted.
Memory one_step(const Graph& train, int64_t classes);
// What it leaves in the outputs "NAME.grad", by NAME.
std::map<std::string, std::vector<double>> kept_gradients(const Graph& train, int64_t classes = 1);

}  // namespace pock
