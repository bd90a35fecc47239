// Proves a plan by running it on marks: every byte of the arena and every parameter remembers whose content
// it holds, each node checks that what it reads is still there and then marks what it writes. Nothing here is
// shared with the planner: not its lifetimes, not its idea of who shares memory.
#include <algorithm>
#include <map>

#include "pock/ir/text.h"
#include "pock/ops/op.h"
#include "pock/plan/plan.h"

namespace pock {
namespace {

constexpr int kGarbage = -1;

// What the bytes of the arena hold.
class Marks {
 public:
  void set(int64_t begin, int64_t end, int mark) {
    if (begin >= end) return;
    cut(begin);
    cut(end);
    pieces_.erase(pieces_.lower_bound(begin), pieces_.lower_bound(end));
    pieces_[begin] = {end, mark};
  }
  bool holds(int64_t begin, int64_t end, int mark) const {
    while (begin < end) {
      auto it = pieces_.upper_bound(begin);
      if (it == pieces_.begin()) return false;
      --it;
      if (it->second.end <= begin || it->second.mark != mark) return false;
      begin = it->second.end;
    }
    return true;
  }

 private:
  struct Piece {
    int64_t end;
    int mark;
  };
  // Makes `at` a border of pieces.
  void cut(int64_t at) {
    auto it = pieces_.lower_bound(at);
    if (it == pieces_.begin()) return;
    --it;
    if (it->second.end <= at) return;
    Piece tail = it->second;
    it->second.end = at;
    pieces_[at] = tail;
  }
  std::map<int64_t, Piece> pieces_;  // by begin
};

// A place is either a range of the arena or the memory of a leaf.
struct Place {
  const Value* leaf = nullptr;
  int64_t begin = 0, end = 0;
  bool overlaps(const Place& p) const {
    if (leaf || p.leaf) return leaf == p.leaf;
    return begin < p.end && p.begin < end;
  }
  bool operator==(const Place&) const = default;
};

struct Held {
  Place place;
  int content = kGarbage;
};

class Run {
 public:
  Run(const Graph& g, const Plan& plan, const PlanOptions& options)
      : g_(g), plan_(plan), options_(options), names_(g) {}

  void run() {
    for (const Value* v : g_.leaves()) leaf(v);
    const std::vector<Node*> nodes = g_.nodes();
    for (size_t i = 0; i < nodes.size();) {
      const Node* n = nodes[i];
      size_t end = i + 1;
      while (n->kernel && end < nodes.size() && nodes[end]->kernel == n->kernel) ++end;
      if (n->op->is_view())
        view(*n);
      else if (n->op->has_effect())
        effect(*n);
      else
        kernel({nodes.begin() + static_cast<ptrdiff_t>(i), nodes.begin() + static_cast<ptrdiff_t>(end)});
      i = end;
    }
    for (const Value* v : g_.outputs()) need(v, "the end of the step");
    for (const auto& [param, v] : updates_)
      if (leaves_.at(param) != values_.at(v).content)
        fail("{} does not hold {} at the end", names_(param), names_(v));
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
    throw std::logic_error("pock has a bug: the memory plan is wrong: " +
                           fmt::format(format, std::forward<Args>(args)...));
  }

  Place range(const std::string& whose, int64_t offset, int64_t bytes) {
    if (offset < 0 || bytes > plan_.arena_bytes - offset)
      fail("{} at {} with {} bytes leaves the arena of {}", whose, offset, bytes, plan_.arena_bytes);
    if (offset % options_.alignment) fail("{} at {} is not aligned to {}", whose, offset, options_.alignment);
    return {nullptr, offset, offset + bytes};
  }
  Place planned(const Value* v) {
    auto it = plan_.offset.find(v);
    if (it == plan_.offset.end()) fail("{} has no offset", names_(v));
    return range(names_(v), it->second, v->type.bytes());
  }

  void leaf(const Value* v) {
    Held held{{v, 0, 0}, next_content_++};
    if (v->kind == ValueKind::input) {
      held.place = planned(v);
      marks_.set(held.place.begin, held.place.end, held.content);
    } else {
      if (plan_.offset.count(v)) fail("{} has an offset, but does not live in the arena", names_(v));
      leaves_[v] = held.content;
    }
    values_[v] = held;
  }

  void need(const Value* v, const std::string& who) {
    const Held& held = values_.at(v);
    bool there = held.place.leaf ? leaves_.at(held.place.leaf) == held.content
                                 : marks_.holds(held.place.begin, held.place.end, held.content);
    if (!there) fail("{} is overwritten before {} reads it", names_(v), who);
  }

  void view(const Node& n) {
    Held held = values_.at(n.in(0));
    auto it = plan_.offset.find(n.out());
    if (held.place.leaf ? it != plan_.offset.end()
                        : it == plan_.offset.end() || it->second != held.place.begin)
      fail("the view {} is not where {} is", names_(n.out()), names_(n.in(0)));
    values_[n.out()] = held;
  }

  void effect(const Node& n) {
    const Value *param = n.in(0), *v = n.in(1);
    need(v, "the update of " + names_(param));
    if (n.inputs().size() > 2) {  // some of its elements
      leaves_.at(param) = next_content_++;
      return;
    }
    leaves_.at(param) = values_.at(v).content;
    updates_.emplace_back(param, v);
  }

