// reorder: no order of a small graph keeps fewer bytes alive than the one that it finds, and none is worse than before.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "pock/ir/builder.h"
#include "pock/ir/text.h"
#include "pock/ir/verify.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"
#include "pock/plan/plan.h"

namespace pock {
namespace {

// A loss, and behind it nodes that make vectors longer and shorter, some in place. What nobody reads is an output.
std::unique_ptr<Graph> random_graph(unsigned seed, int nodes) {
  std::mt19937 random(seed);
  auto g = std::make_unique<Graph>("random");
  Builder b(*g);
  Value* x = g->add_input("x", {DType::f32, {64}});
  g->add_output(b.reduce_sum(x, {0}), "loss");
  std::vector<Value*> pool = {x};
  for (int i = 0; i < nodes; ++i) {
    Value* v = pool[random() % pool.size()];
    Value* other = pool[random() % pool.size()];
    const int64_t length = v->type.dim(0);
    switch (random() % 4) {
      case 0:
        pool.push_back(b.value("concat", {v, other}, {{"axis", int64_t{0}}}));
        break;
      case 1:
        pool.push_back(b.value(
            "slice", {v},
            {{"axis", int64_t{0}}, {"start", int64_t{0}}, {"end", std::max<int64_t>(length / 4, 1)}}));
        break;
      case 2:
        pool.push_back(b.reduce_sum(v, {0}, true));
        break;
      default:
        pool.push_back(other->type == v->type ? b.add(v, other) : b.value("exp", {v}));
    }
  }
  for (Value* v : pool)
    if (v->users.empty()) g->add_output(v);
  return g;
}

// The lowest bound of all orders of the nodes behind the loss.
class Orders {
 public:
  explicit Orders(Graph& g) : g_(g), nodes_(g.nodes()) {
    for (Node* n : nodes_) ran_[n] = n == nodes_[0];
  }
  int64_t lowest() {
    continue_from(1);
    return lowest_;
  }

 private:
  void continue_from(size_t count) {
    if (count == nodes_.size()) {
      lowest_ = std::min(lowest_, memory_bound(g_, {}));
      return;
    }
    for (Node* n : nodes_) {
      const bool ready = std::all_of(n->inputs().begin(), n->inputs().end(),
                                     [&](const Value* v) { return !v->node || ran_.at(v->node); });
      if (ran_.at(n) || !ready) continue;
      ran_[n] = true;
      g_.move_before(n, nullptr);
      continue_from(count + 1);
      // Those behind it in the order that there was are at the end again once they were tried.
      ran_[n] = false;
      put_back();
    }
  }
  void put_back() {
    std::vector<Node*> rest;
    for (Node* n : nodes_)
      if (!ran_.at(n)) rest.push_back(n);
    for (Node* n : rest) g_.move_before(n, nullptr);
  }

  Graph& g_;
  const std::vector<Node*> nodes_;
  std::unordered_map<const Node*, bool> ran_;
  int64_t lowest_ = INT64_MAX;
};

TEST(Reorder, FindsTheBestOrderOfSmallGraphs) {
  int improved = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    auto g = random_graph(seed, 7);
    auto all = g->clone();
    const int64_t before = memory_bound(*g, {}), lowest = Orders(*all).lowest();
    reorder(*g, {});
    verify(*g, "reorder");
    EXPECT_EQ(memory_bound(*g, {}), lowest) << print(*g);
    improved += lowest < before;
  }
  EXPECT_GT(improved, 10);
}

// More nodes than all their orders could be looked at.
TEST(Reorder, IsNeverWorse) {
  int improved = 0;
  for (unsigned seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    auto g = random_graph(seed, 80);
    const int64_t before = memory_bound(*g, {});
    const int moved = reorder(*g, {});
    verify(*g, "reorder");
    const int64_t now = memory_bound(*g, {});
    EXPECT_LE(now, before);
    EXPECT_EQ(now<before, moved> 0);
    improved += now < before;
  }
  EXPECT_GT(improved, 20);
}

}  // namespace
}  // namespace pock
