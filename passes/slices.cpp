// Of a weight that is trained in part, only that part's gradient is computed, from only those channels of its input: what
// takes some elements of a result moves in front of the node that makes it.
#include <algorithm>
#include <span>

#include "pock/ir/storage.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

constexpr size_t kMostTrials = 16;  // of taking early

using Slices = std::vector<std::optional<Slice>>;

// What a `slice`, or a `gather` by a constant, takes of its input; none where the node is another.
std::optional<Slice> taken(const Node& n) {
  Slice s;
  const std::string_view name = n.op->name;
  if (name == "slice") {
    for (int64_t i = n.integer("start"); i < n.integer("end"); ++i) s.index.push_back(i);
  } else if (name == "gather" && n.in(1)->kind == ValueKind::constant) {
    s.index = index_of(*n.in(1));
  } else {
    return {};
  }
  s.axis = static_cast<int>(n.integer("axis"));
  if (s.axis < 0) s.axis += n.in(0)->type.rank();
  if (!is_slice_of(s, n.in(0)->type)) return {};
  return s;
}

// Pointwise: the same elements of every input that is not broadcast along the axis.
Slices elements(const Node& n, const Slice& s) {
  Slices of;
  for (const Value* v : n.inputs()) {
    const int axis = s.axis - n.out()->type.rank() + v->type.rank();
    const bool all = axis < 0 || v->type.dim(axis) == 1;
    of.push_back(all ? std::nullopt : std::optional<Slice>{{axis, s.index}});
  }
  return of;
}

// Makes what `take` takes from only what it needs; false where that is not possible.
bool push(Graph& g, Node* take) {
  const std::optional<Slice> slice = taken(*take);
  Node* maker = take->in(0)->node;
  if (!slice || !maker || !is_open(*take) || !is_open(*maker) || take->in(0) != maker->out() ||
      maker->out()->users.size() != 1 || g.is_output(maker->out()) || maker->results().size() != 1)
    return false;
  Attrs attrs = maker->attrs;
  Slices from;
  if (maker->op->slices)
    from = maker->op->slices(*maker, *slice, &attrs);
  else if (maker->op->pointwise())
    from = elements(*maker, *slice);
  if (from.empty()) return false;
  Builder b(g, maker->loc, maker);
  std::vector<Value*> inputs;
  for (size_t i = 0; i < from.size(); ++i) {
    Value* in = maker->in(static_cast<int>(i));
    inputs.push_back(from[i] ? b.take(in, *from[i]) : in);
  }
  g.replace_uses(take->out(), b.value(maker->op->name, inputs, attrs));
  g.erase(take);
  g.erase(maker);
  return true;
}

// What takes some elements of a forward result for the backward part, which reads nothing else of it: taken at once, the
// rest could die.
std::vector<Node*> late(const Graph& g) {
  const Positions at = positions(g);
  const int loss = at.at(loss_node(g));
  auto backward_readers = [&](auto& self, const Value* v) -> int {
    int count = 0;
    for (const Node* user : v->users)
      count += user->op->is_view() ? self(self, user->out()) : at.at(user) > loss;
    return count;
  };
  std::vector<Node*> found;
  for (Node* n : g.nodes()) {
    if (at.at(n) <= loss || !taken(*n)) continue;
    const Value* from = n->in(0);
    if (!from->node || at.at(from->node) > loss || !is_open(*n) || !is_open(*from->node)) continue;
    const Value* base = from;
    while (base->node && base->node->op->is_view()) base = base->node->in(0);
    if (base->kind == ValueKind::result && backward_readers(backward_readers, base) == 1) found.push_back(n);
  }
  return found;
}

// One by one, or of many a few neighbours at once, where that needs no more memory with what recompute and masks then save.
int take_early(Graph& g, const PassOptions& options) {
  auto bound = [&] { return memory_bound(g, options, {recompute, masks, layout}); };
  const std::vector<Node*> takes = late(g);
  const size_t group = takes.size() / kMostTrials + 1;
  int moved = 0;
  int64_t reached = takes.empty() ? 0 : bound();
  for (size_t first = 0; first < takes.size(); first += group) {
    const std::span some = std::span(takes).subspan(first, std::min(group, takes.size() - first));
    std::vector<Node*> places;
    for (Node* n : some) {
      places.push_back(g.next(n));
      g.move_before(n, g.next(n->in(0)->node));
    }
    if (const int64_t now = bound(); now <= reached) {
      reached = now;
      moved += static_cast<int>(some.size());
    } else {
      for (size_t i = some.size(); i-- > 0;) g.move_before(some[i], places[i]);
    }
  }
  return moved;
}

}  // namespace

int slices(Graph& g, const PassOptions& options) {
  int moved = 0;
  for (bool again = true; again;) {
    again = false;
    for (Node* n : g.nodes_backward())
      if (push(g, n)) {
        again = true;
        ++moved;
        break;
      }
  }
  return moved ? moved + take_early(g, options) : 0;
}

}  // namespace pock
