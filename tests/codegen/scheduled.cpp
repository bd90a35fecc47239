// Kernels written as a schedule leaves them: every way in which vectors, registers and phases are emitted.
#include <gtest/gtest.h>

#include "compare.h"
#include "pock/support/diag.h"

namespace pock {
namespace {

void expect_text_same(const std::string& text, int integers = 4) {
  const loop::Kernel k = loop::parse_kernel(text);
  for (const Target& t : test_targets()) expect_same(k, t, Fill::ordinary, integers);
}

TEST(Scheduled, TileInRegisters) {
  expect_text_same(R"(kernel @tile(in a: f32[12,9], in b: f32[9,32], out y: f32[12,32]) {
  each i.o in 0..3 parallel {
    each j.o in 0..2 {
      reg acc: f32[4,16]
      each i.i in 0..4 unroll {
        each j.i in 0..16 vector {
          acc[i.i,j.i] = 0.0
        }
      }
      for k in 0..9 {
        each i.i in 0..4 unroll {
          each j.i in 0..16 vector {
            acc[i.i,j.i] = fma(a[i.o * 4 + i.i,k], b[k,j.o * 16 + j.i], acc[i.i,j.i])
          }
        }
      }
      each i.i in 0..4 unroll {
        each j.i in 0..16 vector {
          y[i.o * 4 + i.i,j.o * 16 + j.i] = acc[i.i,j.i]
        }
      }
    }
  }
}
)");
}

TEST(Scheduled, RegistersOfAVectorLoop) {
  expect_text_same(R"(kernel @own(in a: f32[9,16], in b: f32[9], out y: f32[16,2]) {
  each j in 0..16 vector {
    reg acc: f32
    reg pair: f32[2]
    acc = 0.0
    for k in 0..9 {
      acc = fma(a[k,j], b[k], acc)
    }
    pair[0] = acc
    pair[1] = -acc
    y[j,0] = pair[1]
    y[j,1] = pair[0]
  }
}
)");
}

// Sums of sums, a part of which goes over several tiles: alone, and several times at once.
TEST(Scheduled, ChunksOutsideOfTiles) {
  const loop::Kernel plain =
      loop::parse_kernel(R"(kernel @wg(in dy: f32[37,19], in x: f32[37,10], inout w: f32[10,19]) {
  each c in 0..10 {
    each o in 0..19 {
      reg total: f32
      total = 0
      for chunk in 0..3 {
        reg sum: f32
        sum = 0
        for p in chunk * 16..min(chunk * 16 + 16, 37) {
          sum = fma(dy[p,o], x[p,c], sum)
        }
        total = total + sum
      }
      reg step: f32
      step = total * 0.5
      w[c,o] = w[c,o] - step
    }
  }
}
)");
  const std::string tile =
      "split(c,2) sink(c.i) unroll(c.i) sink(o) split(o,8,o.r) vectorize(o.i) unroll(o.o) ";
  for (const std::string more :
       {"interchange(c.o,chunk)", "split(c.o,2) interchange(c.o.i,chunk) parallel(c.o.o)"})
    for (const Target& t : test_targets())
      expect_same(plain, loop::apply(plain, loop::parse_schedule(tile + more)), t);
}

TEST(Scheduled, UnevenVectors) {
  expect_text_same(R"(kernel @uneven(in a: f32[3,5], in t: f64[5], out y: f32[3,5], out z: f64[5]) {
  each i in 0..3 parallel {
    each j in 0..5 vector {
      y[i,j] = max(a[i,j], a[i,4 - j]) + f32(j)
    }
  }
  each j in 0..5 vector {
    z[j] = t[j] * f64(a[0,j])
  }
}
)");
}

TEST(Scheduled, GatheredLanes) {
  expect_text_same(R"(kernel @lanes(in ids: i32[16], in a: f32[7,3], out y: f32[16], out n: i32[16]) {
  each j in 0..16 vector {
    y[j] = a[i64(ids[j]),1] + a[mod(j, 7),2] + a[floordiv(j, 5),0]
    n[j] = ids[15 - j] * 3
  }
}
)",
                   7);
}

