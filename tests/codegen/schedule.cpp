// What schedules are chosen, and that they change no bit: interpreted, backwards, and compiled.
#include <gtest/gtest.h>

#include "../loop/kernels.h"
#include "compare.h"
#include "pock/codegen/compile.h"
#include "pock/loop/transform.h"

namespace pock {
namespace {

Target target(int bits, int rows) {
  Target t{.name = "test", .vector_bits = bits, .tile = {.rows = rows, .cols = 2}};
  return t;
}

TEST(Schedule, KeepsEveryBit) {
  for (const char* text : loop::kKernels)
    for (const Target& t : {target(128, 4), target(256, 4), target(512, 8)}) {
      loop::Kernel plain = loop::parse_kernel(text);
      loop::Schedule s = schedule_for(plain, t);
      loop::Kernel fast = loop::apply(plain, s);
      auto expected = loop::results(plain);
      EXPECT_EQ(loop::results(fast), expected) << plain.name << ": " << loop::to_string(s);
      EXPECT_EQ(loop::results(fast, true), expected) << plain.name << " backwards: " << loop::to_string(s);
      EXPECT_EQ(loop::to_string(loop::parse_schedule(loop::to_string(s))), loop::to_string(s));
    }
}

TEST(Schedule, CompiledAsInterpreted) {
  for (const char* text : loop::kKernels)
    for (const Target& t : test_targets()) {
      loop::Kernel plain = loop::parse_kernel(text);
      SCOPED_TRACE(plain.name + ": " + loop::to_string(schedule_for(plain, t)));
      expect_same(plain, loop::apply(plain, schedule_for(plain, t)), t, Fill::ordinary, 6);
    }
}

std::string chosen(const std::string& kernel, const Target& t = target(256, 4)) {
  return loop::to_string(schedule_for(loop::parse_kernel(kernel), t));
}

TEST(Schedule, Contractions) {
  auto matmul = [](const char* a, const char* b, const char* av, const char* bv) {
    return fmt::format(R"(kernel @mm(in a: f32[{}], in b: f32[{}], out y: f32[384,400]) {{
      each i in 0..384 {{ each j in 0..400 {{
        reg acc: f32
        acc = 0
        for k in 0..100 {{ acc = fma(a[{}], b[{}], acc) }}
        y[i,j] = acc
      }} }} }})",
                       a, b, av, bv);
  };
  EXPECT_EQ(chosen(matmul("384,100", "100,400", "i,k", "k,j")),
            "split(j,16) split(i,4) sink(i.i) unroll(i.i) sink(j.i) split(j.i,8,j.i.r0) vectorize(j.i.i) "
            "unroll(j.i.o) "
            "parallel(i.o)");
  // A sum of few terms, as the gradient of a weight from few samples: rows in the order of memory.
  EXPECT_EQ(chosen(R"(kernel @mm(in a: f32[2,384], in b: f32[2,400], out y: f32[384,400]) {
      each i in 0..384 { each j in 0..400 {
        reg acc: f32
        acc = 0
        for k in 0..2 { acc = fma(a[k,i], b[k,j], acc) }
        y[i,j] = acc
      } } })"),
            "split(j,32) sink(j.i) split(j.i,8,j.i.r0) vectorize(j.i.i) unroll(j.i.o) parallel(i)");
  // Lanes of b are apart, and side by side along k: blocks of both are loaded and turned.
  EXPECT_EQ(
      chosen(matmul("384,100", "400,100", "i,k", "j,k")),
      "split(j,8,j.r0) split(k,8) unroll(k.i) split(i,8) sink(i.i) unroll(i.i) sink(j.i) vectorize(j.i) "
      "parallel(i.o)");
  EXPECT_EQ(
      chosen(R"(kernel @conv(in a: f32[8,16,28,28], in w: f32[32,16,3,3], out b: f32[8,32,28,28]) {
      each n in 0..8 { each o in 0..32 { each y in 0..28 { each x in 0..28 {
        reg acc: f32
        acc = 0
        for ky in max(0, 1 - y)..min(3, 29 - y) { for kx in max(0, 1 - x)..min(3, 29 - x) { for c in 0..16 {
          acc = fma(a[n,c,y + ky - 1,x + kx - 1], w[o,c,ky,kx], acc)
        } } }
        b[n,o,y,x] = acc
      } } } } })"),
      "peel(x) split(x.m,16,x.m.r0) split(x.m.r0,8,x.m.r1) split(o,4) sink(o.i) unroll(o.i) sink(x.m.i) "
      "vectorize(x.m.i) sink(x.m.r0.i) vectorize(x.m.r0.i) fuse(n,o.o) parallel(n)");
}