  // Where a node's result goes that is no view: into the arena, or into the parameter that it updates.
  Place place_of(const Value* v) {
    if (plan_.offset.count(v)) return planned(v);
    if (options_.updates_in_place)
      for (const Node* user : v->users)
        if (user->op->has_effect() && user->in(1) == v && user->inputs().size() == 2)
          return {user->in(0), 0, 0};
    fail("{} has no offset", names_(v));
  }

  // Whether the nodes of a kernel keep the value to themselves.
  bool stays_inside(const Value* v, const std::vector<const Node*>& nodes) const {
    return nodes.size() > 1 && !g_.is_output(v) &&
           std::all_of(v->users.begin(), v->users.end(),
                       [&](const Node* user) { return std::count(nodes.begin(), nodes.end(), user) > 0; });
  }

  using Read = std::pair<const Value*, const Node*>;  // with the reader

  // The input from outside over which result 0 of `n` is written, element for element: its own, or that of the nodes of
  // its kernel that made that.
  static Read taken_over(const Node& n, const std::vector<const Node*>& nodes) {
    if (n.in_place < 0 || n.in_place >= n.op->in_place || n.in(n.in_place)->type != n.out()->type) return {};
    const Value* in = n.in(n.in_place);
    const bool made_here = std::count(nodes.begin(), nodes.end(), in->node) > 0;
    if (!made_here) return {in, &n};
    // What is no element-for-element node may read others of its elements meanwhile.
    for (const Node* user : in->users)
      if (!user->op->pointwise()) return {};
    return in->index == 0 ? taken_over(*in->node, nodes) : Read{};
  }

  // Whether `n` reads the value where it is element for element what it writes.
  static bool reads_in_place(const Node& n, const Value* in) {
    for (int i = 0; i < std::min<int>(n.op->in_place, std::ssize(n.inputs())); ++i)
      if (n.in(i) == in) return true;
    return false;
  }

  // The nodes of a kernel run at once: everything is read before anything is written, but for what is written element
  // for element over what it is made of.
  void kernel(const std::vector<const Node*>& nodes) {
    std::vector<Read> read;
    std::vector<const Value*> made;
    for (const Node* n : nodes) {
      for (const Value* v : n->inputs())
        if (!v->node || std::count(nodes.begin(), nodes.end(), v->node) == 0) read.emplace_back(v, n);
      for (const Value* v : n->results())
        if (!stays_inside(v, nodes)) made.push_back(v);
    }
    const std::string who = made.empty() ? nodes[0]->op->name.text : names_(made[0]);
    for (const auto& [v, reader] : read) need(v, who);
    std::vector<Place> written;
    for (const Value* v : made) {
      const Place place = place_of(v);
      const Node& n = *v->node;
      const Read under = v->index == 0 ? taken_over(n, nodes) : Read{};
      if (nodes.size() == 1 && v->index == 0 && n.in_place >= 0 &&
          (!under.first || values_.at(under.first).place != place))
        fail("{} is not in the place of input {}", who, n.in_place);
      for (const Read& r : read) {
        const Place& there = values_.at(r.first).place;
        if (!there.overlaps(place)) continue;
        bool may =
            there == place && r.first->type == v->type &&
            (r == under || (r.second == &n && (place.leaf || under.first) && reads_in_place(n, r.first)));
        if (!may) fail("{} overwrites {} while {} reads it", names_(v), names_(r.first), who);
      }
      written.push_back(place);
    }
    if (int64_t bytes = options_.workspace ? options_.workspace(*nodes[0]) : 0; bytes > 0) {
      auto it = plan_.workspace_offset.find(nodes[0]);
      if (it == plan_.workspace_offset.end()) fail("the workspace of {} has no offset", who);
      written.push_back(range("the workspace of " + who, it->second, bytes));
      for (const auto& [v, reader] : read)
        if (values_.at(v).place.overlaps(written.back()))
          fail("the workspace of {} overlaps {}", who, names_(v));
    }
    for (size_t i = 0; i < written.size(); ++i)
      for (size_t k = 0; k < i; ++k)
        if (written[i].overlaps(written[k])) fail("{} writes two things to one place", who);
    for (size_t i = 0; i < written.size(); ++i) {
      int content = i < made.size() ? next_content_++ : kGarbage;
      if (written[i].leaf)
        leaves_.at(written[i].leaf) = content;
      else
        marks_.set(written[i].begin, written[i].end, content);
      if (content != kGarbage) values_[made[i]] = {written[i], content};
    }
  }

  const Graph& g_;
  const Plan& plan_;
  const PlanOptions& options_;
  Names names_;
  Marks marks_;
  std::unordered_map<const Value*, int> leaves_;  // what the memory of a leaf holds
  std::unordered_map<const Value*, Held> values_;
  std::vector<std::pair<const Value*, const Value*>> updates_;
  int next_content_ = 0;
};

}  // namespace

void check_plan(const Graph& g, const Plan& plan, const PlanOptions& options) { Run(g, plan, options).run(); }

}  // namespace pock
