// Replaces operators that are defined in terms of others by those others.
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {

int expand_without_gradient(Graph& g, const PassOptions&) {
  return expand_nodes(g, [](const OpDef& op) { return op.gradient.rule == nullptr; });
}

int expand(Graph& g, const PassOptions&) { return expand_nodes(g); }

}  // namespace pock