// Channels last, filters in panels: loops follow the results in memory, and pixels are one axis where no tap is clipped.
TEST(Schedule, ConvolutionsWithChannelsLast) {
  EXPECT_EQ(
      chosen(R"(kernel @conv(in a: f32[1,14,14,96], in w: f32[4,96,16], out b: f32[1,14,14,64]) {
      each n in 0..1 { each o in 0..64 { each y in 0..14 { each x in 0..14 {
        reg acc: f32
        acc = 0
        for c in 0..96 { acc = fma(a[n,y,x,c], w[floordiv(o, 16),c,mod(o, 16)], acc) }
        b[n,y,x,o] = acc
      } } } } })"),
      "split(o,16) reorder(o.i,y) reorder(o.o,y) reorder(o.i,x) reorder(o.o,x) merge(n,y) merge(n,x) "
      "split(n,4) "
      "sink(n.i) unroll(n.i) sink(o.i) split(o.i,8,o.i.r0) vectorize(o.i.i) unroll(o.i.o) parallel(n.o)");
  auto window = [](int64_t size) {
    return fmt::format(R"(kernel @conv(in a: f32[1,8,{0},32], in w: f32[3,32,16], out b: f32[1,8,{0},16]) {{
      each n in 0..1 {{ each o in 0..16 {{ each y in 0..8 {{ each x in 0..{0} {{
        reg acc: f32
        acc = 0
        for kx in max(0, 1 - x)..min(3, {1} - x) {{ for c in 0..32 {{
          acc = fma(a[n,y,x + kx - 1,c], w[kx,c,o], acc)
        }} }}
        b[n,y,x,o] = acc
      }} }} }} }} }})",
                       size, size + 1);
  };
  EXPECT_EQ(chosen(window(14)),
            "reorder(o,y) reorder(o,x) merge(n,y) split(n,4) sink(n.i) unroll(n.i) sink(o) split(o,8,o.r0) "
            "vectorize(o.i) unroll(o.o) fuse(n.o,x) parallel(n.o)");
}

// What is left of a window's row waits on a thread's stack, with what the nodes behind it keep: as long as it fits.
TEST(Schedule, WideRowsThatDoNotFitTheStack) {
  auto window = [](int kept) {
    std::string behind, last = "acc";
    for (int i = 0; i < kept; ++i) {
      behind += fmt::format("reg k{0}: f32 k{0} = {1} + bias[o] ", i, last);
      last = fmt::format("k{}", i);
    }
    return fmt::format(
        R"(kernel @conv(in a: f32[250,3], in w: f32[3,3,64], in bias: f32[64], out b: f32[250,64]) {{
      each o in 0..64 {{ each x in 0..250 {{
        reg acc: f32
        acc = 0
        for kx in max(0, 1 - x)..min(3, 251 - x) {{ for c in 0..3 {{
          acc = fma(a[x + kx - 1,c], w[kx,c,o], acc)
        }} }}
        {} b[x,o] = {}
      }} }} }})",
        behind, last);
  };
  EXPECT_NE(chosen(window(0), target(512, 8)).find("slide(x,"), std::string::npos);
  EXPECT_EQ(chosen(window(2), target(512, 8)),
            "reorder(o,x) peel(x) split(x.m,4) sink(x.m.i) unroll(x.m.i) sink(o) split(o,16,o.r0) "
            "vectorize(o.i) unroll(o.o) parallel(x.m.o)");
  for (int kept : {0, 1, 2, 6})
    for (const Target& t : test_targets()) {
      const loop::Kernel plain = loop::parse_kernel(window(kept));
      SCOPED_TRACE(fmt::format("{} kept: {}", kept, loop::to_string(schedule_for(plain, t))));
      expect_same(plain, loop::apply(plain, schedule_for(plain, t)), t);
    }
}

