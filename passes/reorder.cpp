// Runs kernels in another order where fewer bytes are alive at once then. The search goes through the orders of a part of
// the step by how many kernels have run, and keeps of all orders of the same kernels the one with the lowest peak. A kernel
// that needs no more memory than there was anyway, and leaves no more alive, runs at once: that can do no harm. Where more
// sets of kernels are open than are kept, those with the lowest peaks are: exact for small graphs, for large ones a list
// schedule with look-ahead.
#include <algorithm>
#include <map>

#include "pock/ir/storage.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"
#include "pock/plan/plan.h"

namespace pock {
namespace {

constexpr size_t kWidth = 32;  // sets of as many kernels that are kept; 1 once there was too much work
constexpr int64_t kWork = 50'000'000;  // counters copied, some tenths of a second

// What runs at once: the nodes of a kernel; a view or an update, which need no memory.
struct Unit {
  std::vector<int> behind;                      // units that must not run before it
  std::vector<int> makes, reads;                // blocks of memory
  std::vector<std::pair<int, int>> takes_over;  // what it reads may become, where that dies, what it makes
};

struct Memory {
  int64_t bytes = 0;
  int maker = -1;            // a unit; -1: there from the start
  std::vector<int> readers;  // other units
  bool outlives_the_step = false;
};

// Units, what they wait for and what memory they need, in the order that there is.
class Units {
 public:
  explicit Units(const Graph& g) : g_(g), nodes_(kernels(g)) {
    units.resize(nodes_.size());
    for (size_t u = 0; u < nodes_.size(); ++u)
      for (const Node* n : nodes_[u]) unit_[n] = static_cast<int>(u);
    find_parts();
    find_waits();
    find_memory();
  }

  std::vector<Unit> units;
  std::vector<Memory> blocks;
  std::vector<int> ends;  // of the parts: one behind the last unit; nothing goes from one part to another

 private:
  void find_parts() {
    const StepParts parts = step_parts(g_);
    for (const Node* n : {parts.loss, parts.sums, parts.norm})
      if (n) ends.push_back(unit_.at(n) + 1);
    // Steps of the optimizer that wait behind everything else have a reason to.
    size_t waiting = nodes_.size();
    while (waiting > 0 && serves_updates(nodes_[waiting - 1])) --waiting;
    ends.push_back(static_cast<int>(waiting));
    ends.push_back(static_cast<int>(nodes_.size()));
    std::sort(ends.begin(), ends.end());
  }

  static bool serves_updates(const std::vector<Node*>& nodes) {
    auto is_stored = [](const Value* v) {
      return std::any_of(v->users.begin(), v->users.end(), [](const Node* n) { return n->op->has_effect(); });
    };
    return std::any_of(nodes.begin(), nodes.end(), [&](const Node* n) {
      return n->op->has_effect() || std::any_of(n->results().begin(), n->results().end(), is_stored);
    });
  }

  void find_waits() {
    for (const Node* n : g_.nodes()) {
      for (const Value* v : n->inputs())
        if (v->node) wait(n, v->node);
      if (n->op->has_effect()) wait_for_readers(*n);
    }
  }

  void wait(const Node* later, const Node* earlier) {
    std::vector<int>& behind = units[unit_.at(earlier)].behind;
    const int unit = unit_.at(later);
    if (unit != unit_.at(earlier) && std::find(behind.begin(), behind.end(), unit) == behind.end())
      behind.push_back(unit);
  }

  // Who reads the old value runs before the update, and if it ran before the new one was made, it still does: that may
  // then be made in the parameter's memory.
  void wait_for_readers(const Node& update) {
    const Node* maker = update.in(1)->node ? update.in(1)->node : &update;
    for (const Value* alias : aliases(update.in(0)))
      for (const Node* reader : alias->users) {
        if (unit_.at(reader) < unit_.at(&update)) wait(&update, reader);
        if (unit_.at(reader) < unit_.at(maker)) wait(maker, reader);
      }
  }

  void find_memory() {
    std::unordered_map<const Value*, int> numbers;
    for (const Block& b : find_blocks(g_)) {
      numbers[b.value] = static_cast<int>(blocks.size());
      Memory m{.bytes = b.bytes};
      if (b.value->node) m.maker = unit_.at(b.value->node);
      for (const Value* alias : aliases(b.value)) {
        m.outlives_the_step |= g_.is_output(alias);
        for (const Node* user : alias->users)
          if (!user->op->is_view() && unit_.at(user) != m.maker) m.readers.push_back(unit_.at(user));
      }
      std::sort(m.readers.begin(), m.readers.end());
      m.readers.erase(std::unique(m.readers.begin(), m.readers.end()), m.readers.end());
      if (m.maker >= 0) units[m.maker].makes.push_back(numbers[b.value]);
      for (int reader : m.readers) units[reader].reads.push_back(numbers[b.value]);
      blocks.push_back(std::move(m));
    }
    for (const auto& [v, made] : numbers) {
      if (!v->node || v->index != 0) continue;
      std::vector<const Value*> under;
      find_under(*v->node, &under);
      for (const Value* read : under)
        if (numbers.count(read)) units[blocks[made].maker].takes_over.emplace_back(numbers[read], made);
    }
    for (Unit& u : units) std::sort(u.takes_over.begin(), u.takes_over.end());
  }

