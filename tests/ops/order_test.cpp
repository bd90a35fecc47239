// The order of every sum, bit for bit: plain C++ that follows docs/arithmetic.md against the operators' nests
// in f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/cases/op_case.h"
#include "pock/ops/op.h"

namespace pock::test {
namespace {

using Floats = std::vector<float>;

Floats floats(int64_t count, uint64_t seed) {
  Numbers n = random_numbers(count, -2, 2, seed);
  return {n.begin(), n.end()};
}

// The results of one node, in f32.
std::vector<Floats> run(const char* op, const std::vector<std::pair<Dims, Floats>>& inputs,
                        Attrs attrs = {}) {
  Graph g;
  std::vector<Value*> values;
  Memory m;
  for (const auto& [dims, elements] : inputs) {
    values.push_back(g.add_input("x" + std::to_string(values.size()), {DType::f32, dims}));
    m.set(values.back(), Numbers(elements.begin(), elements.end()));
  }
  Node* n = Builder(g).make(op, values, std::move(attrs));
  evaluate(g, m);
  std::vector<Floats> results;
  for (Value* v : n->results()) {
    Numbers numbers = m.read(v);
    results.emplace_back(numbers.begin(), numbers.end());
  }
  return results;
}

float lanes(const float* x, int64_t count) {
  float lane[16] = {};
  for (int64_t i = 0; i < count; ++i) lane[i % 16] += x[i];
  for (int width = 8; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  return lane[0];
}

TEST(Order, LastAxisSumsInLanes) {
  for (int64_t length : {1, 5, 16, 17, 33, 100, 2000}) {
    Floats x = floats(3 * length, length);
    Floats got = run("reduce_sum", {{{3, length}, x}}, {{"axes", Dims{1}}})[0];
    for (int64_t row = 0; row < 3; ++row) EXPECT_EQ(got[row], lanes(&x[row * length], length)) << length;
  }
}

// Chunks over [rows, row length] of one channel, given element by element.
template <class Add>
float chunked(int64_t rows, int64_t row, Add add) {
  int64_t per_chunk = (1024 + row - 1) / row;
  float total = 0;
  for (int64_t start = 0; start < rows; start += per_chunk) {
    float sum = 0;
    for (int64_t r = start; r < std::min(rows, start + per_chunk); ++r)
      for (int64_t x = 0; x < row; ++x) sum = add(r, x, sum);
    total += sum;
  }
  return total;
}

TEST(Order, OtherSumsAreChunksOfRows) {
  for (auto [n, h, w] : {std::tuple{2, 3, 5}, {7, 20, 33}, {3, 2, 1500}, {2, 64, 16}}) {
    const int64_t channels = 3;
    Floats x = floats(n * channels * h * w, w);
    Floats got = run("reduce_sum", {{{n, channels, h, w}, x}}, {{"axes", Dims{0, 2, 3}}})[0];
    for (int64_t c = 0; c < channels; ++c)
      EXPECT_EQ(got[c], chunked(n * h, w, [&](int64_t r, int64_t i, float sum) {
                  return sum + x[((r / h * channels + c) * h + r % h) * w + i];
                }));
  }
}

TEST(Order, SumOverTheBatchIsOneChunk) {
  Floats x = floats(3000 * 2, 1);
  Floats got = run("reduce_sum", {{{3000, 2}, x}}, {{"axes", Dims{0}}})[0];
  for (int c : {0, 1}) {
    float sum = 0;
    for (int i = 0; i < 3000; ++i) sum += x[2 * i + c];
    EXPECT_EQ(got[c], sum);
  }
}

TEST(Order, MatmulIsOneFmaChain) {
  Floats a = floats(7 * 50, 1), b = floats(50 * 5, 2);
  Floats got = run("matmul", {{{7, 50}, a}, {{50, 5}, b}})[0];
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < 5; ++j) {
      float sum = 0;
      for (int k = 0; k < 50; ++k) sum = std::fma(a[i * 50 + k], b[k * 5 + j], sum);
      EXPECT_EQ(got[i * 5 + j], sum);
    }
}

// x [2,3,9,8], w [4,3,3,2], stride 2, 1; padding 1, 0, 2, 1; dilation 1, 2.
struct Convolution {
  Attrs attrs{{"stride", Dims{2, 1}}, {"pad", Dims{1, 0, 2, 1}}, {"dilation", Dims{1, 2}}};
  Dims x{2, 3, 9, 8}, w{4, 3, 3, 2}, y{2, 4, 5, 7};
  static int64_t at(const Dims& d, int64_t a, int64_t b, int64_t c, int64_t e) {
    return ((a * d[1] + b) * d[2] + c) * d[3] + e;
  }
  static int64_t row(int64_t oy, int64_t ky) { return oy * 2 - 1 + ky; }
  static int64_t column(int64_t ox, int64_t kx) { return ox + kx * 2; }
  bool inside(int64_t iy, int64_t ix) const { return iy >= 0 && ix >= 0 && iy < x[2] && ix < x[3]; }
};

int64_t elements(const Dims& d) { return Type{DType::f32, d}.elements(); }

TEST(Order, ConvolutionSumsOverRowColumnChannel) {
  Convolution c;
  Floats x = floats(elements(c.x), 1), w = floats(elements(c.w), 2), want;
  for (int64_t n = 0; n < c.y[0]; ++n)
    for (int64_t o = 0; o < c.y[1]; ++o)
      for (int64_t oy = 0; oy < c.y[2]; ++oy)
        for (int64_t ox = 0; ox < c.y[3]; ++ox) {
          float sum = 0;
          for (int64_t ky = 0; ky < c.w[2]; ++ky)
            for (int64_t kx = 0; kx < c.w[3]; ++kx)
              for (int64_t i = 0; i < c.w[1]; ++i)
                if (c.inside(c.row(oy, ky), c.column(ox, kx)))
                  sum = std::fma(x[c.at(c.x, n, i, c.row(oy, ky), c.column(ox, kx))],
                                 w[c.at(c.w, o, i, ky, kx)], sum);
          want.push_back(sum);
        }
  EXPECT_EQ(run("conv", {{c.x, x}, {c.w, w}}, c.attrs)[0], want);
}

TEST(Order, InputGradientSumsOverRowColumnFilter) {
  Convolution c;
  Floats dy = floats(elements(c.y), 1), w = floats(elements(c.w), 2), want;
  for (int64_t n = 0; n < c.x[0]; ++n)
    for (int64_t i = 0; i < c.x[1]; ++i)
      for (int64_t iy = 0; iy < c.x[2]; ++iy)
        for (int64_t ix = 0; ix < c.x[3]; ++ix) {
          float sum = 0;
          for (int64_t ky = 0; ky < c.w[2]; ++ky)
            for (int64_t kx = 0; kx < c.w[3]; ++kx)
              for (int64_t o = 0; o < c.w[0]; ++o)
                for (int64_t oy = 0; oy < c.y[2]; ++oy)
                  for (int64_t ox = 0; ox < c.y[3]; ++ox)
                    if (c.row(oy, ky) == iy && c.column(ox, kx) == ix)
                      sum = std::fma(dy[c.at(c.y, n, o, oy, ox)], w[c.at(c.w, o, i, ky, kx)], sum);
          want.push_back(sum);
        }
  Attrs attrs = c.attrs;
  attrs["size"] = Dims{9, 8};
  EXPECT_EQ(run("conv_input_grad", {{c.y, dy}, {c.w, w}}, attrs)[0], want);
}

// [7,2,20,33] gives chunks of 32 rows, padding and all.
TEST(Order, WeightGradientSumsInChunks) {
  const Dims dx{7, 2, 20, 33}, dims_y{7, 3, 20, 33};
  Floats x = floats(elements(dx), 1), dy = floats(elements(dims_y), 2), want;
  for (int64_t o = 0; o < 3; ++o)
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t ky = 0; ky < 3; ++ky)
        for (int64_t kx = 0; kx < 3; ++kx)
          want.push_back(chunked(7 * 20, 33, [&](int64_t r, int64_t ox, float sum) {
            int64_t n = r / 20, oy = r % 20, iy = oy - 1 + ky, ix = ox - 1 + kx;
            if (iy < 0 || ix < 0 || iy >= 20 || ix >= 33) return sum;
            return std::fma(dy[Convolution::at(dims_y, n, o, oy, ox)], x[Convolution::at(dx, n, i, iy, ix)],
                            sum);
          }));
  Attrs attrs{{"pad", Dims{1, 1, 1, 1}}, {"kernel", Dims{3, 3}}};
  EXPECT_EQ(run("conv_weight_grad", {{dims_y, dy}, {dx, x}}, attrs)[0], want);
}

TEST(Order, MomentsJoinChunksByChan) {
  const int64_t n = 3, channels = 2, h = 30, w = 33;
  Floats x = floats(n * channels * h * w, 5);
  for (float& v : x) v += 1000;
  auto got = run("moments", {{{n, channels, h, w}, x}});
  for (int64_t c = 0; c < channels; ++c) {
    auto at = [&](int64_t r, int64_t i) { return x[((r / h * channels + c) * h + r % h) * w + i]; };
    const int64_t per_chunk = 32, rows = n * h;  // 32 rows of 33
    float mean = 0, m2 = 0;
    for (int64_t start = 0; start < rows; start += per_chunk) {
      int64_t end = std::min(rows, start + per_chunk);
      float p = at(start, 0), s = 0, q = 0;
      for (int64_t r = start; r < end; ++r)
        for (int64_t i = 0; i < w; ++i) {
          float d = at(r, i) - p;
          s += d;
          q = std::fma(d, d, q);
        }
      float before = static_cast<float>(start * w), after = static_cast<float>(end * w),
            count = after - before;
      float ratio = s / count, delta = p + ratio - mean, product = s * ratio, square = delta * delta;
      float chunk_m2 = q - product, spread = square * (before * count / after);
      m2 = m2 + chunk_m2 + spread;
      float step = delta * (count / after);
      mean = mean + step;
    }
    EXPECT_EQ(got[0][c], mean);
    EXPECT_EQ(got[1][c], m2 / static_cast<float>(rows * w));
  }
}

// Sub-gradients at ties, where differences say nothing.
TEST(Gradients, OfMaximaOverAxesAreSharedByTies) {
  OpCase c{"reduce_max", "", {in({2, 3}).is({4, 1, 4, 2, 2, 2})}, {{"axes", Dims{1}}}};
  CaseGraph g = case_graph(c, true);
  Memory m = initial_memory(*g.graph);
  m.set(g.inputs[0], c.data()[0]);
  m.set(g.upstream[0], Numbers{1, 3});
  evaluate(*g.graph, m);
  EXPECT_EQ(m.read(g.gradients[0][0]), (Numbers{0.5, 0, 0.5, 1, 1, 1}));
}

// An immediate update needs the old weight only until the input gradient is done.
TEST(Gradients, OfInputsComeBeforeThoseOfWeights) {
  for (const char* op : {"conv", "matmul"})
    for (const OpCase& c : all_cases()) {
      if (c.op != op) continue;
      CaseGraph g = case_graph(c, true);
      auto nodes = g.graph->nodes();
      auto place = [&](int i) { return std::find(nodes.begin(), nodes.end(), g.gradients[i][0]->node); };
      EXPECT_LT(place(0), place(1));
    }
}

}  // namespace
}  // namespace pock::test
