// exp, log, tanh, erf, sin, cos and pow of f32 as arithmetic of the loop IR: the same bits on every target, and vectors for
// free.
//
// Greatest errors over all floats, in units of the last place of the exact result (tests/loop/math.cpp
// measures them):
//   exp 1.1   log 1   tanh 1.5   erf 1.6   sin 2.3   cos 2.3   pow 1.3
// A denormal operand counts as 0 and a result below the smallest normal is 0; NaN gives NaN;
// tanh, erf and sin of -0 are -0. The polynomials are near-minimax fits on the intervals given beside them. No
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

// An angle as a multiple of pi / 2 and a rest within pi / 4.
struct Turned {
  Expr quarters;  // i64; all but the last two bits are left out
  Expr rest;
};

// Of a size x = m 2^e, m of 24 bits: in x * 2 / pi every bit of 2 / pi counts that is neither a multiple of four quarters
// nor below what the rest needs. Those are 94 bits, which start where e says; in whole numbers, nothing cancels.
Turned turned(const Expr& size) {
  constexpr int64_t kTwoOverPi[] = {0,          0xA2F9836E, 0x4E441529, 0xFC2757D1,
                                    0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB};
  constexpr int64_t kWord = 0xFFFFFFFF;
  constexpr int kStarts = 5;  // words in which the bits of some float start
  auto i64 = [](ScalarOp op, const Expr& a, const Expr& b) { return make(op, {a, b}, DType::i64); };
  Expr b = cast(bits(size), DType::i64), place = i64(ScalarOp::shr, b, 23) - Expr(120);
  Expr m = i64(ScalarOp::bit_or, i64(ScalarOp::bit_and, b, 0x7FFFFF), 0x800000);
  Expr start = i64(ScalarOp::shr, place, 5), shift = i64(ScalarOp::bit_and, place, 31);
  Expr words[4], parts[3];
  for (int w = 0; w < 4; ++w) {
    words[w] = kTwoOverPi[w];
    for (int s = 1; s < kStarts; ++s) words[w] = select(start == Expr(s), kTwoOverPi[w + s], words[w]);
  }
  for (int w = 0; w < 3; ++w) {
    Expr two = i64(ScalarOp::bit_or, i64(ScalarOp::shl, words[w], 32), words[w + 1]);
    parts[w] = i64(ScalarOp::bit_and, i64(ScalarOp::shr, i64(ScalarOp::shl, two, shift), 32), kWord);
  }
  // In units of 2^-62 quarters.
  Expr turns = i64(ScalarOp::shl, m * parts[0], 32) + m * parts[1] + i64(ScalarOp::shr, m * parts[2], 32);
  Expr quarters = i64(ScalarOp::shr, turns + Expr(int64_t{1} << 61), 62);
  Expr rest = cast(turns - i64(ScalarOp::shl, quarters, 62), DType::f32) * lit(0x1p-62);
  constexpr double kHalfPi = 1.57079637, kHalfPiLow = -4.37113883e-08;
  Expr near = size < lit(0.75);  // nothing to turn
  return {select(near, Expr(0), quarters),
          select(near, size, fma(rest, lit(kHalfPi), rest * lit(kHalfPiLow)))};
}

// The sine of an angle that is `quarters` further: that of |x|, or of -|x| where `negative`.
Expr sin_f32(const Expr& x, int quarters, const Expr& negative) {
  Expr size = abs(x);
  Turned t = turned(size);
  Expr r = t.rest, square = r * r, quarter = t.quarters + Expr(quarters);
  // (sin(r) - r) / r^3 and (cos(r) - 1 + r^2 / 2) / r^4 in r^2, |r| up to pi / 4
  Expr p = polynomial(square, {-0.00019513624, 0.008332149, -0.16666654});
  Expr q = polynomial(square, {2.443126e-05, -0.00138873, 0.041666646});
  Expr sine = fma(square * p, r, r), cosine = fma(square * square, q, fma(lit(-0.5), square, lit(1)));
  auto has_bit = [&](int64_t bit) { return make(ScalarOp::bit_and, {quarter, bit}, DType::i64) != Expr(0); };
  Expr y = select(has_bit(1), cosine, sine);
  y = select(has_bit(2), -y, y);
  y = select(negative, -y, y);
  return select(size < lit(std::numeric_limits<double>::infinity()), y, x - x);
}

// A number that one float cannot hold: high + low, low less than half a last place of high.
struct Pair {
  Expr high, low;
};

// a + b and a * b, each with the part that rounding leaves. In the sum, a is the larger or 0.
Pair sum_of(const Expr& a, const Expr& b) {
  Expr sum = a + b;
  return {sum, b - (sum - a)};
}
Pair product_of(const Expr& a, const Expr& b) {
  Expr product = a * b;
  return {product, fma(a, b, -product)};
}

