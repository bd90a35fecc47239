// Blocks of threads with shared memory and barriers.
#include <gtest/gtest.h>

#include "kernels.h"
#include "support/support.h"

namespace pock::loop {
namespace {

std::string tiled() {
  const std::string text = test::read_file(std::string(test::kSourceDir) + "/tests/loop/thread/matmul.loop");
  return text.substr(0, text.find("# schedule:"));
}

TEST(Threads, TiledMatmulGivesTheBitsOfPlainLoops) {
  const Kernel plain = parse_kernel(R"(kernel @matmul(in a: f32[13,11], in b: f32[11,10], out y: f32[13,10]) {
    each i in 0..13 { each j in 0..10 {
      reg acc: f32
      acc = 0
      for k in 0..11 { acc = fma(a[i,k], b[k,j], acc) }
      y[i,j] = acc
    } }
  })");
  const Kernel k = parse_kernel(tiled());
  verify(k);
  EXPECT_EQ(print(parse_kernel(print(k))), print(k));
  EXPECT_EQ(results(k), results(plain));
  EXPECT_EQ(results(k, true), results(plain)) << "threads backwards";
  EXPECT_EQ(cost(k).flop, 2 * 6 * 32 * 11);
}

// Without any one of its barriers the result depends on the order of threads.
TEST(Threads, EveryBarrierCounts) {
  const std::string text = tiled(), barrier = "barrier\n";
  int barriers = 0;
  for (size_t at = 0; (at = text.find(barrier, at)) != std::string::npos; at += barrier.size(), ++barriers) {
    const Kernel k = parse_kernel(std::string(text).erase(at, barrier.size()));
    verify(k);
    EXPECT_NE(results(k), results(k, true)) << print(k);
  }
  EXPECT_EQ(barriers, 2);
}

TEST(Threads, InDouble) {
  const Kernel k = parse_kernel(R"(kernel @turned(in x: f32[3], out y: f32[3]) {
    shared s: f32[3]
    each t in 0..3 thread { reg own: f32 own = x[t] * 2 s[t] = own barrier y[t] = s[2 - t] + own }
  })");
  double x[3] = {1, 10, 100}, y[3];
  for (bool reverse : {false, true}) {
    interpret(k, {x, y}, Precision::f64, reverse);
    EXPECT_EQ(y[0], 202);
    EXPECT_EQ(y[1], 40);
    EXPECT_EQ(y[2], 202);
  }
}

TEST(Threads, SharedMemoryHasBounds) {
  const Kernel k = parse_kernel(R"(kernel @k(out y: f32[4]) {
    shared s: f32[3]
    each t in 0..4 thread { s[t] = 1 barrier y[t] = 1 }
  })");
  EXPECT_THROW(results(k), std::logic_error);
}

std::string problem(const std::string& body) {
  try {
    verify(parse_kernel("kernel @k(in x: f32[4], in n: i32[4], inout y: f32[4]) {" + body + "}"));
  } catch (const std::logic_error& e) {
    const std::string text = e.what();
    return text.substr(text.find("kernel k: ") + 10);
  }
  return "";
}

TEST(Threads, Rules) {
  const std::string even = "for i in 0..3 { when i < 2 { barrier } }";
  EXPECT_EQ(problem("each b in 0..2 parallel { each t in 0..4 thread { " + even + " } }"), "");
  EXPECT_EQ(problem("barrier"), "a barrier outside of thread loops");
  EXPECT_EQ(problem("each i in 0..4 { barrier }"), "a barrier outside of thread loops");

  auto uneven = [](const std::string& what) { return "a barrier that " + what + " may keep threads from"; };
  auto threads = [](const std::string& body) {
    return problem("each t in 0..4 thread { each u in 0..2 thread {" + body + "} }");
  };
  EXPECT_EQ(threads("when t < 2 { barrier }"), uneven("a condition"));
  EXPECT_EQ(threads("when x[0] < 2 { for i in 0..2 { barrier } }"), uneven("a condition"));
  EXPECT_EQ(threads("for i in 0..u { barrier }"), uneven("loop i"));
  EXPECT_EQ(threads("for i in t..t + 1 { barrier }"), uneven("loop i"));
  EXPECT_EQ(threads("for i in 0..i64(n[0]) { when i < 1 { barrier } }"), uneven("loop i"));
  EXPECT_EQ(threads("each i in 0..2 { barrier }"), uneven("loop i"));
  EXPECT_EQ(threads("for i in 0..2 { for j in 0..i { barrier } when t < i { y[t] = 1 } }"), "");

  auto loop = [](const std::string& name) {
    return "thread loop " + name + " is not an `each` over 0..N, alone in the one around";
  };
  EXPECT_EQ(problem("for t in 0..4 thread { y[t] = 1 }"), loop("t"));
  EXPECT_EQ(problem("each t in 1..4 thread { y[t] = 1 }"), loop("t"));
  EXPECT_EQ(problem("each t in 0..4 step 2 thread { y[t] = 1 }"), loop("t"));
  EXPECT_EQ(problem("each i in 0..4 { each t in 0..i thread { y[t] = 1 } }"), loop("t"));
  EXPECT_EQ(problem("each i in 0..4 vector { each t in 0..4 thread { y[t] = 1 } }"), loop("t"));
  EXPECT_EQ(threads("for i in 0..2 { each v in 0..2 thread { y[v] = 1 } }"), loop("v"));
  EXPECT_EQ(threads("each v in 0..2 thread { y[v] = 1 } y[t] = 1"), loop("v"));

  EXPECT_EQ(threads("shared s: f32"), "shared s declared by a single thread");
  const std::string outside = "shared s is used outside of its block's threads";
  EXPECT_EQ(problem("shared s: f32 s = 1"), outside);
  EXPECT_EQ(problem("shared s: f32 each i in 0..4 { y[i] = s }"), outside);
  EXPECT_EQ(problem("shared s: f32 each b in 0..4 parallel { each t in 0..2 thread { s = 1 } }"), outside);
  EXPECT_EQ(problem("each b in 0..4 parallel { shared s: f32 each t in 0..2 thread { y[t] = s } }"), "");
  EXPECT_EQ(problem("reg r: f32 each t in 0..2 thread { r = 1 }"),
            "threads store to r, which is not their own");
  EXPECT_EQ(problem("reg r: f32 r = 1 each t in 0..2 thread { y[t] = r }"), "");
}

}  // namespace
}  // namespace pock::loop
