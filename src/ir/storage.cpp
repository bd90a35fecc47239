#include "pock/ir/storage.h"

#include <algorithm>

#include "pock/ops/op.h"

namespace pock {

Positions positions(const Graph& g) {
  Positions at;
  int position = 0;
  const Node* first = nullptr;
  for (const Node* n : g.nodes()) {
    if (!first || !n->kernel || n->kernel != first->kernel) first = n;
    at[n] = first == n ? position : at.at(first);
    ++position;
  }
  return at;
}

bool inside_kernel(const Graph& g, const Value* v) {
  return v->node && v->node->kernel && !g.is_output(v) &&
         std::all_of(v->users.begin(), v->users.end(),
                     [&](const Node* user) { return user->kernel == v->node->kernel; });
}

std::vector<std::vector<Node*>> kernels(const Graph& g) {
  std::vector<std::vector<Node*>> list;
  for (Node* n : g.nodes()) {
    if (!n->kernel || list.empty() || list.back()[0]->kernel != n->kernel) list.emplace_back();
    list.back().push_back(n);
  }
  return list;
}

Value* storage_source(const Value* v) {
  if (!v->node || v->index != 0) return nullptr;
  if (v->node->op->is_view()) return v->node->in(0);
  return v->node->in_place >= 0 ? v->node->in(v->node->in_place) : nullptr;
}

Value* storage_owner(Value* v) {
  while (Value* source = storage_source(v)) v = source;
  return v;
}

std::vector<const Value*> aliases(const Value* owner) {
  std::vector<const Value*> found{owner};
  for (size_t i = 0; i < found.size(); ++i)
    for (const Node* user : found[i]->users) {
      if (user->results().empty()) continue;
      const Value* result = user->out();
      bool shares = storage_source(result) == found[i];
      // A node that reads it twice is among the users twice.
      if (shares && std::find(found.begin() + i, found.end(), result) == found.end()) found.push_back(result);
    }
  return found;
}

std::optional<Slice> stored_slice(const Node& update) {
  if (update.inputs().size() < 3) return {};
  return Slice{static_cast<int>(update.integer("axis")), index_of(*update.in(2))};
}

bool shares_memory(const Graph& g) {
  std::vector<Node*> nodes = g.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const Node* n) { return n->in_place >= 0; });
}

// Whether `v` lies in the memory of `under` because it was made of it there.
static bool lies_over(const Value* v, const Value* under) {
  while (v && v != under) v = storage_source(v);
  return v;
}

bool may_take_over(const Graph& g, const Positions& at, const Node& n, int i) {
  auto accepts = [&](int input) { return input < n.op->in_place && n.in(input)->type == n.out()->type; };
  if (n.op->is_view() || n.results().empty() || !accepts(i)) return false;
  const Value* owner = storage_owner(n.in(i));
  if (owner->kind != ValueKind::result || inside_kernel(g, owner)) return false;
  for (int k = 0; k < static_cast<int>(n.inputs().size()); ++k)
    if (storage_owner(n.in(k)) == owner && !accepts(k)) return false;

  int here = at.at(&n);
  // Values that lie there because of this very result are its own readers' affair.
  std::vector<const Value*> own = n.in_place >= 0 ? aliases(n.out()) : std::vector<const Value*>{};
  auto beside = [&](const Node* other) { return other && other != &n && at.at(other) == here; };
  for (const Value* alias : aliases(owner)) {
    if (std::find(own.begin(), own.end(), alias) != own.end()) continue;
    if (g.is_output(alias) || (beside(alias->node) && !lies_over(n.in(i), alias))) return false;
    for (const Node* user : alias->users) {
      if (at.at(user) > here && !user->op->is_view()) return false;
      // In a kernel each element is read before it is overwritten where it comes in a register, or where what `n` reads
      // is made of it.
      if (beside(user) &&
          !(user->op->pointwise() && (inside_kernel(g, alias) || lies_over(n.in(i), user->out()))))
        return false;
    }
  }
  return true;
}

}  // namespace pock
