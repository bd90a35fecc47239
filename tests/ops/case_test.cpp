// What holds of every operator's cases.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "ops/cases/op_case.h"
#include "pock/ir/text.h"
#include "pock/ir/verify.h"
#include "pock/loop/interpret.h"
#include "pock/ops/op.h"

namespace pock::test {
namespace {

using loop::Precision;

class Case : public testing::TestWithParam<size_t> {
 protected:
  const OpCase& from() const { return all_cases()[GetParam()]; }
};

std::string case_name(const testing::TestParamInfo<size_t>& info) {
  const OpCase& c = all_cases()[info.param];
  return c.op + "_" + c.place;
}

std::vector<size_t> cases_where(bool (*wanted)(const OpDef&)) {
  std::vector<size_t> numbers;
  for (size_t i = 0; i < all_cases().size(); ++i)
    if (wanted(get_op(all_cases()[i].op))) numbers.push_back(i);
  return numbers;
}

bool has_results(const OpDef& op) { return !op.has_effect(); }
bool has_gradient(const OpDef& op) { return op.gradient.rule != nullptr; }

class DifferentiableCase : public Case {};
INSTANTIATE_TEST_SUITE_P(Ops, Case, testing::ValuesIn(cases_where(has_results)), case_name);
INSTANTIATE_TEST_SUITE_P(Ops, DifferentiableCase, testing::ValuesIn(cases_where(has_gradient)), case_name);

Memory filled(const CaseGraph& c, const std::vector<Numbers>& data, Precision p) {
  Memory m = initial_memory(*c.graph, p);
  for (size_t i = 0; i < c.inputs.size(); ++i) m.set(c.inputs[i], data[i]);
  return m;
}

// Equal, both NaN, or as near as `tolerance` times the largest finite element.
void expect_near(const Numbers& got, const Numbers& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = 1e-3;
  for (double w : want)
    if (std::isfinite(w)) largest = std::max(largest, std::abs(w));
  for (size_t i = 0; i < got.size(); ++i) {
    bool fits = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])) ||
                std::abs(got[i] - want[i]) <= tolerance * largest;
    ASSERT_TRUE(fits) << what << ", element " << i << ": " << got[i] << ", not " << want[i];
  }
}

TEST_P(Case, ReadsBackFromText) {
  CaseGraph c = case_graph(from(), false);
  for (Value* v : c.nodes[0]->results()) c.graph->add_output(v);
  verify(*c.graph, "building");
  std::string text = print(*c.graph);
  EXPECT_EQ(print(*parse_graph(text)), text);
}

TEST_P(Case, Values) {
  CaseGraph c = case_graph(from(), false);
  Node* n = c.nodes[0];
  std::vector<Numbers> data = from().data();
  Memory exact = filled(c, data, Precision::f64), rounded = filled(c, data, Precision::f32);
  evaluate(*c.graph, exact);
  evaluate(*c.graph, rounded);
  for (const Gives& g : from().expected)
    expect_near(exact.read(n->out(g.result)), g.values, 1e-6, "result " + std::to_string(g.result));
  std::vector<Numbers> reference;
  if (from().reference) reference = from().reference(*n, data);
  for (size_t r = 0; r < n->results().size(); ++r) {
    std::string what = "result " + std::to_string(r);
    if (r < reference.size()) expect_near(exact.read(n->out(r)), reference[r], 1e-9, what);
    expect_near(rounded.read(n->out(r)), exact.read(n->out(r)), from().tolerance, what + " in f32");
    // Memory starts as NaN: what is not written shows.
    if (!from().expected.empty()) continue;
    for (double v : rounded.read(n->out(r))) ASSERT_TRUE(std::isfinite(v)) << what;
  }
}

// `each` loops run in any order: backwards gives the same bits.
TEST_P(Case, IterationsAreIndependent) {
  CaseGraph c = case_graph(from(), get_op(from().op).gradient.rule != nullptr);
  Memory m = filled(c, from().data(), Precision::f32);
  for (Value* up : c.upstream) m.set(up, random_numbers(up->type.elements(), -1, 1, 99));
  evaluate(*c.graph, m);
  for (Node* n : c.graph->nodes()) {
    if (!std::holds_alternative<Scalar>(n->op->lower) && !std::holds_alternative<Nest>(n->op->lower))
      continue;
    loop::Kernel kernel = lower_node(*n);
    loop::verify(kernel);
    Memory backwards;
    std::vector<void*> args;
    for (Value* v : n->inputs()) args.push_back(m.at(v));
    for (Value* v : n->results()) args.push_back(backwards.at(v));
    loop::Workspace workspace(kernel);
    args.insert(args.end(), workspace.pointers.begin(), workspace.pointers.end());
    interpret(kernel, args, Precision::f32, true);
    for (Value* v : n->results()) EXPECT_EQ(*backwards.raw(v), *m.raw(v)) << n->op->name.text;
  }
}

