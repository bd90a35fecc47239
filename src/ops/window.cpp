// Pooling. Padding is never an element: the loops leave it out. Gradients gather: every input adds up the
// windows that it is in, in ascending order.
#include <limits>

#include "rules.h"
#include "window_rules.h"

namespace pock {
namespace {

using loop::Expr;
using loop::lit;

using Index = std::vector<Expr>;

int64_t product(const Dims& dims) { return Type{DType::f32, dims}.elements(); }

// The number of a tap, in the order of the axes; 0 is the first.
Expr tap_number(const Windows& windows, const Index& tap) {
  Expr number = 0;
  for (size_t i = 0; i < windows.size(); ++i) number = number * windows[i].taps + tap[i];
  return number;
}

// The index of an element of [N,C,...] by another one's N and C.
Index beside(const Index& image, const Index& position) {
  Index index(image.begin(), image.begin() + 2);
  index.insert(index.end(), position.begin(), position.end());
  return index;
}
Index position(const Index& index) { return Index(index.begin() + 2, index.end()); }

template <class Source>  // InferArgs or Node
Windows pool_windows(const Source& s, const Dims& inputs) {
  return make_windows(s, s.integers("kernel"), inputs, s.integer("ceil"));
}

void need_pool_attrs(const InferArgs& a, size_t axes) {
  need_window_attrs(a, axes);
  need_ints(a, "kernel", axes, 1);
}

Windows checked_windows(const InferArgs& a, const Dims& inputs) {
  Windows windows = pool_windows(a, inputs);
  for (const Window& w : windows)
    if (!w.always_meets_input())
      throw a.fail("padding {} holds whole windows of kernel {}", to_string(a.integers("pad")),
                   to_string(a.integers("kernel")));
  return windows;
}

Windows checked_pool(const InferArgs& a) {
  need_dtype(a, 0, DType::f32);
  need_pool_attrs(a, need_spatial(a, 0));
  Windows windows = checked_windows(a, spatial(a.in(0)));
  need_outputs(a, windows);
  return windows;
}

// The shape of a pooling's x from input 0, which has that of its y and is checked against it. The attribute `size`
// gives the spatial axes.
Dims checked_pool_input(const InferArgs& a) {
  size_t axes = need_spatial(a, 0);
  need_pool_attrs(a, axes);
  const Dims& size = need_ints(a, "size", axes, 1);
  const Type& y = a.in(0);
  need_type(a, 0, with_spatial(y, y.dim(1), checked_windows(a, size).outputs()), "what the pooling makes");
  return with_spatial(y, y.dim(1), size).dims;
}

DType index_dtype(const Dims& kernel) { return product(kernel) <= 255 ? DType::u8 : DType::i32; }

constexpr const char* kTaps = "max_pool's tap numbers";

Attrs with_size(const GradArgs& g) {
  Attrs attrs = g.node.attrs;
  attrs["size"] = spatial(g.in(0)->type);
  return attrs;
}

const OpDef kMaxPool{
    .name = "max_pool",
    .doc =
        "greatest element of each window of x [N,C,...] along one to three spatial axes, NaN if there is "
        "one, "
        "and the number of its tap (row-major, the first of equals; u8 where a kernel has at most 255 taps, "
        "else i32)",
    .inputs = 1,
    .results = 2,
    .attrs = window_attrs({ints_attr("kernel"), int_attr("ceil", 0)}),
    .infer = [](const InferArgs& a) -> Types {
      Type y = with_spatial(a.in(0), a.in(0).dim(1), checked_pool(a).outputs());
      return {y, Type{index_dtype(a.integers("kernel")), y.dims}};
    },
    .gradient = Gradient([](GradArgs& g) {
      g.add(0, g.b.value("max_pool_grad", {g.dout(), g.out(1)}, with_size(g)));
    }),
    .lower = Nest([](NestArgs& n) {
      Windows windows = pool_windows(n.node, spatial(n.in_type(0)));
      auto number = [&](const Index& tap) { return cast(tap_number(windows, tap), DType::i32); };
      n.each(n.out_type().dims, [&](const Index& y) {
        Index first;
        for (size_t i = 0; i < windows.size(); ++i) first.push_back(windows[i].first_tap(y[2 + i]));
        auto best = n.reg("best", lit(-std::numeric_limits<double>::infinity()));
        auto tap = n.reg("tap", number(first));
        windows.loops(n, &Window::each_tap, "k", position(y), [&](const Index& k, const Index& at) {
          Expr x = n.in(0, beside(y, at));
          Expr better = load(best) < x || (x != x && load(best) == load(best));
          n.set(tap, select(better, number(k), load(tap)));
          n.set(best, select(better, x, load(best)));
        });
        n.out(0, y, load(best));
        n.out(1, y, cast(load(tap), n.out_type(1).dtype));
      });
    }),
    .layouts = {Best::channels_last, Best::channels_last, Best::channels_last},
};

// dx: from +0, what `share(window's dy index, tap number, acc)` makes of the sum for every window an element
// is in.
void gather_windows(NestArgs& n, const Windows& windows,
                    const std::function<Expr(const Index& at, Expr tap, Expr acc)>& share) {
  n.each(n.out_type().dims, [&](const Index& x) {
    auto acc = n.reg("acc", lit(0));
    windows.loops(n, &Window::each_output_on, "", position(x), [&](const Index& k, const Index& y) {
      n.set(acc, share(beside(x, y), tap_number(windows, k), load(acc)));
    });
    n.out(0, x, load(acc));
  });
}

const OpDef kMaxPoolGrad{
    .name = "max_pool_grad",
    .doc = "max_pool's gradient with respect to x whose spatial axes are `size`, from dy and the tap numbers",
    .inputs = 2,
    .attrs = window_attrs({ints_attr("kernel"), int_attr("ceil", 0), ints_attr("size")}),
    .infer = [](const InferArgs& a) -> Types {
      need_dtype(a, 0, DType::f32);
      Dims x = checked_pool_input(a);
      need_type(a, 1, {index_dtype(a.integers("kernel")), a.in(0).dims}, kTaps);
      return {Type{DType::f32, x}};
    },
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Nest([](NestArgs& n) {
      Windows windows = pool_windows(n.node, spatial(n.out_type()));
      gather_windows(n, windows, [&](const Index& y, Expr tap, Expr acc) {
        return select(cast(n.in(1, y), DType::i32) == cast(tap, DType::i32), acc + n.in(0, y), acc);
      });
    }),
    .layouts = {Best::channels_last, Best::channels_last, Best::channels_last},
};

const OpDef kMaxPoolIndex{
    .name = "max_pool_index",
    .doc =
        "where in x, whose spatial axes are `size`, max_pool found each maximum, from the tap numbers: the "
        "number of "
        "the element in row-major order, or with `column_major` the first spatial axis fastest",
    .inputs = 1,
    .attrs = window_attrs(
        {ints_attr("kernel"), int_attr("ceil", 0), ints_attr("size"), int_attr("column_major", 0)}),
    .infer = [](const InferArgs& a) -> Types {
      Dims x = checked_pool_input(a);
      need_type(a, 0, {index_dtype(a.integers("kernel")), a.in(0).dims}, kTaps);
      if (product(x) > std::numeric_limits<int32_t>::max())
        throw a.fail("x of {} elements is too large: their numbers are i32", product(x));
      return {Type{DType::i32, a.in(0).dims}};
    },
    .gradient = Gradient::none("its result is an integer"),
    .lower = Nest([](NestArgs& n) {
      const Windows windows = pool_windows(n.node, n.node.integers("size"));
      const size_t axes = windows.size();
      n.each(n.out_type().dims, [&](const Index& y) {
        Expr tap = cast(n.in(0, y), DType::i64), number = y[0] * n.out_type().dim(1) + y[1];
        Index x(axes);
        for (size_t i = axes; i-- > 0;) {
          x[i] = windows[i].input_of(y[2 + i], mod(tap, windows[i].taps));
          tap = floordiv(tap, windows[i].taps);
        }
        for (size_t k = 0; k < axes; ++k) {
          size_t i = n.node.integer("column_major") ? axes - 1 - k : k;
          number = number * windows[i].inputs + x[i];
        }
        n.out(0, y, cast(number, DType::i32));
      });
    }),
    .layouts = {Best::channels_last, Best::channels_last},
};

// How many elements a window's sum is divided by: those inside of the input, or with the padding (but not
// what lies beyond it, where the window count was rounded up).
Expr window_count(const Window& w, const Expr& output, bool include_pad) {
  if (!include_pad) return w.end_tap(output) - w.first_tap(output);
  int64_t padded = w.inputs + w.pad + w.pad_end;
  if ((w.outputs - 1) * w.stride + w.extent() <= padded) return w.taps;
  return min(Expr(w.taps), floordiv(Expr(padded - 1) - output * w.stride, w.dilation) + 1);
}

Expr average_divisor(const Node& n, const Windows& windows, const Index& y) {
  Expr count = 1;
  for (size_t i = 0; i < windows.size(); ++i)
    count = count * window_count(windows[i], y[2 + i], n.integer("count_include_pad"));
  return cast(count, DType::f32);
}

const OpDef kAvgPool{
    .name = "avg_pool",
    .doc =
        "sum of each window of x [N,C,...] along one to three spatial axes, divided by its number of "
        "elements, padding counted where `count_include_pad`",
    .inputs = 1,
    .attrs = window_attrs({ints_attr("kernel"), int_attr("ceil", 0), int_attr("count_include_pad", 0)}),
    .infer = [](const InferArgs& a) -> Types {
      return {with_spatial(a.in(0), a.in(0).dim(1), checked_pool(a).outputs())};
    },
    .gradient = Gradient([](GradArgs& g) { g.add(0, g.b.value("avg_pool_grad", {g.dout()}, with_size(g))); }),
    .lower = Nest([](NestArgs& n) {
      Windows windows = pool_windows(n.node, spatial(n.in_type(0)));
      n.each(n.out_type().dims, [&](const Index& y) {
        auto acc = n.reg("acc", lit(0));
        windows.loops(n, &Window::each_tap, "k", position(y),
                      [&](const Index&, const Index& x) { n.set(acc, load(acc) + n.in(0, beside(y, x))); });
        n.out(0, y, load(acc) / average_divisor(n.node, windows, y));
      });
    }),
    .layouts = {Best::channels_last, Best::channels_last},
};

const OpDef kAvgPoolGrad{
    .name = "avg_pool_grad",
    .doc = "avg_pool's gradient with respect to x whose spatial axes are `size`, from dy",
    .inputs = 1,
    .attrs = window_attrs(
        {ints_attr("kernel"), int_attr("ceil", 0), int_attr("count_include_pad", 0), ints_attr("size")}),
    .infer = [](const InferArgs& a) -> Types {
      need_dtype(a, 0, DType::f32);
      return {Type{DType::f32, checked_pool_input(a)}};
    },
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Nest([](NestArgs& n) {
      Windows windows = pool_windows(n.node, spatial(n.out_type()));
      gather_windows(n, windows, [&](const Index& y, Expr, Expr acc) {
        return acc + n.in(0, y) / average_divisor(n.node, windows, y);
      });
    }),
    .layouts = {Best::channels_last, Best::channels_last},
};

}  // namespace

OpList window_ops() { return {&kMaxPool, &kMaxPoolGrad, &kMaxPoolIndex, &kAvgPool, &kAvgPoolGrad}; }

}  // namespace pock
