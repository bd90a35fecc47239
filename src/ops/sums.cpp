#include "sums.h"

#include <algorithm>
#include <limits>

namespace pock {

using loop::Expr;
using loop::lit;
using loop::load;

namespace {
constexpr int64_t kLanes = 16;
constexpr int64_t kChunkPositions = 1024;
}  // namespace

Expr reduce_lanes(loop::KernelBuilder& k, const std::string& name, int64_t extent, const Expr& initial,
                  const std::function<Expr(Expr, Expr)>& step, const std::function<Expr(Expr, Expr)>& join) {
  auto lanes = k.reg(name, DType::f32, {kLanes});
  auto lane_loop = [&](int64_t width, const std::function<Expr(Expr)>& value) {
    k.each("lane", width, [&](Expr lane) { k.store(lanes, {lane}, value(lane)); });
  };
  lane_loop(kLanes, [&](Expr) { return initial; });
  int64_t whole = extent / kLanes, rest = extent % kLanes;
  if (whole > 0)
    k.loop("block", 0, whole, [&](Expr block) {
      lane_loop(kLanes, [&](Expr lane) { return step(load(lanes, {lane}), block * kLanes + lane); });
    });
  if (rest > 0) lane_loop(rest, [&](Expr lane) { return step(load(lanes, {lane}), lane + whole * kLanes); });
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    lane_loop(width, [&](Expr lane) { return join(load(lanes, {lane}), load(lanes, {lane + width})); });
  return load(lanes, {0});
}

Expr sum_lanes(loop::KernelBuilder& k, const std::string& name, int64_t extent,
               const std::function<Expr(Expr)>& term) {
  return reduce_lanes(
      k, name, extent, lit(0), [&](Expr acc, Expr i) { return acc + term(i); },
      [](Expr a, Expr b) { return a + b; });
}

Expr max_lanes(loop::KernelBuilder& k, const std::string& name, int64_t extent,
               const std::function<Expr(Expr)>& element) {
  return reduce_lanes(
      k, name, extent, lit(-std::numeric_limits<double>::infinity()),
      [&](Expr acc, Expr i) { return max(acc, element(i)); }, [](Expr a, Expr b) { return max(a, b); });
}

Expr softmax_shift(loop::KernelBuilder& k, int64_t extent, const std::function<Expr(Expr)>& element) {
  Expr greatest = max_lanes(k, "max", extent, element);
  Expr nothing = greatest == lit(-std::numeric_limits<double>::infinity());
  return load(k.reg("shift", select(nothing, lit(0), greatest)));
}

Chunks::Chunks(Dims reduced) : outer_(std::move(reduced)) {
  if (!outer_.empty()) {
    row_ = outer_.back();
    outer_.pop_back();
  }
  for (int64_t d : outer_) rows_ *= d;
  per_chunk_ = std::max<int64_t>(1, (kChunkPositions + row_ - 1) / std::max<int64_t>(1, row_));
  per_chunk_ = std::max<int64_t>(1, std::min(per_chunk_, rows_));
}

void Chunks::each_chunk(loop::KernelBuilder& k, const loop::Body& body) const {
  if (count() == 1) return body(0);
  k.loop("chunk", 0, count(), body);
}

std::vector<Expr> Chunks::row_index(Expr row) const {
  std::vector<Expr> index(outer_.size());
  for (size_t axis = outer_.size(); axis-- > 0;) {
    index[axis] = axis == 0 ? row : mod(row, outer_[axis]);
    row = floordiv(row, outer_[axis]);
  }
  return index;
}

void Chunks::each_row(loop::KernelBuilder& k, const Expr& chunk, const loop::BodyN& body) const {
  if (per_chunk_ == 1) return body(row_index(chunk));
  Expr lo = chunk * per_chunk_, hi = lo + per_chunk_;
  if (rows_ % per_chunk_ != 0) hi = min(hi, Expr(rows_));
  k.loop("row", lo, hi, [&](Expr row) { body(row_index(row)); });
}

void Chunks::each_position(loop::KernelBuilder& k, const Expr& chunk, const loop::BodyN& body) const {
  each_row(k, chunk, [&](const std::vector<Expr>& outer) {
    k.loop("x", 0, row_, [&](Expr x) {
      std::vector<Expr> index = outer;
      index.push_back(x);
      body(index);
    });
  });
}

std::vector<Expr> Chunks::first_position(const Expr& chunk) const {
  std::vector<Expr> index = row_index(chunk * per_chunk_);
  index.push_back(0);
  return index;
}

std::vector<Expr> sum_chunks(
    loop::KernelBuilder& k, const Chunks& chunks, int n,
    const std::function<void(Expr, const std::vector<loop::BufferRef>&)>& add_chunk) {
  auto registers = [&](const char* name) {
    std::vector<loop::BufferRef> list;
    for (int i = 0; i < n; ++i) list.push_back(k.reg(name, lit(0)));
    return list;
  };
  if (chunks.count() == 1) {  // one chunk's sum, added to +0
    auto sums = registers("sum");
    add_chunk(0, sums);
    std::vector<Expr> totals;
    for (auto& sum : sums) totals.push_back(lit(0) + load(sum));
    return totals;
  }
  auto totals = registers("total");
  chunks.each_chunk(k, [&](Expr chunk) {
    auto sums = registers("sum");
    add_chunk(chunk, sums);
    for (int i = 0; i < n; ++i) k.set(totals[i], load(totals[i]) + load(sums[i]));
  });
  std::vector<Expr> values;
  for (auto& total : totals) values.push_back(load(total));
  return values;
}

}  // namespace pock
