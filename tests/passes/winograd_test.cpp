// A convolution and its gradient by fewer products are those of the plain sums, but for rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "pock/ir/builder.h"
#include "pock/ops/evaluate.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

using Numbers = std::vector<double>;

Numbers random_numbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> number(-1, 1);
  Numbers list(count);
  for (double& x : list) x = number(random);
  return list;
}

// Largest difference, in parts of the largest element.
double distance(const Numbers& a, const Numbers& b) {
  double largest = 0, apart = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a[i]));
    apart = std::max(apart, std::abs(a[i] - b[i]));
  }
  return apart / largest;
}

TEST(Winograd, GivesThePlainSumsButForRounding) {
  Graph g;
  Builder b(g);
  Value* x = g.add_input("x", {DType::f32, {2, 64, 16, 16}});
  Value* w = g.add_input("w", {DType::f32, {64, 64, 3, 3}});
  const Attrs attrs{{"pad", Dims{0, 2, 1, 0}}};
  Value* y = b.value("conv", {x, w}, attrs);
  Attrs backwards = attrs;
  backwards["size"] = Dims{16, 16};
  g.add_output(b.value("conv_input_grad", {y, w}, backwards));
  const Numbers elements = random_numbers(x->type.elements(), 1),
                weights = random_numbers(w->type.elements(), 2);
  auto result = [&](loop::Precision p) {
    Memory m = initial_memory(g, p);
    m.set(x, elements);
    m.set(w, weights);
    evaluate(g, m);
    return m.read(g.outputs()[0]);
  };
  const Numbers plain = result(loop::Precision::f64);
  ASSERT_EQ(winograd(g, {}), 2);
  EXPECT_LE(distance(plain, result(loop::Precision::f64)), 1e-14);
  // As docs/arithmetic.md has it.
  EXPECT_LE(distance(plain, result(loop::Precision::f32)), 1e-6);
}

}  // namespace
}  // namespace pock
