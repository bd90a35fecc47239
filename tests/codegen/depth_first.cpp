// A chain of convolutions run depth first: every row that arrives makes at once the rows behind it that it completes.
// Between two layers there is a ring of three rows, as high as the kernel that reads it, and no image.
#include <gtest/gtest.h>

#include <cstring>
#include <ostream>

#include "compare.h"
#include "pock/ir/text.h"
#include "pock/loop/build.h"
#include "pock/ops/evaluate.h"

namespace pock {
namespace {

using loop::BufferRef;
using loop::Expr;
using loop::KernelBuilder;
using loop::load;
using loop::Space;

constexpr int64_t kKernel = 3;  // rows and columns; padded by one

struct Chain {
  Dims image;                     // height and width
  std::vector<int64_t> channels;  // of the image, then of each layer's result
  std::vector<int64_t> strides;   // of each layer
  int64_t band;                   // rows of the image that arrive together

  // Height and width behind some layers.
  Dims size(size_t layers) const {
    Dims s = image;
    for (size_t i = 0; i < layers; ++i)
      for (int64_t& n : s) n = (n + 2 - kKernel) / strides[i] + 1;
    return s;
  }
};
void PrintTo(const Chain& c, std::ostream* out) {
  *out << fmt::format("{} channels {} strides {} bands of {}", fmt::join(c.image, "x"),
                      fmt::join(c.channels, ","), fmt::join(c.strides, ","), c.band);
}

// Channels last. `rows`: of each ring.
class DepthFirst {
 public:
  DepthFirst(const Chain& chain, std::vector<int64_t> rows)
      : c_(chain), rows_(std::move(rows)), k_("depth_first") {}

  loop::Kernel build() {
    const size_t layers = c_.strides.size();
    const Dims in = c_.image, out = c_.size(layers);
    images_.push_back(k_.arg("x", {DType::f32, {in[0], in[1], c_.channels[0]}}, Space::in));
    for (size_t i = 0; i < layers; ++i)
      weights_.push_back(k_.arg(fmt::format("w{}", i + 1),
                                {DType::f32, {kKernel, kKernel, c_.channels[i], c_.channels[i + 1]}},
                                Space::in));
    BufferRef y = k_.arg("y", {DType::f32, {out[0], out[1], c_.channels[layers]}}, Space::out);
    for (size_t i = 1; i < layers; ++i)
      images_.push_back(k_.arg(fmt::format("ring{}", i),
                               {DType::f32, {rows_[i - 1], c_.size(i)[1], c_.channels[i]}},
                               Space::workspace));
    images_.push_back(y);
    k_.loop("band", 0, loop::ceildiv(in[0], c_.band), [&](Expr band) {
      k_.loop("row", band * c_.band, min(Expr(in[0]), band * c_.band + c_.band),
              [&](Expr row) { arrived(0, row); });
    });
    return k_.take();
  }

 private:
  // Rows of the result of layer `i` that `rows` of what it reads are enough for.
  Expr made(size_t i, const Expr& rows) const {
    return select(rows == c_.size(i)[0], Expr(c_.size(i + 1)[0]),
                  max(Expr(0), loop::ceildiv(rows - 1, c_.strides[i])));
  }

  void arrived(size_t i, const Expr& row) {
    if (i == c_.strides.size()) return;
    k_.loop(fmt::format("y{}", i + 1), made(i, row), made(i, row + 1), [&](Expr y) {
      make(i, y);
      arrived(i + 1, y);
    });
  }

  // Where the row is in what there is of the result of `i` layers.
  Expr place(size_t i, const Expr& row) const {
    return i == 0 || i == c_.strides.size() ? row : loop::mod(row, rows_[i - 1]);
  }

  void make(size_t i, const Expr& y) {
    const Dims in = c_.size(i), out = c_.size(i + 1);
    const int64_t stride = c_.strides[i];
    const auto lo = [&](const Expr& o) { return max(Expr(0), 1 - o * stride); };
    const auto hi = [&](const Expr& o, int64_t n) { return min(Expr(kKernel), n + 1 - o * stride); };
    k_.each("x", out[1], [&](Expr x) {
      k_.each("c", c_.channels[i + 1], [&](Expr c) {
        BufferRef acc = k_.reg("acc", loop::lit(0));
        k_.loop("ky", lo(y), hi(y, in[0]), [&](Expr ky) {
          k_.loop("kx", lo(x), hi(x, in[1]), [&](Expr kx) {
            k_.loop("ic", 0, c_.channels[i], [&](Expr ic) {
              Expr tap = load(images_[i], {place(i, y * stride + ky - 1), x * stride + kx - 1, ic});
              k_.set(acc, fma(tap, load(weights_[i], {ky, kx, ic, c}), load(acc)));
            });
          });
        });
        k_.store(images_[i + 1], {place(i + 1, y), x, c}, load(acc));
      });
    });
  }