// An element for each place of the shape; bits of masks as 0 and 1.
Numbers elements_of(const Memory& m, const Value* v) {
  if (v->type.dtype != DType::mask) return m.read(v);
  const Type stored = v->type.stored();
  const int64_t row = stored.rank() ? stored.dims.back() : 1;
  Numbers numbers(v->type.elements());
  std::vector<Walk> walk = walk_of(v->type);
  Data bits = m.raw(v);
  for (size_t i = 0; i < numbers.size(); ++i) {
    int64_t place = 0, rest = static_cast<int64_t>(i);
    for (size_t axis = walk.size(); axis-- > 0; rest /= walk[axis].extent)
      place += rest % walk[axis].extent * walk[axis].step;
    int64_t bit = place / row * ((row + 7) / 8 * 8) + place % row;
    numbers[i] = std::to_integer<int>((*bits)[bit / 8]) >> (bit % 8) & 1;
  }
  return numbers;
}

// How values lie in memory changes no bit of them, nor the order of any sum.
TEST_P(Case, LayoutsKeepEveryBit) {
  const bool gradient = get_op(from().op).gradient.rule != nullptr;
  CaseGraph c = case_graph(from(), gradient), shuffled = case_graph(from(), gradient);
  for (CaseGraph* g : {&c, &shuffled}) expand_nodes(*g->graph);
  shuffle_layouts(*shuffled.graph, GetParam());
  verify(*shuffled.graph, "shuffling layouts");
  std::string text = print(*shuffled.graph);
  EXPECT_EQ(print(*parse_graph(text)), text);
  auto run = [&](const CaseGraph& g) {
    Memory m = filled(g, from().data(), Precision::f32);
    for (Value* up : g.upstream) m.set(up, random_numbers(up->type.elements(), -1, 1, 99));
    evaluate(*g.graph, m);
    return m;
  };
  Memory plain = run(c), other = run(shuffled);
  std::vector<Node*> nodes = c.graph->nodes(), same = shuffled.graph->nodes();
  for (size_t i = 0; i < nodes.size(); ++i)
    for (size_t r = 0; r < nodes[i]->results().size(); ++r) {
      Numbers want = elements_of(plain, nodes[i]->out(r)), got = elements_of(other, same[i]->out(r));
      ASSERT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof want[0]), 0) << text;
    }
}

// Nodes in one kernel give the bits that they give one by one.
TEST_P(Case, SharingAKernelKeepsEveryBit) {
  for (Beside where : {Beside::before, Beside::behind})
    for (uint64_t seed = 0; seed < 4; ++seed) {
      CaseGraph c = joined_case_graph(from(), where, seed);
      const bool elementwise =
          get_op(from().op).pointwise() && is_float(case_graph(from(), false).nodes[0]->out()->type.dtype);
      if (!c.graph) {
        EXPECT_FALSE(elementwise && where == Beside::behind) << "pointwise nodes share a kernel";
        continue;
      }
      verify(*c.graph, "joining");
      const std::string text = print(*c.graph);
      EXPECT_EQ(print(*parse_graph(text)), text);
      Memory m = filled(c, from().data(), Precision::f32);
      const Value* beside = c.graph->find("beside");
      m.set(beside, random_numbers(beside->type.elements(), where == Beside::before ? 1 : -1, 1, 98));
      evaluate(*c.graph, m);
      const JoinedKernel joined = *lower_nodes(*c.graph, c.graph->nodes());
      loop::verify(joined.kernel);
      Memory own;
      std::vector<void*> args;
      for (const Value* v : joined.args) args.push_back(v->node ? own.at(v) : m.at(v));
      loop::Workspace workspace(joined.kernel);
      args.insert(args.end(), workspace.pointers.begin(), workspace.pointers.end());
      interpret(joined.kernel, args, Precision::f32, seed >= 2);
      for (const Value* v : c.graph->outputs())
        EXPECT_EQ(*own.raw(v), *m.raw(v)) << loop::print(joined.kernel);
    }
}

// Sum over all nodes of <upstream, result 0>.
double objective(const CaseGraph& c, Memory& m) {
  evaluate(*c.graph, m);
  double sum = 0;
  for (size_t i = 0; i < c.nodes.size(); ++i) {
    Numbers up = m.read(c.upstream[i]), out = m.read(c.nodes[i]->out(0));
    for (size_t k = 0; k < up.size(); ++k) sum += up[k] * out[k];
  }
  return sum;
}

