// Moves each optimizer step to the earliest place: behind its gradient and behind every other reader of the
// parameter. The gradient then dies at once, and the next one can take its memory. Running statistics
// likewise, but never before the part of the step that may change something.
#include <algorithm>

#include "pock/ir/storage.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

// The nodes behind `earliest` that make what `n` reads and are read by updates alone: an optimizer's step. What becomes an
// accumulator's new value is read later as well, where it is then.
void private_makers(Node* n, const Positions& position, int earliest, std::vector<Node*>* group) {
  for (Value* v : n->inputs()) {
    Node* maker = v->node;
    if (!maker || position.at(maker) <= earliest || !maker->op->pointwise()) continue;
    const bool kept = n->in(0)->kind == ValueKind::accumulator && v == n->in(1);
    bool ours = true;
    for (Value* r : maker->results())
      for (Node* user : r->users)
        ours &=
            kept || user->op->has_effect() || std::find(group->begin(), group->end(), user) != group->end();
    if (!ours || std::find(group->begin(), group->end(), maker) != group->end()) continue;
    group->push_back(maker);
  }
}

// What a member of the group alone reads and is made of no node's result: it may stand anywhere.
void private_sources(std::vector<Node*>* group) {
  for (size_t i = 0; i < group->size(); ++i)
    for (Value* v : (*group)[i]->inputs()) {
      Node* maker = v->node;
      if (!maker || std::find(group->begin(), group->end(), maker) != group->end()) continue;
      const bool ours = std::all_of(v->users.begin(), v->users.end(), [&](Node* user) {
        return std::find(group->begin(), group->end(), user) != group->end();
      });
      const bool source = std::none_of(maker->inputs().begin(), maker->inputs().end(),
                                       [](const Value* in) { return in->node; });
      if (ours && source && maker->results().size() == 1) group->push_back(maker);
    }
}

}  // namespace

std::vector<Node*> update_group(Node* update, const Positions& position, const Node* behind) {
  auto of_a_batch = [](const Node* n) { return n->in(0)->kind == ValueKind::accumulator; };
  std::vector<Node*> group = {update};
  private_makers(update, position, position.at(behind), &group);
  for (size_t i = 1; i < group.size(); ++i)
    for (Value* r : group[i]->results())
      for (Node* user : r->users)
        if (user->op->has_effect() && of_a_batch(user) == of_a_batch(update) &&
            std::find(group.begin(), group.end(), user) == group.end())
          group.push_back(user);
  private_sources(&group);
  std::sort(group.begin(), group.end(), [&](Node* a, Node* b) { return position.at(a) < position.at(b); });
  return group;
}

int immediate_update(Graph& g, const PassOptions&) {
  int moved = 0;
  std::vector<Node*> done;
  for (Node* update : g.nodes()) {
    if (!update->op->has_effect() || std::find(done.begin(), done.end(), update) != done.end()) continue;
    std::vector<Node*> order = g.nodes();
    Positions position = positions(g);
    const Node* earliest = step_parts(g).earliest(*update);
    const std::vector<Node*> group = update_group(update, position, earliest);
    auto in_group = [&](Node* n) { return std::find(group.begin(), group.end(), n) != group.end(); };

    int after = position.at(earliest);
    for (Node* n : group) {
      for (Value* v : n->inputs())
        if (v->node && !in_group(v->node)) after = std::max(after, position.at(v->node));
      if (n->op->has_effect())
        for (const Value* view : aliases(n->in(0)))
          for (Node* reader : view->users)
            if (!in_group(reader)) after = std::max(after, position.at(reader));
    }
    Node* before = g.next(order[after]);
    while (before && in_group(before)) before = g.next(before);
    bool in_place_already = true;
    for (size_t i = 0; i < group.size(); ++i)
      in_place_already &= position.at(group[i]) == after + 1 + static_cast<int>(i);
    if (!in_place_already) {
      for (Node* n : group) g.move_before(n, before);
      ++moved;
    }
    for (Node* n : group)
      if (n->op->has_effect()) done.push_back(n);
  }
  return moved;
}

}  // namespace pock