// The gradient of a 1x1 filter over two chunks of rows: where no cache holds the images, several tiles take a chunk in turn,
// as long as each thread has a loop of its own, or two threads have where tiles are few.
TEST(Schedule, WeightGradientsInChunks) {
  auto gradient = [](int positions, int threads, int channels = 64) {
    Target t = target(256, 4);
    t.threads = threads;
    return chosen(fmt::format(R"(kernel @wg(in dy: f32[{0},32], in x: f32[{0},{2}], out w: f32[{2},32]) {{
      each c in 0..{2} {{ each o in 0..32 {{
        reg total: f32
        total = 0
        for chunk in 0..2 {{
          reg sum: f32
          sum = 0
          for p in chunk * {1}..chunk * {1} + {1} {{ sum = fma(dy[p,o], x[p,c], sum) }}
          total = total + sum
        }}
        w[c,o] = total
      }} }} }})",
                              positions, positions / 2, channels),
                  t);
  };
  const std::string tile =
      "split(c,2) sink(c.i) unroll(c.i) sink(o) split(o,8,o.r0) vectorize(o.i) unroll(o.o)";
  EXPECT_EQ(gradient(2048, 1), tile + " parallel(c.o)");
  EXPECT_EQ(gradient(1 << 20, 1), tile + " interchange(c.o,chunk)");
  EXPECT_EQ(gradient(1 << 20, 4), tile + " split(c.o,8) interchange(c.o.i,chunk) parallel(c.o.o)");
  EXPECT_EQ(gradient(1 << 20, 4, 8), tile + " split(c.o,2) interchange(c.o.i,chunk) parallel(c.o.o)");
}

// What a product reads is made for several of its tiles at once; where one row of it is large, all of it beforehand.
TEST(Schedule, Stages) {
  auto product = [](int64_t terms) {
    return chosen(fmt::format(
        R"(kernel @mm(in a: f32[640,{0}], in s: f32[{0}], in b: f32[{0},16], out y: f32[640,16], workspace z: f32[640,{0}]) {{
      each p in 0..640 {{ each q in 0..{0} {{ z[p,q] = a[p,q] * (1 / sqrt(s[q])) }} }}
      each i in 0..640 {{ each j in 0..16 {{
        reg acc: f32
        acc = 0
        for k in 0..{0} {{ acc = fma(z[i,k], b[k,j], acc) }}
        y[i,j] = acc
      }} }} }})",
        terms));
  };
  const std::string tile =
      "split(i,4) sink(i.i) unroll(i.i) sink(j) split(j,8,j.r0) vectorize(j.i) unroll(j.o)";
  EXPECT_EQ(product(100), tile +
                              " split(i.o,10) stage(i.o.o,z) reorder(p,q) hoist(q) sink(q) split(q,8,q.r0) "
                              "split(q.r0,4,q.r1) vectorize(q.i) vectorize(q.r0.i) parallel(i.o.o)");
  EXPECT_EQ(product(8192), tile + " split(q,8,q.r0) vectorize(q.i) parallel(p) parallel(i.o)");
}

// Small windows, each channel by itself: tiles of pixels that share what they load, those at the edges apart.

