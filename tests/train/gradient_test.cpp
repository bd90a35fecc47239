// Whole nets: the gradient of every parameter against central differences, in double. The derivative along a
// random direction is compared, one parameter at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <unordered_set>

#include "pock/frontends/import.h"
#include "pock/ops/evaluate.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"
#include "train/net.h"
#include "train/scalars.h"

namespace pock::test {
namespace {

class NetGradient : public testing::TestWithParam<std::string> {};

// Of the nodes that `to` depends on, those that depend on `from`: with it they alone give another `to`.
std::vector<const Node*> path(const Graph& g, const Value* from, const Value* to) {
  std::unordered_set<const Value*> needed = {to}, moved = {from};
  const auto any = [](const std::vector<Value*>& values, const std::unordered_set<const Value*>& set) {
    return std::any_of(values.begin(), values.end(), [&](const Value* v) { return set.count(v) != 0; });
  };
  for (const Node* n : g.nodes_backward())
    if (any(n->results(), needed)) needed.insert(n->inputs().begin(), n->inputs().end());
  std::vector<const Node*> nodes;
  for (const Node* n : g.nodes()) {
    if (!any(n->results(), needed) || !any(n->inputs(), moved)) continue;
    moved.insert(n->results().begin(), n->results().end());
    nodes.push_back(n);
  }
  return nodes;
}

// By differences over 2 h.
void expect_gradients(const Net& net, PassOptions options, double h) {
  const int64_t batch = 3;
  options.losses = {parse_loss(net.loss)};
  std::unique_ptr<Graph> g = import_onnx(net.folder + "/model.onnx", {.batch = batch, .dims = net.sizes});
  for (PassFn pass : {attach_loss, select, norms, dropout, expand_without_gradient, autodiff})
    pass(*g, options);
  // Statistics must not move between evaluations.
  for (Node* n : g->nodes())
    if (n->op->has_effect()) g->erase(n);

  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  Memory memory = initial_memory(*g, loop::Precision::f64);
  for (const Value* v : g->inputs()) {
    std::vector<double> data(v->type.elements());
    for (size_t i = 0; i < data.size(); ++i)
      // Ids, and masks of 0 and 1, are whole. Each position sees the first: of numbers that are all lost beside the
      // lowest float, differences are 0.
      data[i] = v->name == "labels"       ? static_cast<double>(i % 3)
                : is_float(v->type.dtype) ? normal(random)
                                          : static_cast<double>(i % v->type.dims.back() == 0 || i % 2);
    memory.set(v, data);
  }
  set_scalars(*g, scalar_formulas(options.recipe), 1, &memory);
  // What starts at 0 would hide the gradient of what it is multiplied by.
  for (const Value* p : g->params())
    if (p->kind == ValueKind::param && !p->data) {
      std::vector<double> data(p->type.elements());
      for (double& x : data) x = 0.3 * normal(random);
      memory.set(p, data);
    }
  evaluate(*g, memory);
  int checked = 0;
  for (const Value* p : g->params()) {
    if (!p->trained) continue;
    const Value* gradient = nullptr;
    for (size_t i = 1; i < g->outputs().size(); ++i)
      if (g->output_name(i) == gradient_output_name(*p)) gradient = g->outputs()[i];
    ASSERT_NE(gradient, nullptr) << p->name;
    std::vector<double> analytic = memory.read(gradient), start = memory.read(p), direction(start.size());
    double want = 0, size = 0;
    for (size_t i = 0; i < start.size(); ++i) {
      direction[i] = normal(random);
      want += direction[i] * analytic[i];
      size += direction[i] * direction[i] * analytic[i] * analytic[i];
    }
    double loss[2];
    const std::vector<const Node*> nodes = path(*g, p, g->outputs()[0]);
    for (int side : {0, 1}) {
      Memory moved = memory;
      std::vector<double> values = start;
      for (size_t i = 0; i < values.size(); ++i) values[i] += (side ? -h : h) * direction[i];
      moved.set(p, values);
      for (const Node* n : nodes) evaluate(*n, moved);
      loss[side] = moved.read(g->outputs()[0])[0];
    }
    double got = (loss[0] - loss[1]) / (2 * h);
    EXPECT_NEAR(got, want, 1e-5 * std::sqrt(size) + 1e-8) << net.name << ": " << p->name;
    ++checked;
  }
  EXPECT_GT(checked, 3);
}

TEST_P(NetGradient, AgreesWithDifferences) { expect_gradients(Net(GetParam()), {}, 1e-6); }

// Beside strided and padded convolutions, products of either orientation, and dropouts.
class AdapterGradient : public testing::TestWithParam<std::string> {};
TEST_P(AdapterGradient, AgreesWithDifferences) {
  PassOptions options;
  options.scheme = load_scheme("lora:3");
  options.scheme->lora[0].dropout = 0.25;
  // So few activations stand so near a bound that none crosses it.
  expect_gradients(Net(GetParam()), options, 1e-7);
}

std::string name_of(const testing::TestParamInfo<std::string>& info) { return info.param; }
INSTANTIATE_TEST_SUITE_P(Nets, NetGradient, testing::ValuesIn(kNets), name_of);
INSTANTIATE_TEST_SUITE_P(Zoo, NetGradient, testing::ValuesIn(kZoo), name_of);
INSTANTIATE_TEST_SUITE_P(Text, NetGradient, testing::ValuesIn(kText), name_of);
INSTANTIATE_TEST_SUITE_P(Nets, AdapterGradient,
                         testing::Values("lenet", "bn_cnn", "resnet18", "mobilenet_v2", "tcn", "encoder",
                                         "decoder"),
                         name_of);

}  // namespace
}  // namespace pock::test