  // What result 0 may take the memory of, as far as the nodes of its unit are concerned.
  void find_under(const Node& n, std::vector<const Value*>* under) const {
    for (int i = 0; i < std::min<int>(n.op->in_place, std::ssize(n.inputs())); ++i) {
      const Value* v = n.in(i);
      if (v->type != n.out()->type) continue;
      if (!v->node || unit_.at(v->node) != unit_.at(&n)) {
        const Value* owner = storage_owner(v);
        if (owner->kind == ValueKind::result && is_read_by_element(owner, unit_.at(&n)))
          under->push_back(owner);
      } else if (v->index == 0) {
        find_under(*v->node, under);
      }
    }
  }

  bool is_read_by_element(const Value* owner, int unit) const {
    for (const Value* alias : aliases(owner))
      for (const Node* user : alias->users)
        if (unit_.at(user) == unit && !user->op->pointwise()) return false;
    return true;
  }

  const Graph& g_;
  const std::vector<std::vector<Node*>> nodes_;
  std::unordered_map<const Node*, int> unit_;
};

// Some units of a part have run.
struct State {
  std::vector<uint64_t> ran;  // a bit each
  std::vector<int> waits,
      readers;  // that have not run: before each unit of the part; of each block, and the end
  std::vector<int> ready, order;
  int64_t live = 0, peak = 0;  // bytes
};

class Part {
 public:
  Part(const Units& u, int begin, int end) : u_(u), begin_(begin), end_(end) {}

  // Before the first unit, in the order that there is.
  State start() const {
    State s;
    for (const Memory& m : u_.blocks) {
      auto first = std::lower_bound(m.readers.begin(), m.readers.end(), begin_);
      s.readers.push_back(static_cast<int>(m.readers.end() - first) + m.outlives_the_step);
      // An input is there from the start, even where nobody reads it.
      if (m.maker < begin_ && (s.readers.back() || (m.maker < 0 && begin_ == 0))) s.live += m.bytes;
    }
    s.peak = s.live;
    s.ran.resize((end_ - begin_) / 64 + 1);
    s.waits.resize(end_ - begin_);
    for (int u = begin_; u < end_; ++u)
      for (int later : u_.units[u].behind)
        if (later < end_) ++s.waits[later - begin_];
    for (int u = begin_; u < end_; ++u)
      if (!s.waits[u - begin_]) s.ready.push_back(u);
    return s;
  }

  State as_it_is() const {
    State s = start();
    for (int u = begin_; u < end_; ++u) take(s, u);
    return s;
  }

  // An order with a peak below `limit`, where one is found.
  std::optional<State> search(int64_t limit) {
    if (least() >= limit) return {};
    std::vector<Open> open(end_ - begin_ + 1);
    add(open, start(), limit);
    for (size_t count = 0; count + 1 < open.size(); ++count) {
      for (const State* s : best(open[count]))
        for (int unit : s->ready) {
          if (need(*s, unit).most >= limit) continue;
          State next = *s;
          work_ += std::ssize(next.readers) + std::ssize(next.waits);
          take(next, unit);
          add(open, std::move(next), limit);
        }
      open[count].clear();
    }
    if (open.back().empty()) return {};
    return std::move(open.back().begin()->second);
  }

 private:
  using Open = std::map<std::vector<uint64_t>, State>;

  struct Need {
    int64_t most, left;  // bytes alive while it runs, and afterwards
  };
  Need need(const State& s, int unit) const {
    const Unit& u = u_.units[unit];
    Need n{s.live, s.live};
    for (int b : u.makes) {
      n.most += u_.blocks[b].bytes;
      if (s.readers[b]) n.left += u_.blocks[b].bytes;
    }
    for (int b : u.reads)
      if (s.readers[b] == 1) n.left -= u_.blocks[b].bytes;
    std::vector<int> taken;
    for (auto [read, made] : u.takes_over) {
      if (s.readers[read] != 1 || std::count(taken.begin(), taken.end(), read) ||
          std::count(taken.begin(), taken.end(), made))
        continue;
      taken.insert(taken.end(), {read, made});
      n.most -= u_.blocks[made].bytes;
    }
    return n;
  }

  void take(State& s, int unit) const {
    const Need n = need(s, unit);
    s.peak = std::max(s.peak, n.most);
    s.live = n.left;
    for (int b : u_.units[unit].reads) --s.readers[b];
    s.ran[(unit - begin_) / 64] |= uint64_t{1} << ((unit - begin_) % 64);
    s.ready.erase(std::find(s.ready.begin(), s.ready.end(), unit));
    for (int later : u_.units[unit].behind)
      if (later < end_ && --s.waits[later - begin_] == 0)
        s.ready.insert(std::lower_bound(s.ready.begin(), s.ready.end(), later), later);
    s.order.push_back(unit);
  }

