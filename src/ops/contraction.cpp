// Matrix products and convolutions. Each output is one accumulator from +0, fma after fma in a fixed order:
// matmul over k; convolution over ky, kx, input channel; its input gradient over ky, kx, output channel; its
// weight gradient over n, y, x in chunks. A tap on padding is not part of a sum: the loops' bounds leave it
// out.
#include "rules.h"
#include "sums.h"
#include "window_rules.h"
#include "winograd.h"

namespace pock {
namespace {

using loop::Expr;
using loop::lit;

using Index = std::vector<Expr>;
using Slices = std::vector<std::optional<Slice>>;  // of each input

// The axes in front of a matrix.
Dims batch_of(const Type& t) { return Dims(t.dims.begin(), t.dims.end() - 2); }

// Element (row, column) of the matrix that a tensor holds for this place in the batch: axes of length 1 are
// repeated, missing ones added in front.
Index in_matrix(const Type& t, const Index& batch, const Expr& row, const Expr& column) {
  Index index;
  const Dims own = batch_of(t);
  for (size_t i = 0; i < own.size(); ++i)
    index.push_back(own[i] == 1 ? Expr(0) : batch[batch.size() - own.size() + i]);
  index.push_back(row);
  index.push_back(column);
  return index;
}

const OpDef kMatmul{
    .name = "matmul",
    .doc =
        "a [...,M,K] times b [...,K,N] gives [...,M,N]; axes in front broadcast; with transpose_a a is "
        "[...,K,M], with transpose_b b is [...,N,K]",
    .inputs = 2,
    .attrs = {int_attr("transpose_a", 0), int_attr("transpose_b", 0)},
    .infer = [](const InferArgs& a) -> Types {
      need_floats(a);
      for (int i : {0, 1})
        if (a.in(i).rank() < 2)
          throw a.fail("input {} must have 2 axes or more, it has {}", i, a.in(i).rank());
      bool ta = a.integer("transpose_a"), tb = a.integer("transpose_b");
      int64_t left = a.in(0).dim(ta ? -2 : -1), right = a.in(1).dim(tb ? -1 : -2);
      if (left != right)
        throw a.fail("matmul sums over {} elements of {}{} but {} of {}{}", left, to_string(a.in(0)),
                     ta ? " (transposed)" : "", right, to_string(a.in(1)), tb ? " (transposed)" : "");
      Type y{DType::f32, broadcast(a, batch_of(a.in(0)), batch_of(a.in(1)), 1)};
      y.dims.push_back(a.in(0).dim(ta ? -1 : -2));
      y.dims.push_back(a.in(1).dim(tb ? -2 : -1));
      return {y};
    },
    .gradient = Gradient([](GradArgs& g) {
      bool ta = g.node.integer("transpose_a"), tb = g.node.integer("transpose_b");
      Value *a = g.in(0), *b = g.in(1), *dy = g.dout();
      auto add = [&](int i, Value* gradient) { g.add(i, g.b.sum_to(gradient, g.in(i)->type.dims)); };
      add(0, ta ? g.b.matmul(b, dy, tb, true) : g.b.matmul(dy, b, false, !tb));
      add(1, tb ? g.b.matmul(dy, a, true, ta) : g.b.matmul(a, dy, !ta, false));
    }),
    .lower = Nest([](NestArgs& n) {
      bool ta = n.node.integer("transpose_a"), tb = n.node.integer("transpose_b");
      const Type &a = n.in_type(0), &b = n.in_type(1), &y = n.out_type();
      n.each(batch_of(y), [&](const Index& batch) {
        n.each("i", y.dim(-2), [&](Expr i) {
          n.each("j", y.dim(-1), [&](Expr j) {
            auto acc = n.reg("acc", lit(0));
            n.loop("k", 0, a.dim(ta ? -2 : -1), [&](Expr k) {
              Expr left = n.in(0, ta ? in_matrix(a, batch, k, i) : in_matrix(a, batch, i, k));
              Expr right = n.in(1, tb ? in_matrix(b, batch, j, k) : in_matrix(b, batch, k, j));
              n.set(acc, fma(left, right, load(acc)));
            });
            n.out(0, in_matrix(y, batch, i, j), load(acc));
          });
        });
      });
    }),
    .input_channels =
        [](const Node& n, int i) {
          const bool transposed = n.integer(i == 0 ? "transpose_a" : "transpose_b") != 0;
          return n.in(i)->type.rank() - ((i == 0) == transposed ? 2 : 1);
        },
    .slices = [](const Node& n, const Slice& s, Attrs*) -> Slices {
      const int side = s.axis - n.out()->type.rank() + 2;  // 0: rows, from a; 1: columns, from b
      if (side < 0) return {};
      const bool transposed = n.integer(side == 0 ? "transpose_a" : "transpose_b") != 0;
      Slices from(2);
      from[static_cast<size_t>(side)] = {n.in(side)->type.rank() - ((side == 0) == transposed ? 1 : 2),
                                         s.index};
      return from;
    },
};

// The three tensors of a convolution and how its axes meet; any two types give the third.
struct Conv {
  Type x, w, y;
  Windows windows;
  int64_t groups = 1;

