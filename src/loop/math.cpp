// exp, log, tanh and erf of f32 as arithmetic of the loop IR: the same bits on every target, and vectors for
// free.
//
// Greatest errors over all floats, in units of the last place of the exact result (tests/loop/math.cpp
// measures them):
//   exp 1.1   log 1   tanh 1.5   erf 1.6
// A denormal operand counts as 0 and a result below the smallest normal is 0; NaN gives NaN;
// tanh and erf of -0 are -0. The polynomials are near-minimax fits on the intervals given beside them. No
// table, no branch: both sides of a select are computed.
#include <initializer_list>
#include <limits>

#include "detail.h"
#include "pock/loop/loop.h"
#include "pock/loop/transform.h"

namespace pock::loop {
namespace {

Expr i32(int64_t v) { return int_lit(v, DType::i32); }
Expr bits(const Expr& x) { return bitcast(x, DType::i32); }
Expr from_bits(const Expr& x) { return bitcast(x, DType::f32); }
Expr shl(const Expr& x, int by) { return make(ScalarOp::shl, {x, i32(by)}, DType::i32); }
Expr shr(const Expr& x, int by) { return make(ScalarOp::shr, {x, i32(by)}, DType::i32); }

// Horner's rule, highest coefficient first.
Expr polynomial(const Expr& x, std::initializer_list<double> coefficients) {
  Expr sum;
  for (double c : coefficients) sum = sum ? fma(sum, x, lit(c)) : lit(c);
  return sum;
}

constexpr double kLn2High = 0.693359375;  // few bits: its products with exponents are exact
constexpr double kLn2Low = -2.12194440e-4;
constexpr int64_t kExponentBias = 127;

Expr power_of_two(const Expr& n) { return from_bits(shl(n + i32(kExponentBias), 23)); }

// x = n ln 2 + r, |r| <= ln 2 / 2; exp(x) = 2^n exp(r).
Expr exp_f32(const Expr& x) {
  // Beyond these the result is infinite or below the smallest normal in any case; a NaN passes both.
  Expr bounded = min(max(x, lit(-104)), lit(89));
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  constexpr double kRound = 12582912;
  constexpr int64_t kRoundBits = 0x4b400000;
  Expr rounded = fma(bounded, lit(1.44269504), lit(kRound));
  Expr n = bits(rounded) - i32(kRoundBits);
  Expr n_float = rounded - lit(kRound);
  Expr r = fma(n_float, lit(-kLn2Low), fma(n_float, lit(-kLn2High), bounded));
  // (exp(r) - 1 - r) / r^2 on [-0.3467, 0.3467]
  Expr p = polynomial(r, {0.00139262038, 0.00836319476, 0.0416665561, 0.166665763, 0.5});
  Expr mantissa = fma(r * r, p, r) + lit(1);
  // In two steps, each a normal number: the second overflows to infinity or flushes to zero by itself.
  Expr half = shr(n, 1);
  return mantissa * power_of_two(half) * power_of_two(n - half);
}

// x = 2^e (1 + f), 1 + f between sqrt(1/2) and sqrt(2); log(x) = e ln 2 + log(1 + f).
Expr log_f32(const Expr& x) {
  constexpr int64_t kSqrtHalfBits = 0x3f3504f3;
  Expr e = shr(bits(x) - i32(kSqrtHalfBits), 23);
  Expr f = from_bits(bits(x) - shl(e, 23)) - lit(1);
  Expr exponent = cast(e, DType::f32);
  // (log(1 + f) - f + f^2 / 2) / f^3
  Expr p = polynomial(f, {-0.0790274367, 0.126223192, -0.129981831, 0.142144963, -0.166412815, 0.200010449,
                          -0.25000307, 0.333333313});
  Expr square = f * f;
  Expr tail = fma(lit(-0.5), square, fma(exponent, lit(kLn2Low), square * f * p));
  Expr result = fma(exponent, lit(kLn2High), f + tail);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  result = select(x < lit(kInfinity), result, x);  // also NaN
  Expr at_most_zero = select(x < lit(0), lit(std::numeric_limits<double>::quiet_NaN()), lit(-kInfinity));
  return select(x < lit(std::numeric_limits<float>::min()), at_most_zero, result);
}

Expr with_sign_of(const Expr& x, const Expr& magnitude) { return select(x < lit(0), -magnitude, magnitude); }

// tanh(x) = 1 - 2 / (exp(2x) + 1), but for small x that would cancel.
Expr tanh_f32(const Expr& x) {
  Expr size = abs(x), square = x * x;
  // (tanh(x) - x) / x^3 in x^2, x up to 0.625
  Expr p = polynomial(square, {-0.00609671418, 0.0209971797, -0.0538509078, 0.133327693, -0.333333284});
  // Adding +0 keeps the factor from being -0 at 0, which would make tanh(-0) +0.
  Expr small = fma(fma(square, p, lit(0)), x, x);
  Expr large = lit(1) - lit(2) / (exp_f32(size + size) + lit(1));
  return select(size < lit(0.625), small, with_sign_of(x, large));
}

Expr erf_f32(const Expr& x) {
  Expr size = abs(x), square = x * x;
  // (erf(x) - x) / x in x^2, x up to 0.9
  Expr p = polynomial(
      square, {-0.000610268675, 0.00501448428, -0.0267807189, 0.112821944, -0.376125276, 0.128379151});
  Expr small = fma(p, x, x);
  // -log(1 - erf(t)) / t for t from 0.9 to 4, from where erf rounds to 1
  Expr t = min(size, lit(4));
  Expr q = polynomial(t, {-1.01184514e-06, 3.37652273e-05, -0.000494089618, 0.00428439258, -0.0250934344,
                          0.107792228, 0.634194732, 1.12888873});
  Expr large = lit(1) - exp_f32(-(t * q));
  return select(size < lit(0.9), small, with_sign_of(x, large));
}

}  // namespace

Expr expand_math(const Expr& e) {
  Rewriter rewrite([](const Expr& n) {
    if (n->type != DType::f32) return n;
    switch (n->op) {
      case ScalarOp::exp:
        return exp_f32(n->args[0]);
      case ScalarOp::log:
        return log_f32(n->args[0]);
      case ScalarOp::tanh:
        return tanh_f32(n->args[0]);
      case ScalarOp::erf:
        return erf_f32(n->args[0]);
      default:
        return n;
    }
  });
  return rewrite(e);
}

}  // namespace pock::loop
