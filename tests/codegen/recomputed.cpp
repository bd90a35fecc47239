// A part of the forward net that reads a trained parameter, cloned for the backward part: every pass behind leaves it there,
// and it reads the parameter as it was when the step began. What is random in it is so in the same way.
#include <gtest/gtest.h>

#include <ostream>

#include "pock/ir/text.h"
#include "pock/ir/verify.h"
#include "pock/ops/evaluate.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"
#include "step.h"

namespace pock {
namespace {

constexpr int64_t kClasses = 5;
const Attrs kPadded = {{"pad", Dims{1, 1, 1, 1}}};

// The first layer is `first`(x, w1), the second reads it as it is, or what two dropouts leave of it: the gradient of w2
// wants that again, that of w1 does not, so that the update of w1 need not wait for the clone but for the old weights.
std::unique_ptr<Graph> model(const std::string& first) {
  auto g = std::make_unique<Graph>(first);
  Builder b(*g);
  auto param = [&](const char* name, Dims dims) {
    const Type type{DType::f32, dims};
    return g->add_param(name, type,
                        make_data(random_floats(type.elements(), static_cast<unsigned>(dims.size()))));
  };
  if (first == "conv") {
    Value* x = g->add_input("x", {DType::f32, {2, 3, 7, 6}});
    Value* h = b.value("conv", {x, param("w1", {9, 3, 3, 3})}, kPadded);
    Value* y = b.relu(b.value("conv", {h, param("w2", {17, 9, 3, 3})}, kPadded));
    g->add_output(b.matmul(b.reduce_mean(y, {2, 3}), param("w3", {17, kClasses})), "scores");
  } else {
    Value* x = g->add_input("x", {DType::f32, {8, 20}});
    Value* w1 = first == "view" ? b.reshape(param("w1", {660}), {20, 33}) : param("w1", {20, 33});
    Value* h = b.matmul(x, w1);
    // Twice, so that one reads what the other dropped.
    for (int64_t id : {3, 4})
      if (first == "dropout")
        h = b.value("dropout", {b.relu(h)}, {{"ratio", 0.3}, {"id", id}, {"active", int64_t{1}}});
    Value* y = b.relu(b.matmul(h, param("w2", {33, 17})));
    g->add_output(b.matmul(y, param("w3", {17, kClasses})), "scores");
  }
  return g;
}

int at(const Graph& g, const Node* n) { return positions(g).at(n); }

Node* update_of(const Value* param) {
  for (Node* n : param->users)
    if (n->op->has_effect() && n->in(0) == param) return n;
  return nullptr;
}

// The first layer: the only node that reads x in the forward part.
Node* first_layer(const Graph& g) {
  for (Node* n : g.find("x")->users)
    if (at(g, n) < at(g, loss_node(g))) return n;
  return nullptr;
}

// The copies of the first layer's operator that read x.
std::vector<Node*> clones(const Graph& g) {
  std::vector<Node*> found;
  for (Node* n : g.nodes())
    if (n->recomputed && n->op == first_layer(g)->op) found.push_back(n);
  return found;
}

// What the second layer reads.
Value* saved(const Graph& g) {
  for (Node* n : g.find("w2")->users)
    if (at(g, n) < at(g, loss_node(g))) return n->in(0);
  return nullptr;
}

// The nodes that make it, once more.
Value* clone_of(Graph& g, Value* v, Node* before) {
  if (!v->node) return v;
  std::vector<Value*> inputs;
  for (Value* in : v->node->inputs()) inputs.push_back(clone_of(g, in, before));
  Node* again = g.add_node(*v->node->op, inputs, v->node->attrs, v->node->loc, before);
  again->recomputed = true;
  return again->out(v->index);
}

// How often each mask is made: in the forward part, for the gradient, and in the clone.
std::map<int64_t, int> masks_of(const Graph& g) {
  std::map<int64_t, int> count;
  for (const Node* n : g.nodes())
    if (std::string_view(n->op->name) == "dropout_train") ++count[n->integer("id")];
  return count;
}

struct Case {
  std::string first, optimizer;
  bool late;  // the clone and what reads it behind all other gradients
  std::set<std::string> disabled;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << fmt::format("{} {}{} without {}", c.first, c.optimizer, c.late ? " late" : "",
                      fmt::join(c.disabled, ","));
}

PassOptions options_of(const Case& c) {
  PassOptions options;
  options.losses = {parse_loss("cross-entropy")};
  options.recipe.optimizer = parse_optimizer(c.optimizer);
  return options;
}

std::vector<Pass> passes_from(const std::string& name, bool behind) {
  std::vector<Pass> passes;
  bool there = !behind;
  for (const Pass& p : training_pipeline()) {
    if (p.name == name) there = !there;
    if (there) passes.push_back(p);
  }
  return passes;
}

// The step before `cse`, the first pass that only moves and merges, with the clone in it or without.
std::unique_ptr<Graph> step_before_cse(const Case& c, bool clone) {
  std::unique_ptr<Graph> g = model(c.first);
  run_passes(*g, passes_from("cse", false), options_of(c));
  Value* v = saved(*g);
  Node* reader = nullptr;  // in the backward part: what makes the gradient of w2
  for (Node* n : v->users)
    if (at(*g, n) > at(*g, loss_node(*g))) reader = n;
  POCK_CHECK(reader, "{}", print(*g));
  if (c.late)
    for (Value* in : update_of(g->find("w1"))->in(1)->node->inputs())
      if (in->node) g->move_before(reader, g->next(in->node));  // the gradient
  if (clone) {
    Value* again = clone_of(*g, v, reader);
    for (int i = 0; i < 2; ++i)
      if (reader->in(i) == v) g->set_input(reader, i, again);
  }
  return g;
}

class Recomputed : public testing::TestWithParam<Case> {};

TEST_P(Recomputed, IsLeftByEveryPassAndKeepsTheBits) {
  const Case& c = GetParam();
  std::unique_ptr<Graph> infer = model(c.first);
  PassOptions options = options_of(c);
  options.inference = true;
  run_passes(*infer, inference_pipeline(), options, {c.disabled, nullptr});
  options.inference = false;
  Learned learned[2];
  for (bool clone : {false, true}) {
    std::unique_ptr<Graph> g = step_before_cse(c, clone);
    const auto look = [&](const std::string& pass, const Graph& now) {
      SCOPED_TRACE(pass + "\n" + print(now));
      const std::vector<Node*> found = clones(now);
      ASSERT_EQ(found.size(), clone ? 1 : 0);
      if (clone) {
        EXPECT_GT(at(now, update_of(now.find("w1"))), at(now, found[0]));
      }
      if (c.first == "dropout") {
        EXPECT_EQ(masks_of(now), (std::map<int64_t, int>{{3, clone ? 3 : 2}, {4, clone ? 3 : 2}}));
      }
    };
    run_passes(*g, passes_from("cse", true), options, {c.disabled, look});
    // Without it nothing keeps the update from standing in front of what would read the clone.
    if (!clone && c.disabled.empty()) {
      const bool early = at(*g, update_of(g->find("w1"))) < at(*g, update_of(g->find("w2"))->in(1)->node);
      EXPECT_EQ(early, c.late) << print(*g);
    }
    CompileOptions compile;
    compile.target = find_target("host");
    compile.recipe = options.recipe;
    compile.losses = options.losses;
    Program program = lower(*g, *infer, compile);
    learned[clone] = train_both_ways(program, kClasses);
  }
  ASSERT_EQ(learned[0].losses.size(), 3u);
  EXPECT_NE(learned[0].losses[0], learned[0].losses[2]);
  EXPECT_EQ(learned[0].losses, learned[1].losses);
  EXPECT_TRUE(learned[0].tensors == learned[1].tensors);
}

INSTANTIATE_TEST_SUITE_P(Steps, Recomputed, testing::ValuesIn([] {
                           std::vector<Case> cases;
                           for (const char* first : {"conv", "matmul", "view", "dropout"})
                             for (const char* optimizer : {"sgd:lr=0.1", "sgd:lr=0.1,momentum=0.9"})
                               for (bool late : {false, true}) cases.push_back({first, optimizer, late, {}});
                           cases.push_back({"conv", "sgd:lr=0.1,momentum=0.9", true, {"immediate_update"}});
                           cases.push_back({"conv", "sgd:lr=0.1,momentum=0.9", true, {"fuse", "layout"}});
                           cases.push_back({"dropout", "sgd:lr=0.1", true, {"fuse", "reorder", "inplace"}});
                           return cases;
                         }()));

// Every element of everything that persists after one step.
std::vector<std::vector<double>> step_of(const Graph& g) {
  Memory m = initial_memory(g);
  for (const Value* v : g.inputs())
    m.set(v, v->type.dtype == DType::f32
                 ? make_data(random_floats(v->type.elements(), 1))
                 : make_data(random_ids(v->type.elements(), kClasses, 1).data(), v->type.bytes()));
  for (const Value* v : g.scalars()) m.set(v, std::vector<double>{0.5});
  evaluate(g, m);
  std::vector<std::vector<double>> tensors;
  for (const Value* v : g.params()) tensors.push_back(m.read(v));
  return tensors;
}

std::string refusal(const Graph& g, const Plan& plan) {
  try {
    check_plan(g, plan);
    return "";
  } catch (const std::logic_error& e) {
    return e.what();
  }
}

// The update in front of the clone, which would read the new weights.
TEST(RecomputedTooLate, IsRefused) {
  for (const char* first : {"conv", "matmul", "view"})
    for (const char* optimizer : {"sgd", "sgd:momentum=0.9"}) {
      SCOPED_TRACE(std::string(first) + " " + optimizer);
      const Case c{first, optimizer, true, {}};
      std::unique_ptr<Graph> g = step_before_cse(c, true);
      run_passes(*g, passes_from("cse", true), options_of(c),
                 {{"recompute", "layout", "fuse", "fused_update", "reorder", "inplace"}, nullptr});
      const Plan plan = plan_memory(*g);
      EXPECT_EQ(find_fault(*g), "");
      EXPECT_EQ(refusal(*g, plan), "");
      const auto right = step_of(*g);

      Node *update = update_of(g->find("w1")), *clone = clones(*g).at(0);
      for (Node* n : update_group(update, positions(*g), step_parts(*g).earliest(*update)))
        g->move_before(n, clone);
      EXPECT_NE(find_fault(*g).find("reads %w1 after its update"), std::string::npos) << find_fault(*g);
      for (const Plan& any : {plan, plan_memory(*g)})
        EXPECT_NE(refusal(*g, any).find("is overwritten before"), std::string::npos) << refusal(*g, any);
      // The interpreter copies views.
      EXPECT_EQ(step_of(*g) == right, c.first == "view");
    }
}

}  // namespace
}  // namespace pock
