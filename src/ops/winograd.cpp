// A 3x3 convolution by fewer products: Winograd's F(2x2,3x3), after Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks" (2016). Tiles of 4x4 elements of x, two apart, and the filters are transformed to 16 matrices each;
// 16 matrix products later, tiles of 2x2 results are transformed back: 16 products for what takes 36.
//
//   V = B' d B,   U = G g G',   Y = A' (V * U, summed over channels) A
//
// The transforms add and subtract, and halve; each result of them is written out below, so its rounding is known.
#include "winograd.h"

#include <array>

#include "pock/ir/builder.h"

namespace pock {
namespace {

using loop::Expr;
using loop::lit;

constexpr int64_t kTile = 2, kTaps = 3, kReads = kTile + kTaps - 1, kMatrices = kReads * kReads;

int64_t tiles(int64_t extent) { return (extent + kTile - 1) / kTile; }

// A transform along columns and then rows: element(i, j) of `n` x `n` elements, and store(number, value) of each of the 16
// results.
template <size_t n>
void along_both(const std::function<Expr(int64_t, int64_t)>& element,
                const std::function<std::array<Expr, kReads>(const std::array<Expr, n>&)>& transformed,
                const std::function<void(int64_t, Expr)>& store) {
  std::array<std::array<Expr, n>, kReads> rows;
  for (size_t j = 0; j < n; ++j) {
    std::array<Expr, n> column;
    for (size_t i = 0; i < n; ++i) column[i] = element(i, j);
    const std::array<Expr, kReads> made = transformed(column);
    for (size_t i = 0; i < kReads; ++i) rows[i][j] = made[i];
  }
  for (size_t i = 0; i < kReads; ++i) {
    const std::array<Expr, kReads> row = transformed(rows[i]);
    for (size_t j = 0; j < kReads; ++j) store(i * kReads + j, row[j]);
  }
}

// `flipped` is the filter of the convolution's gradient: each filter turned round, from its outputs to its inputs.
template <bool flipped>
Types filter_types(const InferArgs& a) {
  need_floats(a);
  need_rank(a, 0, 4);
  const Type& w = a.in(0);
  if (w.dim(2) != kTaps || w.dim(3) != kTaps) throw a.fail("the filter is {}, not 3x3", to_string(w));
  return {Type{DType::f32, {kMatrices, w.dim(flipped ? 0 : 1), w.dim(flipped ? 1 : 0)}}};
}

template <bool flipped>
void filter_nest(NestArgs& n) {
  const Type& y = n.out_type();
  n.each("i", y.dim(1), [&](Expr in) {
    n.each("o", y.dim(2), [&](Expr out) {
      auto kept = [&](Expr e) { return load(n.reg("u", std::move(e))); };
      along_both<kTaps>(
          [&](int64_t i, int64_t j) {
            return kept(flipped ? n.in(0, {in, out, kTaps - 1 - i, kTaps - 1 - j})
                                : n.in(0, {out, in, i, j}));
          },
          [&](const std::array<Expr, kTaps>& g) {
            const Expr ends = kept(g[0] + g[2]);
            return std::array{g[0], kept((ends + g[1]) * lit(0.5)), kept((ends - g[1]) * lit(0.5)), g[2]};
          },
          [&](int64_t matrix, const Expr& value) {
            n.out(0, {matrix, in, out}, value);
          });
    });
  });
}

const OpDef kWinogradFilter{
    .name = "winograd_filter",
    .doc = "filters [O,C,3,3] of a convolution, as winograd_conv reads them: [16,C,O]",
    .inputs = 1,
    .infer = filter_types<false>,
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Nest(filter_nest<false>),
    .layouts = {Best::outputs_last, Best::any},
};

const OpDef kWinogradFlippedFilter{
    .name = "winograd_flipped_filter",
    .doc = "the same for the gradient of the convolution's input: [16,O,C]",
    .inputs = 1,
    .infer = filter_types<true>,
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Nest(filter_nest<true>),
    .layouts = {Best::inputs_last, Best::any},
};

// What is in memory at a time of transformed tiles: some rows of tiles of an image, or those of some images.
struct Part {
  int64_t images, rows, columns, parts;

