// Dot products of bytes: one instruction where the target has it and the integers stay the same.
#include "../loop/int8.h"

#include <gtest/gtest.h>

#include "compare.h"

namespace pock {
namespace {

// Lanes of output channels, and four input channels at a time.
constexpr const char* kFourAtATime =
    "reorder(oc,oy) reorder(oc,ox) split(oc,16,oc.r) sink(oc.i) vectorize(oc.i) split(ic,4,ic.r) "
    "unroll(ic.i)";

bool has_dots(const loop::Kernel& k, const std::string& cpu) {
  const std::string text = assembly(k, find_target("x86-64", cpu));
  EXPECT_EQ(text.find("vpdpbusds"), std::string::npos) << "words wrap around";
  return text.find("\tvpdpbusd\t") != std::string::npos;
}

TEST(Int8, ConvolutionCompiled) {
  const loop::Kernel plain = loop::parse_kernel(loop::kConvInt8);
  loop::ConvInt8 numbers;
  for (const loop::Kernel& k : {plain, loop::apply(plain, loop::parse_schedule(kFourAtATime))})
    for (const Target& t : test_targets()) {
      std::unique_ptr<HostKernels> compiled = load_kernels({k}, t);
      EXPECT_EQ(numbers.difference([&](const std::vector<void*>& args) { compiled->run(0, args); }), "")
          << t.cpu << "\n"
          << loop::print(k);
    }
}

TEST(Int8, ConvolutionUsesDotProducts) {
  const loop::Kernel plain = loop::parse_kernel(loop::kConvInt8);
  const loop::Kernel k = loop::apply(plain, loop::parse_schedule(kFourAtATime));
  for (const char* cpu : {"cascadelake", "icelake-server", "znver4"}) EXPECT_TRUE(has_dots(k, cpu)) << cpu;
  for (const char* cpu : {"x86-64-v3", "x86-64-v4", "skylake-avx512"}) EXPECT_FALSE(has_dots(k, cpu)) << cpu;
  EXPECT_FALSE(has_dots(plain, "cascadelake"));
}

// Sums of `lanes` words that start close to the largest one; `terms` are added in an unrolled loop over c.
loop::Kernel sums(int lanes, const std::string& terms, const std::string& types = "u8,i8", int trips = 4,
                  const std::string& more = "") {
  const size_t comma = types.find(',');
  return loop::parse_kernel(fmt::format(
      R"(kernel @sums(in x: {0}[3,8], in w: {1}[3,16,8], out y: i32[16], out z: i32[16]) {{
      reg acc: i32[16]
      each j in 0..{2} vector {{ acc[j] = 2147480000 }}
      for k in 0..3 {{
        for c in 0..{4} unroll {{
          each j in 0..{2} vector {{ acc[j] = {3} }}
          {5}
        }}
      }}
      each j in 0..{2} vector {{ y[j] = acc[j] }}
    }})",
      types.substr(0, comma), types.substr(comma + 1), lanes, terms, trips, more));
}

TEST(Int8, DotProductsOnlyWhereTheyAreTheSame) {
  struct Case {
    loop::Kernel kernel;
    bool dots;
  };
  const std::string ordinary = "acc[j] + i32(x[k,c]) * i32(w[k,j,c])";
  const std::string more = "each j in 0..16 vector { z[j] = acc[j] }";
  const Case cases[] = {
      {sums(16, ordinary), true},
      {sums(8, ordinary), true},
      {sums(4, ordinary), true},
      {sums(16, "i32(w[k,j,c]) * i32(x[k,c + 3]) + acc[j]"), true},
      {sums(16, "acc[j] + i32(x[k,c]) * i32(w[k,15 - j,4 + c])", "u8,i8"), true},
      {sums(5, ordinary), false},            // no register has so many words
      {sums(16, ordinary, "i8,i8"), false},  // signs
      {sums(16, ordinary, "u8,u8"), false},
      {sums(16, ordinary, "u8,i8", 3), false},  // terms
      {sums(16, ordinary, "u8,i8", 8), false},
      {sums(16, ordinary, "u8,i8", 4, more), false},  // sums that are read in between
      {sums(16, "acc[j] + i32(x[mod(i64(acc[j]), 2),c]) * i32(w[k,j,c])"), false},
      {sums(16, "7 + i32(x[k,c]) * i32(w[k,j,c])"), false},  // not a sum
      {sums(16, "acc[j] - i32(x[k,c]) * i32(w[k,j,c])"), false},
      {sums(16, "acc[j] + i32(x[k,c * 2]) * i32(w[k,j,c])"), false},  // gaps
      {sums(16, "acc[j] + i32(x[k,3 - c]) * i32(w[k,j,c])"), false},
      {sums(16, "acc[j] + i32(i8(x[k,c])) * i32(w[k,j,c])"), false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(loop::print(c.kernel));
    loop::verify(c.kernel);
    EXPECT_EQ(has_dots(c.kernel, "cascadelake"), c.dots);
    for (const Target& t : test_targets()) expect_same(c.kernel, t, Fill::ordinary, 256);
  }
}

}  // namespace
}  // namespace pock
