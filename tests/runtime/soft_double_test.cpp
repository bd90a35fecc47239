// Doubles in software against this machine's, whose denormals are set to zero as in every trainer.
#include <gtest/gtest.h>
#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

extern "C" {
#include "soft_double.h"
}

namespace {

class SoftDouble : public testing::Test {
 protected:
  SoftDouble() : mode_(_mm_getcsr()) { _mm_setcsr(0x9FC0); }
  ~SoftDouble() override { _mm_setcsr(mode_); }

  // Any bits, numbers of like size, few bits set, and the special ones.
  uint64_t number() {
    static const double special[] = {0.0,
                                     -0.0,
                                     1.0,
                                     -1.0,
                                     INFINITY,
                                     -INFINITY,
                                     NAN,
                                     0x1p-1022,
                                     -0x1p-1022,
                                     0x1p-1030,
                                     std::numeric_limits<double>::max(),
                                     0x1p52,
                                     0x1p53,
                                     0x1p63,
                                     -0x1p63,
                                     0x1p64};
    const uint64_t bits = random_();
    switch (random_() % 5) {
      case 0:
        return bits;
      case 1:
        return std::bit_cast<uint64_t>(special[bits % std::size(special)]);
      case 2:
        return (bits & ~(uint64_t{0x7FF} << 52)) | (1023 - 40 + random_() % 80) << 52;
      case 3:  // mantissas that end in zeros, so that halves occur
        return (bits & ~(uint64_t{0x7FF} << 52)) >> 20 << 20 | (1023 - 40 + random_() % 80) << 52;
      default:
        return (bits & ~(uint64_t{0x7FF} << 52)) | (random_() % 4 ? random_() % 60 : 2046 - random_() % 60)
                                                       << 52;
    }
  }

  static void expect_same(uint64_t got, double want, const char* what, uint64_t a, uint64_t b) {
    const bool both_nan = std::isnan(want) && std::isnan(std::bit_cast<double>(got));
    ASSERT_TRUE(both_nan || got == std::bit_cast<uint64_t>(want))
        << std::hexfloat << std::bit_cast<double>(a) << what << std::bit_cast<double>(b) << " is " << want
        << ", not " << std::bit_cast<double>(got);
  }

  std::mt19937_64 random_{7};
  unsigned mode_;
};

constexpr int kRounds = 200000;

TEST_F(SoftDouble, ComputesAsTheMachine) {
  for (int i = 0; i < kRounds && !HasFatalFailure(); ++i) {
    const uint64_t a = number(), b = number();
    volatile double x = std::bit_cast<double>(a), y = std::bit_cast<double>(b);
    expect_same(pock_soft_add(a, b), x + y, " + ", a, b);
    expect_same(pock_soft_add(a, b ^ uint64_t{1} << 63), x - y, " - ", a, b);
    expect_same(pock_soft_multiply(a, b), x * y, " * ", a, b);
    expect_same(pock_soft_divide(a, b), x / y, " / ", a, b);
    expect_same(pock_soft_root(a), std::sqrt(x), " rooted, not ", a, 0);
    const int order = x < y ? -1 : x == y ? 0 : x > y ? 1 : 2;
    ASSERT_EQ(pock_soft_compare(a, b), order) << x << " " << y;
  }
}

TEST_F(SoftDouble, ConvertsAsTheMachine) {
  for (int i = 0; i < kRounds && !HasFatalFailure(); ++i) {
    const uint64_t a = number();
    volatile double x = std::bit_cast<double>(a);
    const volatile float narrow = static_cast<float>(x);
    const uint32_t got = pock_soft_narrow(a);
    ASSERT_TRUE(got == std::bit_cast<uint32_t>(static_cast<float>(narrow)) ||
                (std::isnan(narrow) && std::isnan(std::bit_cast<float>(got))))
        << std::hexfloat << x;
    const auto single = static_cast<uint32_t>(random_());
    const volatile float s = std::bit_cast<float>(single);
    expect_same(pock_soft_widen(single), static_cast<double>(s), " widened, not ", single, 0);
    const uint64_t whole = random_() >> random_() % 64;
    expect_same(pock_soft_from_whole(whole, 0), static_cast<double>(whole), " from ", whole, 0);
    if (x > -0x1p63 && x < 0x1p63) {
      ASSERT_EQ(pock_soft_to_signed(a), static_cast<int64_t>(x)) << x;
    }
    if (x > -1 && x < 0x1p64) {
      ASSERT_EQ(pock_soft_to_unsigned(a), static_cast<uint64_t>(x)) << x;
    }
  }
  EXPECT_EQ(pock_soft_to_signed(std::bit_cast<uint64_t>(1e300)), INT64_MAX);
  EXPECT_EQ(pock_soft_to_signed(std::bit_cast<uint64_t>(-1e300)), INT64_MIN);
  EXPECT_EQ(pock_soft_to_signed(std::bit_cast<uint64_t>(double{NAN})), 0);
}

}  // namespace
