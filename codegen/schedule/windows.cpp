#include "schedule/windows.h"

#include <algorithm>

#include "pock/loop/range.h"

namespace pock {
namespace {

using loop::Step;
using loop::Stmt;
using loop::StmtKind;
using loop::trips;

constexpr int64_t kRows = 8;  // sums side by side hide an addition's latency; registers are left for the taps
constexpr int64_t kMostTaps = 11;       // loops as short as this are written out
constexpr int64_t kMostStep = kRows;    // between the taps that meet a row
constexpr int64_t kMostSums = 64;       // of one column, while the terms pass by
constexpr int64_t kMostKept = 1 << 12;  // of all columns
constexpr int64_t kUnrolled = 4;        // terms of a long sum that share loads
// Bytes that no cache holds. They come at full speed only in the order in which they lie in memory, so what is done
// with few of them takes small tiles of many channels.
constexpr int64_t kFar = 32 << 20;
constexpr int64_t kFarRows = 2;
constexpr int64_t kFewTerms = 9;

// Most iterations of the loops inside one another, where every one of them runs longest.
int64_t longest(const std::vector<Stmt>& body, std::vector<std::pair<const loop::Var*, loop::Range>>& outer) {
  auto range = [&](const loop::Expr& e) {
    return loop::range_of(e, [&](const loop::Var& v) {
      for (const auto& [var, r] : outer)
        if (var == &v) return r;
      return loop::Range{};
    });
  };
  int64_t most = 1;
  for (const Stmt& s : body) {
    if (s.kind != StmtKind::loop) {
      most = std::max(most, longest(s.body, outer));
      continue;
    }
    const loop::Range lo = range(s.lo), hi = range(s.hi);
    outer.emplace_back(s.var.get(), loop::Range{lo.lo, hi.hi - 1});
    const int64_t length = std::max<int64_t>(1, (hi.hi - lo.lo) / s.step);
    const int64_t inside = longest(s.body, outer);
    most = std::max(most, length > loop::Range::kFar / inside ? loop::Range::kFar : length * inside);
    outer.pop_back();
  }
  return most;
}

class Windows {
 public:
  Windows(const loop::Kernel& now, const Nest& nest, size_t column, const Target& target, bool near)
      : now_(now), nest_(nest), column_(column), target_(target), near_(near) {}

  loop::Schedule run() {
    const size_t row = tiled_axis();
    if (row == nest_.axes.size() || tap_step(*nest_.core, nest_.axes[row].var.get()) > kMostStep) return {};
    int64_t results = 1;
    for (size_t axis = 0; axis < nest_.axes.size(); ++axis)
      if (axis != column_) results *= nest_.axes[axis].extent;
    // As a filter's gradient has: then the results stay in registers while the terms pass by once.
    if (const int64_t terms = most_terms(); terms > results)
      keep_results(row);
    else
      tile(nest_.axes[row], from_memory() && terms <= kFewTerms);
    return std::move(steps_);
  }

 private:
  void add(Step::Kind kind, const std::string& axis, int64_t number = 0, const std::string& other = "") {
    steps_.push_back({kind, axis, number, other});
    now_ = loop::transformed(now_, {steps_.back()});
  }

  static bool stays(const Access& a, size_t axis) {
    return !a.store && a.linear[axis] && a.stride[axis] == 0;
  }
  // One element for everything, such as the learning rate of the update behind a filter's gradient.
  bool is_uniform(const Access& a) const {
    for (size_t axis = 0; axis < nest_.axes.size(); ++axis)
      if (!stays(a, axis)) return false;
    return true;
  }

  // The innermost axis along which a load stays and another one moves, where all of them move along the column; the
  // axes' number if there is none.
  size_t tiled_axis() const {
    std::vector<Access> all = nest_.accesses;
    std::erase_if(all, [&](const Access& a) { return is_uniform(a); });
    const bool channels = std::all_of(
        all.begin(), all.end(), [&](const Access& a) { return a.linear[column_] && a.stride[column_] == 1; });
    if (!channels || clips(*nest_.core, nest_.axes[column_].var.get())) return nest_.axes.size();
    for (size_t axis = nest_.axes.size(); axis-- > 0;) {
      if (axis == column_ || nest_.axes[axis].extent < 2) continue;
      auto stay = [&](const Access& a) { return stays(a, axis); };
      auto move = [&](const Access& a) { return !a.store && !stays(a, axis); };
      if (std::any_of(all.begin(), all.end(), stay) && std::any_of(all.begin(), all.end(), move)) return axis;
    }
    return nest_.axes.size();
  }

  int64_t most_terms() const {
    std::vector<std::pair<const loop::Var*, loop::Range>> outer;
    for (const Axis& axis : nest_.axes) outer.emplace_back(axis.var.get(), loop::Range{0, axis.extent - 1});
    return longest(*nest_.core, outer);
  }

  bool from_memory() const {
    int64_t bytes = 0;
    for (const loop::BufferRef& b : now_.args) bytes += b->type.bytes();
    return bytes > kFar;
  }