  // As many as make no more than `most` bytes; at least a row, or an image whose rows of tiles no part divides.
  Part(const Dims& y, int64_t channels, int64_t most) : images(1), rows(tiles(y[2])), columns(tiles(y[3])) {
    const auto bytes = [&] { return kMatrices * count() * channels * int64_t{sizeof(float)}; };
    const int64_t all_rows = rows;
    const auto divides = [](int64_t n, int64_t all) { return all % n == 0; };
    while (images < y[0] && bytes() <= most) ++images;
    while (images > 1 && (bytes() > most || !divides(images, y[0]))) --images;
    if (y[2] % kTile == 0)
      while (rows > 1 && (bytes() > most || !divides(rows, all_rows))) --rows;
    parts = y[0] / images * (all_rows / rows);
  }
  int64_t count() const { return images * rows * columns; }
};

// The 16 sums of products of a convolution, from its image to its result.
class Tiles {
 public:
  explicit Tiles(NestArgs& n)
      : n_(n),
        y_(n.out_type().dims),
        part_(y_, n.in_type(0).dim(1) + y_[1], n.node.integer("bytes")),
        v_(n.arg("v", {DType::f32, {kMatrices, part_.count(), n.in_type(0).dim(1)}}, loop::Space::workspace)),
        m_(n.arg("m", {DType::f32, {kMatrices, part_.count(), y_[1]}}, loop::Space::workspace)) {}

  void run() {
    if (part_.parts == 1) return part(0);
    n_.loop("part", 0, part_.parts, [&](const Expr& i) { part(i); });
  }

 private:
  void part(const Expr& number) {
    const int64_t bands = tiles(y_[2]) / part_.rows;
    const Expr image = floordiv(number, bands) * part_.images, row = mod(number, bands) * part_.rows;
    transform(image, row);
    multiply();
    transform_back(image, row);
  }

  Expr tile(const Expr& image, const Expr& y, const Expr& x) const {
    return (image * part_.rows + y) * part_.columns + x;
  }

  void transform(const Expr& image, const Expr& row) {
    n_.each("image", part_.images, [&](Expr g) {
      n_.each("ty", part_.rows, [&](Expr y) {
        n_.each("tx", part_.columns, [&](Expr x) {
          n_.each("c", v_->type.dim(2), [&](Expr c) {
            along_both<kReads>(
                [&](int64_t i, int64_t j) {
                  return kept(element(image + g, c, (row + y) * kTile + i, x * kTile + j));
                },
                [&](const std::array<Expr, kReads>& d) {
                  return std::array{kept(d[0] - d[2]), kept(d[1] + d[2]), kept(d[2] - d[1]),
                                    kept(d[1] - d[3])};
                },
                [&](int64_t matrix, const Expr& value) {
                  n_.store(v_, {matrix, tile(g, y, x), c}, value);
                });
          });
        });
      });
    });
  }

  Expr kept(Expr e) { return load(n_.reg("d", std::move(e))); }

  // Of x, at a place counted from the padding's start; 0 on padding.
  Expr element(const Expr& image, const Expr& channel, const Expr& y, const Expr& x) {
    const std::vector<int64_t>& pad = n_.node.integers("pad");
    const Expr from_pad[] = {y, x};
    std::vector<Expr> index{image, channel};
    Expr inside;
    auto also = [&](const Expr& e) { inside = inside.get() ? inside && e : e; };
    for (size_t axis = 0; axis < 2; ++axis) {
      const int64_t extent = n_.in_type(0).dim(static_cast<int>(axis) + 2),
                    read = tiles(y_[axis + 2]) * kTile + kTaps - 1;
      Expr at = from_pad[axis] - pad[axis];
      if (pad[axis] > 0) also(Expr(0) <= at);
      if (read - pad[axis] > extent) also(at < Expr(extent));
      index.push_back(max(min(at, extent - 1), 0));
    }
    Expr there = n_.in(0, index);
    return inside.get() ? select(inside, there, lit(0)) : there;
  }

  void multiply() {
    n_.each("matrix", kMatrices, [&](Expr i) {
      n_.each("tile", part_.count(), [&](Expr t) {
        n_.each("o", y_[1], [&](Expr o) {
          auto acc = n_.reg("acc", lit(0));
          n_.loop("k", 0, v_->type.dim(2), [&](Expr k) {
            n_.set(acc, fma(load(v_, {i, t, k}), n_.in(1, {i, k, o}), load(acc)));
          });
          n_.store(m_, {i, t, o}, load(acc));
        });
      });
    });
  }

  void transform_back(const Expr& image, const Expr& row) {
    const int64_t height = part_.rows == tiles(y_[2]) ? y_[2] : part_.rows * kTile;
    n_.each("n", part_.images, [&](Expr g) {
      n_.each("y", height, [&](Expr y) {
        n_.each("x", y_[3], [&](Expr x) {
          n_.each("p", y_[1], [&](Expr p) {
            const Expr from = tile(g, floordiv(y, kTile), floordiv(x, kTile));
            n_.out(0, {image + g, p, row * kTile + y, x}, sum(x, [&](const Expr& j) {
                     return sum(y, [&](const Expr& i) { return load(m_, {i * kReads + j, from, p}); });
                   }));
          });
        });
      });
    });
  }