TEST(Schedule, DepthwiseConvolutions) {
  auto window = [](int64_t stride, const char* taps, int64_t images) {
    return fmt::format(
        R"(kernel @conv(in a: f32[{3},56,56,24], in w: f32[3,3,24], out b: f32[{3},{0},{0},24]) {{
      each n in 0..{3} {{ each c in 0..24 {{ each y in 0..{0} {{ each x in 0..{0} {{
        reg acc: f32
        acc = 0
        for ky in max(0, 1 - y * {1})..min(3, 57 - y * {1}) {{ for kx in {2} {{
          acc = fma(a[n,y * {1} + ky - 1,x * {1} + kx - 1,c], w[ky,kx,c], acc)
        }} }}
        b[n,y,x,c] = acc
      }} }} }} }} }})",
        56 / stride, stride, taps, images);
  };
  const char* taps = "max(0, 1 - x)..min(3, 57 - x)";
  EXPECT_EQ(chosen(window(1, taps, 1)),
            "reorder(c,y) reorder(c,x) split(x,8) peel(x.o) taps(x.i) unroll(x.i) unroll(kx) split(c,8,c.r0) "
            "sink(c.i) vectorize(c.i) parallel(y)");
  EXPECT_EQ(chosen(window(2, "max(0, 1 - x * 2)..3", 1)),
            "reorder(c,y) reorder(c,x) split(x,7) peel(x.o) taps(x.i) unroll(x.i) unroll(kx) split(c,8,c.r0) "
            "sink(c.i) vectorize(c.i) parallel(y)");
  // More than the caches hold: in the order of memory.
  EXPECT_EQ(
      chosen(window(1, taps, 100)),
      "reorder(c,y) reorder(c,x) split(x,2) peel(x.o) taps(x.i) unroll(x.i) unroll(kx) split(c,16,c.r0) "
      "split(c.r0,8,c.r1) sink(c.i) split(c.i,8) vectorize(c.i.i) unroll(c.i.o) sink(c.r0.i) "
      "vectorize(c.r0.i) parallel(n)");
  // From the other side every second tap meets a pixel, so tiles start at even ones.
  EXPECT_EQ(chosen(R"(kernel @grad(in g: f32[8,21,21,24], in w: f32[3,3,24], out b: f32[8,42,42,24]) {
      each n in 0..8 { each c in 0..24 { each y in 0..42 { each x in 0..42 {
        reg acc: f32
        acc = 0
        for ky in max(mod(y + 1, 2), y - 39)..3 step 2 { for kx in max(mod(x + 1, 2), x - 39)..3 step 2 {
          acc = fma(g[n,floordiv(y + 1 - ky, 2),floordiv(x + 1 - kx, 2),c], w[ky,kx,c], acc)
        } }
        b[n,y,x,c] = acc
      } } } } })"),
            "reorder(c,y) reorder(c,x) split(x,8) peel(x.o) taps(x.i) unroll(x.i) unroll(kx) split(c,8,c.r0) "
            "sink(c.i) "
            "vectorize(c.i) fuse(n,y) parallel(n)");
}

