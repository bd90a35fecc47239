// The two orders in which reductions sum (docs/arithmetic.md), written once for every operator that reduces.
#pragma once

#include "pock/loop/build.h"

namespace pock {

// Reduction over exactly the last axis: element i joins lane i mod 16, lanes start at `initial`, and are
// joined by the tree 8, 4, 2, 1. `step(acc, i)` gives a lane's new value, `join(a, b)` that of two lanes.
// Returns the result's value.
loop::Expr reduce_lanes(loop::KernelBuilder& k, const std::string& name, int64_t extent,
                        const loop::Expr& initial,
                        const std::function<loop::Expr(loop::Expr acc, loop::Expr i)>& step,
                        const std::function<loop::Expr(loop::Expr, loop::Expr)>& join);
loop::Expr sum_lanes(loop::KernelBuilder& k, const std::string& name, int64_t extent,
                     const std::function<loop::Expr(loop::Expr i)>& term);
loop::Expr max_lanes(loop::KernelBuilder& k, const std::string& name, int64_t extent,
                     const std::function<loop::Expr(loop::Expr i)>& element);
// What softmax subtracts: the maximum, or 0 where all elements are -inf.
loop::Expr softmax_shift(loop::KernelBuilder& k, int64_t extent,
                         const std::function<loop::Expr(loop::Expr i)>& element);

// Every other reduction: ascending over the positions of the reduced axes, in chunks of the fewest whole rows
// (runs of the last reduced axis) that hold at least 1024 positions. The cut depends on the axes' lengths
// alone.
class Chunks {
 public:
  explicit Chunks(Dims reduced);
  int64_t count() const { return (rows_ + per_chunk_ - 1) / per_chunk_; }
  // Positions of every chunk but the last, and of all.
  int64_t size() const { return per_chunk_ * row_; }
  int64_t positions() const { return rows_ * row_; }
  int64_t row() const { return row_; }

  // `body` once a chunk, in order; without a loop where there is one.
  void each_chunk(loop::KernelBuilder& k, const loop::Body& body) const;
  // The rows of a chunk in order: `body` gets the index along all reduced axes but the last.
  void each_row(loop::KernelBuilder& k, const loop::Expr& chunk, const loop::BodyN& body) const;
  // The positions of a chunk in order: `body` gets the index along all reduced axes.
  void each_position(loop::KernelBuilder& k, const loop::Expr& chunk, const loop::BodyN& body) const;
  // The index of a chunk's first position.
  std::vector<loop::Expr> first_position(const loop::Expr& chunk) const;

 private:
  std::vector<loop::Expr> row_index(loop::Expr row) const;
  Dims outer_;  // reduced axes but the last
  int64_t row_ = 1, rows_ = 1, per_chunk_ = 1;
};

// Sums over chunks: each chunk starts at +0 and is added in order to +0. `add_chunk(chunk, sums)` adds a
// chunk's terms to `n` registers. Returns the totals.
std::vector<loop::Expr> sum_chunks(
    loop::KernelBuilder& k, const Chunks& chunks, int n,
    const std::function<void(loop::Expr chunk, const std::vector<loop::BufferRef>& sums)>& add_chunk);

}  // namespace pock
