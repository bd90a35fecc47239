#include "pock/loop/range.h"

#include <algorithm>

#include "detail.h"

namespace pock::loop {
namespace {

using Op = ScalarOp;

int64_t near(__int128 v) { return static_cast<int64_t>(std::clamp<__int128>(v, -Range::kFar, Range::kFar)); }

class Ranges {
 public:
  explicit Ranges(const std::function<Range(const Var&)>& of_variable) : of_variable_(of_variable) {}

  Range of(const Expr& e) const {
    if (e->type != DType::i64) return {};
    switch (e->op) {
      case Op::constant:
        return {e->integer, e->integer};
      case Op::var:
        return of_variable_(*e->var);
      case Op::floordiv: {
        Range r = of(e->args[0]);
        int64_t d = e->args[1]->integer;
        return {r.known_lo() ? floor_div(r.lo, d) : r.lo, r.known_hi() ? floor_div(r.hi, d) : r.hi};
      }
      case Op::mod: {
        Range r = of(e->args[0]);
        int64_t d = e->args[1]->integer;
        return r.lo >= 0 && r.hi < d ? r : Range{0, d - 1};
      }
      case Op::min: {
        Range a = of(e->args[0]), b = of(e->args[1]);
        return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
      }
      case Op::max: {
        Range a = of(e->args[0]), b = of(e->args[1]);
        return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
      }
      case Op::select: {
        Range a = of(e->args[1]), b = of(e->args[2]);
        return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
      }
      case Op::add:
      case Op::sub:
      case Op::neg:
      case Op::mul:
        return sum(e);
      default:
        return {};
    }
  }

 private:
  Range sum(const Expr& e) const {
    Linear parts = linear(e);
    if (parts.terms.size() == 1 && parts.terms[0].first.get() == e.get()) return product(e);
    __int128 lo = parts.constant, hi = parts.constant;
    bool known_lo = true, known_hi = true;
    for (const auto& [atom, times] : parts.terms) {
      Range r = of(atom);
      known_lo &= times > 0 ? r.known_lo() : r.known_hi();
      known_hi &= times > 0 ? r.known_hi() : r.known_lo();
      lo += static_cast<__int128>(times) * (times > 0 ? r.lo : r.hi);
      hi += static_cast<__int128>(times) * (times > 0 ? r.hi : r.lo);
    }
    return {known_lo ? near(lo) : -Range::kFar, known_hi ? near(hi) : Range::kFar};
  }

  Range product(const Expr& e) const {
    Range a = of(e->args[0]), b = of(e->args[1]);
    if (a.known() && b.known()) {
      auto times = [](int64_t x, int64_t y) { return static_cast<__int128>(x) * y; };
      auto [lo, hi] =
          std::minmax({times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi)});
      return {near(lo), near(hi)};
    }
    if (a.lo < 0 || b.lo < 0) return {};
    return {near(static_cast<__int128>(a.lo) * b.lo), Range::kFar};
  }

  const std::function<Range(const Var&)>& of_variable_;
};

}  // namespace

Range range_of(const Expr& e, const std::function<Range(const Var&)>& of_variable) {
  return Ranges(of_variable).of(e);
}

}  // namespace pock::loop
