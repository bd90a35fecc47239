// Printing, parsing and building of kernels.
#include <gtest/gtest.h>

#include "pock/loop/build.h"
#include "pock/support/diag.h"

namespace pock::loop {
namespace {

Expr named(const char* name) { return var(std::make_shared<const Var>(Var{name})); }

constexpr const char* kMatmul = R"(kernel @matmul(in a: f32[32,784], in b: f32[784,10], out y: f32[32,10]) {
  each i in 0..32 parallel {
    each j in 0..10 {
      reg acc: f32
      acc = 0
      for k in 0..784 {
        acc = fma(a[i,k], b[k,j], acc)
      }
      y[i,j] = acc
    }
  }
}
)";

TEST(LoopText, BuilderPrints) {
  KernelBuilder k("matmul");
  auto a = k.arg("a", {DType::f32, {32, 784}}, Space::in);
  auto b = k.arg("b", {DType::f32, {784, 10}}, Space::in);
  auto y = k.arg("y", {DType::f32, {32, 10}}, Space::out);
  k.each("i", 32, [&](Expr i) {
    k.each("j", 10, [&](Expr j) {
      auto acc = k.reg("acc", lit(0));
      k.loop("k", 0, 784, [&](Expr kk) { k.set(acc, fma(load(a, {i, kk}), load(b, {kk, j}), load(acc))); });
      k.store(y, {i, j}, load(acc));
    });
  });
  Kernel kernel = k.take();
  kernel.body[0].mode = LoopMode::parallel;
  EXPECT_EQ(print(kernel), kMatmul);
  verify(kernel);
  EXPECT_EQ(cost(kernel).flop, 2 * 32 * 784 * 10);
  EXPECT_EQ(cost(kernel).bytes, 4 * (32 * 784 + 784 * 10 + 32 * 10));
}

TEST(LoopText, CostCountsWhatIsNotClipped) {
  Kernel kernel = parse_kernel(R"(kernel @grad(in x: f32[5,28], in g: f32[5,28], out y: f32[3]) {
  each k in 0..3 {
    reg sum: f32
    sum = 0
    for row in 0..5 {
      when 0 <= k + row - 1 && k + row - 1 < 5 {
        for t in max(1 - k, 0)..min(29 - k, 28) {
          sum = fma(x[row,t], g[k + row - 1,k + t - 1], sum)
        }
      }
    }
    y[k] = sum
  }
}
)");
  EXPECT_EQ(cost(kernel).flop, 2 * (4 * 27 + 5 * 28 + 4 * 27));
}

TEST(LoopText, NamesInScopeAreKeptApart) {
  KernelBuilder k("k");
  auto y = k.arg("i", {DType::f32, {2, 2}}, Space::out);
  k.each("i", 2, [&](Expr i) { k.each("i", 2, [&](Expr j) { k.store(y, {i, j}, lit(1)); }); });
  k.each("i", 2, [&](Expr i) { k.store(y, {i, 0}, lit(2)); });
  std::string text = print(k.take());
  EXPECT_NE(text.find("each i_1 in 0..2 {\n    each i_2 in 0..2 {\n      i[i_1,i_2] = 1"), std::string::npos)
      << text;
  EXPECT_NE(text.find("each i_1 in 0..2 {\n    i[i_1,0] = 2"), std::string::npos) << text;
}

TEST(LoopText, IndexArithmeticIsCanonical) {
  Expr i = named("i"), j = named("j");
  auto expect = [](const char* text, const Expr& e) { EXPECT_EQ(to_string(e), text); };
  expect("i * 6 + j", j + i * Expr(6));
  expect("i * 6 + j", (i * Expr(3) + j) * Expr(2) - j);
  expect("i", i + 0);
  expect("i", i * Expr(1));
  expect("0", i - i);
  expect("1 - i", Expr(1) - i);
  expect("-i", -i);
  expect("i * -2 - 1", Expr(-1) - i * Expr(2));
  expect("i - j * 2 + 3", i - Expr(2) * j + 3);
  expect("i * j", j * i);
  expect("floordiv(j, 4) + i", floordiv(i * Expr(4) + j, 4));
  expect("floordiv(i * 2 + j, 3)", floordiv(i * Expr(4) + j * Expr(2) + 1, 6));
  expect("floordiv(i, 6)", floordiv(floordiv(i, 2), 3));
  expect("mod(j + 1, 4)", mod(i * Expr(4) + j + 5, 4));
  expect("mod(i, 3) * 2 + 1", mod(i * Expr(2) + 1, 6));
  expect("floordiv(i + 2, 3)", ceildiv(i, 3));
  expect("i - 2", min(i, i - 2));
  expect("min(i, 3)", min(Expr(5), min(i, Expr(3))));
  expect("max(i, j)", max(j, i));
  expect("true", i < i + 1);
  expect("false", i + 1 == i);
  expect("i < j", (j > i) && Expr(int_lit(1, DType::mask)));
}

