#include <algorithm>

#include "place.h"
#include "pock/ir/storage.h"
#include "pock/ops/op.h"

namespace pock {
namespace {

bool reads_own_place(const Node& n, const Value* param, const Type& written) {
  for (int i = 0; i < static_cast<int>(n.inputs().size()); ++i)
    if (storage_owner(n.in(i)) == param && (i >= n.op->in_place || n.in(i)->type != written)) return false;
  return true;
}

bool is_read_after(const Graph& g, const Value* param, Node* n) {
  std::vector<const Node*> readers;
  for (const Value* alias : aliases(param))
    for (const Node* user : alias->users)
      if (!user->op->is_view() && !user->op->has_effect()) readers.push_back(user);
  if (readers.empty()) return false;
  std::sort(readers.begin(), readers.end());
  while ((n = g.next(n)))
    if (std::binary_search(readers.begin(), readers.end(), n)) return true;
  return false;
}

// An update copies where its source is the parameter itself or a view of it: that reads the old value.
bool is_copied(const Value* param) {
  for (const Value* alias : aliases(param))
    for (const Node* user : alias->users)
      if (user->op->has_effect() && user->in(1) == alias) return true;
  return false;
}

}  // namespace

const Value* update_target(const Graph& g, const Value* result) {
  const Value* param = nullptr;
  for (const Node* user : result->users) {
    if (!user->op->has_effect() || user->in(1) != result) continue;
    if (param || stored_slice(*user)) return nullptr;
    param = user->in(0);
  }
  if (!param || result->kind != ValueKind::result || storage_source(result)) return nullptr;
  // What takes over the memory, or must outlast the step in the arena, gets a block of its own.
  for (const Value* alias : aliases(result))
    if (g.is_output(alias) || (alias != result && !alias->node->op->is_view())) return nullptr;
  Node* n = result->node;
  // Others of its kernel may read the old value in another order.
  for (const Value* alias : aliases(param))
    for (const Node* user : alias->users)
      if (user != n && n->kernel && user->kernel == n->kernel) return nullptr;
  if (!reads_own_place(*n, param, result->type) || is_copied(param) || is_read_after(g, param, n))
    return nullptr;
  return param;
}

std::vector<Block> find_blocks(const Graph& g, const PlanOptions& options) {
  Positions at = positions(g);
  int end = std::max(0, static_cast<int>(g.node_count()) - 1);
  auto round_up = [&](int64_t bytes) {
    return (bytes + options.alignment - 1) / options.alignment * options.alignment;
  };
  std::vector<Block> blocks;
  // In registers, and nothing that is stored takes over its place.
  auto never_stored = [&](const Value* v) {
    const std::vector<const Value*> all = aliases(v);
    return std::all_of(all.begin(), all.end(), [&](const Value* alias) { return inside_kernel(g, alias); });
  };
  auto add_value = [&](const Value* v, int first) {
    Block b{.value = v, .bytes = round_up(v->type.bytes()), .first = first, .last = first};
    // A view touches no memory; whoever reads it does.
    auto touch = [&](const Node* n) {
      if (!n->op->is_view()) b.last = std::max(b.last, at.at(n));
    };
    for (const Value* alias : aliases(v)) {
      if (g.is_output(alias)) b.last = end;
      if (alias->node) touch(alias->node);
      for (const Node* user : alias->users) touch(user);
    }
    blocks.push_back(b);
  };
  for (const Value* v : g.inputs()) add_value(v, 0);
  for (const Node* n : g.nodes()) {
    int here = at.at(n);
    for (const Value* v : n->results())
      if (!storage_source(v) && !never_stored(v) && !(options.updates_in_place && update_target(g, v)))
        add_value(v, here);
    bool has_kernel = !n->op->is_view() && !n->op->has_effect();
    int64_t workspace = options.workspace && has_kernel ? round_up(options.workspace(*n)) : 0;
    if (workspace > 0) blocks.push_back({.node = n, .bytes = workspace, .first = here, .last = here});
  }
  return blocks;
}

std::vector<int64_t> live_bytes(const std::vector<Block>& blocks, size_t nodes) {
  std::vector<int64_t> change(std::max<size_t>(nodes, 1) + 1);
  for (const Block& b : blocks) {
    change[b.first] += b.bytes;
    change[b.last + 1] -= b.bytes;
  }
  for (size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
  change.pop_back();
  return change;
}

Plan plan_memory(const Graph& g, const PlanOptions& options) {
  Plan plan;
  plan.blocks = find_blocks(g, options);
  std::vector<int64_t> live = live_bytes(plan.blocks, g.node_count());
  auto peak = std::max_element(live.begin(), live.end());
  plan.lower_bound = *peak;
  if (g.node_count()) plan.peak_node = g.nodes()[peak - live.begin()];
  plan.arena_bytes = place(plan.blocks, live, plan.lower_bound);
  for (const Block& b : plan.blocks) {
    if (b.node) plan.workspace_offset[b.node] = b.offset;
    if (b.value)
      for (const Value* alias : aliases(b.value)) plan.offset[alias] = b.offset;
  }
  return plan;
}

}  // namespace pock
