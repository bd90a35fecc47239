// Matrix products and convolutions. Each output is one accumulator from +0, fma after fma in a fixed order:
// matmul over k; convolution over ky, kx, input channel; its input gradient over ky, kx, output channel; its
// weight gradient over n, y, x in chunks. A tap on padding is not part of a sum: the loops' bounds leave it
// out.
#include "rules.h"
#include "sums.h"
#include "window_rules.h"

namespace pock {
namespace {

using loop::Expr;
using loop::lit;

const OpDef kMatmul{
    .name = "matmul",
    .doc = "a [M,K] times b [K,N] gives [M,N]; with transpose_a a is [K,M], with transpose_b b is [N,K]",
    .inputs = 2,
    .attrs = {int_attr("transpose_a", 0), int_attr("transpose_b", 0)},
    .infer = [](const InferArgs& a) -> Types {
      need_floats(a);
      need_rank(a, 0, 2);
      need_rank(a, 1, 2);
      bool ta = a.integer("transpose_a"), tb = a.integer("transpose_b");
      int64_t left = a.in(0).dim(ta ? 0 : 1), right = a.in(1).dim(tb ? 1 : 0);
      if (left != right)
        throw a.fail("matmul sums over {} elements of {}{} but {} of {}{}", left, to_string(a.in(0)),
                     ta ? " (transposed)" : "", right, to_string(a.in(1)), tb ? " (transposed)" : "");
      return {Type{DType::f32, {a.in(0).dim(ta ? 1 : 0), a.in(1).dim(tb ? 0 : 1)}}};
    },
    .gradient = Gradient([](GradArgs& g) {
      bool ta = g.node.integer("transpose_a"), tb = g.node.integer("transpose_b");
      Value *a = g.in(0), *b = g.in(1), *dy = g.dout();
      g.add(0, ta ? g.b.matmul(b, dy, tb, true) : g.b.matmul(dy, b, false, !tb));
      g.add(1, tb ? g.b.matmul(dy, a, true, ta) : g.b.matmul(a, dy, !ta, false));
    }),
    .lower = Nest([](NestArgs& n) {
      bool ta = n.node.integer("transpose_a"), tb = n.node.integer("transpose_b");
      n.each("i", n.out_type().dim(0), [&](Expr i) {
        n.each("j", n.out_type().dim(1), [&](Expr j) {
          auto acc = n.reg("acc", lit(0));
          n.loop("k", 0, n.in_type(0).dim(ta ? 0 : 1), [&](Expr k) {
            Expr a = ta ? n.in(0, {k, i}) : n.in(0, {i, k});
            Expr b = tb ? n.in(1, {j, k}) : n.in(1, {k, j});
            n.set(acc, fma(a, b, load(acc)));
          });
          n.out(0, {i, j}, load(acc));
        });
      });
    }),
};

// The three tensors of a convolution and how its axes meet; any two types give the third.
struct Conv {
  Type x, w, y;
  Window rows, columns;
  int64_t groups = 1;

  int64_t channels() const { return x.dim(1) / groups; }  // input channels of a group
  int64_t filters() const { return y.dim(1) / groups; }   // output channels of a group

