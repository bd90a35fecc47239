// Lets results take over the memory of an input that nobody reads afterwards, where the operator allows it.
// Results that are written straight into the parameter they update need no memory to begin with.
#include "pock/ir/storage.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"
#include "pock/plan/plan.h"

namespace pock {

int inplace(Graph& g, const PassOptions&) {
  int changed = 0;
  Positions at = positions(g);
  for (Node* n : g.nodes()) {
    if (n->in_place >= 0 || n->results().empty() || update_target(g, n->out())) continue;
    int inputs = static_cast<int>(n->inputs().size());
    for (int i = 0; i < std::min(n->op->in_place, inputs); ++i) {
      if (!may_take_over(g, at, *n, i) || update_target(g, storage_owner(n->in(i)))) continue;
      n->in_place = i;
      ++changed;
      break;
    }
  }
  return changed;
}

}  // namespace pock
