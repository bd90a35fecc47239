#include "pock/ir/type.h"

#include <gtest/gtest.h>

#include <numeric>

namespace pock {
namespace {

constexpr Part whole(int axis) { return {axis}; }
constexpr Part block(int axis, int64_t size) { return {axis, Part::block, size}; }
constexpr Part within(int axis, int64_t size) { return {axis, Part::within, size}; }

TEST(Layout, IsPrintedWithTheType) {
  Type image = laid_out({DType::f32, {8, 24, 5, 7}}, {whole(0), whole(2), whole(3), whole(1)});
  EXPECT_EQ(to_string(image), "f32[8,24,5,7]{0,2,3,1}");
  EXPECT_EQ(to_string(image.stored()), "f32[8,5,7,24]");
  EXPECT_EQ(to_string(image.row_major()), "f32[8,24,5,7]");
  Type panels = laid_out({DType::f32, {64, 96}}, {block(1, 48), whole(0), within(1, 48)});
  EXPECT_EQ(to_string(panels), "f32[64,96]{1/48,0,1%48}");
  EXPECT_EQ(to_string(panels.stored()), "f32[2,64,48]");
}

// One name for one order: axes of length 1 move nothing.
TEST(Layout, IsDroppedWhereItChangesNothing) {
  Type t{DType::f32, {8, 24, 1, 1}};
  EXPECT_EQ(laid_out(t, {whole(0), whole(2), whole(3), whole(1)}), t);
  EXPECT_EQ(laid_out(t, {whole(0), block(1, 8), within(1, 8), whole(3), whole(2)}), t);
  EXPECT_NE(laid_out(t, {whole(1), whole(0), whole(2), whole(3)}), t);
  Type empty{DType::f32, {0, 3}};
  EXPECT_EQ(laid_out(empty, {whole(1), whole(0)}), empty);
}

TEST(Layout, NamesEveryElementOnce) {
  const Dims dims{6, 4};
  EXPECT_TRUE(fits({whole(1), whole(0)}, dims));
  EXPECT_TRUE(fits({within(0, 3), whole(1), block(0, 3)}, dims));
  for (const Layout& bad :
       {Layout{whole(0)}, Layout{whole(0), whole(0)}, Layout{whole(0), whole(2)}, Layout{whole(-1), whole(0)},
        Layout{block(0, 4), within(0, 4), whole(1)}, Layout{block(0, 2), within(0, 3), whole(1)},
        Layout{block(0, 2), block(0, 2), whole(1)}, Layout{block(0, 0), within(0, 0), whole(1)},
        Layout{block(0, 3), whole(1)}})
    EXPECT_FALSE(fits(bad, dims)) << to_string(bad);
}

TEST(Layout, PackedElementsComeBack) {
  Type t = laid_out({DType::i32, {4, 6, 3}}, {block(1, 2), whole(2), whole(0), within(1, 2)});
  std::vector<int32_t> plain(t.elements()), stored(t.elements()), back(t.elements());
  std::iota(plain.begin(), plain.end(), 0);
  pack(t, plain.data(), stored.data());
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 6; ++j)
      for (int64_t k = 0; k < 3; ++k)
        EXPECT_EQ(stored[((j / 2 * 3 + k) * 4 + i) * 2 + j % 2], plain[(i * 6 + j) * 3 + k]);
  unpack(t, stored.data(), back.data());
  EXPECT_EQ(back, plain);
}

TEST(Layout, BitsArePaddedByRowsInMemory) {
  EXPECT_EQ((Type{DType::mask, {3, 9}}).bytes(), 6);
  EXPECT_EQ(laid_out({DType::mask, {3, 9}}, {whole(1), whole(0)}).bytes(), 9);
}

}  // namespace
}  // namespace pock