  template <class Source>  // InferArgs or Node
  Conv(const Source& s, Type x_type, Type w_type)
      : x(std::move(x_type)), w(std::move(w_type)), groups(s.integer("groups")) {
    auto [r, c] = windows(s, {w.dim(2), w.dim(3)}, {x.dim(2), x.dim(3)}, false);
    rows = r;
    columns = c;
    y = {DType::f32, {x.dim(0), w.dim(0), rows.outputs, columns.outputs}};
  }
};

void need_conv_attrs(const InferArgs& a) {
  need_window_attrs(a);
  if (a.integer("groups") < 1) throw a.fail("groups is {}", a.integer("groups"));
}

// Checks that x and w make a convolution; both have rank 4.
Conv checked_conv(const InferArgs& a, const Type& x, const Type& w) {
  int64_t groups = a.integer("groups");
  if (x.dim(1) % groups != 0 || x.dim(1) / groups != w.dim(1))
    throw a.fail("weight {} expects {} input channels in {} group{}, x {} has {}", to_string(w),
                 w.dim(1) * groups, groups, groups == 1 ? "" : "s", to_string(x), x.dim(1));
  if (w.dim(0) % groups != 0)
    throw a.fail("the weight's {} output channels do not divide into {} groups", w.dim(0), groups);
  if (w.dim(2) < 1 || w.dim(3) < 1) throw a.fail("the weight {} has an empty kernel", to_string(w));
  Conv conv(a, x, w);
  need_outputs(a, conv.rows, "height");
  need_outputs(a, conv.columns, "width");
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

const OpDef kConv2d{
    .name = "conv2d",
    .doc =
        "x [N,C,H,W] convolved with w [O,C/groups,kh,kw] gives [N,O,OH,OW]; pad is top, left, bottom, right",
    .inputs = 2,
    .attrs = window_attrs({int_attr("groups", 1)}),
    .infer = [](const InferArgs& a) -> Types {
      need_floats(a);
      need_rank(a, 0, 4);
      need_rank(a, 1, 4);
      need_conv_attrs(a);
      return {checked_conv(a, a.in(0), a.in(1)).y};
    },
    .gradient = Gradient([](GradArgs& g) {
      Attrs with_size = g.node.attrs, with_kernel = g.node.attrs;
      const Type &x = g.in(0)->type, &w = g.in(1)->type;
      with_size["size"] = Dims{x.dim(2), x.dim(3)};
      with_kernel["kernel"] = Dims{w.dim(2), w.dim(3)};
      g.add(0, g.b.value("conv2d_input_grad", {g.dout(), g.in(1)}, with_size));
      g.add(1, g.b.value("conv2d_weight_grad", {g.dout(), g.in(0)}, with_kernel));
    }),
    .lower = Nest([](NestArgs& n) {
      Conv conv(n.node, n.in_type(0), n.in_type(1));
      n.each("n", conv.y.dim(0), [&](Expr image) {
        each_channel(n, "o", conv.groups, conv.filters(), [&](Expr g, Expr o) {
          Expr filter = g * conv.filters() + o;
          n.each("y", conv.rows.outputs, [&](Expr y) {
            n.each("x", conv.columns.outputs, [&](Expr x) {
              auto acc = n.reg("acc", lit(0));
              conv.rows.each_tap(n, "ky", y, [&](Expr ky, Expr iy) {
                conv.columns.each_tap(n, "kx", x, [&](Expr kx, Expr ix) {
                  loop_or_once(n, "c", conv.channels(), [&](Expr c) {
                    Expr element = n.in(0, {image, g * conv.channels() + c, iy, ix});
                    n.set(acc, fma(element, n.in(1, {filter, c, ky, kx}), load(acc)));
                  });
                });
              });
              n.out(0, {image, filter, y, x}, load(acc));
            });
          });
        });
      });
    }),
    .channel_weight = 1,
};

Type input_type(const Type& dy, const Type& w, int64_t groups, const std::vector<int64_t>& size) {
  return {DType::f32, {dy.dim(0), w.dim(1) * groups, size[0], size[1]}};
}

const OpDef kConv2dInputGrad{
    .name = "conv2d_input_grad",
    .doc = "conv2d's gradient with respect to x of height and width `size`, from dy and w",
    .inputs = 2,
    .attrs = window_attrs({int_attr("groups", 1), ints_attr("size")}),
    .infer = [](const InferArgs& a) -> Types {
      need_floats(a);
      need_rank(a, 0, 4);
      need_rank(a, 1, 4);
      need_conv_attrs(a);
      Type x = input_type(a.in(0), a.in(1), a.integer("groups"), need_ints(a, "size", 2, 1));
      need_type(a, 0, checked_conv(a, x, a.in(1)).y, "the convolution's gradient");
      return {x};
    },
    .gradient = Gradient([](GradArgs& g) {
      // Linear in dy and in w: as a function of dy it is the transpose of conv2d, so its own gradient is
      // conv2d.
      Attrs attrs = g.node.attrs, with_kernel = g.node.attrs;
      attrs.erase("size");
      with_kernel.erase("size");
      with_kernel["kernel"] = Dims{g.in(1)->type.dim(2), g.in(1)->type.dim(3)};
      g.add(0, g.b.value("conv2d", {g.dout(), g.in(1)}, attrs));
      g.add(1, g.b.value("conv2d_weight_grad", {g.in(0), g.dout()}, with_kernel));
    }),
    .lower = Nest([](NestArgs& n) {
      Conv conv(n.node, n.out_type(), n.in_type(1));
      n.each("n", conv.x.dim(0), [&](Expr image) {
        each_channel(n, "c", conv.groups, conv.channels(), [&](Expr g, Expr c) {
          n.each("y", conv.rows.inputs, [&](Expr iy) {
            n.each("x", conv.columns.inputs, [&](Expr ix) {
              auto acc = n.reg("acc", lit(0));
              conv.rows.each_tap_on(n, "ky", iy, [&](Expr ky, Expr y) {
                conv.columns.each_tap_on(n, "kx", ix, [&](Expr kx, Expr x) {
                  loop_or_once(n, "o", conv.filters(), [&](Expr o) {
                    Expr filter = g * conv.filters() + o;
                    n.set(acc, fma(n.in(0, {image, filter, y, x}), n.in(1, {filter, c, ky, kx}), load(acc)));
                  });
                });
              });
              n.out(0, {image, g * conv.channels() + c, iy, ix}, load(acc));
            });
          });
        });
      });
    }),
};

Type weight_type(const Type& dy, const Type& x, int64_t groups, const std::vector<int64_t>& kernel) {
  return {DType::f32, {dy.dim(1), x.dim(1) / groups, kernel[0], kernel[1]}};
}

const OpDef kConv2dWeightGrad{
    .name = "conv2d_weight_grad",
    .doc = "conv2d's gradient with respect to w of height and width `kernel`, from dy and x",
    .inputs = 2,
    .attrs = window_attrs({int_attr("groups", 1), ints_attr("kernel")}),
    .infer = [](const InferArgs& a) -> Types {
      need_floats(a);
      need_rank(a, 0, 4);
      need_rank(a, 1, 4);
      need_conv_attrs(a);
      Type w = weight_type(a.in(0), a.in(1), a.integer("groups"), need_ints(a, "kernel", 2, 1));
      need_type(a, 0, checked_conv(a, a.in(1), w).y, "the convolution's gradient");
      return {w};
    },
    .gradient = Gradient([](GradArgs& g) {
      Attrs attrs = g.node.attrs, with_size = g.node.attrs;
      attrs.erase("kernel");
      with_size.erase("kernel");
      with_size["size"] = Dims{g.in(1)->type.dim(2), g.in(1)->type.dim(3)};
      g.add(0, g.b.value("conv2d", {g.in(1), g.dout()}, attrs));
      g.add(1, g.b.value("conv2d_input_grad", {g.in(0), g.dout()}, with_size));
    }),
    .lower = Nest([](NestArgs& n) {
      Conv conv(n.node, n.in_type(1), n.out_type());
      Chunks chunks({conv.y.dim(0), conv.rows.outputs, conv.columns.outputs});
      each_channel(n, "o", conv.groups, conv.filters(), [&](Expr g, Expr o) {
        Expr filter = g * conv.filters() + o;
        n.each("c", conv.channels(), [&](Expr c) {
          n.each("ky", conv.rows.taps, [&](Expr ky) {
            n.each("kx", conv.columns.taps, [&](Expr kx) {
              Expr sum = sum_chunks(n, chunks, 1, [&](Expr chunk, const auto& sums) {
                chunks.each_row(n, chunk, [&](const std::vector<Expr>& row) {
                  conv.rows.when_inside(n, row[1], ky, [&](Expr iy) {
                    conv.columns.each_output_of(n, "x", kx, [&](Expr x, Expr ix) {
                      Expr dy = n.in(0, {row[0], filter, row[1], x});
                      Expr element = n.in(1, {row[0], g * conv.channels() + c, iy, ix});
                      n.set(sums[0], fma(dy, element, load(sums[0])));
                    });
                  });
                });
              })[0];
              n.out(0, {filter, c, ky, kx}, sum);
            });
          });
        });
      });
    }),
};

}  // namespace

OpList contraction_ops() { return {&kMatmul, &kConv2d, &kConv2dInputGrad, &kConv2dWeightGrad}; }

}  // namespace pock
