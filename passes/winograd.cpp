// Operators that can be had by fewer products are: convolutions and their gradients (OpDef::fewer_products says where that
// pays). It decides by shapes alone, so every target and every scheme makes the same choice, and the same bits. Weight
// gradients stay as they are: a scheme may ask for some channels of one.
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {

int winograd(Graph& g, const PassOptions&) {
  int changes = 0;
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