// The gradient of every input against central differences in double, along random directions and, for small
// inputs, along every element.
void check_gradient(const OpCase& from, const CaseGraph& c) {
  std::vector<Numbers> data = from.data();
  auto memory = [&](const std::vector<Numbers>& x) {
    Memory m = filled(c, x, Precision::f64);
    for (size_t i = 0; i < c.upstream.size(); ++i)
      m.set(c.upstream[i], random_numbers(c.upstream[i]->type.elements(), -1, 1, 50 + i));
    return m;
  };
  Memory at_point = memory(data);
  objective(c, at_point);
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    bool read = false;
    for (Node* n : c.nodes)
      for (Value* v : n->inputs()) read |= v == c.inputs[i];
    if (!read || !from.inputs[i].differentiable || !is_float(c.inputs[i]->type.dtype)) continue;
    ASSERT_FALSE(c.gradients[i].empty()) << "no gradient for input " << i;
    int64_t count = c.inputs[i]->type.elements();
    Numbers gradient(count, 0);
    for (Value* part : c.gradients[i]) {
      Numbers numbers = at_point.read(part);
      for (int64_t k = 0; k < count; ++k) gradient[k] += numbers[k];
    }
    std::vector<Numbers> directions;
    for (uint64_t d = 0; d < 3; ++d) directions.push_back(random_numbers(count, -1, 1, 70 + d));
    if (count <= 40)
      for (int64_t k = 0; k < count; ++k) directions.emplace_back(count, 0.0)[k] = 1;
    for (const Numbers& direction : directions) {
      const double h = 1e-5;
      auto moved = [&](double by) {
        std::vector<Numbers> x = data;
        for (int64_t k = 0; k < count; ++k) x[i][k] += by * direction[k];
        Memory m = memory(x);
        return objective(c, m);
      };
      double slope = (moved(h) - moved(-h)) / (2 * h), want = 0, size = 0;
      for (int64_t k = 0; k < count; ++k) {
        want += gradient[k] * direction[k];
        size += gradient[k] * gradient[k] * direction[k] * direction[k];
      }
      ASSERT_NEAR(want, slope, 2e-6 * (0.1 + std::sqrt(size))) << "input " << i;
    }
  }
}

TEST_P(DifferentiableCase, Gradient) { check_gradient(from(), case_graph(from(), true)); }

TEST_P(DifferentiableCase, GradientOfValuesUsedTwice) { check_gradient(from(), case_graph_sharing(from())); }

TEST(Registry, EveryOperatorIsDescribedAndTested) {
  for (const OpDef* op : all_ops()) {
    SCOPED_TRACE(op->name.text);
    EXPECT_GT(std::strlen(op->doc.text), 1u);
    EXPECT_NE(op->infer, nullptr);
    EXPECT_TRUE(op->gradient.rule || std::strlen(op->gradient.reason) > 3);
    bool has_case = false, has_values = false;
    for (const OpCase& c : all_cases())
      if (c.op == op->name.text) {
        has_case = true;
        has_values |= c.has_values();
      }
    EXPECT_TRUE(has_case) << "no case";
    EXPECT_TRUE(has_values || op->has_effect()) << "no case with values";
    EXPECT_LE(op->in_place, op->inputs);
  }
}

TEST(Registry, FindsByName) {
  EXPECT_EQ(find_op("relu")->name.text, std::string("relu"));
  EXPECT_EQ(find_op("no_such"), nullptr);
  EXPECT_THROW(get_op("no_such"), std::logic_error);
}

TEST(Cases, KernelsComeWithArguments) {
  auto kernels = all_case_kernels();
  EXPECT_GT(kernels.size(), all_cases().size());
  for (const CaseKernel& k : kernels) {
    for (size_t i = 0; i < k.kernel.args.size(); ++i) {
      const loop::Buffer& b = *k.kernel.args[i];
      ASSERT_EQ(i < k.args.size(), b.space != loop::Space::workspace) << k.name;
      if (i < k.args.size()) {
        EXPECT_EQ(static_cast<int64_t>(k.args[i].size()), b.type.bytes()) << k.name;
      }
    }
  }
}

// w - lr * m' and m', which is made of five operations.
TEST(Update, WhatResultsShareIsComputedOnce) {
  Graph g;
  Builder b(g);
  std::vector<Value*> inputs;
  for (const Dims& dims : {Dims{6}, {6}, {6}, {}, {}, {}, {}})
    inputs.push_back(g.add_input(fmt::format("x{}", inputs.size()), {DType::f32, dims}));
  const loop::Kernel kernel = lower_node(*b.make("momentum_step", inputs));
  EXPECT_EQ(loop::cost(kernel).flop, 6 * (5 + 2)) << print(kernel);
}

TEST(Update, StoresIntoTheParameter) {
  Graph g;
  Value* w = g.add_param("w", {DType::f32, {3}}, make_data({1, 2, 3}));
  Builder b(g);
  Value* twice = b.add(w, w);
  b.update(w, twice);
  Memory m = initial_memory(g);
  evaluate(g, m);
  EXPECT_EQ(m.read(w), (Numbers{2, 4, 6}));
}

}  // namespace
}  // namespace pock::test
