// BatchNormalization in every version and mode: what the file means as it stands, and what a training step and the
// inference graph make of it.
#include <cmath>

#include "forms.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {
using test::Attributes;
using test::expect_has;
using test::expect_near;
using test::Model;
using test::run;
using Numbers = std::vector<double>;

constexpr double kEpsilon = 0.25;
const Numbers kX = {1, 2, 5, -1, 3, 0.5, 2, 2}, kScale = {2, -0.5}, kShift = {1, 3}, kMean = {0.5, -1},
              kVariance = {4, 0.75};
const Dims kShape = {2, 2, 2};  // 4 values a channel
constexpr double kCount = 4;

std::vector<float> floats(const Numbers& n) { return {n.begin(), n.end()}; }

int64_t channel(size_t element) { return static_cast<int64_t>(element) / 2 % 2; }

Numbers batch_mean() {
  Numbers mean(2, 0);
  for (size_t i = 0; i < kX.size(); ++i) mean[channel(i)] += kX[i] / kCount;
  return mean;
}
Numbers batch_variance() {
  Numbers mean = batch_mean(), variance(2, 0);
  for (size_t i = 0; i < kX.size(); ++i)
    variance[channel(i)] += std::pow(kX[i] - mean[channel(i)], 2) / kCount;
  return variance;
}
Numbers normalized(const Numbers& mean, const Numbers& variance) {
  Numbers y;
  for (size_t i = 0; i < kX.size(); ++i) {
    int64_t c = channel(i);
    y.push_back((kX[i] - mean[c]) / std::sqrt(variance[c] + kEpsilon) * kScale[c] + kShift[c]);
  }
  return y;
}
Numbers blended(const Numbers& running, const Numbers& batch, double momentum, double factor = 1) {
  Numbers all;
  for (size_t i = 0; i < running.size(); ++i)
    all.push_back(momentum * running[i] + (1 - momentum) * factor * batch[i]);
  return all;
}

Model model(int64_t opset, const test::Strings& outputs, Attributes attributes, Dims x = kShape) {
  Model m(opset);
  m.input("x", x).floats("s", {2}, floats(kScale)).floats("b", {2}, floats(kShift));
  m.floats("m", {2}, floats(kMean)).floats("v", {2}, floats(kVariance));
  attributes.emplace_back("epsilon", static_cast<float>(kEpsilon));
  m.node("BatchNormalization", {"x", "s", "b", "m", "v"}, outputs, attributes);
  return m.output("y");
}

std::vector<Numbers> outputs(const Graph& g) {
  Memory m = initial_memory(g);
  m.set(g.inputs()[0], kX);
  evaluate(g, m);
  std::vector<Numbers> all;
  for (const Value* v : g.outputs()) all.push_back(m.read(v));
  return all;
}

TEST(BatchNorm, VersionsInInference) {
  for (int64_t opset : {7, 9, 14, 15, 21}) {
    Attributes attributes;
    if (opset < 9) attributes.emplace_back("spatial", int64_t{1});
    if (opset >= 14) attributes.emplace_back("training_mode", int64_t{0});
    expect_near(run(*model(opset, {"y"}, attributes).import(), kX), normalized(kMean, kVariance));
  }
  expect_has(model(7, {"y"}, {{"spatial", int64_t{0}}}).problem(), "spatial=0 is not supported");
}

// Running statistics after the step are results like others, and their variance is the population's.
TEST(BatchNorm, VersionsInTraining) {
  for (int64_t opset : {7, 9, 14, 15})
    for (double momentum : {0.0, 0.5, 1.0}) {
      Attributes attributes{{"momentum", static_cast<float>(momentum)}};
      if (opset >= 14) attributes.emplace_back("training_mode", int64_t{1});
      Model m = model(opset, {"y", "m2", "v2"}, attributes);
      m.output("m2").output("v2");
      auto all = outputs(*m.import());
      ASSERT_EQ(all.size(), 3u);
      expect_near(all[0], normalized(batch_mean(), batch_variance()));
      expect_near(all[1], blended(kMean, batch_mean(), momentum));
      expect_near(all[2], blended(kVariance, batch_variance(), momentum));
    }
}

TEST(BatchNorm, SavedStatisticsAreRefused) {
  Model m = model(9, {"y", "a", "c", "saved_mean", "saved_variance"}, {});
  m.output("saved_mean");
  expect_has(m.problem(), "output 3 ('saved_mean') is not supported");
}

// A training step of the sum of y * w: its graph, run once.
struct Step {
  std::unique_ptr<Graph> g;
  Memory memory;
  std::string said;

