// Bytes multiplied, summed in words and requantised.
#include "int8.h"

#include <gtest/gtest.h>

namespace pock::loop {
namespace {

TEST(Int8, ConvolutionIsExactAndRoundsHalvesToEven) {
  const Kernel k = parse_kernel(kConvInt8);
  ConvInt8 numbers;
  for (bool reverse : {false, true})
    EXPECT_EQ(numbers.difference(
                  [&](const std::vector<void*>& args) { interpret(k, args, Precision::f32, reverse); }),
              "");
  for (int count : {numbers.halves, numbers.low, numbers.high}) EXPECT_GT(count, 10);
}

}  // namespace
}  // namespace pock::loop
