// Pooling. Padding is never an element: the loops leave it out. Gradients gather: every input adds up the
// windows that it is in, in ascending order.
#include <limits>

#include "rules.h"
#include "window_rules.h"

namespace pock {
namespace {

using loop::Expr;
using loop::lit;

struct Pool {
  Window rows, columns;

  // `image` is [height, width] of the input.
  template <class Source>  // InferArgs or Node
  Pool(const Source& s, const Dims& image, bool ceil) {
    auto [r, c] = windows(s, s.integers("kernel"), image, ceil);
    rows = r;
    columns = c;
  }
  Dims output_dims(const Type& x) const { return {x.dim(0), x.dim(1), rows.outputs, columns.outputs}; }
  int64_t taps() const { return rows.taps * columns.taps; }
};

Dims image_of(const Type& x) { return {x.dim(2), x.dim(3)}; }

void need_pool_attrs(const InferArgs& a) {
  need_window_attrs(a);
  const auto& kernel = need_ints(a, "kernel", 2, 1);
  const auto &pad = a.integers("pad"), &dilation = a.integers("dilation");
  for (int side = 0; side < 4; ++side) {
    int64_t extent = (kernel[side % 2] - 1) * dilation[side % 2] + 1;
    if (pad[side] >= extent)
      throw a.fail("padding {} holds whole windows of kernel {}", to_string(pad), to_string(kernel));
  }
}

Pool checked_pool(const InferArgs& a) {
  need_dtype(a, 0, DType::f32);
  need_rank(a, 0, 4);
  need_pool_attrs(a);
  Pool pool(a, image_of(a.in(0)), a.integer("ceil"));
  need_outputs(a, pool.rows, "height");
  need_outputs(a, pool.columns, "width");
  return pool;
}

// The type of x for a pooling gradient whose dy is input 0, which is checked against it. The attribute `size`
// gives the image; whether the forward rounded up shows in dy's own shape.
Type checked_pool_input(const InferArgs& a) {
  need_dtype(a, 0, DType::f32);
  need_rank(a, 0, 4);
  need_pool_attrs(a);
  const auto& size = need_ints(a, "size", 2, 1);
  const Type& dy = a.in(0);
  Type x{DType::f32, {dy.dim(0), dy.dim(1), size[0], size[1]}};
  Type y{DType::f32, Pool(a, size, a.integer("ceil")).output_dims(x)};
  need_type(a, 0, y, "the pooling's gradient");
  return x;
}

DType index_dtype(const Pool& pool) { return pool.taps() <= 255 ? DType::u8 : DType::i32; }

Attrs with_size(const GradArgs& g) {
  Attrs attrs = g.node.attrs;
  attrs["size"] = image_of(g.in(0)->type);
  return attrs;
}

const OpDef kMaxPool{
    .name = "max_pool",
    .doc =
        "greatest element of each window of x [N,C,H,W], NaN if there is one, and the number of its tap (ky "
        "* kw + kx, the first of equals; u8 where a kernel has at most 255 taps, else i32)",
    .inputs = 1,
    .results = 2,
    .attrs = window_attrs({ints_attr("kernel"), int_attr("ceil", 0)}),
    .infer = [](const InferArgs& a) -> Types {
      Pool pool = checked_pool(a);
      Dims dims = pool.output_dims(a.in(0));
      return {Type{DType::f32, dims}, Type{index_dtype(pool), dims}};
    },
    .gradient = Gradient([](GradArgs& g) {
      g.add(0, g.b.value("max_pool_grad", {g.dout(), g.out(1)}, with_size(g)));
    }),
    .lower = Nest([](NestArgs& n) {
      Pool pool(n.node, image_of(n.in_type(0)), n.node.integer("ceil"));
      auto tap_number = [&](Expr ky, Expr kx) { return cast(ky * pool.columns.taps + kx, DType::i32); };
      n.each(n.out_type().dims, [&](const std::vector<Expr>& at) {
        auto best = n.reg("best", lit(-std::numeric_limits<double>::infinity()));
        auto tap = n.reg("tap", tap_number(pool.rows.first_tap(at[2]), pool.columns.first_tap(at[3])));
        pool.rows.each_tap(n, "ky", at[2], [&](Expr ky, Expr iy) {
          pool.columns.each_tap(n, "kx", at[3], [&](Expr kx, Expr ix) {
            Expr x = n.in(0, {at[0], at[1], iy, ix});
            Expr better = load(best) < x || (x != x && load(best) == load(best));
            n.set(tap, select(better, tap_number(ky, kx), load(tap)));
            n.set(best, select(better, x, load(best)));
          });
        });
        n.out(0, at, load(best));
        n.out(1, at, cast(load(tap), n.out_type(1).dtype));
      });
    }),
};

// dx: from +0, what `share(window's dy index, tap number, acc)` makes of the sum for every window an element
// is in.
void gather_windows(NestArgs& n, const Pool& pool,
                    const std::function<Expr(const std::vector<Expr>& at, Expr tap, Expr acc)>& share) {
  n.each(n.out_type().dims, [&](const std::vector<Expr>& x) {
    auto acc = n.reg("acc", lit(0));
    pool.rows.each_output_on(n, "y", x[2], [&](Expr ky, Expr oy) {
      pool.columns.each_output_on(n, "x", x[3], [&](Expr kx, Expr ox) {
        n.set(acc, share({x[0], x[1], oy, ox}, ky * pool.columns.taps + kx, load(acc)));
      });
    });
    n.out(0, x, load(acc));
  });
}

const OpDef kMaxPoolGrad{
    .name = "max_pool_grad",
    .doc = "max_pool's gradient with respect to x of height and width `size`, from dy and the tap numbers",
    .inputs = 2,
    .attrs = window_attrs({ints_attr("kernel"), int_attr("ceil", 0), ints_attr("size")}),
    .infer = [](const InferArgs& a) -> Types {
      Type x = checked_pool_input(a);
      Pool pool(a, image_of(x), a.integer("ceil"));
      need_type(a, 1, {index_dtype(pool), a.in(0).dims}, "max_pool's tap numbers");
      return {x};
    },
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Nest([](NestArgs& n) {
      Pool pool(n.node, image_of(n.out_type()), n.node.integer("ceil"));
      gather_windows(n, pool, [&](const std::vector<Expr>& at, Expr tap, Expr acc) {
        return select(cast(n.in(1, at), DType::i32) == cast(tap, DType::i32), acc + n.in(0, at), acc);
      });
    }),
};

// How many elements a window's sum is divided by: those inside of the input, or with the padding (but not
// what lies beyond it, where the window count was rounded up).
Expr window_count(const Window& w, const Expr& output, bool include_pad) {
  if (!include_pad) return w.end_tap(output) - w.first_tap(output);
  int64_t padded = w.inputs + w.pad + w.pad_end;
  if ((w.outputs - 1) * w.stride + w.taps <= padded) return w.taps;
  return min(Expr(w.taps), Expr(padded) - output * w.stride);
}

Expr average_divisor(const Node& n, const Pool& pool, const Expr& oy, const Expr& ox) {
  bool include_pad = n.integer("count_include_pad");
  return cast(window_count(pool.rows, oy, include_pad) * window_count(pool.columns, ox, include_pad),
              DType::f32);
}

void need_no_dilation(const InferArgs& a) {
  if (a.integers("dilation") != Dims{1, 1})
    throw a.fail("average pooling takes no dilation, it is {}", to_string(a.integers("dilation")));
}

const OpDef kAvgPool{
    .name = "avg_pool",
    .doc =
        "sum of each window of x [N,C,H,W] divided by its number of elements, padding counted where "
        "`count_include_pad`",
    .inputs = 1,
    .attrs = window_attrs({ints_attr("kernel"), int_attr("ceil", 0), int_attr("count_include_pad", 0)}),
    .infer = [](const InferArgs& a) -> Types {
      Pool pool = checked_pool(a);
      need_no_dilation(a);
      return {Type{DType::f32, pool.output_dims(a.in(0))}};
    },
    .gradient = Gradient([](GradArgs& g) { g.add(0, g.b.value("avg_pool_grad", {g.dout()}, with_size(g))); }),
    .lower = Nest([](NestArgs& n) {
      Pool pool(n.node, image_of(n.in_type(0)), n.node.integer("ceil"));
      n.each(n.out_type().dims, [&](const std::vector<Expr>& at) {
        auto acc = n.reg("acc", lit(0));
        pool.rows.each_tap(n, "ky", at[2], [&](Expr, Expr iy) {
          pool.columns.each_tap(n, "kx", at[3], [&](Expr, Expr ix) {
            n.set(acc, load(acc) + n.in(0, {at[0], at[1], iy, ix}));
          });
        });
        n.out(0, at, load(acc) / average_divisor(n.node, pool, at[2], at[3]));
      });
    }),
};

const OpDef kAvgPoolGrad{
    .name = "avg_pool_grad",
    .doc = "avg_pool's gradient with respect to x of height and width `size`, from dy",
    .inputs = 1,
    .attrs = window_attrs(
        {ints_attr("kernel"), int_attr("ceil", 0), int_attr("count_include_pad", 0), ints_attr("size")}),
    .infer = [](const InferArgs& a) -> Types {
      need_no_dilation(a);
      return {checked_pool_input(a)};
    },
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Nest([](NestArgs& n) {
      Pool pool(n.node, image_of(n.out_type()), n.node.integer("ceil"));
      gather_windows(n, pool, [&](const std::vector<Expr>& at, Expr, Expr acc) {
        return acc + n.in(0, at) / average_divisor(n.node, pool, at[2], at[3]);
      });
    }),
};

}  // namespace

OpList window_ops() { return {&kMaxPool, &kMaxPoolGrad, &kAvgPool, &kAvgPoolGrad}; }

}  // namespace pock
