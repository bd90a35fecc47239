// Keeps fewer activations: a forward result that pointwise nodes make from what is kept anyway is made again right before
// the backward part reads it; even exp and erf cost less than they save. With batch norm this leaves little more than the
// convolutions' outputs alive, of a GELU as exporters write it its input.
#include <unordered_set>

#include "pock/ir/storage.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"
#include "pock/plan/plan.h"

namespace pock {
namespace {

class Recompute {
 public:
  explicit Recompute(Graph& g) : g_(g), position_(positions(g)), loss_(position_.at(loss_node(g))) {}

  int run() {
    // Forward results that the backward part reads. Views count as their base.
    std::vector<Value*> saved;
    for (Node* n : g_.nodes())
      if (position_.at(n) <= loss_ && !n->op->is_view())
        for (Value* r : n->results())
          if (!readers(r).empty()) saved.push_back(r);
    for (Value* v : saved) kept_.insert(v);
    // Forward order: what feeds a value has been decided before the value itself.
    std::vector<Value*> again;
    for (Value* v : saved)
      if (v->node->op->pointwise() && can_remake(v->node)) {
        kept_.erase(v);
        again.push_back(v);
      }
    for (Value* v : again) remake(v);
    return static_cast<int>(again.size());
  }

 private:
  bool forward(const Node* n) const {
    auto it = position_.find(n);
    return it != position_.end() && it->second <= loss_;
  }

  // Backward readers of a value, through views.
  std::vector<Node*> readers(Value* v) const {
    std::vector<Node*> found;
    for (Node* user : v->users) {
      if (user->op->is_view()) {
        for (Node* n : readers(user->out())) found.push_back(n);
      } else if (!forward(user)) {
        found.push_back(user);
      }
    }
    return found;
  }

  static Value* base(Value* v) {
    while (v->node && v->node->op->is_view()) v = v->node->in(0);
    return v;
  }

  // Alive in the backward part without any doing of ours, or too small to matter.
  bool available(Value* v, int64_t big) const {
    Value* b = base(v);
    if (b->kind == ValueKind::input) return !readers(b).empty();
    if (b->kind != ValueKind::result) return !updated(b);
    return kept_.count(b) || b->type.bytes() * 16 <= big;
  }

  // A statistic's or parameter's old value must still be there when the copy runs; frozen ones always are.
  static bool updated(Value* v) {
    for (Node* user : v->users)
      if (user->op->has_effect() && user->in(0) == v) return true;
    return false;
  }

  bool can_remake(Node* n) const {
    int64_t big = n->out()->type.bytes();
    for (Value* v : n->inputs()) {
      if (available(v, big)) continue;
      Value* b = base(v);
      // A trained scale or shift is read by the gradient of its own operator, which stands behind the copy.
      if (b->kind == ValueKind::param && b->type.bytes() * 16 <= big) continue;
      if (b->kind != ValueKind::result || b != v || !b->node->op->pointwise() || !can_remake(b->node))
        return false;
    }
    return true;
  }

  Value* copy(Value* v, Node* before, int64_t big) {
    Node* n = v->node;
    std::vector<Value*> inputs;
    for (Value* in : n->inputs()) {
      Value* b = base(in);
      bool there = available(in, big) || b->kind == ValueKind::param;
      inputs.push_back(there ? in : copy(in, before, big));
    }
    Node* again = g_.add_node(*n->op, inputs, n->attrs, n->loc, before);
    again->recomputed = true;
    return again->out(v->index);
  }

  void remake(Value* v) {
    Positions now = positions(g_);
    Node* first = nullptr;
    for (Node* n : readers(v))
      if (!first || now.at(n) < now.at(first)) first = n;
    Value* again = copy(v, first, v->type.bytes());
    redirect(v, again, first);
  }

  void redirect(Value* v, Value* by, Node* before) {
    std::vector<Node*> users = v->users;
    for (Node* user : users) {
      if (user->op->is_view() && !readers(user->out()).empty()) {
        Node* view = g_.add_node(*user->op, {by}, user->attrs, user->loc, before);
        view->recomputed = true;
        redirect(user->out(), view->out(), before);
      } else if (!user->op->is_view() && !forward(user) && !user->recomputed) {
        for (size_t i = 0; i < user->inputs().size(); ++i)
          if (user->in(i) == v) g_.set_input(user, i, by);
      }
    }
  }

  Graph& g_;
  const Positions position_;  // before anything was copied
  const int loss_;
  std::unordered_set<const Value*> kept_;
};

}  // namespace

int64_t memory_bound(const Graph& g, const PassOptions& options, std::initializer_list<PassFn> first) {
  std::unique_ptr<Graph> rest = g.clone();
  for (PassFn pass : first) pass(*rest, options);
  inplace(*rest, options);
  const std::vector<int64_t> live = live_bytes(find_blocks(*rest), rest->node_count());
  return *std::max_element(live.begin(), live.end());
}

int recompute(Graph& g, const PassOptions& options) {
  auto bound = [&](const Graph& graph) { return memory_bound(graph, options, {layout}); };
  std::unique_ptr<Graph> trial = g.clone();
  if (!Recompute(*trial).run() || bound(*trial) >= bound(g)) return 0;
  return Recompute(g).run();
}

}  // namespace pock