TEST(LoopText, FloatsAreNotFolded) {
  EXPECT_EQ(to_string(lit(1) + lit(2)), "f32(1) + f32(2)");
  EXPECT_EQ(to_string(-lit(2)), "f32(-2)");
  EXPECT_EQ(lit(1e-40)->number, 0);
  EXPECT_EQ(lit(0.1)->number, static_cast<double>(0.1f));
}

void round_trip(const std::string& text) {
  Kernel k = parse_kernel(text);
  EXPECT_EQ(print(k), text);
  verify(k);
}

TEST(LoopText, RoundTrip) {
  round_trip(kMatmul);
  round_trip(
      R"(kernel @all(in x: f32[4,8], in t: i32[4], in lr: f32[], in m: mask[4,8], in q: i8[8], out y: f32[4,8], inout z: f64[8], workspace w: i64[3]) {
  reg x6: f32[6,16]
  shared s: f32[2]
  each i in 0..4 step 2 {
    for k in max(1 - i, 0)..min(5 - i, 3) {
      when t[i] < 3 && m[i,k] || !(k == 2) {
        y[i,k] = select(x[i,k] < 0, -0, x[i,k] * -1.5 + lr)
        y[i,k] = f32(i32(x[i,k]) + t[i]) / (lr - (x[i,k] - 1e-05))
        y[i,k] = x[i64(t[i]),mod(i + k, 3)]
        y[i,k] = -(x[i,k] + 1) * -lr
        y[i,k] = bitcast.f32(shl(bit_and(t[i], 255) + 127, 23))
        z[k] = exp(z[k]) + f64(lr)
        w[0] = floordiv(i * 2 + k, 3) + i64(q[k])
        y[i,k] = max(min(x[i,k], inf), -inf) + nan
        y[i,k] = f32(f64(1) + f64(2))
        y[i,k] = f32(i32(x[i,k] < lr) + 1)
      }
    }
    each l in 0..8 vector {
      y[i,l] = fma(x[i,l], 2, round_even(sqrt(abs(lr))))
    }
    each u in 0..2 unroll {
      x6[u,i * 2 + u + 3] = 0
    }
  }
  each t0 in 0..2 thread {
    each t1 in 0..1 thread {
      s[t0] = lr
      barrier
      y[t0,t1] = s[1 - t0]
    }
  }
}
)");
}

std::string message(const std::string& text) {
  try {
    parse_kernel(text, "t.loop");
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(LoopText, ErrorsSayWhere) {
  EXPECT_EQ(message("kernel @k() {\n  y = 1\n}"), "t.loop:2:3: 'y' is not a buffer in scope");
  EXPECT_EQ(message("kernel @k(out y: f32[2]) {\n  y[0,1] = 1\n}"), "t.loop:2:3: 2 indices for y: f32[2]");
  EXPECT_EQ(message("kernel @k(out y: f32[2]) {\n  y[0] = 1 < 2\n}"),
            "t.loop:2:12: expected a value of type f32, found mask");
  EXPECT_EQ(message("kernel @k(out y: f32[2]) {\n  y[1.5] = 0"),
            "t.loop:2:5: '1.5' is not a number of type i64");
  EXPECT_EQ(message("kernel @k(out y: f32[2]) {"), "t.loop:1:27: expected a statement, found ''");
  EXPECT_EQ(message("kernel @k(out y: f33[2]) {"), "t.loop:1:18: 'f33' is not an element type");
  EXPECT_EQ(message("kernel @k(out y: f32[2]) { y[0] = sinh(1) }"), "t.loop:1:35: 'sinh' is not a function");
  EXPECT_EQ(message("kernel @k(out y: f32[2]) { y[0] = y[0] + y }"), "t.loop:1:42: 0 indices for y: f32[2]");
  EXPECT_EQ(message("kernel $"), "t.loop:1:8: unexpected character (code 36)");
  EXPECT_NE(message("kernel @k(out y: f32[2]) { y[0] = " + std::string(100000, '(')).find("too deeply"),
            std::string::npos);
  EXPECT_NE(message("kernel @k(out y: f32[2]) { y[0] = " + std::string(100000, '-')).find("too deeply"),
            std::string::npos);
}

// Whatever is cut out of or put into a text, the answer is a kernel or an Error.
TEST(LoopText, DamagedTextNeverCrashes) {
  std::string text = kMatmul;
  int errors = 0;
  for (size_t i = 0; i < text.size(); ++i)
    for (std::string damaged :
         {text.substr(0, i), text.substr(0, i) + text.substr(i + 1), text.substr(0, i) + "}" + text.substr(i),
          text.substr(0, i) + "9" + text.substr(i)})
      errors += message(damaged) != "no error";
  EXPECT_GT(errors, 500);
}

}  // namespace
}  // namespace pock::loop
