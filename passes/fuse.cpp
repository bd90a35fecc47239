// Lets nodes share a kernel, so that what one makes goes to the next in a register and not through memory: pointwise
// nodes behind what they read, and before a reduction that reads them. A value of cheap pointwise nodes with several
// readers is made anew in the kernel of each.
#include <algorithm>
#include <utility>

#include "pock/ir/storage.h"
#include "pock/loop/transform.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

constexpr int64_t kLeastStaged =
    3 << 20;                        // bytes: less stays in a cache on the way to its reader, and is made once
constexpr int64_t kMostRow = 2048;  // elements, of which a stage holds several rows
constexpr size_t kMostNodes = 12;   // in a kernel

using Nodes = std::vector<Node*>;

bool contains(const Nodes& nodes, const Node* n) {
  return std::find(nodes.begin(), nodes.end(), n) != nodes.end();
}
bool computes(const Node* n) { return !n->op->is_view() && !n->op->has_effect() && !n->results().empty(); }

// Whether it takes exp, tanh and the like, which are many operations each.
bool is_long(const loop::Expr& e) {
  return (e->op >= loop::ScalarOp::exp && e->op <= loop::ScalarOp::pow) ||
         std::any_of(e->args.begin(), e->args.end(), is_long);
}
bool is_long(const std::vector<loop::Stmt>& body) {
  return std::any_of(body.begin(), body.end(), [](const loop::Stmt& s) {
    return (s.value.get() && is_long(s.value)) || is_long(s.body);
  });
}

class Fusing {
 public:
  explicit Fusing(Graph& g) : g_(g) {
    for (const Node* n : g.nodes()) next_ = std::max(next_, n->kernel + 1);
    find_parts();
  }

  int run() {
    chains([](const Nodes& first, const Node& n) { return is_pointwise(first) && !updates_something(&n); });
    spread();
    chains([](const Nodes&, const Node& n) { return !updates_something(&n); });
    sums();
    return changed_;
  }

  int run_updates() {
    chains([](const Nodes&, const Node& n) { return updates_something(&n); });
    return changed_;
  }

 private:
  // ---- Where nodes stand

  int at(const Node* n) const { return positions_.at(n); }
  void moved() {
    positions_.clear();
    int position = 0;
    for (const Node* n : g_.nodes()) positions_[n] = position++;
  }

  // The program runs in parts; what stands in one stays there.
  void find_parts() {
    moved();
    const StepParts parts = step_parts(g_);
    int part = 0;
    for (const Node* n : g_.nodes()) {
      part_[n] = part;
      part += n == parts.loss || n == parts.sums || n == parts.norm;
    }
  }

  Nodes kernel_of(Node* n) const {
    if (!n->kernel) return {n};
    Nodes nodes;
    for (Node* other : g_.nodes())
      if (other->kernel == n->kernel) nodes.push_back(other);
    return nodes;
  }

  // ---- Pointwise nodes behind what they read

  using Wanted = bool (*)(const Nodes& first, const Node&);

  void chains(Wanted wanted) {
    for (Node* n : g_.nodes()) {
      if (!computes(n) || !n->op->pointwise()) continue;
      const Nodes nodes = kernel_of(n);
      if (nodes[0] == n && is_pointwise(nodes)) join_behind(nodes, wanted);
    }
  }

  static bool is_pointwise(const Nodes& nodes) {
    return std::all_of(nodes.begin(), nodes.end(), [](const Node* n) { return n->op->pointwise(); });
  }

  static bool updates_something(const Node* n) {
    for (const Value* v : n->results())
      for (const Node* user : v->users)
        if (user->op->has_effect()) return true;
    return false;
  }

  void join_behind(const Nodes& nodes, Wanted wanted) {
    const Node& n = *nodes[0];
    for (Value* v : n.inputs()) {
      if (!v->node || !computes(v->node) || v->type != n.out()->type || !alike(n, v->type)) continue;
      const Nodes first = kernel_of(v->node);
      // A nest is unrolled, and with it what follows: a program must stay small.
      const bool grows = !is_pointwise(first) && std::any_of(nodes.begin(), nodes.end(), [](const Node* m) {
        return is_long(lower_unmerged(*m).body);
      });
      if (!grows && wanted(first, n) && join(first, nodes)) return;
    }
  }

  // Whether every input as large as the result lies in memory as that does.
  static bool alike(const Node& n, const Type& type) {
    return std::all_of(n.inputs().begin(), n.inputs().end(), [&](const Value* v) {
      return v->type.elements() != type.elements() || v->type.layout == type.layout;
    });
  }