// All taps of a filter's gradient stay in registers while the image passes by; with images that no cache holds, those
// of all channels near by.
TEST(Schedule, DepthwiseWeightGradients) {
  auto gradient = [](int64_t images) {
    return fmt::format(
        R"(kernel @grad(in g: f32[{0},28,28,24], in a: f32[{0},28,28,24], out b: f32[3,3,1,24]) {{
      each c in 0..24 {{ each m in 0..1 {{ each ky in 0..3 {{ each kx in 0..3 {{
        reg acc: f32
        acc = 0
        for r in 0..{1} {{ when 0 <= ky + mod(r, 28) - 1 && ky + mod(r, 28) - 1 < 28 {{
          for x in max(0, 1 - kx)..min(28, 29 - kx) {{
            acc = fma(g[floordiv(r, 28),mod(r, 28),x,c], a[floordiv(r, 28),ky + mod(r, 28) - 1,kx + x - 1,c], acc)
          }}
        }} }}
        b[ky,kx,m,c] = acc
      }} }} }} }} }})",
        images, images * 28);
  };
  const Target wide = target(256, 8);
  EXPECT_EQ(chosen(gradient(8), wide),
            "reorder(c,m) reorder(c,ky) reorder(m,ky) reorder(c,kx) taps(m) taps(ky) unroll(ky) taps(kx) "
            "unroll(kx) "
            "split(x,4) unroll(x.i) split(c,8,c.r0) sink(c.i) vectorize(c.i) parallel(c.o)");
  EXPECT_EQ(chosen(gradient(400), wide),
            "reorder(c,m) reorder(c,ky) reorder(m,ky) reorder(c,kx) taps(m) taps(ky) unroll(ky) taps(kx) "
            "unroll(kx) "
            "sink(c) split(c,8,c.r0) vectorize(c.i)");
  // A step behind it reads what is the same for all of its elements.
  EXPECT_EQ(
      chosen(
          R"(kernel @grad_step(in g: f32[8,28,28,24], in a: f32[8,28,28,24], in rate: f32[], in w: f32[3,3,1,24],
                                        out b: f32[3,3,1,24]) {
      each c in 0..24 { each m in 0..1 { each ky in 0..3 { each kx in 0..3 {
        reg acc: f32
        acc = 0
        for r in 0..224 { when 0 <= ky + mod(r, 28) - 1 && ky + mod(r, 28) - 1 < 28 {
          for x in max(0, 1 - kx)..min(28, 29 - kx) {
            acc = fma(g[floordiv(r, 28),mod(r, 28),x,c], a[floordiv(r, 28),ky + mod(r, 28) - 1,kx + x - 1,c], acc)
          }
        } }
        b[ky,kx,m,c] = w[ky,kx,m,c] - rate * acc
      } } } } })",
          wide),
      chosen(gradient(8), wide));
  // Too few registers: one row of the filter at a time.
  EXPECT_EQ(
      chosen(gradient(8), target(256, 4)),
      "reorder(c,m) reorder(c,ky) reorder(m,ky) reorder(c,kx) taps(m) taps(kx) unroll(kx) split(x,4) "
      "unroll(x.i) split(c,16,c.r0) split(c.r0,8,c.r1) sink(c.i) split(c.i,8) vectorize(c.i.i) unroll(c.i.o) "
      "sink(c.r0.i) vectorize(c.r0.i) parallel(ky)");
}

TEST(Schedule, WithoutInnerLoops) {
  auto add = [](const char* shape, const char* more, const char* store) {
    return fmt::format(
        "kernel @k(in x: f32[{0}], out y: f32[{0}]{1}) {{ each i in 0..300 {{ each j in 0..1000 {{ {2} }} }} "
        "}}",
        shape, more, store);
  };
  EXPECT_EQ(chosen(add("300,1000", "", "y[i,j] = x[i,j] + 1")), "split(j,8,j.r0) vectorize(j.i) parallel(i)");
  // What depends on the column alone, once for many rows.
  EXPECT_EQ(chosen(R"(kernel @k(in x: f32[3000,40], in s: f32[40], in v: f32[40], out y: f32[3000,40]) {
      each i in 0..3000 { each j in 0..40 { y[i,j] = x[i,j] * (s[j] / sqrt(v[j])) } } })"),
            "split(i,150,i.r) reorder(i.i,j) hoist(j) sink(j) split(j,8,j.r0) vectorize(j.i) parallel(i.o)");
  EXPECT_EQ(chosen(R"(kernel @k(in x: f32[3000,40], in s: f32[40], out y: f32[3000,40]) {
      each i in 0..3000 { each j in 0..40 { y[i,j] = x[i,j] * s[j] } } })"),
            "split(j,8,j.r0) vectorize(j.i) parallel(i)");
  // Lanes far apart: left alone.
  EXPECT_EQ(chosen(add("1000,300", "", "y[j,i] = x[j,i] + 1")), "parallel(i)");
  EXPECT_EQ(chosen("kernel @k(in x: f32[9], out y: f32[9]) { each i in 0..9 { y[i] = x[i] } }"),
            "split(i,8,i.r0) vectorize(i.i)");
}