// The base-2 logarithm of a positive normal number, to 2^-34 of itself: with x = 2^e m, m between sqrt(1/2) and
// sqrt(2), and s = (m - 1) / (m + 1), it is e + 2 / ln 2 * (s + s^3 / 3 + s^5 / 5 + ...).
Pair log2_f32(const Expr& x) {
  constexpr int64_t kSqrtHalfBits = 0x3f3504f3;
  constexpr double kThird = 0.333333343, kThirdLow = -9.93410748e-09;
  constexpr double kScale = 2.88539004, kScaleLow = 3.85192598e-08;  // 2 / ln 2
  Expr exponent = shr(bits(x) - i32(kSqrtHalfBits), 23);
  Expr m = from_bits(bits(x) - shl(exponent, 23)), e = cast(exponent, DType::f32);
  Expr difference = m - lit(1), below = m + lit(1), part = below - m;
  Expr below_low = (m - (below - part)) + (lit(1) - part);
  Expr s = difference / below;
  Expr s_low = fma(-s, below_low, fma(-s, below, difference)) / below;
  // atanh(s) = s + s * (third + rest * s^2): of s^2 / 3 both parts are needed.
  Pair square = product_of(s, s), third = product_of(square.high, lit(kThird));
  // (atanh(s) - s - s^3 / 3) / s^5 in s^2, s up to 0.1716
  Expr p = polynomial(square.high, {0.0769230798, 0.0909090936, 0.111111112, 0.142857149, 0.200000003});
  Expr third_low =
      third.low + fma(square.low, lit(kThird), square.high * fma(square.high, p, lit(kThirdLow)));
  Pair cube = product_of(s, third.high), log = sum_of(s, cube.high);
  // The slope of atanh is 1 + s^2 + ...
  Expr log_low = log.low + (fma(s, third_low, cube.low) + fma(s_low, square.high, s_low));
  Pair scaled = product_of(log.high, lit(kScale));
  Expr scaled_low = scaled.low + fma(log.high, lit(kScaleLow), log_low * lit(kScale));
  Pair total = sum_of(e, scaled.high);
  return sum_of(total.high, total.low + scaled_low);
}

// x^y = 2^(y log2 |x|), negative where x is and y is an odd integer.
Expr pow_f32(const Expr& x, const Expr& y) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Expr size = abs(x);
  Pair log = log2_f32(size);
  Pair exact = product_of(y, log.high);
  Expr product = exact.high, product_low = fma(y, log.low, exact.low);
  // Beyond these the result is infinite or below the smallest normal in any case; a NaN passes both.
  Expr bounded = min(max(product, lit(-160)), lit(160)), n = round_even(bounded);
  Expr rest = (bounded - n) + select(bounded == product, product_low, lit(0));
  Expr r = rest * lit(0.693147182);
  // (exp(r) - 1 - r) / r^2 on [-0.3467, 0.3467]
  Expr p = polynomial(r, {0.00139262038, 0.00836319476, 0.0416665561, 0.166665763, 0.5});
  Expr power = cast(n, DType::i32), half = shr(power, 1);
  Expr result = (fma(r * r, p, r) + lit(1)) * power_of_two(half) * power_of_two(power - half);

  // Bases whose logarithm is no number: 0 (and denormals), infinity, NaN.
  Expr is_zero = size < lit(std::numeric_limits<float>::min());
  Expr above = select(y > lit(0), lit(kInfinity), lit(0)), below = select(y > lit(0), lit(0), lit(kInfinity));
  Expr limit = select(size > lit(1), above, below);
  result = select(is_zero || size == lit(kInfinity), limit, result);
  result = select(size == size, select(y == y, result, y), size);
  // Infinite exponents.
  Expr endless = abs(y) == lit(kInfinity);
  result = select(endless && size == size, select(size == lit(1), lit(1), limit), result);
  // Negative bases.
  Expr whole = round_even(y) == y, y_half = y * lit(0.5), odd = whole && round_even(y_half) != y_half;
  result = select(bits(x) < i32(0) && odd && !endless, -result, result);
  Expr no_root = x < lit(0) && !whole && size != lit(kInfinity) && !is_zero;
  result = select(no_root, lit(std::numeric_limits<double>::quiet_NaN()), result);
  return select(y == lit(0) || x == lit(1), lit(1), result);
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
      case ScalarOp::sin:
        return sin_f32(n->args[0], 0, bits(n->args[0]) < i32(0));
      case ScalarOp::cos:
        return sin_f32(n->args[0], 1, int_lit(0, DType::mask));
      case ScalarOp::pow:
        return pow_f32(n->args[0], n->args[1]);
      default:
        return n;
    }
  });
  return rewrite(e);
}

}  // namespace pock::loop
