// Every choice of what gradients of a layer are wanted (of its input, its weight, its bias), for every kind of layer that has
// them, with a bias and without: each has the bits that it has where all are wanted, and no more than these is computed
// or kept.
#include <gtest/gtest.h>

#include <algorithm>

#include "frontends/model.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"
#include "step.h"

namespace pock {
namespace {

using test::Attributes;
using test::Model;
using Ints = std::vector<int64_t>;

enum Wanted : unsigned { kInput = 1, kWeight = 2, kBias = 4 };

struct Kind {
  std::string name, op;
  Dims x, w, b;
  Attributes attributes = {};
  NormMode norm = NormMode::train;
  bool always_bias = false;
};
void PrintTo(const Kind& k, std::ostream* out) { *out << k.name; }

struct Branch {
  unsigned wanted;
  bool bias;
  std::string tag() const { return fmt::format("{}{}", wanted, bias ? "b" : "n"); }
  // Of what is trained for it: "p" stands in front of the layer, so that its gradient is that of the input.
  std::vector<std::string> trained() const {
    std::vector<std::string> names;
    if (wanted & kInput) names.push_back("p" + tag());
    if (wanted & kWeight) names.push_back("w" + tag());
    if (wanted & kBias) names.push_back("b" + tag());
    return names;
  }
};

std::vector<Branch> branches(const Kind& k) {
  std::vector<Branch> all;
  for (bool bias : {true, false})
    for (unsigned wanted = 1; wanted < 8; ++wanted)
      if (bias || (!k.always_bias && !(wanted & kBias))) all.push_back({wanted, bias});
  return all;
}

// A layer for each branch, side by side, and the sum of what they give as the loss.
Model model(const Kind& k) {
  Model m(17);
  m.input("x", k.x);
  test::Strings sums;
  auto name = [&](const std::string& last) {
    m.proto.mutable_graph()->mutable_node()->rbegin()->set_name(last);
  };
  for (const Branch& branch : branches(k)) {
    const std::string t = branch.tag();
    m.random("p" + t, k.x).random("w" + t, k.w);
    m.node("Add", {"x", "p" + t}, {"h" + t});
    name("input" + t);
    test::Strings in = {"h" + t, "w" + t};
    const bool apart = k.op == "MatMul";
    if (branch.bias) m.random("b" + t, k.b);
    if (branch.bias && !apart) in.push_back("b" + t);
    if (k.op == "BatchNormalization") {
      const auto channels = static_cast<size_t>(k.w[0]);
      m.floats("mean" + t, k.w, std::vector<float>(channels, 0.1f));
      m.floats("variance" + t, k.w, std::vector<float>(channels, 0.9f));
      in.insert(in.end(), {"mean" + t, "variance" + t});
    }
    m.node(k.op, in, {"l" + t}, k.attributes);
    name("layer" + t);
    std::string y = "l" + t;
    if (branch.bias && apart) {
      m.node("Add", {y, "b" + t}, {"a" + t});
      y = "a" + t;
    }
    m.node("Tanh", {y}, {"t" + t}).node("ReduceMean", {"t" + t}, {"s" + t}, {{"keepdims", int64_t{0}}});
    sums.push_back("s" + t);
  }
  m.node("Sum", sums, {"loss"});
  return m.output("loss");
}

PassOptions training(const Kind& k, std::vector<std::string> names) {
  PassOptions options;
  options.train = std::move(names);
  if (k.op == "BatchNormalization") options.norms = {{"*", k.norm}};
  options.recipe.optimizer = parse_optimizer("sgd:lr=0.1,momentum=0.9");
  options.recipe.keep_gradients = true;
  return options;
}

// What made it, copies in another order aside.
const Value* source(const Value* v) {
  while (v->node && (v->node->op->is_view() || std::string_view(v->node->op->name) == "relayout"))
    v = v->node->in(0);
  return v;
}

bool contracts(const Node& n) {
  const std::string_view op = n.op->name;
  return op == "matmul" || op == "conv" || op == "conv_input_grad" || op == "conv_weight_grad";
}

class Subsets : public testing::TestWithParam<Kind> {};

TEST_P(Subsets, CostWhatTheyAreAndHaveTheBitsOfAll) {
  const Kind& k = GetParam();
  const std::unique_ptr<Graph> imported = model(k).import();
  const auto all = kept_gradients(
      *program_graphs(*imported, training(k, {"p*", "w*", "b*"}), {.disabled = optional_passes()}).train);

  std::vector<std::string> names;
  for (const Branch& branch : branches(k))
    for (const std::string& name : branch.trained()) names.push_back(name);
  const PassOptions options = training(k, names);
  const ProgramGraphs graphs = program_graphs(*imported, options);
  const Graph& g = *graphs.train;
  const auto some = kept_gradients(g);
  EXPECT_EQ(some.size(), names.size());
  for (const auto& [name, gradient] : some) {
    EXPECT_TRUE(std::count(names.begin(), names.end(), name)) << name;
    EXPECT_EQ(gradient, all.at(name)) << name;
    EXPECT_TRUE(std::any_of(gradient.begin(), gradient.end(), [](double x) { return x != 0; })) << name;
  }

  const Positions at = positions(g);
  const int loss = at.at(loss_node(g));
  const bool products = k.op == "MatMul" || k.op == "Gemm" || k.op.starts_with("Conv");
  for (const Branch& branch : branches(k)) {
    SCOPED_TRACE(branch.tag());
    int contractions = 0;
    bool reads_input = false;  // or makes it again
    for (const Node* n : g.nodes()) {
      if (at.at(n) <= loss) continue;
      contractions += n->loc.name == "layer" + branch.tag() && contracts(*n);
      for (const Value* v : n->inputs()) reads_input |= source(v)->loc().name == "input" + branch.tag();
    }
    if (products) {
      EXPECT_EQ(contractions, !!(branch.wanted & kInput) + !!(branch.wanted & kWeight));
      EXPECT_EQ(reads_input, (branch.wanted & kWeight) != 0);
    } else if (branch.wanted == kBias) {
      EXPECT_FALSE(reads_input);
    }
  }

  CompileOptions compile;
  compile.target = find_target("host");
  compile.recipe = options.recipe;
  Program program = lower(g, *graphs.infer, compile);
  train_both_ways(program, 1);
}

const Ints kTwo = {2, 2};
INSTANTIATE_TEST_SUITE_P(
    Layers, Subsets,
    testing::Values(
        Kind{"conv", "Conv", {2, 3, 7, 6}, {5, 3, 3, 2}, {5}, {{"pads", Ints{1, 0, 1, 1}}}},
        Kind{"strided", "Conv", {2, 3, 7, 9}, {5, 3, 3, 3}, {5}, {{"strides", Ints{2, 3}}}},
        Kind{"pointwise", "Conv", {2, 9, 5, 3}, {17, 9, 1, 1}, {17}},
        Kind{"one_axis", "Conv", {2, 3, 9}, {4, 3, 3}, {4}, {{"dilations", Ints{2}}}},
        Kind{"depthwise", "Conv", {2, 6, 5, 7}, {6, 1, 3, 3}, {6}, {{"group", int64_t{6}}}},
        Kind{"grouped", "Conv", {2, 4, 6, 5}, {6, 2, 3, 3}, {6}, {{"group", int64_t{2}}}},
        Kind{"transposed", "ConvTranspose", {2, 4, 4, 3}, {4, 3, 3, 3}, {3}, {{"strides", kTwo}}},
        Kind{"transposed_grouped",
             "ConvTranspose",
             {2, 4, 4, 3},
             {4, 3, 3, 3},
             {6},
             {{"strides", kTwo}, {"group", int64_t{2}}}},
        Kind{"gemm", "Gemm", {5, 7}, {7, 4}, {4}},
        Kind{"linear", "Gemm", {5, 7}, {4, 7}, {4}, {{"transB", int64_t{1}}}},
        Kind{"gemm_alpha_beta", "Gemm", {5, 7}, {7, 4}, {4}, {{"alpha", 0.5f}, {"beta", 2.0f}}},
        Kind{"matmul", "MatMul", {2, 5, 7}, {7, 4}, {4}},
        Kind{"batch_norm", "BatchNormalization", {4, 5, 3, 2}, {5}, {5}, {}, NormMode::train, true},
        Kind{"batch_norm_frozen", "BatchNormalization", {4, 5, 3, 2}, {5}, {5}, {}, NormMode::frozen, true},
        Kind{"layer_norm", "LayerNormalization", {3, 4, 7}, {7}, {7}},
        Kind{"instance_norm", "InstanceNormalization", {2, 5, 3, 4}, {5}, {5}, {}, NormMode::train, true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace pock
