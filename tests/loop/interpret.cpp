#include "pock/loop/interpret.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>

namespace pock::loop {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Interpret, Matmul) {
  Kernel k = parse_kernel(R"(kernel @mm(in a: f32[3,5], in b: f32[5,2], out y: f32[3,2]) {
    each i in 0..3 { each j in 0..2 {
      reg acc: f32
      acc = 0
      for k in 0..5 { acc = fma(a[i,k], b[k,j], acc) }
      y[i,j] = acc
    } }
  })");
  float a[15], b[10], y[6], z[6];
  for (int i = 0; i < 15; ++i) a[i] = static_cast<float>(std::sin(i));
  for (int i = 0; i < 10; ++i) b[i] = static_cast<float>(std::cos(i));
  interpret(k, {a, b, y});
  interpret(k, {a, b, z}, Precision::f32, true);
  double ad[15], bd[10], yd[6];
  std::copy(a, a + 15, ad);
  std::copy(b, b + 10, bd);
  interpret(k, {ad, bd, yd}, Precision::f64);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 2; ++j) {
      float sum = 0;
      double wide = 0;
      for (int n = 0; n < 5; ++n) {
        sum = std::fma(a[i * 5 + n], b[n * 2 + j], sum);
        wide = std::fma(ad[i * 5 + n], bd[n * 2 + j], wide);
      }
      EXPECT_EQ(y[i * 2 + j], sum);
      EXPECT_EQ(z[i * 2 + j], sum);
      EXPECT_EQ(yd[i * 2 + j], wide);
    }
}

TEST(Interpret, EveryElementType) {
  Kernel k = parse_kernel(
      R"(kernel @k(in x: f32[11], in q: i8[11], in u: u8[11], in t: i32[11], in l: i64[11], in d: f64[11],
                                      inout m: mask[2,11], out y: f32[11], out z: i8[11], out w: i32[11], out v: f64[11]) {
    each i in 0..11 {
      m[1,i] = x[i] < 0 || m[0,i]
      y[i] = x[i64(t[i])] + f32(q[i]) + f32(l[i])
      z[i] = i8(x[i] * 100)
      w[i] = i32(q[i]) * t[i] + i32(u[i])
      v[i] = d[i] / 3 + f64(x[i])
    }
  })");
  float x[11], y[11];
  int8_t q[11], z[11];
  uint8_t u[11], m[4] = {0b00000101, 0b00000010, 0, 0};
  int32_t t[11], w[11];
  int64_t l[11];
  double d[11], v[11];
  for (int i = 0; i < 11; ++i) {
    x[i] = static_cast<float>(i) - 5.5f;
    q[i] = static_cast<int8_t>(i * 20 - 100);
    u[i] = static_cast<uint8_t>(i * 25);
    t[i] = 10 - i;
    l[i] = i * 1000;
    d[i] = i;
  }
  interpret(k, {x, q, u, t, l, d, m, y, z, w, v});
  for (int i = 0; i < 11; ++i) {
    EXPECT_EQ(y[i], x[10 - i] + static_cast<float>(q[i]) + static_cast<float>(l[i]));
    EXPECT_EQ(z[i], x[i] * 100 > 127 ? 127 : x[i] * 100 < -128 ? -128 : static_cast<int8_t>(x[i] * 100));
    EXPECT_EQ(w[i], q[i] * t[i] + u[i]);
    EXPECT_EQ(v[i], d[i] / 3 + static_cast<double>(x[i]));
    bool first = i == 0 || i == 2 || i == 9;
    EXPECT_EQ(m[2 + i / 8] >> (i % 8) & 1, x[i] < 0 || first);
  }
}