  void take_harmless(State& s) const {
    for (size_t i = 0; i < s.ready.size();) {
      const Need n = need(s, s.ready[i]);
      const bool harmless = n.most <= s.peak && n.left <= s.live;
      if (harmless) take(s, s.ready[i]);
      i = harmless ? 0 : i + 1;
    }
  }

  void add(std::vector<Open>& open, State s, int64_t limit) const {
    take_harmless(s);
    if (s.peak >= limit) return;
    auto [there, fresh] = open[s.order.size()].try_emplace(s.ran);
    if (fresh || s.peak < there->second.peak) there->second = std::move(s);
  }

  std::vector<const State*> best(const Open& open) const {
    std::vector<const State*> states;
    for (const auto& [ran, s] : open) states.push_back(&s);
    std::sort(states.begin(), states.end(), [](const State* a, const State* b) {
      return std::tie(a->peak, a->live, a->order) < std::tie(b->peak, b->live, b->order);
    });
    const size_t width = work_ < kWork ? kWidth : 1;
    if (states.size() > width) states.resize(width);
    return states;
  }

  // What any order needs: while a unit runs, that is alive which units in front of it have made for it or for units
  // behind it.
  int64_t least() const {
    const std::vector<std::vector<bool>> before = find_before();
    const State s = start();
    int64_t most = 0;
    for (int u = begin_; u < end_; ++u) {
      int64_t bytes = 0;
      for (size_t b = 0; b < u_.blocks.size(); ++b)
        if (is_alive(before, u, u_.blocks[b], s.readers[b])) bytes += u_.blocks[b].bytes;
      for (auto [read, made] : u_.units[u].takes_over) bytes -= u_.blocks[made].bytes;
      most = std::max(most, bytes);
    }
    return most;
  }

  // Of every unit of the part, which others must run before it.
  std::vector<std::vector<bool>> find_before() const {
    std::vector<std::vector<bool>> before(end_ - begin_, std::vector<bool>(end_ - begin_));
    for (int u = begin_; u < end_; ++u)
      for (int later : u_.units[u].behind) {
        if (later >= end_) continue;
        std::vector<bool>& all = before[later - begin_];
        all[u - begin_] = true;
        for (int k = 0; k < u - begin_; ++k)
          if (before[u - begin_][k]) all[k] = true;
      }
    return before;
  }

  bool is_alive(const std::vector<std::vector<bool>>& before, int unit, const Memory& m, int readers) const {
    if (m.maker == unit) return true;
    const bool made =
        m.maker < begin_ ? readers > 0 : m.maker < end_ && before[unit - begin_][m.maker - begin_];
    if (!made) return false;
    return m.outlives_the_step || std::any_of(m.readers.begin(), m.readers.end(), [&](int reader) {
             return reader == unit || reader >= end_ ||
                    (reader >= begin_ && before[reader - begin_][unit - begin_]);
           });
  }

  const Units& u_;
  const int begin_, end_;
  int64_t work_ = 0;
};

// Units by number; only the parts that are in the way of a lower peak change.
std::vector<int> best_order(const Units& u) {
  std::vector<Part> parts;
  std::vector<State> states;
  for (size_t p = 0; p < u.ends.size(); ++p) {
    parts.emplace_back(u, p ? u.ends[p - 1] : 0, u.ends[p]);
    states.push_back(parts.back().as_it_is());
  }
  std::vector<size_t> highest(parts.size());
  for (size_t p = 0; p < parts.size(); ++p) highest[p] = p;
  std::stable_sort(highest.begin(), highest.end(),
                   [&](size_t a, size_t b) { return states[a].peak > states[b].peak; });
  int64_t reached = 0;
  for (size_t p : highest) {
    if (states[p].peak <= reached) break;
    if (std::optional<State> better = parts[p].search(states[p].peak)) states[p] = std::move(*better);
    reached = std::max(reached, states[p].peak);
  }
  std::vector<int> order;
  for (const State& s : states) order.insert(order.end(), s.order.begin(), s.order.end());
  return order;
}

int run_in(const std::vector<int>& order, Graph& g) {
  const std::vector<std::vector<Node*>> units = kernels(g);
  int moved = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    moved += order[i] != static_cast<int>(i);
    for (Node* n : units[order[i]]) g.move_before(n, nullptr);
  }
  return moved;
}

}  // namespace

int reorder(Graph& g, const PassOptions& options) {
  // Moved nodes would read memory that others were given in the old order.
  if (shares_memory(g)) return 0;
  const std::vector<int> order = best_order(Units(g));
  std::unique_ptr<Graph> trial = g.clone();
  if (!run_in(order, *trial) || memory_bound(*trial, options) >= memory_bound(g, options)) return 0;
  return run_in(order, g);
}

}  // namespace pock
