// The generator against its authors' known answers, and what dropout makes of it on the whole.
#include "ops/random.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/cases/op_case.h"
#include "pock/loop/interpret.h"
#include "pock/ops/op.h"

namespace pock::test {
namespace {

using Numbers32 = std::vector<int64_t>;

Numbers32 philox_words(const Numbers32& counter, const Numbers32& key) {
  loop::KernelBuilder k("philox");
  auto counters = k.arg("counter", {DType::i64, {4}}, loop::Space::in),
       keys = k.arg("key", {DType::i64, {2}}, loop::Space::in),
       out = k.arg("out", {DType::i64, {4}}, loop::Space::out);
  Words c;
  for (int i = 0; i < 4; ++i) c[i] = load(counters, {i});
  Words words = philox(k, c, {load(keys, {0}), load(keys, {1})});
  for (int i = 0; i < 4; ++i) k.store(out, {i}, words[i]);
  Numbers32 c_data = counter, k_data = key, result(4);
  loop::interpret(k.take(), {c_data.data(), k_data.data(), result.data()});
  return result;
}

TEST(Philox, KnownAnswers) {
  constexpr int64_t kAll = 0xffffffff;
  EXPECT_EQ(philox_words({0, 0, 0, 0}, {0, 0}), (Numbers32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox_words({kAll, kAll, kAll, kAll}, {kAll, kAll}),
            (Numbers32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox_words({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Numbers32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Which elements of `count` ones stay.
std::vector<bool> kept(int64_t count, double ratio, int64_t id, double seed_low, double seed_high,
                       double step) {
  Graph g;
  Memory m;
  std::vector<Value*> in = {g.add_input("x", {DType::f32, {count}})};
  m.set(in[0], Numbers(count, 1));
  for (double word : {seed_low, seed_high, step}) {
    in.push_back(g.add_input("word" + std::to_string(in.size()), {DType::i32, {}}));
    m.set(in.back(), Numbers{word});
  }
  Node* n = Builder(g).make("dropout_train", in, {{"ratio", ratio}, {"id", id}});
  evaluate(g, m);
  Numbers y = m.read(n->out());
  return {y.begin(), y.end()};
}

TEST(Dropout, DropsAsManyAsTheRatioSays) {
  const int64_t count = 40000;
  for (double ratio : {0.1, 0.5, 0.8}) {
    std::vector<bool> mask = kept(count, ratio, 0, 1, 0, 1);
    double dropped = static_cast<double>(std::count(mask.begin(), mask.end(), false)) / count;
    EXPECT_NEAR(dropped, ratio, 4 * std::sqrt(ratio * (1 - ratio) / count));
  }
}

// Other seeds, steps and nodes are other masks; longer tensors only longer ones.
TEST(Dropout, EachMaskIsItsOwn) {
  const std::vector<bool> one = kept(500, 0.5, 0, 0, 0, 1);
  EXPECT_EQ(kept(500, 0.5, 0, 0, 0, 1), one);
  EXPECT_NE(kept(500, 0.5, 1, 0, 0, 1), one);
  EXPECT_NE(kept(500, 0.5, 0, 1, 0, 1), one);
  EXPECT_NE(kept(500, 0.5, 0, 0, 1, 1), one);
  EXPECT_NE(kept(500, 0.5, 0, 0, 0, 2), one);
  std::vector<bool> longer = kept(700, 0.5, 0, 0, 0, 1);
  longer.resize(500);
  EXPECT_EQ(longer, one);
}

}  // namespace
}  // namespace pock::test