TEST(Scheduled, WorkspaceAndPhases) {
  const loop::Kernel plain = loop::parse_kernel(R"(kernel @packed(in a: f32[6,4], out y: f32[4,6]) {
  each i in 0..4 {
    each j in 0..6 {
      y[i,j] = a[j,i] * 2.0
    }
  }
}
)");
  const loop::Kernel packed =
      loop::parse_kernel(R"(kernel @packed(in a: f32[6,4], out y: f32[4,6], workspace p: f32[4,6]) {
  each j in 0..6 parallel {
    each i in 0..4 unroll {
      p[i,j] = a[j,i]
    }
  }
  each i in 0..4 parallel {
    each j in 0..6 vector {
      y[i,j] = p[i,j] * 2.0
    }
  }
}
)");
  for (const Target& t : test_targets()) expect_same(plain, packed, t);
}

TEST(Scheduled, StepsAndClippedBounds) {
  expect_text_same(R"(kernel @steps(in a: f32[37], inout y: f32[37]) {
  each i in 3..37 step 5 parallel {
    for k in max(0, i - 30)..min(3, 37 - i) {
      y[i + k] = y[i + k] + a[i]
    }
  }
}
)");
}

// An index that is no sum is computed anew where an unrolled variable in it is another one.
TEST(Scheduled, PlacesOfUnrolledLoops) {
  expect_text_same(R"(kernel @places(in a: f32[9], out y: f32[9,4], out z: f32[9,4]) {
  each i in 0..9 {
    each u in 0..4 unroll {
      y[i,u] = a[floordiv(i + u, 2)]
      z[i,u] = a[mod(i + u, 3)]
    }
  }
}
)");
}

// Blocks of two tensors at the same place are two.
TEST(Scheduled, TurnedLoadsOfTwoTensors) {
  expect_text_same(R"(kernel @turned(in a: f32[8,8], in b: f32[8,8], out y: f32[8]) {
  reg acc: f32[8]
  each j in 0..8 vector {
    acc[j] = 0
  }
  for k in 0..8 unroll {
    each j in 0..8 vector {
      acc[j] = fma(a[j,k], b[j,k], acc[j])
    }
  }
  each j in 0..8 vector {
    y[j] = acc[j]
  }
}
)");
}

// What one branch has loaded, another one has not.
TEST(Scheduled, TurnedLoadsOfBranches) {
  expect_text_same(
      R"(kernel @branches(in c: f32[16], in a: f32[8,4], out y: f32[16,8,4], out z: f32[16,8,4]) {
  each i in 0..16 {
    when c[i] < 0 {
      for k in 0..4 unroll {
        each j in 0..8 vector {
          y[i,j,k] = a[j,k]
        }
      }
    }
    when 0 <= c[i] {
      for k in 0..4 unroll {
        each j in 0..8 vector {
          z[i,j,k] = a[j,k]
        }
      }
    }
  }
}
)");
}

// Blocks of threads are a GPU's.
TEST(Scheduled, ThreadsOfABlockAreRefused) {
  for (const auto& [body, what] :
       {std::pair("each t in 0..4 thread { y[t] = 1 }", "thread loop t is"),
        std::pair("shared s: f32", "shared s is"), std::pair("barrier", "a barrier is")}) {
    const loop::Kernel k = loop::parse_kernel(fmt::format("kernel @k(out y: f32[4]) {{ {} }}", body));
    try {
      load_kernels({k}, test_targets()[0]);
      ADD_FAILURE() << body;
    } catch (const Error& e) {
      EXPECT_EQ(e.what(),
                fmt::format("kernel k: {} for blocks of threads, which target host does not have", what));
    }
  }
}

}  // namespace
}  // namespace pock
