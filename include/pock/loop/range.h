// What values an index can take, from what is known of the variables in it.
//
//   Range r = range_of(x * 4 + 1, [](const Var&) { return Range{0, 7}; });   // r.lo == 1, r.hi == 29
#pragma once

#include <functional>

#include "pock/loop/loop.h"

namespace pock::loop {

// Least and greatest value, both included. A bound at or beyond kFar is unknown.
struct Range {
  static constexpr int64_t kFar = int64_t{1} << 60;
  int64_t lo = -kFar, hi = kFar;
  bool known_lo() const { return lo > -kFar; }
  bool known_hi() const { return hi < kFar; }
  bool known() const { return known_lo() && known_hi(); }
  bool single() const { return known() && lo == hi; }
};

// Of an i64 expression; unknown on both sides for other types and for what depends on memory.
Range range_of(const Expr&, const std::function<Range(const Var&)>& of_variable);

}  // namespace pock::loop
