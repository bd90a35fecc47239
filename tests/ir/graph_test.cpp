#include "pock/ir/graph.h"

#include <gtest/gtest.h>

#include "pock/ir/builder.h"
#include "pock/ir/storage.h"
#include "pock/ir/text.h"
#include "pock/ir/verify.h"
#include "pock/ops/op.h"

namespace pock {
namespace {

const Type kFour{DType::f32, {4}};

struct Small : testing::Test {
  Graph g{"g"};
  Builder b{g};
  Value* x = g.add_input("x", kFour);
  Value* w = g.add_param("w", kFour, make_data(std::vector<float>{1, 2, 3, 4}));
};

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

TEST_F(Small, AttributesAreCheckedAndCompleted) {
  Node* n = b.make("clip", {x}, {{"low", int64_t{0}}, {"high", 6.0}});
  EXPECT_EQ(n->number("low"), 0.0);
  EXPECT_EQ(
      b.make("matmul", {g.add_input("m", {DType::f32, {4, 4}}), g.leaves().back()})->integer("transpose_a"),
      0);
  EXPECT_EQ(error_of([&] { b.make("clip", {x}, {{"low", 0.0}}); }), "clip needs the attribute 'high'");
  EXPECT_EQ(error_of([&] {
              b.make("clip", {x}, {{"low", "zero"}, {"high", 6.0}});
            }),
            "attribute 'low' of clip is a number, given is a string");
  EXPECT_EQ(error_of([&] { b.make("relu", {x}, {{"slope", 0.1}}); }), "relu has no attribute 'slope'");
  EXPECT_EQ(error_of([&] { b.make("relu", {}); }), "relu takes 1 input, given 0");
  EXPECT_EQ(error_of([&] {
              b.make("concat", {}, {{"axis", int64_t{0}}});
            }),
            "concat takes 1 or more inputs, given 0");
  EXPECT_NE(error_of([&] { n->number("middle"); }).find("no attribute 'middle'"), std::string::npos);
}

TEST_F(Small, NodesStandWhereTheyArePut) {
  Node* first = b.make("exp", {x});
  Node* third = b.make("neg", {first->out()});
  Node* second = Builder(g, {}, third).make("relu", {first->out()});
  EXPECT_EQ(g.nodes(), (std::vector<Node*>{first, second, third}));
  g.move_before(third, second);
  EXPECT_EQ(g.nodes_backward(), (std::vector<Node*>{second, third, first}));
  g.move_before(third, nullptr);
  EXPECT_EQ(g.next(first), second);
  EXPECT_EQ(g.next(third), nullptr);
}

TEST_F(Small, UsesFollow) {
  Value* y = b.add(x, x);
  Value* z = b.relu(x);
  g.add_output(z, "z");
  g.replace_uses(z, y);
  EXPECT_TRUE(g.is_output(y));
  g.erase(z->node);
  g.replace_uses(x, w);
  EXPECT_TRUE(x->users.empty());
  EXPECT_EQ(w->users.size(), 2u);
  g.set_input(y->node, 1, x);
  EXPECT_EQ(w->users.size(), 1u);
  EXPECT_EQ(find_fault(g), "");
  EXPECT_NE(error_of([&] { g.erase(y->node); }).find("whose result is read"), std::string::npos);
}

TEST_F(Small, UnusedLeavesGo) {
  g.add_param("trained", kFour, nullptr)->trained = true;
  g.add_param("frozen", kFour, nullptr);
  g.add_output(g.add_constant(kFour, nullptr));
  b.zeros(kFour);
  b.relu(w);
  g.erase_unused_values();
  std::string names;
  for (const Value* v : g.leaves()) names += std::string(to_string(v->kind)) + " " + v->name + ";";
  EXPECT_EQ(names, "input x;param w;param trained;constant ;");
  EXPECT_EQ(g.params().size(), 2u);
}

TEST_F(Small, ClonesAreTheirOwn) {
  Value* m = g.add_optimizer_state(w, "momentum", kFour);
  Value* y = b.add(b.relu(x), w);
  b.update(m, y);
  g.add_output(y, "y");
  std::string before = print(g);
  auto copy = g.clone();
  EXPECT_EQ(find_fault(*copy), "");
  EXPECT_EQ(copy->find("w.momentum")->owner, copy->find("w"));
  EXPECT_EQ(copy->find("w")->data, w->data);
  EXPECT_EQ(copy->outputs()[0]->id, y->id);
  Builder(*copy).neg(copy->inputs()[0]);
  copy->set_input(copy->nodes()[0], 0, copy->find("w"));
  EXPECT_EQ(print(g), before);
  EXPECT_EQ(find_fault(g), "");
}

TEST_F(Small, SumToUndoesBroadcasting) {
  Value* a = g.add_input("a", {DType::f32, {5, 2, 4}});
  EXPECT_EQ(b.sum_to(a, {5, 2, 4}), a);
  for (Dims shape : {Dims{}, Dims{4}, Dims{2, 1}, Dims{1, 2, 4}, Dims{5, 1, 1}})
    EXPECT_EQ(b.sum_to(a, shape)->type.dims, shape);
  EXPECT_EQ(g.nodes()[0]->integers("axes"), (Dims{0, 1, 2}));
}

TEST_F(Small, StorageIsShared) {
  Value* y = b.value("exp", {x});
  Value* view = b.reshape(y, {2, 2});
  Value* z = b.neg(view);
  z->node->in_place = 0;
  EXPECT_EQ(storage_owner(z), y);
  EXPECT_EQ(aliases(y), (std::vector<const Value*>{y, view, z}));
  EXPECT_EQ(storage_owner(x), x);
  EXPECT_EQ(find_fault(g), "");
  b.neg(y);
  EXPECT_EQ(find_fault(g), "%2 = neg may not take over the memory of input 0");
}

TEST_F(Small, FaultsAreFound) {
  Value* y = b.relu(x);
  Value* z = b.neg(y);
  EXPECT_EQ(find_fault(g), "");
  g.move_before(z->node, y->node);
  EXPECT_EQ(find_fault(g), "%0 = neg reads a value that is not defined above it");
  EXPECT_EQ(error_of([&] { verify(g, "shuffle"); }),
            "pock has a bug: the graph is broken after shuffle: %0 = neg reads a value that is not defined "
            "above it");
  g.move_before(z->node, nullptr);
  y->type.dims = {5};
  EXPECT_EQ(find_fault(g), "result 0 of %0 = relu is f32[5], its shape rule gives f32[4]");
  y->type.dims = {4};
  x->users.push_back(z->node);
  EXPECT_EQ(find_fault(g), "%x has 2 users and is read 1 times");
  x->users.pop_back();
  g.add_param("x", kFour, nullptr);
  EXPECT_EQ(find_fault(g), "two values have the name 'x'");
}

TEST_F(Small, ParametersChangeOnceAndLast) {
  Value* y = b.relu(w);
  b.update(w, y);
  EXPECT_EQ(find_fault(g), "");
  Value* view = Builder(g, {}, y->node).reshape(w, {2, 2});
  Value* late = b.neg(view);
  EXPECT_EQ(find_fault(g), "%2 = neg reads %w after its update");
  g.erase(late->node);
  g.add_output(view);
  EXPECT_EQ(find_fault(g), "output %0 is a parameter that is updated");
  g.set_output(0, y);
  EXPECT_EQ(find_fault(g), "");
  b.update(w, y);
  EXPECT_EQ(find_fault(g), "%w is updated twice");
}

}  // namespace
}  // namespace pock
