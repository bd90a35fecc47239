// exp, log, tanh, erf, sin, cos, pow against libm in double. Every float of some ranges, a dense stride of all bit patterns,
// and the special values.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

#include "pock/loop/build.h"
#include "pock/loop/interpret.h"

namespace pock::loop {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kSmallest = std::numeric_limits<float>::min();

std::vector<float> run(Expr (*f)(Expr), std::vector<float> x) {
  auto n = static_cast<int64_t>(x.size());
  KernelBuilder k("f");
  auto a = k.arg("x", {DType::f32, {n}}, Space::in), y = k.arg("y", {DType::f32, {n}}, Space::out);
  k.each("i", n, [&](Expr i) { k.store(y, {i}, f(load(a, {i}))); });
  std::vector<float> out(x.size());
  interpret(k.take(), {x.data(), out.data()});
  return out;
}

// Distance in units of the last place of the exact value; what flushes to zero counts as equal.
double ulps(float got, double exact) {
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) && std::isnan(exact) ? 0 : 1e9;
  auto rounded = static_cast<float>(exact);
  if (got == rounded) return 0;
  if (std::isinf(got) || std::isinf(rounded)) {
    // Rounding up to infinity one step early.
    double edge = std::ldexp(2 - std::ldexp(1, -24), 127);
    return std::abs(exact) > edge * (1 - std::ldexp(1, -22)) && !std::isinf(exact) ? 1 : 1e9;
  }
  if (std::abs(exact) < kSmallest) return got == 0 || std::abs(got) == kSmallest ? 0 : 1e9;
  double unit = std::ldexp(1, std::max(std::ilogb(exact), -126) - 23);
  return std::abs(got - exact) / unit;
}

struct Worst {
  double error = 0;
  float at = 0;
};

Worst sweep(Expr (*f)(Expr), double (*reference)(double), uint32_t stride) {
  Worst worst;
  std::vector<float> x;
  auto flush = [&] {
    std::vector<float> y = run(f, x);
    for (size_t i = 0; i < x.size(); ++i) {
      double in = std::abs(x[i]) < kSmallest ? std::copysign(0.0, x[i]) : x[i];
      double error = ulps(y[i], reference(in));
      if (error > worst.error) worst = {error, x[i]};
    }
    x.clear();
  };
  for (uint64_t b = 0; b < uint64_t{1} << 32; b += stride) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(b)));
    if (x.size() == 1 << 16) flush();
  }
  flush();
  return worst;
}

void check(const char* name, Expr (*f)(Expr), double (*reference)(double), double bound) {
  const char* all = std::getenv("POCK_FLOAT_STRIDE");  // 1: all of them, half an hour
  Worst worst = sweep(f, reference, all ? static_cast<uint32_t>(std::stoul(all)) : 1009);
  EXPECT_LE(worst.error, bound) << name << " at " << worst.at;
  EXPECT_GT(worst.error, 0.4) << "the sweep saw nothing";
  printf("%s: %.3f ulp at %.9g\n", name, worst.error, worst.at);
}

TEST(LoopMath, Exp) { check("exp", exp, std::exp, 1.1); }
TEST(LoopMath, Log) { check("log", log, std::log, 1); }
TEST(LoopMath, Tanh) { check("tanh", tanh, std::tanh, 1.5); }
TEST(LoopMath, Erf) { check("erf", erf, std::erf, 1.6); }
TEST(LoopMath, Sin) { check("sin", sin, std::sin, 2.3); }
TEST(LoopMath, Cos) { check("cos", cos, std::cos, 2.3); }

// Angles of all sizes that people have, and the float nearest to a multiple of pi / 2, where all digits cancel but a few.
TEST(LoopMath, Angles) {
  std::vector<float> x = {16367173.0f * 0x1p72f, 0.75f, 0.7853982f, 1.5707964f, 3.1415927f, 6.2831855f};
  for (int i = 0; i < 400000; ++i) x.push_back(static_cast<float>(i % 2 ? -i : i) * 0.0517f);
  for (auto [name, f, reference] :
       {std::tuple(
            "sin", +[](Expr e) { return sin(e); }, +[](double a) { return std::sin(a); }),
        std::tuple(
            "cos", +[](Expr e) { return cos(e); }, +[](double a) { return std::cos(a); })}) {
    std::vector<float> y = run(f, x);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, ulps(y[i], reference(x[i])));
    EXPECT_LE(worst, 2.3) << name;
    y = run(f, {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()});
    for (float v : y) EXPECT_TRUE(std::isnan(v)) << name;
  }
  EXPECT_TRUE(std::signbit(run(sin, {-0.0f})[0]));
  EXPECT_EQ(run(cos, {-0.0f, 1e-40f}), (std::vector<float>{1, 1}));
}

