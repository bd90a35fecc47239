// Losses against PyTorch's, recorded by record_losses.py: the value of a step, the gradient, and what evaluation
// makes of the losses of samples.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "pock/ops/evaluate.h"
#include "pock/passes/passes.h"
#include "support/support.h"

namespace pock::test {
namespace {

using Numbers = std::vector<double>;

struct Recorded {
  LossChoice loss;
  Dims shape;
  Numbers scores, labels, gradient;
  double value;
};

std::vector<Recorded> all_recorded() {
  std::vector<Recorded> all;
  auto cases = nlohmann::json::parse(read_file(std::string(kSourceDir) + "/tests/train/losses.json"));
  for (const auto& c : cases) {
    all.push_back(
        {parse_loss(c["loss"]), c["shape"].get<Dims>(), c["scores"], c["labels"], c["gradient"], c["value"]});
    all.back().loss.class_weights = c["class_weights"].get<std::vector<float>>();
  }
  return all;
}

// A model that gives its only parameter as its output: the scores, or what probabilities are made of.
std::unique_ptr<Graph> model(const Dims& shape, const char* end = nullptr) {
  auto g = std::make_unique<Graph>();
  const Type type{DType::f32, shape};
  Builder b(*g);
  Value* out = b.add(g->add_input("x", type), g->add_param("w", type, nullptr));
  g->add_output(end ? b.value(end, {out}) : out, "scores");
  return g;
}

Memory run(const Graph& g, const Recorded& r) {
  Memory m = initial_memory(g, loop::Precision::f64);
  m.set(g.find("x"), r.scores);
  m.set(g.find("labels"), r.labels);
  evaluate(g, m);
  return m;
}

PassOptions options_for(const Recorded& r) {
  PassOptions options;
  options.losses = {r.loss};
  return options;
}

void expect_pytorch(Graph& g, const Recorded& r, double tolerance) {
  PassOptions options = options_for(r);
  for (PassFn pass : {attach_loss, select, expand_without_gradient, autodiff}) pass(g, options);
  Memory m = run(g, r);
  EXPECT_NEAR(m.read(g.outputs()[0])[0], r.value, tolerance * std::max(1.0, r.value));
  Numbers gradient = m.read(g.outputs()[1]);
  ASSERT_EQ(gradient.size(), r.gradient.size());
  for (size_t i = 0; i < gradient.size(); ++i) EXPECT_NEAR(gradient[i], r.gradient[i], tolerance) << i;
}

class Loss : public testing::TestWithParam<size_t> {};

TEST_P(Loss, AsInPyTorch) {
  Recorded r = all_recorded()[GetParam()];
  expect_pytorch(*model(r.shape), r, 1e-12);
}

// A sigmoid or softmax in front of a loss that has its own is taken away: the same numbers.
TEST_P(Loss, ProbabilitiesAreUndone) {
  Recorded r = all_recorded()[GetParam()];
  const char* ends[] = {"sigmoid", "softmax", "log_softmax"};
  for (const char* end : ends) {
    bool each = end == ends[0];
    if (r.loss.name != (each ? "bce" : "cross-entropy")) continue;
    if (!each && r.shape.size() > 2 && r.loss.number("axis") != -1) continue;  // they run along the last axis
    expect_pytorch(*model(r.shape, end), r, 1e-12);
  }
}

// What evaluation sums up, over any batches.
TEST_P(Loss, OfSamplesGivesTheSameMean) {
  Recorded r = all_recorded()[GetParam()];
  auto g = model(r.shape);
  PassOptions options = options_for(r);
  options.inference = true;
  attach_loss(*g, options);
  Memory m = run(*g, r);
  ASSERT_EQ(g->outputs().size(), r.loss.weighted() ? 3u : 2u);
  double sum = 0, weight = 0;
  for (double loss : m.read(g->outputs()[1])) sum += loss;
  if (r.loss.weighted())
    for (double w : m.read(g->outputs()[2])) weight += w;
  else
    weight = static_cast<double>(r.shape[0]);
  EXPECT_NEAR(sum / weight, r.value, 1e-12 * std::max(1.0, r.value));
}

std::string name_of(const testing::TestParamInfo<size_t>& info) {
  std::string name = std::to_string(info.param) + "_" + all_recorded()[info.param].loss.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Recorded, Loss, testing::Range<size_t>(0, all_recorded().size()), name_of);

TEST(Losses, NothingCountedIsNothingLearned) {
  Recorded r{parse_loss("cross-entropy:ignore_index=7"), {2, 3}, Numbers(6, 1.5), {7, 7}, Numbers(6, 0), 0};
  expect_pytorch(*model(r.shape), r, 0);
}

}  // namespace
}  // namespace pock::test
