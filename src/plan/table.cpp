#include <algorithm>

#include "pock/ir/text.h"
#include "pock/ops/op.h"
#include "pock/plan/plan.h"

namespace pock {

std::string table(const Graph& g, const Plan& plan) {
  Names names(g);
  auto node_name = [&](const Node* n) {
    std::string result = n->results().empty() ? "" : names(n->out()) + " = ";
    return result + n->op->name.text + (n->loc.name.empty() ? "" : " '" + n->loc.name + "'");
  };
  std::vector<const Block*> blocks;
  for (const Block& b : plan.blocks) blocks.push_back(&b);
  std::stable_sort(blocks.begin(), blocks.end(), [](const Block* a, const Block* b) {
    return std::pair(a->offset, a->first) < std::pair(b->offset, b->first);
  });
  std::string text =
      fmt::format("{:>12} {:>12} {:>6} {:>6}  {}\n", "offset", "bytes", "first", "last", "what");
  for (const Block* b : blocks)
    text += fmt::format("{:>12} {:>12} {:>6} {:>6}  {}\n", b->offset, b->bytes, b->first, b->last,
                        b->value ? names(b->value) + " : " + to_string(b->value->type)
                                 : "workspace of " + node_name(b->node));
  text += fmt::format("arena {} bytes, at least {} needed", plan.arena_bytes, plan.lower_bound);
  if (plan.peak_node) text += " at " + node_name(plan.peak_node);
  if (plan.lower_bound)
    text += fmt::format(" (+{:.2f} %)", 100.0 * static_cast<double>(plan.arena_bytes - plan.lower_bound) /
                                            static_cast<double>(plan.lower_bound));
  return text + "\n";
}

}  // namespace pock