TEST(LoopMath, SpecialValues) {
  float nan = std::numeric_limits<float>::quiet_NaN(), denormal = 1e-40f;
  std::vector<float> y = run(exp, {0, -0.0f, kInf, -kInf, nan, denormal, 88.8f, 1000, -87.4f, -200});
  EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 4), (std::vector<float>{1, 1, kInf, 0}));
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_EQ(std::vector<float>(y.begin() + 5, y.end()), (std::vector<float>{1, kInf, kInf, 0, 0}));
  y = run(log, {0, -0.0f, kInf, 1, denormal, -denormal, -1, -kInf, nan});
  EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 6),
            (std::vector<float>{-kInf, -kInf, kInf, 0, -kInf, -kInf}));
  for (int i : {6, 7, 8}) EXPECT_TRUE(std::isnan(y[static_cast<size_t>(i)])) << i;
  for (auto f : {+[](Expr e) { return tanh(e); }, +[](Expr e) { return erf(e); }}) {
    y = run(f, {0, -0.0f, kInf, -kInf, 20, -20, denormal, nan});
    EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 7), (std::vector<float>{0, 0, 1, -1, 1, -1, 0}));
    EXPECT_TRUE(std::isnan(y[7]));
    y = run(f, {0, -0.0f, denormal, -denormal});
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::signbit(y[i]), i % 2 == 1) << i;
  }
}

std::vector<float> run_pow(std::vector<float> x, std::vector<float> y) {
  auto n = static_cast<int64_t>(x.size());
  KernelBuilder k("f");
  auto a = k.arg("x", {DType::f32, {n}}, Space::in), b = k.arg("y", {DType::f32, {n}}, Space::in);
  auto out = k.arg("out", {DType::f32, {n}}, Space::out);
  k.each("i", n, [&](Expr i) { k.store(out, {i}, pow(load(a, {i}), load(b, {i}))); });
  std::vector<float> z(x.size());
  interpret(k.take(), {x.data(), y.data(), z.data()});
  return z;
}

float flush(float v) { return std::abs(v) < kSmallest ? std::copysign(0.0f, v) : v; }

// Bases of every size and near 1, exponents that lead everywhere within and beyond the range of floats.
TEST(LoopMath, Pow) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<float> x, y;
  for (int i = 0; i < 2000000; ++i) {
    double logarithm = i % 3 == 0 ? unit(random) * 126 : i % 3 == 1 ? unit(random) : unit(random) * 1e-4;
    x.push_back(static_cast<float>(std::exp2(logarithm)));
    y.push_back(static_cast<float>(unit(random) * 135 / (std::abs(std::log2(x.back())) + 1e-9)));
    if (i % 5 == 0) {
      x.back() = -x.back();
      y.back() = std::round(y.back());
    }
  }
  std::vector<float> z = run_pow(x, y);
  Worst worst;
  size_t at = 0;
  for (size_t i = 0; i < x.size(); ++i)
    if (double error = ulps(z[i], std::pow(static_cast<double>(x[i]), static_cast<double>(y[i])));
        error > worst.error)
      worst = {error, x[i]}, at = i;
  EXPECT_LE(worst.error, 1.3) << x[at] << " to the power of " << y[at];
  EXPECT_GT(worst.error, 0.4) << "the sweep saw nothing";
  printf("pow: %.3f ulp at %.9g, %.9g\n", worst.error, x[at], y[at]);
}

// All pairs of what is special, as the C standard has it.
TEST(LoopMath, PowOfSpecialValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> some = {0,     -0.0f,  1,    -1,    2,   -2,     3,        -3,       0.5f, -0.5f,
                                   1e30f, -1e30f, kInf, -kInf, nan, 1e-40f, 16777215, 16777216, 1.5f, -2.5f};
  std::vector<float> x, y;
  for (float a : some)
    for (float b : some) x.push_back(a), y.push_back(b);
  std::vector<float> z = run_pow(x, y);
  for (size_t i = 0; i < x.size(); ++i) {
    auto want =
        static_cast<float>(std::pow(static_cast<double>(flush(x[i])), static_cast<double>(flush(y[i]))));
    EXPECT_LE(ulps(z[i], want), 2) << x[i] << " to the power of " << y[i] << " is " << z[i];
    EXPECT_TRUE(want != 0 || std::signbit(z[i]) == std::signbit(want)) << x[i] << " to the power of " << y[i];
  }
}

// In double the same kernel takes libm.
TEST(LoopMath, DoubleTakesLibm) {
  KernelBuilder k("f");
  auto x = k.arg("x", {DType::f32, {1}}, Space::in), y = k.arg("y", {DType::f32, {5}}, Space::out);
  Expr v = load(x, {0});
  k.store(y, {0}, exp(v));
  k.store(y, {1}, log(v));
  k.store(y, {2}, tanh(v));
  k.store(y, {3}, erf(v));
  k.store(y, {4}, pow(v, v));
  double in = 0.3, out[5];
  interpret(k.take(), {&in, out}, Precision::f64);
  EXPECT_EQ(out[0], std::exp(in));
  EXPECT_EQ(out[1], std::log(in));
  EXPECT_EQ(out[2], std::tanh(in));
  EXPECT_EQ(out[3], std::erf(in));
  EXPECT_EQ(out[4], std::pow(in, in));
}

}  // namespace
}  // namespace pock::loop
