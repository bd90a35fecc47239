// Replaces operators that are defined in terms of others by those others.
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

int expand_where(Graph& g, bool (*wanted)(const OpDef&)) {
  int count = 0;
  bool again = true;
  while (again) {  // an expansion may hold operators that expand in turn
    again = false;
    for (Node* n : g.nodes()) {
      const auto* rule = std::get_if<Expand>(&n->op->lower);
      if (!rule || !wanted(*n->op)) continue;
      Builder b(g, n->loc, n);
      std::vector<Value*> by = rule->rule(b, *n);
      for (size_t i = 0; i < by.size(); ++i) g.replace_uses(n->out(i), by[i]);
      g.erase(n);
      ++count;
      again = true;
    }
  }
  return count;
}

}  // namespace

int expand_without_gradient(Graph& g, const PassOptions&) {
  return expand_where(g, [](const OpDef& op) { return op.gradient.rule == nullptr; });
}

int expand(Graph& g, const PassOptions&) {
  return expand_where(g, [](const OpDef&) { return true; });
}

}  // namespace pock