  Step(Model m, std::vector<const char*> rules, const std::vector<std::string>& freeze = {},
       const char* producer = "tests", std::optional<bool> unbiased = {}) {
    m.proto.set_producer_name(producer);
    m.proto.mutable_graph()->mutable_node(0)->set_name("bn");
    m.random("w", kShape).node("Mul", {"y", "w"}, {"p"}).ints("axes", {0, 1, 2});
    m.node("ReduceSum", {"p", "axes"}, {"loss"}, {{"keepdims", int64_t{0}}});
    m.proto.mutable_graph()->mutable_output(0)->set_name("loss");
    g = m.import();
    PassOptions options;
    options.freeze = freeze;
    options.unbiased_variance = unbiased;
    for (const char* rule : rules) options.norms.push_back(parse_norm_rule(rule));
    testing::internal::CaptureStderr();
    run_passes(
        *g,
        {get_pass("select"), get_pass("norms"), get_pass("expand_without_gradient"), get_pass("autodiff")},
        options);
    said = testing::internal::GetCapturedStderr();
    memory = initial_memory(*g);
    memory.set(g->inputs()[0], kX);
    evaluate(*g, memory);
  }
  Numbers now(const char* name) { return memory.read(g->find(name)); }
  double loss() { return memory.read(g->outputs()[0])[0]; }
};

double weighted(const Numbers& y) {
  Model m;
  m.random("w", kShape).output("w");
  Numbers w = run(*m.import());
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += y[i] * w[i];
  return sum;
}

Model in_mode(int64_t training_mode) { return model(15, {"y"}, {{"training_mode", training_mode}}); }

// What the step does is what --bn says, or whether the scale is trained; the mode of the file changes nothing.
TEST(BatchNorm, ModeOfAStep) {
  for (int64_t mode : {0, 1}) {
    Step trains(in_mode(mode), {});
    EXPECT_NEAR(trains.loss(), weighted(normalized(batch_mean(), batch_variance())), 1e-5);
    expect_has(trains.said, "batch norm: 1 train, 0 frozen, 0 folded");
    Step frozen(in_mode(mode), {"frozen"}), by_scale(in_mode(mode), {}, {"s"});
    for (Step* step : {&frozen, &by_scale}) {
      EXPECT_NEAR(step->loss(), weighted(normalized(kMean, kVariance)), 1e-5);
      expect_has(step->said, "batch norm: 0 train, 1 frozen, 0 folded");
      EXPECT_EQ(step->now("m"), kMean);
      EXPECT_EQ(step->now("v"), kVariance);
    }
    Step asked(in_mode(mode), {"frozen", "b*=train"}, {"s"});
    EXPECT_EQ(asked.loss(), trains.loss());
    try {
      Step folded(in_mode(mode), {"fold"});
      ADD_FAILURE() << "there is no convolution to fold it into";
    } catch (const Error& e) {
      testing::internal::GetCapturedStderr();
      expect_has(e.what(), "cannot be folded");
    }
  }
}

TEST(BatchNorm, InferenceUsesRunningStatistics) {
  for (int64_t mode : {0, 1}) {
    auto g = in_mode(mode).import();
    PassOptions options;
    options.inference = true;
    run_passes(*g, {get_pass("select"), get_pass("norms"), get_pass("expand")}, options);
    expect_near(run(*g, kX), normalized(kMean, kVariance));
  }
}

// Of two values the unbiased variance is twice the other one; whose the file is decides, or --bn-variance.
TEST(BatchNorm, RunningStatisticsOfAStep) {
  for (float momentum : {0.0f, 0.5f, 1.0f})
    for (bool pytorch : {false, true})
      for (std::optional<bool> asked :
           {std::optional<bool>(), std::optional<bool>(true), std::optional<bool>(false)}) {
        Step step(model(15, {"y"}, {{"momentum", momentum}}), {}, {}, pytorch ? "pytorch" : "tests", asked);
        double factor = asked.value_or(pytorch) ? kCount / (kCount - 1) : 1;
        expect_near(step.now("m"), blended(kMean, batch_mean(), momentum));
        expect_near(step.now("v"), blended(kVariance, batch_variance(), momentum, factor));
      }
}

TEST(BatchNorm, StatisticsThatTheFileReadsAreItsOwnRule) {
  Model m = model(15, {"y", "m2", "v2"}, {{"momentum", 0.5f}, {"training_mode", int64_t{1}}});
  m.node("Add", {"v2", "v2"}, {"twice"});
  Step step(m, {}, {}, "pytorch");
  expect_near(step.now("v"), blended(kVariance, batch_variance(), 0.5));
}

TEST(BatchNorm, StatisticsAreNoParameters) {
  Step step(in_mode(1), {});
  std::vector<std::string> trained;
  for (const Value* p : step.g->params()) {
    EXPECT_EQ(p->kind == ValueKind::statistic, p->name == "m" || p->name == "v") << p->name;
    if (p->trained) trained.push_back(p->name);
  }
  EXPECT_EQ(trained, (std::vector<std::string>{"s", "b", "w"}));
}

// One value a channel has no variance.
TEST(BatchNorm, OneValueAChannel) {
  auto passes = [](std::vector<const char*> rules) {
    auto g = model(15, {"y"}, {}, {1, 2, 1}).import();
    PassOptions options;
    for (const char* rule : rules) options.norms.push_back(parse_norm_rule(rule));
    testing::internal::CaptureStderr();
    try {
      run_passes(*g, {get_pass("select"), get_pass("norms")}, options);
    } catch (const Error& e) {
      testing::internal::GetCapturedStderr();
      return std::string(e.what());
    }
    testing::internal::GetCapturedStderr();
    return std::string();
  };
  expect_has(passes({}), "batch statistics need more than one value a channel");
  EXPECT_EQ(passes({"frozen"}), "");
}

}  // namespace
}  // namespace pock