TEST(Interpret, ArithmeticRules) {
  Kernel k = parse_kernel(R"(kernel @k(in a: f32[6], in b: f32[6], out y: f32[8,6]) {
    each i in 0..6 {
      y[0,i] = max(a[i], b[i])
      y[1,i] = min(a[i], b[i])
      y[2,i] = select(a[i] < 0, 0, a[i])
      y[3,i] = round_even(a[i])
      y[4,i] = f32(i32(a[i]))
      y[5,i] = a[i] * 1e-30
      y[6,i] = abs(a[i]) + -b[i]
      y[7,i] = f32(i == 2)
    }
  })");
  float a[6] = {1, kNan, 2.5f, -3.5f, 1e-10f, 3e9f}, b[6] = {kNan, 2, -0.5f, 7, 0, 0}, y[8][6];
  interpret(k, {a, b, y});
  EXPECT_TRUE(std::isnan(y[0][0]) && std::isnan(y[0][1]) && std::isnan(y[1][0]) && std::isnan(y[1][1]));
  EXPECT_EQ(y[0][3], 7);
  EXPECT_EQ(y[1][3], -3.5f);
  EXPECT_TRUE(std::isnan(y[2][1]));
  EXPECT_EQ(y[2][3], 0);
  EXPECT_EQ(y[3][2], 2);
  EXPECT_EQ(y[3][3], -4);
  EXPECT_EQ(y[4][1], 0);
  EXPECT_EQ(y[4][3], -3);
  EXPECT_EQ(y[4][5], 2147483647.0f);
  EXPECT_EQ(y[5][4], 0) << "a denormal result flushes to zero";
  EXPECT_EQ(y[6][3], -3.5f);
  EXPECT_EQ(y[7][2], 1);
  EXPECT_EQ(y[7][3], 0);
}

TEST(Interpret, DenormalOperandsAreZeroAndTheModeIsRestored) {
  Kernel k = parse_kernel("kernel @k(in a: f32[1], out y: f32[1]) { y[0] = a[0] * 1e30 }");
  float a = 1e-40f, y = 7;
  interpret(k, {&a, &y});
  EXPECT_EQ(y, 0);
  volatile float small = 1e-38f;
  EXPECT_GT(small * 0.01f, 0.0f);
}

TEST(Interpret, BackwardsRunsEachFromTheEnd) {
  Kernel k = parse_kernel(R"(kernel @k(inout y: f32[3]) {
    each i in 0..7 step 3 { y[0] = f32(i) }
    for i in 0..7 step 3 { y[1] = f32(i) }
    each i in 3..3 { y[2] = 1 }
  })");
  float y[3] = {-1, -1, -1};
  interpret(k, {y}, Precision::f32, true);
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 6);
  EXPECT_EQ(y[2], -1);
}

TEST(Interpret, OutOfBoundsIsFound) {
  Kernel k = parse_kernel("kernel @k(out y: f32[3]) { each i in 0..4 { y[i] = 1 } }");
  float y[4];
  EXPECT_THROW(interpret(k, {y}), std::logic_error);
}

// Integers kept in registers, bounds read from data, conditions and hoisted indices.
TEST(Interpret, LoopsThatDependOnData) {
  Kernel k = parse_kernel(R"(kernel @k(in n: i32[2], out y: f32[2]) {
    each i in 0..2 {
      reg sum: f32
      reg last: i64
      sum = 0
      last = i64(n[i])
      for j in i..last {
        last = 0
        when mod(j, 2) == i { sum = sum + f32(j * 2 + i) }
      }
      y[i] = sum
    }
  })");
  int32_t n[2] = {5, 6};
  float y[2];
  interpret(k, {n, y});
  EXPECT_EQ(y[0], 0 + 4 + 8);
  EXPECT_EQ(y[1], 3 + 7 + 11);
}

TEST(Interpret, FastEnoughForTrainingSteps) {
  Kernel k = parse_kernel(R"(kernel @k(in a: f32[128,128], in b: f32[128,128], out y: f32[128,128]) {
    each i in 0..128 { each j in 0..128 {
      reg acc: f32
      acc = 0
      for k in 0..128 { acc = fma(a[i,k], b[k,j], acc) }
      y[i,j] = acc
    } }
    each i in 0..128 { each j in 0..128 {
      for k in 0..64 { y[i,j] = select(y[i,j] < a[i,k], y[i,j] * 0.5 + b[k,j], y[i,j]) }
    } }
  })");
  std::vector<float> a(128 * 128, 0.5f), b(128 * 128, 0.25f), y(128 * 128);
  auto start = std::chrono::steady_clock::now();
  interpret(k, {a.data(), b.data(), y.data()});
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  printf("%.0f ms for 2M multiply-adds and 1M selects\n", seconds * 1e3);
  EXPECT_LT(seconds, 2);
}

}  // namespace
}  // namespace pock::loop
