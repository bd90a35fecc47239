// Of an activation whose gradient only asks on which side of a bound it was, one bit an element is saved, where the
// backward part reads it for nothing else.
#include <algorithm>

#include "pock/ir/storage.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

class Masks {
 public:
  explicit Masks(Graph& g) : g_(g), at_(positions(g)), loss_(at_.at(loss_node(g))) {}

  int run() {
    int count = 0;
    for (Node* n : g_.nodes())
      if (at_.at(n) <= loss_ && is_open(*n))
        for (Value* v : n->results())
          if (const std::vector<Node*> tests = only_tests(v); !tests.empty()) {
            save_bits(v, tests);
            ++count;
          }
    return count;
  }

 private:
  // The backward readers of a forward result where all of them only test it; else none.
  std::vector<Node*> only_tests(const Value* v) const {
    std::vector<Node*> tests;
    for (Node* user : v->users) {
      if (user->op->is_view()) {
        if (read_backwards(user->out())) return {};
        continue;
      }
      if (at_.at(user) <= loss_) continue;
      const bool once = is_open(*user) && user->op->test && user->in(0) == v &&
                        user->out()->type == v->type &&
                        std::count(user->inputs().begin(), user->inputs().end(), v) == 1;
      if (!once) return {};
      tests.push_back(user);
    }
    return g_.is_output(v) ? std::vector<Node*>{} : tests;
  }

  bool read_backwards(const Value* view) const {
    return g_.is_output(view) || std::any_of(view->users.begin(), view->users.end(), [&](const Node* user) {
             return user->op->is_view() ? read_backwards(user->out()) : at_.at(user) > loss_;
           });
  }

  void save_bits(Value* v, const std::vector<Node*>& tests) {
    std::vector<std::pair<Value*, const Node*>> made;
    for (Node* n : tests) {
      Value* mask = nullptr;
      for (const auto& [other, by] : made)
        if (by->op == n->op && by->attrs == n->attrs) mask = other;
      if (!mask) {
        Builder forward(g_, n->loc, g_.next(v->node));
        mask = n->op->test(forward, *n);
        made.emplace_back(mask, n);
      }
      Builder here(g_, n->loc, n);
      Value* otherwise = n->inputs().size() > 2 ? n->in(2) : here.constant(0);
      g_.replace_uses(n->out(), here.value("where", {mask, n->in(1), otherwise}));
    }
    for (Node* n : tests) g_.erase(n);
  }

  Graph& g_;
  const Positions at_;
  const int loss_;
};

}  // namespace

int masks(Graph& g, const PassOptions& options) {
  auto bound = [&](const Graph& graph) { return memory_bound(graph, options, {layout}); };
  std::unique_ptr<Graph> trial = g.clone();
  if (!Masks(*trial).run() || bound(*trial) >= bound(g)) return 0;
  return Masks(g).run();
}

}  // namespace pock