  int64_t channels() const { return x.dim(1) / groups; }  // input channels of a group
  int64_t filters() const { return y.dim(1) / groups; }   // output channels of a group

  template <class Source>  // InferArgs or Node
  Conv(const Source& s, Type x_type, Type w_type)
      : x(std::move(x_type)), w(std::move(w_type)), groups(s.integer("groups")) {
    windows = make_windows(s, spatial(w), spatial(x), false);
    y = with_spatial(x, w.dim(0), windows.outputs());
  }
};

// Checks the attributes and that inputs 0 and 1 have as many spatial axes; returns how many.
size_t need_conv(const InferArgs& a) {
  need_floats(a);
  size_t axes = need_spatial(a, 0);
  need_spatial(a, 1, axes);
  need_window_attrs(a, axes);
  if (a.integer("groups") < 1 || a.integer("groups") > kMostTimes)
    throw a.fail("groups is {}", a.integer("groups"));
  return axes;
}

// Checks that x and w make a convolution.
Conv checked_conv(const InferArgs& a, const Type& x, const Type& w) {
  int64_t groups = a.integer("groups");
  if (x.dim(1) % groups != 0 || x.dim(1) / groups != w.dim(1))
    throw a.fail("weight {} expects {} input channels in {} group{}, x {} has {}", to_string(w),
                 w.dim(1) * groups, groups, groups == 1 ? "" : "s", to_string(x), x.dim(1));
  if (w.dim(0) % groups != 0)
    throw a.fail("the weight's {} output channels do not divide into {} groups", w.dim(0), groups);
  for (int64_t taps : spatial(w))
    if (taps < 1) throw a.fail("the weight {} has an empty kernel", to_string(w));
  Conv conv(a, x, w);
  need_outputs(a, conv.windows);
  return conv;
}

// Loops over groups and the channels of each, left out where there is one, so that plain and depthwise
// convolutions have plain loops: `body` gets the group and the index within it.
void each_channel(NestArgs& n, const std::string& name, int64_t groups, int64_t channels,
                  const std::function<void(Expr group, Expr channel)>& body) {
  if (groups == 1) return n.each(name, channels, [&](Expr c) { body(0, c); });
  n.each("g", groups, [&](Expr g) {
    if (channels == 1) return body(g, 0);
    n.each(name, channels, [&](Expr c) { body(g, c); });
  });
}

// A sequential loop, or just its body where the range is one known step.
void loop_or_once(NestArgs& n, const std::string& name, int64_t extent, const loop::Body& body) {
  if (extent == 1) return body(0);
  n.loop(name, 0, extent, body);
}

// The index of an element of [N,C,...] or [O,C,...].
Index at(const Expr& first, const Expr& channel, const Index& position) {
  Index index{first, channel};
  index.insert(index.end(), position.begin(), position.end());
  return index;
}

Attrs without(Attrs attrs, const char* name) {
  attrs.erase(name);
  return attrs;
}
Attrs with(Attrs attrs, const char* name, Dims value) {
  attrs[name] = std::move(value);
  return attrs;
}

const OpDef kConv{
    .name = "conv",
    .doc =
        "x [N,C,...] convolved with w [O,C/groups,...] gives [N,O,...]; one to three spatial axes; pad has "
        "the "
        "side before every axis, then those behind them",
    .inputs = 2,
    .attrs = window_attrs({int_attr("groups", 1)}),
    .infer = [](const InferArgs& a) -> Types {
      need_conv(a);
      return {checked_conv(a, a.in(0), a.in(1)).y};
    },
    .gradient = Gradient([](GradArgs& g) {
      const Type &x = g.in(0)->type, &w = g.in(1)->type;
      const Attrs& attrs = g.node.attrs;
      g.add(0, g.b.value("conv_input_grad", {g.dout(), g.in(1)}, with(attrs, "size", spatial(x))));
      g.add(1, g.b.value("conv_weight_grad", {g.dout(), g.in(0)}, with(attrs, "kernel", spatial(w))));
    }),
    .lower = Nest([](NestArgs& n) {
      Conv conv(n.node, n.in_type(0), n.in_type(1));
      n.each("n", conv.y.dim(0), [&](Expr image) {
        each_channel(n, "o", conv.groups, conv.filters(), [&](Expr g, Expr o) {
          Expr filter = g * conv.filters() + o;
          each_spatial(n, "", conv.windows.outputs(), [&](const Index& y) {
            auto acc = n.reg("acc", lit(0));
            conv.windows.loops(n, &Window::each_tap, "k", y, [&](const Index& k, const Index& x) {
              loop_or_once(n, "c", conv.channels(), [&](Expr c) {
                Expr element = n.in(0, at(image, g * conv.channels() + c, x));
                n.set(acc, fma(element, n.in(1, at(filter, c, k)), load(acc)));
              });
            });
            n.out(0, at(image, filter, y), load(acc));
          });
        });
      });
    }),
    .channel_weight = 1,
    // A depthwise filter goes with one channel.
    .input_channels =
        [](const Node& n, int i) {
          return i != 1 ? -1 : n.integer("groups") > 1 && n.in(1)->type.dim(1) == 1 ? 0 : 1;
        },
    .fewer_products = winograd_conv,
    .layouts = {Best::channels_last, Best::outputs_last, Best::channels_last},
};

const OpDef kConvInputGrad{
    .name = "conv_input_grad",
    .doc =
        "conv's gradient with respect to x whose spatial axes are `size`, from dy and w; forward it is the "
        "transposed convolution",
    .inputs = 2,
    .attrs = window_attrs({int_attr("groups", 1), ints_attr("size")}),
    .infer = [](const InferArgs& a) -> Types {
      size_t axes = need_conv(a);
      Type x = with_spatial(a.in(0), a.in(1).dim(1) * a.integer("groups"), need_ints(a, "size", axes, 1));
      need_type(a, 0, checked_conv(a, x, a.in(1)).y, "the convolution's gradient");
      return {x};
    },
    .gradient = Gradient([](GradArgs& g) {
      // Linear in dy and in w: as a function of dy it is the transpose of conv, so its own gradient is conv.
      Attrs attrs = without(g.node.attrs, "size");
      const Type& w = g.in(1)->type;
      g.add(0, g.b.value("conv", {g.dout(), g.in(1)}, attrs));
      g.add(1, g.b.value("conv_weight_grad", {g.in(0), g.dout()}, with(attrs, "kernel", spatial(w))));
    }),
    .lower = Nest([](NestArgs& n) {
      Conv conv(n.node, n.out_type(), n.in_type(1));
      n.each("n", conv.x.dim(0), [&](Expr image) {
        each_channel(n, "c", conv.groups, conv.channels(), [&](Expr g, Expr c) {
          each_spatial(n, "", conv.windows.inputs(), [&](const Index& x) {
            auto acc = n.reg("acc", lit(0));
            conv.windows.loops(n, &Window::each_tap_on, "k", x, [&](const Index& k, const Index& y) {
              loop_or_once(n, "o", conv.filters(), [&](Expr o) {
                Expr filter = g * conv.filters() + o;
                n.set(acc, fma(n.in(0, at(image, filter, y)), n.in(1, at(filter, c, k)), load(acc)));
              });
            });
            n.out(0, at(image, g * conv.channels() + c, x), load(acc));
          });
        });
      });
    }),
    .input_channels = [](const Node&, int i) { return i == 1 ? 0 : -1; },
    .fewer_products = winograd_conv_input_grad,
    .layouts = {Best::channels_last, Best::inputs_last, Best::channels_last},
};

// The products of one element of the weight in a chunk's row: `row` is n and the output along all spatial axes
// but the last. `body` gets the output and the input along all of them.
void each_product(NestArgs& n, const Windows& windows, const Index& row, const Index& taps,
                  const std::function<void(const Index& y, const Index& x)>& body) {
  Index y(row.begin() + 1, row.end()), x;
  std::function<void()> next = [&] {
    size_t axis = x.size();
    if (axis + 1 < windows.size())
      return windows[axis].when_inside(n, y[axis], taps[axis], [&](Expr input) {
        x.push_back(std::move(input));
        next();
      });
    windows[axis].each_output_of(n, "x", taps[axis], [&](Expr output, Expr input) {
      y.push_back(std::move(output));
      x.push_back(std::move(input));
      body(y, x);
    });
  };
  next();
}

const OpDef kConvWeightGrad{
    .name = "conv_weight_grad",
    .doc = "conv's gradient with respect to w whose spatial axes are `kernel`, from dy and x",
    .inputs = 2,
    .attrs = window_attrs({int_attr("groups", 1), ints_attr("kernel")}),
    .infer = [](const InferArgs& a) -> Types {
      size_t axes = need_conv(a);
      const Dims& kernel = need_ints(a, "kernel", axes, 1);
      Type w = with_spatial(a.in(0), a.in(1).dim(1) / a.integer("groups"), kernel);
      w.dims[0] = a.in(0).dim(1);
      need_type(a, 0, checked_conv(a, a.in(1), w).y, "the convolution's gradient");
      return {w};
    },
    .gradient = Gradient([](GradArgs& g) {
      Attrs attrs = without(g.node.attrs, "kernel");
      const Type& x = g.in(1)->type;
      g.add(0, g.b.value("conv", {g.in(1), g.dout()}, attrs));
      g.add(1, g.b.value("conv_input_grad", {g.in(0), g.dout()}, with(attrs, "size", spatial(x))));
    }),
    .lower = Nest([](NestArgs& n) {
      Conv conv(n.node, n.in_type(1), n.out_type());
      Dims positions = conv.windows.outputs();
      positions.insert(positions.begin(), conv.y.dim(0));
      Chunks chunks(positions);
      each_channel(n, "o", conv.groups, conv.filters(), [&](Expr g, Expr o) {
        Expr filter = g * conv.filters() + o;
        n.each("c", conv.channels(), [&](Expr c) {
          each_spatial(n, "k", conv.windows.taps(), [&](const Index& k) {
            Expr sum = sum_chunks(n, chunks, 1, [&](Expr chunk, const auto& sums) {
              chunks.each_row(n, chunk, [&](const Index& row) {
                each_product(n, conv.windows, row, k, [&](const Index& y, const Index& x) {
                  Expr dy = n.in(0, at(row[0], filter, y));
                  Expr element = n.in(1, at(row[0], g * conv.channels() + c, x));
                  n.set(sums[0], fma(dy, element, load(sums[0])));
                });
              });
            })[0];
            n.out(0, at(filter, c, k), sum);
          });
        });
      });
    }),
    .slices = [](const Node& n, const Slice& s, Attrs* attrs) -> Slices {
      const int64_t groups = n.integer("groups"), filters = n.out()->type.dim(0),
                    channels = n.out()->type.dim(1);
      const Slice taken{1, s.index};
      if (s.axis == 1 && groups == 1) return {std::nullopt, taken};
      if (s.axis == 1) {
        Slice of_all{1, {}};
        for (int64_t g = 0; g < groups; ++g)
          for (int64_t c : s.index) of_all.index.push_back(g * channels + c);
        return {std::nullopt, of_all};
      }
      if (s.axis == 0 && groups == 1) return {taken, std::nullopt};
      if (s.axis != 0 || groups != filters || channels != 1) return {};
      (*attrs)["groups"] = std::ssize(s.index);
      return {taken, taken};
    },
    .layouts = {Best::channels_last, Best::channels_last, Best::outputs_last},
};

}  // namespace

OpList contraction_ops() { return {&kMatmul, &kConv, &kConvInputGrad, &kConvWeightGrad}; }

}  // namespace pock
