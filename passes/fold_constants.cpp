// Computes at compile time the nodes whose inputs are all known, where the results are small enough to be stored: what
// depends on constants and frozen weights alone. Statistics are not among them: a checkpoint brings its own.
#include <algorithm>

#include "pock/ops/evaluate.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

// A result this small is stored even where it is larger than what it is made of (a broadcast).
constexpr int64_t kSmall = 4096;

// Parsed text may lack the data.
bool is_known(const Value* v) {
  const bool fixed = v->kind == ValueKind::constant || (v->kind == ValueKind::param && !v->trained);
  return fixed && v->data;
}

bool can_fold(const Node& n) {
  if (n.op->has_effect() || n.inputs().empty()) return false;
  if (!std::all_of(n.inputs().begin(), n.inputs().end(), is_known)) return false;
  int64_t before = 0, after = 0;
  for (const Value* v : n.inputs()) before += v->type.bytes();
  for (const Value* v : n.results()) {
    if (v->type.dtype == DType::mask) return false;  // bits have no order but that of memory
    after += v->type.bytes();
  }
  return after <= std::max(before, kSmall);
}

}  // namespace

int fold_constants(Graph& g, const PassOptions&) {
  int folded = 0;
  for (Node* n : g.nodes()) {
    if (!can_fold(*n)) continue;
    std::vector<Data> data;
    for (const Value* v : n->inputs()) data.push_back(v->data);
    const bool same = n->op->is_view() || n->op == &get_op("relayout");
    std::vector<Data> results = same ? std::vector<Data>{data[0]} : evaluate_node(*n, data);
    for (size_t i = 0; i < results.size(); ++i) {
      Value* old = n->results()[i];
      // Nobody may write into a constant.
      for (Node* user : old->users)
        if (user->in_place >= 0 && user->in(user->in_place) == old) user->in_place = -1;
      g.replace_uses(old, g.add_constant(old->type, results[i]));
    }
    g.erase(n);
    ++folded;
  }
  return folded;
}

}  // namespace pock