  const Chain& c_;
  const std::vector<int64_t> rows_;
  KernelBuilder k_;
  std::vector<BufferRef> images_, weights_;  // images_: of the input, then of each layer's result
};

// The operators, one after the other.
std::unique_ptr<Graph> layer_by_layer(const Chain& c) {
  const auto image = [&](size_t i) {
    return fmt::format("f32[1,{},{}]{{0,2,3,1}}", c.channels[i], fmt::join(c.size(i), ","));
  };
  std::string text = fmt::format("pock 1\ngraph @chain {{ input %x : {}\n", image(0)), nodes;
  for (size_t i = 0; i < c.strides.size(); ++i) {
    text += fmt::format("param %w{} : f32[{},{},3,3]{{2,3,1,0}}\n", i + 1, c.channels[i + 1], c.channels[i]);
    nodes += fmt::format("%{} = conv(%{}, %w{}) {{pad = [1,1,1,1], stride = [{},{}]}} : {}\n", i,
                         i ? std::to_string(i - 1) : "x", i + 1, c.strides[i], c.strides[i], image(i + 1));
  }
  return parse_graph(fmt::format("{}{}output %{} }}\n", text, nodes, c.strides.size() - 1));
}

std::vector<Guarded> arguments(const loop::Kernel& k) {
  std::mt19937 random(3);
  return make_arguments(k, random);
}

// What the operators make of the kernel's arguments.
std::vector<std::byte> expected(const Chain& c, std::vector<Guarded> args) {
  std::unique_ptr<Graph> g = layer_by_layer(c);
  Memory m = initial_memory(*g);
  const auto bytes_of = [&](const Value* v) { return static_cast<size_t>(v->type.bytes()); };
  for (size_t i = 0; i <= c.strides.size(); ++i) {
    const Value* v = i ? g->params()[i - 1] : g->inputs()[0];
    std::memcpy(m.at(v), args[i].data(), bytes_of(v));
  }
  evaluate(*g, m);
  const Value* y = g->outputs()[0];
  const auto* first = static_cast<const std::byte*>(m.at(y));
  return {first, first + bytes_of(y)};
}

// Whether the kernel, interpreted, gives the bits of the operators.
bool is_right(const Chain& c, const loop::Kernel& k) {
  std::vector<Guarded> args = arguments(k);
  const std::vector<std::byte> want = expected(c, args);
  loop::interpret(k, pointers(args));
  Guarded& y = args[c.strides.size() + 1];
  return y.guards_intact() && want.size() == static_cast<size_t>(y.buffer.type.bytes()) &&
         std::memcmp(want.data(), y.data(), want.size()) == 0;
}

class DepthFirstChain : public testing::TestWithParam<Chain> {};

TEST_P(DepthFirstChain, IsTheLayersBitForBit) {
  const Chain& c = GetParam();
  const std::vector<int64_t> rows(c.strides.size() - 1, kKernel);
  const loop::Kernel k = DepthFirst(c, rows).build();
  loop::verify(k);
  EXPECT_EQ(loop::print(loop::parse_kernel(loop::print(k))), loop::print(k));
  EXPECT_TRUE(is_right(c, k)) << loop::print(k);
  const loop::Kernel vectors = loop::apply(k, loop::parse_schedule("split(c,8) sink(c.i) vectorize(c.i)"));
  for (const Target& t : test_targets())
    for (const loop::Kernel& compiled : {k, vectors}) expect_same(k, compiled, t);
}

// All the memory that it takes beside image, weights and result.
TEST_P(DepthFirstChain, TakesThreeRowsALayer) {
  const Chain& c = GetParam();
  const loop::Kernel k = DepthFirst(c, std::vector<int64_t>(c.strides.size() - 1, kKernel)).build();
  int64_t bytes = 0, wanted = 0;
  for (const BufferRef& b : k.args)
    if (b->space == Space::workspace) bytes += b->type.bytes();
  for (size_t i = 1; i < c.strides.size(); ++i) wanted += 3 * c.size(i)[1] * c.channels[i] * 4;
  EXPECT_EQ(bytes, wanted);
}

TEST_P(DepthFirstChain, NeedsEveryRow) {
  const Chain& c = GetParam();
  for (size_t i = 0; i + 1 < c.strides.size(); ++i) {
    std::vector<int64_t> rows(c.strides.size() - 1, kKernel);
    --rows[i];
    // Two rows are enough where there are no more.
    EXPECT_EQ(is_right(c, DepthFirst(c, rows).build()), c.size(i + 1)[0] < kKernel) << "ring " << i + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Chains, DepthFirstChain,
    testing::Values(Chain{{11, 9}, {3, 5, 7, 4}, {1, 2, 1}, 1}, Chain{{11, 9}, {3, 5, 7, 4}, {1, 2, 1}, 4},
                    Chain{{13, 7}, {1, 17, 9, 3}, {2, 1, 2}, 3}, Chain{{8, 15}, {4, 8, 16}, {1, 1}, 3},
                    Chain{{10, 6}, {2, 3, 5}, {1, 2}, 16}, Chain{{3, 5}, {2, 3, 1, 2}, {2, 1, 1}, 2}));

}  // namespace
}  // namespace pock
