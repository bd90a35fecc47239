// Removes nodes whose results nobody reads, and leaves that are left without a reader. Updates and outputs
// are the roots.
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {

int dce(Graph& g, const PassOptions&) {
  int removed = 0;
  for (Node* n : g.nodes_backward()) {
    bool read = n->op->has_effect();
    for (const Value* v : n->results()) read = read || !v->users.empty() || g.is_output(v);
    if (read) continue;
    g.erase(n);
    ++removed;
  }
  g.erase_unused_values();
  return removed;
}

}  // namespace pock
