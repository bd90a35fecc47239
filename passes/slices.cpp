// Of a weight that is trained in part, only that part's gradient is computed, from only those channels of its input: what
// takes some elements of a result moves in front of the node that makes it.
#include <algorithm>

#include "pock/ir/storage.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

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

// Forward results that the backward part only takes some elements of: they are taken at once, so that the rest can die.
int take_early(Graph& g) {
  const Positions at = positions(g);
  const int loss = at.at(loss_node(g));
  auto backward_readers = [&](auto& self, const Value* v) -> int {
    int count = 0;
    for (const Node* user : v->users)
      count += user->op->is_view() ? self(self, user->out()) : at.at(user) > loss;
    return count;
  };
  int moved = 0;
  for (Node* n : g.nodes()) {
    if (at.at(n) <= loss || !taken(*n)) continue;
    Value* from = n->in(0);
    if (!from->node || at.at(from->node) > loss || !is_open(*n) || !is_open(*from->node)) continue;
    const Value* base = from;
    while (base->node && base->node->op->is_view()) base = base->node->in(0);
    if (base->kind != ValueKind::result || backward_readers(backward_readers, base) != 1) continue;
    g.move_before(n, g.next(from->node));
    ++moved;
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
  if (!moved) return 0;
  std::unique_ptr<Graph> early = g.clone();
  auto bound = [&](const Graph& graph) { return memory_bound(graph, options, {recompute, masks}); };
  if (take_early(*early) && bound(*early) < bound(g)) moved += take_early(g);
  return moved;
}

}  // namespace pock
