// Numbers behind options that no recorded net takes: batch norm that is frozen or folded, the other running
// variance, images as bytes, mean squared error.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "pock/frontends/import.h"
#include "pock/ir/builder.h"
#include "pock/ops/evaluate.h"
#include "pock/passes/passes.h"
#include "train/net.h"
#include "train/scalars.h"

namespace pock::test {
namespace {

using Numbers = std::vector<double>;

// bn_cnn after one step, in double.
struct Step {
  std::unique_ptr<Graph> g;
  Memory memory{loop::Precision::f64};

  explicit Step(PassOptions options) {
    Net net("bn_cnn");
    options.losses = {parse_loss("cross-entropy")};
    options.recipe.optimizer = parse_optimizer(net.optimizer);
    g = import_onnx(net.folder + "/model.onnx", {net.batch, {}});
    run_passes(*g, training_pipeline(), options);
    memory = initial_memory(*g, loop::Precision::f64);
    std::mt19937 random(4);
    std::normal_distribution<double> normal(0.5);
    for (const Value* v : g->inputs()) {
      Numbers data(v->type.elements());
      for (size_t i = 0; i < data.size(); ++i)
        data[i] = v->name == "labels" ? static_cast<double>(i % 7) : normal(random);
      memory.set(v, data);
    }
    set_scalars(*g, scalar_formulas(options.recipe), 1, &memory);
    evaluate(*g, memory);
  }
  double loss() const { return memory.read(g->outputs()[0])[0]; }
  Numbers start(const std::string& name) const { return initial_memory(*g).read(g->find(name)); }
  Numbers now(const std::string& name) const { return memory.read(g->find(name)); }
};

double distance(const Numbers& a, const Numbers& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(Norm, FrozenWhereItsScaleIs) {
  PassOptions first, frozen;
  first.train = frozen.train = {"conv1.weight", "fc.*"};
  frozen.norms = {{"*", NormMode::frozen}};
  Step by_itself(first), said(frozen);
  EXPECT_EQ(by_itself.loss(), said.loss());
  EXPECT_EQ(by_itself.now("bn1.running_mean"), by_itself.start("bn1.running_mean"));
  EXPECT_GT(distance(by_itself.now("fc.weight"), by_itself.start("fc.weight")), 0);
}

// With the head alone trained, nothing in front of the norms is. The second follows a relu and cannot be folded.
TEST(Norm, FoldedWhereNothingTrainedComesBefore) {
  PassOptions head, folded;
  head.train = folded.train = {"fc.*"};
  folded.norms = {{"/bn1/*", NormMode::fold}, {"/bn2/*", NormMode::frozen}, {"/bn3/*", NormMode::fold}};
  EXPECT_EQ(Step(head).loss(), Step(folded).loss());
}

TEST(Norm, FoldedIsFrozenButForRounding) {
  PassOptions frozen, folded;
  frozen.train = folded.train = {"fc.*"};
  frozen.norms = {{"*", NormMode::frozen}};
  folded.norms = {{"/bn1/*", NormMode::fold}, {"/bn3/*", NormMode::fold}};
  Step a(frozen), b(folded);
  EXPECT_NE(a.loss(), b.loss());
  EXPECT_NEAR(a.loss(), b.loss(), 1e-5 * a.loss());
  double moved = distance(a.now("fc.weight"), a.start("fc.weight"));
  EXPECT_LT(distance(a.now("fc.weight"), b.now("fc.weight")), 1e-5 * moved);
}

TEST(Norm, FoldsThroughABias) {
  auto loss = [](NormMode mode) {
    Graph g;
    Builder b(g);
    auto param = [&](const char* name, Dims dims, const std::vector<float>& data) {
      return g.add_param(name, {DType::f32, std::move(dims)}, make_data(data));
    };
    Value* x = g.add_input("x", {DType::f32, {2, 1, 1, 2}});
    Value* w = param("w", {2, 1, 1, 1}, {0.5f, -2});
    Value* bias = param("bias", {2}, {0.25f, 3});
    Value* y = b.add(b.value("conv", {x, w}), b.reshape(bias, {2, 1, 1}));
    Value* scale = param("scale", {2}, {2, 0.5f});
    Value* shift = param("shift", {2}, {0.75f, -1});
    Value* mean = g.add_statistic("mean", {DType::f32, {2}}, make_data({0.5f, -0.25f}));
    Value* variance = g.add_statistic("variance", {DType::f32, {2}}, make_data({0.25f, 4}));
    y = b.value("batch_norm", {y, scale, shift, mean, variance}, {{"epsilon", 0.5}, {"momentum", 0.9}});
    Value* head = param("head", {2, 1}, {1.5f, 0.5f});
    head->trained = true;
    Value* sums = b.reduce_sum(y, {2, 3});
    g.add_output(b.reduce_sum(b.matmul(sums, head), {0, 1}), "loss");
    PassOptions options;
    options.norms = {{"*", mode}};
    norms(g, options);
    Memory m = initial_memory(g, loop::Precision::f64);
    m.set(x, Numbers{1, -2, 0.5, 3});
    evaluate(g, m);
    return m.read(g.outputs()[0])[0];
  };
  auto norm = [](double v, double mean, double variance, double scale, double shift) {
    return (v - mean) / std::sqrt(variance + 0.5) * scale + shift;
  };
  double want = 0;
  for (double x : {1.0, -2.0, 0.5, 3.0})
    want += 1.5 * norm(0.5 * x + 0.25, 0.5, 0.25, 2, 0.75) + 0.5 * norm(-2 * x + 3, -0.25, 4, 0.5, -1);
  EXPECT_NEAR(loss(NormMode::frozen), want, 1e-12);
  EXPECT_NEAR(loss(NormMode::fold), want, 1e-6);
}

// running' = keep * running + (1 - keep) * batch; bn2 keeps 0.8. Its input is 8x19x5x5 here.
TEST(Norm, RunningVarianceIsUnbiasedOrNot) {
  PassOptions unbiased, population;
  unbiased.unbiased_variance = true;
  population.unbiased_variance = false;
  Step a(unbiased), b(population), by_itself({});
  Numbers start = a.start("bn2.running_var"), u = a.now("bn2.running_var"), p = b.now("bn2.running_var");
  const double count = 8 * 5 * 5;
  for (size_t i = 0; i < start.size(); ++i) {
    double batch_u = (u[i] - 0.8 * start[i]) / 0.2, batch_p = (p[i] - 0.8 * start[i]) / 0.2;
    // 0.8 and 0.2 are floats in the graph.
    EXPECT_NEAR(batch_u * (count - 1), batch_p * count, 1e-6 * (start[i] + batch_p) * count) << i;
  }
  EXPECT_EQ(by_itself.now("bn2.running_var"), u) << "the model is PyTorch's";
}

TEST(Preprocess, ScalesThenSubtractsThenDivides) {
  Graph g;
  Value* x = g.add_input("x", {DType::f32, {1, 2, 1, 2}});
  g.add_output(Builder(g).value("relu", {x}), "y");
  PassOptions options;
  options.input_scale = 0.5;
  options.input_mean = {1, 3};
  options.input_std = {2, 4};
  preprocess(g, options);
  Memory m = initial_memory(g);
  EXPECT_EQ(g.inputs()[0]->type.dtype, DType::u8);
  m.set(g.inputs()[0], Numbers{2, 255, 6, 10});
  evaluate(g, m);
  EXPECT_EQ(m.read(g.outputs()[0]), (Numbers{0, 63.25, 0, 0.5}));
}

TEST(Loss, MeanSquaredErrorIsTheMeanOverEverything) {
  for (bool inference : {false, true}) {
    Graph g;
    Value* x = g.add_input("x", {DType::f32, {2, 3, 2}});
    g.add_output(Builder(g).value("neg", {x}), "y");
    PassOptions options;
    options.losses = {parse_loss("mse")};
    options.inference = inference;
    attach_loss(g, options);
    Memory m = initial_memory(g);
    m.set(x, Numbers{1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0});
    m.set(g.find("labels"), Numbers{-1, -2, -3, -4, -5, -9, 0, 0, 0, 0, 2, 4});
    evaluate(g, m);
    Numbers want = inference ? Numbers{9.0 / 6, 20.0 / 6} : Numbers{29.0 / 12};
    Numbers got = m.read(g.outputs()[inference]);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6);
  }
}

}  // namespace
}  // namespace pock::test