  // Row 0 of A' is 1 1 1 0, row 1 is 0 1 -1 -1: the same with another start and sign.
  static Expr sum(const Expr& place, const std::function<Expr(Expr)>& element) {
    const Expr first = mod(place, kTile), sign = cast(1 - first * 2, DType::f32);
    return fma(sign, element(first + 2), fma(sign, element(first + 1), element(first)));
  }

  NestArgs& n_;
  const Dims y_;
  const Part part_;
  const loop::BufferRef v_, m_;
};

const OpDef kWinogradConv{
    .name = "winograd_conv",
    .doc =
        "a 3x3 convolution of x [N,C,H,W] to images [N,O,...] of `size`, from winograd_filter [16,C,O]; pad "
        "is "
        "what stands before both axes; tiles of no more than `bytes`, or one row of them, are in memory at a "
        "time",
    .inputs = 2,
    .attrs = {ints_attr("pad"), ints_attr("size"), int_attr("bytes")},
    .infer = [](const InferArgs& a) -> Types {
      need_floats(a);
      need_rank(a, 0, 4);
      need_rank(a, 1, 3);
      for (int64_t p : need_ints(a, "pad", 2, 0))
        if (p >= kTaps) throw a.fail("pad {} is more than a filter reads", p);
      if (a.in(1).dim(0) != kMatrices || a.in(1).dim(1) != a.in(0).dim(1))
        throw a.fail("the filter {} is not 16 matrices for x {}", to_string(a.in(1)), to_string(a.in(0)));
      const Dims& size = need_ints(a, "size", 2, 1);
      return {Type{DType::f32, {a.in(0).dim(0), a.in(1).dim(2), size[0], size[1]}}};
    },
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Nest([](NestArgs& n) { Tiles(n).run(); }),
    .layouts = {Best::channels_last, Best::any, Best::channels_last},
};

// How many products a transformed element, which is written and read again, is worth.
constexpr int64_t kElementCost = 16;

bool pays(const Type& from, const Type& to) {
  const int64_t in = from.dim(1), out = to.dim(1), count = to.dim(0) * tiles(to.dim(2)) * tiles(to.dim(3));
  const int64_t direct = kTaps * kTaps * to.elements() * in, products = kMatrices * count * in * out,
                elements = kMatrices * (count * (in + out) + in * out);
  return products + kElementCost * elements < direct * 4 / 5;
}

// The bytes of tiles that the nearest caches hold.
constexpr int64_t kNear = 2 << 20;

// Of an image, with the filter of `transform`; null where the filter is another or it does not pay.
Value* by_tiles(Builder& b, const Node& n, std::string_view transform, const Dims& pad) {
  const Type &from = n.in(0)->type, &w = n.in(1)->type, &to = n.out()->type;
  if (w.rank() != 4 || w.dim(2) != kTaps || w.dim(3) != kTaps || n.integer("groups") != 1 || pad[0] < 0 ||
      pad[1] < 0 || pad[0] >= kTaps || pad[1] >= kTaps || !pays(from, to))
    return nullptr;
  for (const char* attr : {"stride", "dilation"})
    for (int64_t step : n.integers(attr))
      if (step != 1) return nullptr;
  const Dims size{to.dim(2), to.dim(3)};
  Value* filter = b.value(transform, {n.in(1)});
  // Each part reads the whole filter: it should be no smaller.
  const int64_t bytes = std::max(kNear, filter->type.bytes());
  return b.value("winograd_conv", {n.in(0), filter}, {{"pad", pad}, {"size", size}, {"bytes", bytes}});
}

// Of the convolution: before each axis.
Dims pad_of(const Node& n) {
  const std::vector<int64_t>& pad = n.integers("pad");
  return pad.empty() ? Dims{0, 0} : Dims{pad[0], pad[1]};
}

}  // namespace

Value* winograd_conv(Builder& b, const Node& n) { return by_tiles(b, n, "winograd_filter", pad_of(n)); }

Value* winograd_conv_input_grad(Builder& b, const Node& n) {
  const Dims pad = pad_of(n);
  return by_tiles(b, n, "winograd_flipped_filter", {kTaps - 1 - pad[0], kTaps - 1 - pad[1]});
}

OpList winograd_ops() { return {&kWinogradConv, &kWinogradFilter, &kWinogradFlippedFilter}; }

}  // namespace pock