// Rows and columns that change places in memory: the loads of a vector's worth of rows are turned.
TEST(Schedule, Transpositions) {
  EXPECT_EQ(chosen("kernel @t(in x: f32[40,64], out y: f32[64,40]) {"
                   "  each i in 0..64 { each j in 0..40 { y[i,j] = x[j,i] } } }"),
            "split(j,8,j.r0) split(i,8) sink(i.i) unroll(i.i) sink(j.i) vectorize(j.i)");
  EXPECT_EQ(chosen("kernel @panels(in x: f32[4,64,16], out y: f32[64,64]) {"
                   "  each i in 0..64 { each j in 0..64 { y[i,j] = x[floordiv(i, 16),j,mod(i, 16)] } } }"),
            "split(i,16) split(j,8,j.r0) split(i.i,8) sink(i.i.i) unroll(i.i.i) sink(j.i) vectorize(j.i)");
}

// A byte of a mask belongs to one thread.
TEST(Schedule, ThreadsShareNoByteOfAMask) {
  EXPECT_EQ(
      chosen("kernel @k(in x: f32[100000], out m: mask[100000]) { each i in 0..100000 { m[i] = x[i] < 0 } }"),
      "split(i,8,i.r0) vectorize(i.i) parallel(i.o)");
  EXPECT_EQ(chosen("kernel @k(in x: f32[100000,2], out m: mask[100000]) { each i in 0..100000 { m[i] = "
                   "x[i,0] < 0 } }"),
            "");
}

TEST(Schedule, Reductions) {
  EXPECT_EQ(chosen(R"(kernel @rows(in x: f32[512,640], out y: f32[512,640]) { each r in 0..512 {
      reg sum: f32[16]
      each lane in 0..16 { sum[lane] = 0 }
      for block in 0..40 { each lane in 0..16 { sum[lane] = sum[lane] + x[r,block * 16 + lane] } }
      each lane in 0..8 { sum[lane] = sum[lane] + sum[lane + 8] }
      each c in 0..640 { y[r,c] = x[r,c] / sum[0] }
    } })"),
            "split(c,8,c.r0) vectorize(c.i) vectorize(lane) parallel(r)");
  // Down the columns: neighbours. Of channels: apart, so several sums at once.
  EXPECT_EQ(chosen(R"(kernel @k(in x: f32[512,640], out y: f32[640]) { each c in 0..640 {
      reg sum: f32
      sum = 0
      for n in 0..512 { sum = sum + x[n,c] }
      y[c] = sum
    } })"),
            "split(c,32) sink(c.i) split(c.i,8,c.i.r0) vectorize(c.i.i) unroll(c.i.o) parallel(c.o)");
  // As many sums as there are registers: whole rows.
  EXPECT_EQ(chosen(R"(kernel @k(in x: f32[512,16], out y: f32[16], out z: f32[16]) { each c in 0..16 {
      reg sum: f32
      sum = 0
      reg squares: f32
      squares = 0
      for n in 0..512 {
        reg d: f32
        d = x[n,c] - x[0,c]
        sum = sum + d
        squares = fma(d, d, squares)
      }
      y[c] = sum
      z[c] = squares
    } })"),
            "sink(c) split(c,8,c.r0) vectorize(c.i) unroll(c.o)");
  // More than fits the cache: long runs of every row as it comes from memory.
  EXPECT_EQ(chosen(R"(kernel @k(in x: f32[8192,640], out y: f32[640]) { each c in 0..640 {
      reg sum: f32
      sum = 0
      for n in 0..8192 { sum = sum + x[n,c] }
      y[c] = sum
    } })"),
            "split(c,320) sink(c.i) split(c.i,8,c.i.r0) vectorize(c.i.i) parallel(c.o)");
  EXPECT_EQ(chosen(R"(kernel @k(in x: f32[512,640], out y: f32[512]) { each c in 0..512 {
      reg sum: f32
      sum = 0
      for n in 0..640 { sum = sum + x[c,n] }
      y[c] = sum
    } })"),
            "split(c,16,c.r0) split(n,8) unroll(n.i) sink(c.i) vectorize(c.i) parallel(c.o)");
}

}  // namespace
}  // namespace pock
