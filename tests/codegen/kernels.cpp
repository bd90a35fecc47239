// Kernels that are built here, compiled plain and scheduled, against the interpreter.
#include <gtest/gtest.h>

#include "compare.h"
#include "pock/loop/build.h"

namespace pock {
namespace {

using loop::Expr;
using loop::KernelBuilder;
using loop::lit;
using loop::load;
using loop::Space;

loop::Kernel matmul(int64_t rows, int64_t cols, int64_t depth) {
  KernelBuilder k("matmul");
  auto a = k.arg("a", {DType::f32, {rows, depth}}, Space::in);
  auto b = k.arg("b", {DType::f32, {depth, cols}}, Space::in);
  auto y = k.arg("y", {DType::f32, {rows, cols}}, Space::out);
  k.each("i", rows, [&](Expr i) {
    k.each("j", cols, [&](Expr j) {
      auto acc = k.reg("acc", lit(0));
      k.loop("k", 0, depth, [&](Expr kk) { k.set(acc, fma(load(a, {i, kk}), load(b, {kk, j}), load(acc))); });
      k.store(y, {i, j}, load(acc));
    });
  });
  return k.take();
}

// 3x3, padding 1, stride `stride`, channels last. Taps on padding are left out by clipped bounds.
loop::Kernel conv(int64_t size, int64_t in_channels, int64_t out_channels, int64_t stride) {
  KernelBuilder k("conv");
  const int64_t out = (size + 2 - 3) / stride + 1;
  auto x = k.arg("x", {DType::f32, {size, size, in_channels}}, Space::in);
  auto w = k.arg("w", {DType::f32, {3, 3, in_channels, out_channels}}, Space::in);
  auto y = k.arg("y", {DType::f32, {out, out, out_channels}}, Space::out);
  k.each("oy", out, [&](Expr oy) {
    k.each("ox", out, [&](Expr ox) {
      k.each("c", out_channels, [&](Expr c) {
        auto acc = k.reg("acc", lit(0));
        auto lo = [&](Expr o) { return max(Expr(0), 1 - o * stride); };
        auto hi = [&](Expr o) { return min(Expr(3), size + 1 - o * stride); };
        k.loop("ky", lo(oy), hi(oy), [&](Expr ky) {
          k.loop("kx", lo(ox), hi(ox), [&](Expr kx) {
            k.loop("ic", 0, in_channels, [&](Expr ic) {
              Expr tap = load(x, {oy * stride + ky - 1, ox * stride + kx - 1, ic});
              k.set(acc, fma(tap, load(w, {ky, kx, ic, c}), load(acc)));
            });
          });
        });
        k.store(y, {oy, ox, c}, load(acc));
      });
    });
  });
  return k.take();
}

// y[i] = f(x[i], z[i])
loop::Kernel pointwise(int64_t n, const std::function<Expr(Expr, Expr)>& f, DType out = DType::f32) {
  KernelBuilder k("pointwise");
  auto x = k.arg("x", {DType::f32, {n}}, Space::in), z = k.arg("z", {DType::f32, {n}}, Space::in);
  auto y = k.arg("y", {out, {n}}, Space::out);
  k.each("i", n, [&](Expr i) { k.store(y, {i}, f(load(x, {i}), load(z, {i}))); });
  return k.take();
}

void expect_same_scheduled(const loop::Kernel& plain, const std::string& schedule, Fill fill = Fill::ordinary,
                           int integers = 4) {
  loop::Kernel fast = loop::apply(plain, loop::parse_schedule(schedule));
  for (const Target& t : test_targets()) expect_same(plain, fast, t, fill, integers);
}

TEST(Kernels, Matmul) {
  for (const Target& t : test_targets()) expect_same(matmul(7, 5, 9), t);
  expect_same_scheduled(
      matmul(13, 37, 9),
      "split(i,6) split(j,16) sink(i.i) sink(j.i) unroll(i.i) vectorize(j.i) parallel(i.o)");
}

TEST(Kernels, MatmulOfSpecialValues) {
  for (const Target& t : test_targets()) expect_same(matmul(7, 5, 9), t, Fill::special);
}

TEST(Kernels, Convolution) {
  for (int stride : {1, 2})
    for (const Target& t : test_targets()) expect_same(conv(7, 3, 5, stride), t);
  expect_same_scheduled(conv(9, 3, 19, 1), "split(c,8) sink(c.i) vectorize(c.i) parallel(oy)");
}

TEST(Kernels, Pointwise) {
  auto same = [](const std::function<Expr(Expr, Expr)>& f, DType out = DType::f32) {
    for (Fill fill : {Fill::ordinary, Fill::special}) {
      for (const Target& t : test_targets()) expect_same(pointwise(67, f, out), t, fill);
      expect_same_scheduled(pointwise(67, f, out), "split(i,16) vectorize(i.i) parallel(i.o)", fill);
    }
  };
  same([](Expr a, Expr b) { return a + b * lit(3) - a / b; });
  same([](Expr a, Expr b) { return max(min(a, b), lit(-1)) + min(lit(1), b); });
  same([](Expr a, Expr b) { return max(a, b); });
  same([](Expr a, Expr b) { return min(a, b); });
  same([](Expr a, Expr b) { return select(a < lit(0), lit(0), a) + abs(-b); });
  same([](Expr a, Expr) { return sqrt(a) + round_even(a * lit(2.5)); });
  same([](Expr a, Expr b) { return select(a != b && (a <= b || !(a == a)), a, lit(7)); });
  same([](Expr a, Expr b) { return cast(cast(a * b, DType::i32), DType::f32); });
  same([](Expr a, Expr b) { return cast(cast(a * lit(100), DType::i8), DType::f32) + b; });
  same([](Expr a, Expr b) { return cast(cast(a * lit(200), DType::u8), DType::f32) + b; });
  same([](Expr a, Expr b) { return cast(cast(a, DType::f64) * cast(b, DType::f64), DType::f32); });
  same([](Expr a, Expr b) { return cast(a * b, DType::u8); }, DType::u8);
  same([](Expr a, Expr b) { return bitcast(bitcast(a, DType::i32) + bitcast(b, DType::i32), DType::f32); });
}

TEST(Kernels, Functions) {
  for (auto f : {loop::exp, loop::log, loop::tanh, loop::erf})
    for (Fill fill : {Fill::ordinary, Fill::special}) {
      auto kernel = pointwise(40000, [&](Expr a, Expr b) { return f(a * b * lit(12)); });
      expect_same(kernel, test_targets()[0], fill);
      expect_same_scheduled(kernel, "split(i,16) vectorize(i.i)", fill);
    }
  for (Fill fill : {Fill::ordinary, Fill::special}) {
    auto kernel = pointwise(40000, [&](Expr a, Expr b) { return loop::pow(a, b * lit(12)); });
    expect_same(kernel, test_targets()[0], fill);
    expect_same_scheduled(kernel, "split(i,16) vectorize(i.i)", fill);
  }
}

// A vector load of the whole row would leave the buffer: only the lanes inside may be read.
TEST(Kernels, PaddedCopy) {
  KernelBuilder k("pad");
  auto x = k.arg("x", {DType::f32, {21}}, Space::in);
  auto y = k.arg("y", {DType::f32, {32}}, Space::out);
  k.each("i", 32, [&](Expr i) {
    k.store(y, {i}, lit(0));
    k.when(Expr(4) <= i && i < Expr(25), [&] { k.store(y, {i}, load(x, {i - 4})); });
  });
  auto kernel = k.take();
  for (const Target& t : test_targets()) expect_same(kernel, t);
  expect_same_scheduled(kernel, "split(i,16) vectorize(i.i)");
}

TEST(Kernels, GatherAndStrides) {
  KernelBuilder k("gather");
  auto table = k.arg("table", {DType::f32, {5, 3}}, Space::in);
  auto ids = k.arg("ids", {DType::i32, {24}}, Space::in);
  auto y = k.arg("y", {DType::f32, {3, 24}}, Space::out);
  auto z = k.arg("z", {DType::f32, {24, 3}}, Space::out);
  k.each("c", 3, [&](Expr c) {
    k.each("n", 24, [&](Expr n) {
      Expr v = load(table, {cast(load(ids, {n}), DType::i64), c});
      k.store(y, {c, n}, v);
      k.store(z, {n, c}, v);
    });
  });
  auto kernel = k.take();
  for (const Target& t : test_targets()) expect_same(kernel, t, Fill::ordinary, 5);
  expect_same_scheduled(kernel, "split(n,8) vectorize(n.i) parallel(c)", Fill::ordinary, 5);
}

TEST(Kernels, Masks) {
  KernelBuilder k("mask");
  auto x = k.arg("x", {DType::f32, {5, 19}}, Space::in);
  auto m = k.arg("m", {DType::mask, {5, 19}}, Space::in);
  auto positive = k.arg("positive", {DType::mask, {5, 32}}, Space::inout);
  auto y = k.arg("y", {DType::f32, {5, 19}}, Space::out);
  k.each("r", 5, [&](Expr r) {
    k.each("c", 19, [&](Expr c) {
      Expr keep = load(m, {r, c});
      k.store(y, {r, c}, select(keep, load(x, {r, c}), lit(0)));
      k.store(positive, {r, c}, lit(0) < load(x, {r, c}) && keep);
    });
  });
  auto kernel = k.take();
  for (const Target& t : test_targets()) expect_same(kernel, t);
  expect_same_scheduled(kernel, "split(c,8) vectorize(c.i) parallel(r)");
  expect_same_scheduled(kernel, "split(c,4) vectorize(c.i) parallel(r)");
}

TEST(Kernels, ConditionsThatDifferBetweenLanes) {
  KernelBuilder k("when");
  auto x = k.arg("x", {DType::f32, {32}}, Space::in);
  auto y = k.arg("y", {DType::f32, {32}}, Space::inout);
  k.each("i", 32, [&](Expr i) {
    auto kept = k.reg("kept", load(x, {i}) * lit(2));
    k.when(load(x, {i}) < load(y, {i}), [&] { k.store(y, {i}, load(kept)); });
  });
  auto kernel = k.take();
  for (const Target& t : test_targets()) expect_same(kernel, t);
  expect_same_scheduled(kernel, "split(i,8) vectorize(i.i)");
}

TEST(Kernels, IndexArithmetic) {
  KernelBuilder k("index");
  auto x = k.arg("x", {DType::f32, {60}}, Space::in);
  auto y = k.arg("y", {DType::f32, {60}}, Space::out);
  k.each("i", 60, [&](Expr i) {
    Expr shifted = i - 7;  // negative at first
    k.store(y, {i}, load(x, {mod(shifted, 60)}) + cast(floordiv(shifted, 4), DType::f32));
  });
  auto kernel = k.take();
  for (const Target& t : test_targets()) expect_same(kernel, t);
  expect_same_scheduled(kernel, "split(i,12) vectorize(i.i)");
}

TEST(Kernels, PhasesRunInOrder) {
  KernelBuilder k("phases");
  auto x = k.arg("x", {DType::f32, {9}}, Space::in);
  auto t = k.arg("t", {DType::f32, {9}}, Space::inout);
  auto y = k.arg("y", {DType::f32, {}}, Space::out);
  k.each("i", 9, [&](Expr i) { k.store(t, {i}, load(x, {i}) * lit(2)); });
  auto sum = k.reg("sum", lit(0));
  k.loop("j", 0, 9, [&](Expr j) { k.set(sum, load(sum) + load(t, {j})); });
  k.store(y, {}, load(sum));
  k.each("l", 9, [&](Expr l) { k.store(t, {l}, load(t, {l}) / load(y)); });
  expect_same_scheduled(k.take(), "parallel(i) parallel(l)");
}

}  // namespace
}  // namespace pock