  // All results of a column, or of several, wait for each term.
  void keep_results(size_t row) {
    std::vector<size_t> sunk;
    const int64_t sums = sums_of_a_column(row, sunk);
    for (size_t axis : sunk) {
      add(Step::taps, nest_.axes[axis].name);
      if (nest_.axes[axis].extent > 1) add(Step::unroll, nest_.axes[axis].name);
    }
    rows(nest_.axes[row], kRows);
    const Axis& column = nest_.axes[column_];
    if (near_ && from_memory() && sums * column.extent <= kMostKept) {
      add(Step::sink, column.name);
      for (const std::string& block : columns(1)) add(Step::vectorize, block);
      return;
    }
    // Straight code gives the sums of one vector enough to do; the steps of a loop need more of them, if they are few.
    const bool straight = write_out_terms();
    const int64_t vectors = straight || sums >= kRows ? 1 : std::clamp<int64_t>(registers() / sums, 1, 2);
    for (const std::string& block : columns(vectors)) vectorize(block);
  }

  int64_t registers() const { return int64_t{1} * target_.tile.rows * target_.tile.cols; }

  // A tile of rows shares what it loads.
  void tile(const Axis& row, bool far) {
    const bool whole = row.extent <= std::max(kRows, registers() * 2 / 3) && most_terms() <= kFewTerms;
    rows(row, far ? kFarRows : whole ? row.extent : kRows);
    write_out_terms();
    for (const std::string& block : columns(far ? target_.tile.cols : 1)) vectorize(block);
  }

  // How many results of a column wait for each term: those along `row` and the axes `sunk`.
  int64_t sums_of_a_column(size_t row, std::vector<size_t>& sunk) const {
    int64_t sums = std::min(nest_.axes[row].extent, kRows);
    for (size_t axis = nest_.axes.size(); axis-- > 0;) {
      const int64_t extent = nest_.axes[axis].extent;
      const bool shares = std::any_of(nest_.accesses.begin(), nest_.accesses.end(),
                                      [&](const Access& a) { return stays(a, axis); });
      if (axis == row || axis == column_ || (extent > 1 && !shares) || extent > kMostTaps ||
          sums * extent > registers())
        continue;
      sunk.push_back(axis);
      sums *= extent;
    }
    return sums;
  }

  // Cuts the column into blocks of so many vectors, and shorter ones for the rest. Returns the names of the blocks'
  // loops.
  std::vector<std::string> columns(int64_t vectors) {
    const std::string base = nest_.axes[column_].name;
    int64_t extent = nest_.axes[column_].extent;
    std::vector<int64_t> widths;
    if (vectors > 1) widths.push_back(vectors * target_.vector_floats());
    for (int64_t w = target_.vector_floats(); w >= kLeastVector; w /= 2) widths.push_back(w);
    std::vector<std::string> blocks;
    std::string name = base;
    for (int64_t width : widths) {
      if (extent < width) continue;
      const std::string rest = base + ".r" + std::to_string(blocks.size());
      add(Step::split, name, width, rest);
      blocks.push_back(name + ".i");
      extent %= width;
      name = rest;
    }
    return blocks;
  }

  // Tiles of at most so many rows, those at the edges apart: in each of them every tap goes over the rows that have it.
  // Where only every n-th tap meets a row (a strided window from the other side), whole periods.
  void rows(const Axis& axis, int64_t most) {
    const int64_t period = tap_step(*nest_.core, axis.var.get());
    const int64_t units = (axis.extent + period - 1) / period, per_tile = std::max<int64_t>(1, most / period);
    const int64_t tiles = (units + per_tile - 1) / per_tile, height = (units + tiles - 1) / tiles * period;
    std::string name = axis.name;
    if (height < axis.extent) {
      add(Step::split, name, height);
      if (clips(*nest_.core, axis.var.get())) add(Step::peel, name + ".o");
      name += ".i";
    }
    add(Step::taps, name);
    add(Step::unroll, name);
  }

  static int64_t tap_step(const std::vector<Stmt>& body, const loop::Var* v) {
    int64_t step = 1;
    for (const Stmt& s : body) {
      if (s.kind == StmtKind::loop && (uses(s.lo, v) || uses(s.hi, v))) step = std::max(step, s.step);
      step = std::max(step, tap_step(s.body, v));
    }
    return step;
  }

  // The innermost loops of the sums: all of short ones, else some iterations. Returns whether all are.
  bool write_out_terms() {
    const std::string name = innermost(now_.body);
    if (name.empty()) return false;
    int64_t most = 0;
    for (const Stmt* s : loops_named(now_.body, name)) {
      if (trips(*s) < 0) return false;
      most = std::max(most, trips(*s));
    }
    if (most > kMostTaps) add(Step::split, name, kUnrolled);
    add(Step::unroll, most > kMostTaps ? name + ".i" : name);
    return most <= kMostTaps;
  }

  static std::string innermost(const std::vector<Stmt>& body) {
    for (const Stmt& s : body) {
      if (std::string inside = innermost(s.body); !inside.empty()) return inside;
      if (s.kind == StmtKind::loop && !s.independent) return s.var->name;
    }
    return "";
  }

  void vectorize(const std::string& block) {
    const int64_t vector = target_.vector_floats();
    add(Step::sink, block);
    if (trips(*loops_named(now_.body, block).at(0)) <= vector) return add(Step::vectorize, block);
    add(Step::split, block, vector);
    add(Step::vectorize, block + ".i");
    add(Step::unroll, block + ".o");
  }

  loop::Kernel now_;  // after steps_
  const Nest& nest_;
  const size_t column_;
  const Target& target_;
  const bool near_;
  loop::Schedule steps_;
};

}  // namespace

loop::Schedule window_steps(const loop::Kernel& now, const Nest& nest, size_t column, const Target& target,
                            bool near) {
  return Windows(now, nest, column, target, near).run();
}

}  // namespace pock
