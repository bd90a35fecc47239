// Where every value lives: an arena offset for each result and input, from the order of the nodes and the
// lifetimes.
//
//   Plan plan = plan_memory(graph, {.workspace = bytes_of_a_nodes_kernel});
//   check_plan(graph, plan);          // proves it; shares no code with the planner
//   fmt::print("{}", table(graph, plan));
//
// A view shares its base's memory and keeps it alive; an in-place result takes over its input's. Inputs of
// the graph are alive from the start to their last reader; outputs to the end. A node's kernel workspace is
// alive while it runs.
#pragma once

#include <functional>
#include <unordered_map>

#include "pock/ir/graph.h"

namespace pock {

struct PlanOptions {
  std::function<int64_t(const Node&)> workspace;  // bytes of kernel workspace of a node; null: none
  int64_t alignment = 64;
  // Results that are written straight into the parameter that an `update` gives them to (see update_target).
  bool updates_in_place = true;
};

struct Block {
  const Value* value = nullptr;  // the value that owns the memory; null for workspace
  const Node* node = nullptr;    // workspace: whose
  int64_t offset = 0, bytes = 0;
  int first = 0, last = 0;  // alive from node `first` to node `last`, by position in the graph
};

struct Plan {
  std::vector<Block> blocks;
  std::unordered_map<const Value*, int64_t> offset;  // of every value in the arena, views included
  std::unordered_map<const Node*, int64_t> workspace_offset;
  int64_t arena_bytes = 0;
  int64_t lower_bound = 0;  // the most bytes alive at one node: no plan can do with less
  const Node* peak_node = nullptr;
};

// Blocks with sizes rounded up to the alignment and lifetimes, without offsets.
std::vector<Block> find_blocks(const Graph&, const PlanOptions& = {});
// The bytes alive at every node.
std::vector<int64_t> live_bytes(const std::vector<Block>&, size_t nodes);

Plan plan_memory(const Graph&, const PlanOptions& = {});
// Throws std::logic_error where two live values overlap, a block leaves the arena, or an offset is missing.
void check_plan(const Graph&, const Plan&, const PlanOptions& = {});
std::string table(const Graph&, const Plan&);

// The parameter, statistic or state into whose own memory this result may be written, because an `update`
// stores it there and the old value's last reader is the result's own element-for-element node or earlier;
// else nullptr. Any result of a node may have one, so a kernel computes all results of an element before it
// stores the first. Outputs have none, nor results that another one takes over in place: their blocks stay in
// the arena, and the update copies. Offsets are missing exactly for such results, and for views of what is no
// result and no input.
const Value* update_target(const Graph&, const Value* result);

}  // namespace pock
