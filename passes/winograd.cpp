// Operators that can be had by fewer products are: convolutions and their gradients (OpDef::fewer_products says where that
// pays). Shapes alone decide, so every scheme and every target that has the memory makes the same choice, and the same bits.
// Weight gradients stay as they are: a scheme may ask for some channels of one.
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {

int winograd(Graph& g, const PassOptions& options) {
  int changes = 0;
  if (!options.transformed_filters) return changes;
  for (Node* n : g.nodes()) {
    if (!n->op->fewer_products) continue;
    Builder b(g, n->loc, n);
    Value* by = n->op->fewer_products(b, *n);
    if (!by) continue;
    g.replace_uses(n->out(), by);
    g.erase(n);
    ++changes;
  }
  return changes;
}

}  // namespace pock