  // Makes two kernels one, where that is possible and one can be moved to the other.
  bool join(const Nodes& first, const Nodes& second) {
    Nodes all = first;
    all.insert(all.end(), second.begin(), second.end());
    if (all.size() > kMostNodes ||
        std::any_of(all.begin(), all.end(), [&](Node* n) { return part_.at(n) != part_.at(all[0]); }))
      return false;
    const bool up = !updates_something(second[0]) && may_move_up(second, first),
               down = !up && may_move_down(first, second);
    if ((!up && !down) || !share(all)) return false;
    if (up) {
      Node* behind = g_.next(first.back());
      for (Node* n : second) {
        if (n == behind)
          behind = g_.next(n);
        else
          g_.move_before(n, behind);
      }
    } else {
      for (Node* n : first) g_.move_before(n, second[0]);
    }
    moved();
    return true;
  }

  // Gives the nodes a kernel of their own, if they can be one.
  bool share(const Nodes& nodes) {
    std::vector<int> before;
    for (Node* n : nodes) before.push_back(std::exchange(n->kernel, next_));
    if (lower_nodes(g_, nodes)) {
      ++next_;
      ++changed_;
      return true;
    }
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i]->kernel = before[i];
    return false;
  }

  bool may_move_up(const Nodes& nodes, const Nodes& behind) const {
    for (const Node* n : nodes)
      for (const Value* v : n->inputs())
        if (v->node && !contains(nodes, v->node) && at(v->node) > at(behind.back())) return false;
    return true;
  }

  bool may_move_down(const Nodes& nodes, const Nodes& before) const {
    for (const Node* n : nodes) {
      for (const Value* v : n->results())
        for (const Node* user : v->users)
          if (!contains(nodes, user) && at(user) < at(before[0])) return false;
      for (const Value* v : n->inputs())
        if (is_updated(v, at(before[0]))) return false;
    }
    return true;
  }

  // What changes the memory that the value shows.
  static Node* update_of(const Value* v) {
    const Value* owner = storage_owner(v);
    for (Node* user : owner->users)
      if (user->op->has_effect() && user->in(0) == owner) return user;
    return nullptr;
  }
  // Whether that stands before the position.
  bool is_updated(const Value* v, int position) const {
    const Node* update = update_of(v);
    return update && at(update) < position;
  }

  // ---- Pointwise nodes into each of their readers

  void spread() {
    for (Node* n : g_.nodes()) {
      if (!computes(n) || !n->op->pointwise()) continue;
      Nodes nodes = kernel_of(n);
      if (n == nodes.back() && is_pointwise(nodes)) spread(nodes);
    }
  }

  void spread(Nodes nodes) {
    for (size_t i = 0; i + 1 < nodes.size(); ++i)
      for (const Value* v : nodes[i]->results())
        if (!inside_kernel(g_, v)) return;
    if (nodes.back()->results().size() != 1) return;
    Value* v = nodes.back()->out();
    if (g_.is_output(v) || v->users.empty()) return;
    Nodes readers = v->users;
    std::sort(readers.begin(), readers.end(), [&](Node* a, Node* b) { return at(a) < at(b); });
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    const bool cheap = std::all_of(nodes.begin(), nodes.end(), [](const Node* n) { return n->op->cheap; });
    if (readers.size() > 1 && !(cheap && stay_alive(nodes, v, readers.back()))) return;
    for (Node* reader : readers)
      if (reader->kernel || !takes(nodes, *reader, v)) return;
    for (size_t i = 0; i < readers.size(); ++i) {
      delay_updates(nodes, *readers[i]);
      const Nodes own = i + 1 < readers.size() ? copy(nodes, v, readers[i]) : nodes;
      if (own == nodes)
        for (Node* n : nodes) g_.move_before(n, readers[i]);
      moved();
      Nodes all = own;
      all.push_back(readers[i]);
      const bool joined = share(all);
      POCK_CHECK(joined, "{} takes the nodes it reads into its kernel, and then does not",
                 readers[i]->op->name.text);
    }
  }

  // No more than one value lives longer, and takes the place of the one that is not made any more.
  bool stay_alive(const Nodes& nodes, const Value* made, const Node* last) const {
    int longer = 0;
    for (const Node* n : nodes)
      for (const Value* v : n->inputs()) {
        if (v->kind != ValueKind::result || contains(nodes, v->node) ||
            v->type.bytes() * 16 <= made->type.bytes())
          continue;
        bool alive = false;
        for (const Value* alias : aliases(storage_owner(v)))
          for (const Node* user : alias->users) alive |= at(user) >= at(last);
        longer += !alive;
      }
    return longer <= 1;
  }

  // Whether the reader can make the value itself.
  bool takes(const Nodes& nodes, Node& reader, const Value* v) {
    if (!computes(&reader) || part_.at(&reader) != part_.at(nodes[0]) || nodes.size() >= kMostNodes)
      return false;
    if (reader.op->pointwise()) {
      if (v->type != reader.out()->type || !alike(reader, v->type)) return false;
    } else {
      const loop::Kernel nest = lower_unmerged(reader);
      for (size_t i = 0; i < reader.inputs().size(); ++i)
        if (reader.in(static_cast<int>(i)) == v && !takes(reader, nest, nest.args[i])) return false;
    }
    for (const Node* n : nodes)
      for (const Value* in : n->inputs())
        if (is_updated(in, at(&reader)) && !may_delay(*update_of(in), reader, v->users)) return false;
    Nodes all = nodes;
    all.push_back(&reader);
    return lower_nodes(all, [&](const Value* made) { return made->node != &reader; }).has_value();
  }

  // What is read often is made in a stage, some rows at a time, none of which other rows of results may read.
  static bool takes(const Node& reader, const loop::Kernel& nest, const loop::BufferRef& b) {
    if (loads_often(nest, b)) {
      const int64_t row = loop::row_elements(nest, b);
      return b->type.bytes() >= kLeastStaged && row > 0 && row <= kMostRow;
    }
    return reader.op->layouts.empty();  // windows see an element more than once
  }

  // ---- Sums behind what they read

  // Sums of a large value, in the kernel that stores it, a part as soon as it is there.
  void sums() {
    for (Node* n : g_.nodes()) {
      if (!computes(n) || n->op->pointwise() || !n->op->layouts.empty()) continue;
      const Nodes nodes = kernel_of(n);
      for (const Node* m : nodes)
        for (const Value* v : m->inputs()) {
          const bool large =
              v->node && !contains(nodes, v->node) && computes(v->node) && v->type.bytes() >= kLeastStaged;
          if (large && kernel_of(n).size() == nodes.size()) join(kernel_of(v->node), nodes);
        }
    }
  }

  // An optimizer's step and its updates, behind the reader; but not where it is a reader itself, which gets a kernel.
  bool may_delay(Node& update, const Node& reader, const Nodes& readers) const {
    const Node* step = update.in(1)->node;
    if (!step || step->kernel || contains(readers, step) || !step->op->pointwise() ||
        part_.at(step) != part_.at(&reader))
      return false;
    for (const Value* v : step->results())
      for (const Node* user : v->users)
        if (!user->op->has_effect()) return false;
    for (const Value* v : step->inputs())
      if (const Node* other = update_of(v); other && at(other) < at(&reader) && other->in(1)->node != step)
        return false;
    return true;
  }

  void delay_updates(const Nodes& nodes, Node& reader) {
    for (const Node* n : nodes)
      for (const Value* in : n->inputs()) {
        if (!is_updated(in, at(&reader))) continue;
        Node* step = update_of(in)->in(1)->node;
        Node* behind = g_.next(&reader);
        Nodes late = {step};
        for (const Value* v : step->results())
          for (Node* user : v->users)
            if (!contains(late, user)) late.push_back(user);
        for (Node* m : late) g_.move_before(m, behind);
        moved();
      }
  }

  // The nodes once more, for one reader.
  Nodes copy(const Nodes& nodes, Value* made, Node* reader) {
    Nodes copies;
    std::unordered_map<const Value*, Value*> values;
    for (const Node* n : nodes) {
      std::vector<Value*> inputs;
      for (Value* v : n->inputs()) inputs.push_back(values.count(v) ? values.at(v) : v);
      Node* again = g_.add_node(*n->op, inputs, n->attrs, n->loc, reader);
      again->recomputed = true;
      part_[again] = part_.at(n);
      for (size_t i = 0; i < n->results().size(); ++i) {
        Value* result = again->out(static_cast<int>(i));
        result->type = n->out(static_cast<int>(i))->type;
        values[n->out(static_cast<int>(i))] = result;
      }
      copies.push_back(again);
    }
    for (size_t i = 0; i < reader->inputs().size(); ++i)
      if (reader->in(static_cast<int>(i)) == made) g_.set_input(reader, static_cast<int>(i), values.at(made));
    return copies;
  }

  Graph& g_;
  std::unordered_map<const Node*, int> positions_, part_;
  int next_ = 1, changed_ = 0;
};

}  // namespace

int fuse(Graph& g, const PassOptions&) {
  // Moved nodes would read memory that others were given in the old order.
  return shares_memory(g) ? 0 : Fusing(g).run();
}

// The step of an optimizer in the kernel of its gradient, which then never lies in memory.
int fused_update(Graph& g, const PassOptions&) { return shares_memory(g) ? 0 : Fusing(g).run_updates(); }

}  // namespace pock
