// Frozen weights at compile time: each order in which kernels read one is stored, and their values are those that a step
// would have made.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "pock/ir/text.h"
#include "pock/ops/evaluate.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

Data numbers(const Type& type) {
  std::vector<float> v(static_cast<size_t>(type.elements()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 64;
  return make_data(v.data(), v.size() * sizeof(float));
}

// A frozen convolution between two that are trained: it is read in two orders.
std::unique_ptr<Graph> three_convolutions() {
  auto g = parse_graph(R"(pock 1
graph @g {
  input %x : f32[2,8,6,6]
  param %a : f32[24,8,3,3]
  param %b : f32[40,24,3,3]
  param %scale : f32[40,1,1,1]
  param %c : f32[8,40,1,1]
  %0 = conv(%x, %a) {stride = [1,1], pad = [1,1,1,1], dilation = [1,1]} : f32[2,24,6,6]
  %1 = mul(%b, %scale) : f32[40,24,3,3]
  %2 = conv(%0, %1) {stride = [1,1], pad = [1,1,1,1], dilation = [1,1]} : f32[2,40,6,6]
  %3 = conv(%2, %c) {stride = [1,1], pad = [0,0,0,0], dilation = [1,1]} : f32[2,8,6,6]
  output %3 "y"
})",
                       "t");
  for (Value* v : g->params()) v->data = numbers(v->type);
  return g;
}

int count(const Graph& g, std::string_view op, const char* param) {
  const std::vector<Node*> nodes = g.nodes();
  return static_cast<int>(std::count_if(nodes.begin(), nodes.end(), [&](const Node* n) {
    return n->op->name == op && n->in(0)->name == param;
  }));
}

PassOptions options() {
  PassOptions o;
  o.train = {"a", "c"};
  o.losses = {parse_loss("mse")};
  o.transformed_filters = false;
  return o;
}

TEST(FoldConstants, FrozenWeightsNeedNoNodesOfTheirOwn) {
  const auto model = three_convolutions();
  const ProgramGraphs p = program_graphs(*model, options());
  for (const Graph* g : {p.train.get(), p.infer.get()}) {
    for (const Value* v : g->params()) EXPECT_TRUE(v->trained || v->owner) << g->name << ' ' << v->name;
    for (const Node* n : g->nodes())
      EXPECT_FALSE(std::all_of(n->inputs().begin(), n->inputs().end(),
                               [](const Value* v) { return v->kind == ValueKind::constant; }))
          << g->name << ' ' << n->op->name.text;
  }
  EXPECT_EQ(count(*p.train, "relayout", "c"), 1) << "what is trained is put in order in each step";
}

TEST(FoldConstants, FrozenWeightsKeepEveryBit) {
  const auto model = three_convolutions();
  const auto losses = [&](const std::set<std::string>& disabled) {
    const ProgramGraphs p = program_graphs(*model, options(), {.disabled = disabled});
    std::vector<double> found;
    Memory m = initial_memory(*p.train);
    for (const Value* v : p.train->scalars()) m.set(v, {0.125});
    for (const Value* v : p.train->inputs()) m.set(v, numbers(v->type));
    for (int step = 0; step < 3; ++step) {
      evaluate(*p.train, m);
      found.push_back(m.read(p.train->outputs()[0])[0]);
    }
    return found;
  };
  const std::vector<double> folded = losses({});
  EXPECT_EQ(folded, losses({"fold_constants", "pack_frozen"}));
  EXPECT_NE(folded[0], folded[2]);
}

}  // namespace
}  // namespace pock
