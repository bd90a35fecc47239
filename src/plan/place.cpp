// Offsets for blocks with known lifetimes. One block after the other goes into the tightest gap, or the
// lowest, among the blocks it shares a moment with; what matters is the order. Several orders are tried, then
// the best is improved: a block that reaches the top, or one that stands in its way, is moved forward for as
// long as that does no harm.
#include "place.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace pock {
namespace {

// Bound the time of planning: blocks looked at in all, some tenths of a second; attempts without a gain.
constexpr int64_t kWork = 150'000'000;
constexpr int kPatience = 3000;

using Order = std::vector<int>;

struct Placed {
  int64_t offset, end;
  int first, last;
};

struct Placement {
  int64_t arena = 0;
  std::vector<int64_t> offsets;
};

class Placer {
 public:
  explicit Placer(const std::vector<Block>& blocks) : blocks_(blocks) { placed_.reserve(blocks.size()); }
  int64_t work() const { return work_; }

  // Stops early, with a size beyond `limit`, once a block reaches beyond it.
  Placement run(const Order& order, bool tightest, int64_t limit) {
    Placement p;
    p.offsets.assign(blocks_.size(), 0);
    placed_.clear();
    for (int i : order) {
      const Block& b = blocks_[i];
      if (b.bytes == 0) continue;
      int64_t offset = find_gap(b, tightest);
      Placed here{offset, offset + b.bytes, b.first, b.last};
      auto by_offset = [](const Placed& x, const Placed& y) { return x.offset < y.offset; };
      placed_.insert(std::upper_bound(placed_.begin(), placed_.end(), here, by_offset), here);
      p.offsets[i] = offset;
      p.arena = std::max(p.arena, here.end);
      if (p.arena > limit) break;
    }
    return p;
  }

 private:
  int64_t find_gap(const Block& b, bool tightest) {
    int64_t low = 0;  // end of the blocks passed so far
    int64_t best = -1, best_size = 0;
    for (const Placed& p : placed_) {
      ++work_;
      if (p.first > b.last || p.last < b.first) continue;
      int64_t gap = p.offset - low;
      if (gap >= b.bytes && (best < 0 || gap < best_size)) {
        best = low;
        best_size = gap;
        if (!tightest || gap == b.bytes) return best;
      }
      low = std::max(low, p.end);
    }
    return best >= 0 ? best : low;
  }

  const std::vector<Block>& blocks_;
  std::vector<Placed> placed_;  // by offset
  int64_t work_ = 0;
};

std::vector<Order> first_orders(const std::vector<Block>& blocks, const std::vector<int64_t>& live) {
  Order plain(blocks.size());
  std::iota(plain.begin(), plain.end(), 0);
  std::vector<int64_t> pressure(blocks.size());  // the most bytes alive at any moment of the block's life
  for (int i : plain)
    pressure[i] = *std::max_element(live.begin() + blocks[i].first, live.begin() + blocks[i].last + 1);
  auto life = [&](int i) { return int64_t{blocks[i].last} - blocks[i].first + 1; };
  auto size = [&](int i) { return blocks[i].bytes; };
  std::vector<Order> orders;
  auto by = [&](auto key) {  // descending
    Order order = plain;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) > key(b); });
    orders.push_back(std::move(order));
  };
  by([&](int i) { return std::pair(size(i), life(i)); });
  by([&](int i) { return std::pair(life(i), size(i)); });
  by([&](int i) { return std::pair(static_cast<double>(size(i)) * static_cast<double>(life(i)), size(i)); });
  by([&](int i) { return std::pair(pressure[i], size(i)); });
  by([&](int i) { return std::pair(pressure[i], life(i)); });
  by([&](int i) { return std::pair(-blocks[i].first, size(i)); });
  by([&](int i) { return std::pair(blocks[i].last, size(i)); });
  return orders;
}

}  // namespace

int64_t place(std::vector<Block>& blocks, const std::vector<int64_t>& live, int64_t bound) {
  Placer placer(blocks);
  Placement best{INT64_MAX, {}};
  Order order;
  bool tightest = true;
  for (Order& candidate : first_orders(blocks, live))
    for (bool tight : {true, false}) {
      if (best.arena == bound || (placer.work() > kWork && !best.offsets.empty())) break;
      Placement p = placer.run(candidate, tight, best.arena);
      if (p.arena >= best.arena) continue;
      best = std::move(p);
      order = candidate;
      tightest = tight;
    }

  std::mt19937 random(1);
  auto pick = [&](size_t n) { return random() % n; };
  for (int idle = 0; best.arena > bound && placer.work() < kWork && idle < kPatience; ++idle) {
    // The blocks at the top, and those below them at some moment they share.
    std::vector<size_t> ranks;
    int top = -1;
    size_t tops = 0;
    for (size_t r = 0; r < order.size(); ++r)
      if (best.offsets[order[r]] + blocks[order[r]].bytes == best.arena && pick(++tops) == 0) top = order[r];
    for (size_t r = 0; r < order.size(); ++r) {
      const Block &b = blocks[order[r]], &t = blocks[top];
      if (order[r] == top || (b.first <= t.last && t.first <= b.last)) ranks.push_back(r);
    }
    Order next = order;
    size_t from =
        pick(3) ? std::find(order.begin(), order.end(), top) - order.begin() : ranks[pick(ranks.size())];
    if (pick(2)) {
      std::swap(next[from], next[ranks[pick(ranks.size())]]);
    } else {
      size_t to = pick(from + 1);
      std::rotate(next.begin() + to, next.begin() + from, next.begin() + from + 1);
    }
    Placement p = placer.run(next, tightest, best.arena);
    if (p.arena > best.arena) continue;
    if (p.arena < best.arena) idle = 0;
    best = std::move(p);
    order = std::move(next);
  }
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i].offset = best.offsets[i];
  return blocks.empty() ? 0 : best.arena;
}

}  // namespace pock
