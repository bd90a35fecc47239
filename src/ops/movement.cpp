// Elements moved and not changed.
#include <algorithm>

#include "rules.h"

namespace pock {
namespace {

using loop::Expr;

int64_t axis_attr(const Node& n) { return from_start(n.integer("axis"), n.in(0)->type.rank()); }

std::vector<Expr> shifted(std::vector<Expr> index, int64_t axis, int64_t by) {
  index[axis] = index[axis] + by;
  return index;
}

const OpDef kReshape{
    .name = "reshape",
    .doc = "the same elements in the same order under another shape",
    .inputs = 1,
    .attrs = {ints_attr("shape")},
    .infer = [](const InferArgs& a) -> Types {
      Type t{a.in(0).dtype, a.integers("shape")};
      if (!are_possible(t.dims))
        throw a.fail("shape {} has a negative length or more than 2^40 elements", to_string(t.dims));
      if (t.elements() != a.in(0).elements())
        throw a.fail("shape {} has {} elements, the input {} has {}", to_string(t.dims), t.elements(),
                     to_string(a.in(0)), a.in(0).elements());
      return {t};
    },
    .gradient = Gradient([](GradArgs& g) { g.add(0, g.b.reshape(g.dout(), g.in(0)->type.dims)); }),
    .lower = View(),
    .moves = true,
};

const OpDef kTranspose{
    .name = "transpose",
    .doc = "axis i of the result is axis permutation[i] of the input",
    .inputs = 1,
    .attrs = {ints_attr("permutation")},
    .infer = [](const InferArgs& a) -> Types {
      const auto& permutation = a.integers("permutation");
      Dims order = permutation, dims;
      std::sort(order.begin(), order.end());
      bool valid = std::ssize(order) == a.in(0).rank();
      for (size_t i = 0; valid && i < order.size(); ++i) valid = order[i] == static_cast<int64_t>(i);
      if (!valid)
        throw a.fail("{} is not an order of the {} axes of {}", to_string(permutation), a.in(0).rank(),
                     to_string(a.in(0)));
      for (int64_t axis : permutation) dims.push_back(a.in(0).dims[axis]);
      return {Type{a.in(0).dtype, dims}};
    },
    .gradient = Gradient([](GradArgs& g) {
      const auto& permutation = g.node.integers("permutation");
      std::vector<int64_t> inverse(permutation.size());
      for (size_t i = 0; i < permutation.size(); ++i) inverse[permutation[i]] = static_cast<int64_t>(i);
      g.add(0, g.b.transpose(g.dout(), inverse));
    }),
    .lower = Nest([](NestArgs& n) {
      const auto& permutation = n.node.integers("permutation");
      n.each(n.out_type().dims, [&](const std::vector<Expr>& out) {
        std::vector<Expr> in(out.size());
        for (size_t i = 0; i < out.size(); ++i) in[permutation[i]] = out[i];
        n.out(0, out, n.in(0, in));
      });
    }),
    .slices =
        [](const Node& n, const Slice& s, Attrs*) {
          const int64_t axis = n.integers("permutation")[static_cast<size_t>(s.axis)];
          return std::vector<std::optional<Slice>>{Slice{static_cast<int>(axis), s.index}};
        },
    .moves = true,
};

const OpDef kBroadcastTo{
    .name = "broadcast_to",
    .doc = "repeated along new axes in front and along axes of length 1, up to `shape`",
    .inputs = 1,
    .attrs = {ints_attr("shape")},
    .infer = [](const InferArgs& a) -> Types {
      const auto& shape = a.integers("shape");
      if (!broadcasts_to(a.in(0).dims, shape))
        throw a.fail("{} does not broadcast to {}", to_string(a.in(0)), to_string(shape));
      return {Type{a.in(0).dtype, shape}};
    },
    .gradient = Gradient([](GradArgs& g) { g.add(0, g.b.sum_to(g.dout(), g.in(0)->type.dims)); }),
    .lower = Scalar([](const ScalarArgs& a) { return a.in(0); }),
    .in_place = 1,
    .cheap = true,
    .slices = [](const Node&, const Slice&, Attrs*) { return std::vector<std::optional<Slice>>{}; },
    .moves = true,
};

const OpDef kRelayout{
    .name = "relayout",
    .doc = "x in the memory layout that the result is declared with",
    .inputs = 1,
    .infer = [](const InferArgs& a) { return same_as(a.in(0)); },
    .gradient = Gradient([](GradArgs& g) { g.add(0, g.dout()); }),
    .lower = Scalar([](const ScalarArgs& a) { return a.in(0); }),
};

const OpDef kConcat{
    .name = "concat",
    .doc = "the inputs one after the other along `axis`",
    .inputs = 1,
    .attrs = {int_attr("axis")},
    .infer = [](const InferArgs& a) -> Types {
      Type out = a.in(0);
      int64_t axis = need_axis(a, a.integer("axis"), out.rank());
      for (int i = 1; i < a.count(); ++i) {
        Type t = a.in(i);
        int64_t length = t.rank() == out.rank() ? t.dims[axis] : 0;
        if (t.rank() == out.rank()) t.dims[axis] = out.dims[axis];
        if (t != out)
          throw a.fail("input {} is {} and does not continue {} along axis {}", i, to_string(a.in(i)),
                       to_string(a.in(0)), axis);
        out.dims[axis] += length;
      }
      return {out};
    },
    .gradient = Gradient([](GradArgs& g) {
      int64_t axis = axis_attr(g.node), start = 0;
      for (size_t i = 0; i < g.node.inputs().size(); ++i) {
        int64_t end = start + g.in(i)->type.dims[axis];
        g.add(static_cast<int>(i),
              g.b.value("slice", {g.dout()}, {{"axis", axis}, {"start", start}, {"end", end}}));
        start = end;
      }
    }),
    .lower = Nest([](NestArgs& n) {
      int64_t axis = axis_attr(n.node), start = 0;
      for (size_t i = 0; i < n.node.inputs().size(); ++i) {
        n.each(n.in_type(i).dims, [&](const std::vector<Expr>& index) {
          n.out(0, shifted(index, axis, start), n.in(i, index));
        });
        start += n.in_type(i).dims[axis];
      }
    }),
    .variadic = true,
    .moves = true,
};

const OpDef kSlice{
    .name = "slice",
    .doc = "the elements from `start` up to but without `end` along `axis`",
    .inputs = 1,
    .attrs = {int_attr("axis"), int_attr("start"), int_attr("end")},
    .infer = [](const InferArgs& a) -> Types {
      Type t = a.in(0);
      int64_t axis = need_axis(a, a.integer("axis"), t.rank());
      int64_t start = a.integer("start"), end = a.integer("end");
      if (start < 0 || end < start || end > t.dims[axis])
        throw a.fail("elements {} to {} are not within the {} of axis {}", start, end, t.dims[axis], axis);
      t.dims[axis] = end - start;
      return {t};
    },
    .gradient = Gradient([](GradArgs& g) {
      int64_t axis = axis_attr(g.node), start = g.node.integer("start");
      int64_t after = g.in(0)->type.dims[axis] - g.node.integer("end");
      g.add(0, g.b.value("pad", {g.dout()}, {{"axis", axis}, {"before", start}, {"after", after}}));
    }),
    .lower = Nest([](NestArgs& n) {
      n.each(n.out_type().dims, [&](const std::vector<Expr>& index) {
        n.out(0, index, n.in(0, shifted(index, axis_attr(n.node), n.node.integer("start"))));
      });
    }),
    .moves = true,
};

const OpDef kPad{
    .name = "pad",
    .doc = "`before` times `value` in front of the input along `axis` and `after` times behind it",
    .inputs = 1,
    .attrs = {int_attr("axis"), int_attr("before", 0), int_attr("after", 0), number_attr("value", 0)},
    .infer = [](const InferArgs& a) -> Types {
      if (a.in(0).dtype == DType::mask) throw a.fail("a mask cannot be padded");
      Type t = a.in(0);
      int64_t axis = need_axis(a, a.integer("axis"), t.rank());
      int64_t before = a.integer("before"), after = a.integer("after");
      if (before < 0 || after < 0) throw a.fail("padding {} and {} cannot be negative", before, after);
      t.dims[axis] += before + after;
      return {t};
    },
    .gradient = Gradient([](GradArgs& g) {
      int64_t axis = axis_attr(g.node), start = g.node.integer("before");
      int64_t end = start + g.in(0)->type.dims[axis];
      g.add(0, g.b.value("slice", {g.dout()}, {{"axis", axis}, {"start", start}, {"end", end}}));
    }),
    .lower = Nest([](NestArgs& n) {
      int64_t axis = axis_attr(n.node), before = n.node.integer("before"), after = n.node.integer("after");
      const DType type = n.in_type(0).dtype;
      const Dims& dims = n.in_type(0).dims;
      double value = n.node.number("value");
      Expr fill = is_float(type) ? loop::lit(value, type) : loop::int_lit(static_cast<int64_t>(value), type);
      auto edge = [&](int64_t count, int64_t from) {
        Dims part = dims;
        part[axis] = count;
        if (count > 0)
          n.each(part, [&](const std::vector<Expr>& index) { n.out(0, shifted(index, axis, from), fill); });
      };
      edge(before, 0);
      n.each(dims,
             [&](const std::vector<Expr>& index) { n.out(0, shifted(index, axis, before), n.in(0, index)); });
      edge(after, before + dims[axis]);
    }),
    .moves = true,
};

// The element of `index` at `at`: negative ones count from the end of an axis of length n, and it is kept inside.
Expr index_at(NestArgs& n, int input, Expr at, int64_t length) {
  Expr index = cast(n.in(input, {std::move(at)}), DType::i64);
  index = index + select(index < Expr(0), Expr(length), Expr(0));
  return min(max(std::move(index), Expr(0)), Expr(length - 1));
}

const OpDef kGather{
    .name = "gather",
    .doc =
        "along `axis`, the elements of x whose numbers are in index [K]; negative ones count from the end, "
        "those "
        "outside as the nearest",
    .inputs = 2,
    .attrs = {int_attr("axis")},
    .infer = [](const InferArgs& a) -> Types {
      Type t = a.in(0);
      int64_t axis = need_axis(a, a.integer("axis"), t.rank());
      need_index(a, 1);
      if (t.dims[axis] == 0) throw a.fail("axis {} has no elements", axis);
      t.dims[axis] = a.in(1).dim(0);
      return {t};
    },
    .gradient = Gradient([](GradArgs& g) {
      int64_t axis = axis_attr(g.node);
      g.add(0, g.b.value("gather_grad", {g.dout(), g.in(1)},
                         {{"axis", axis}, {"size", g.in(0)->type.dims[axis]}}));
    }),
    .lower = Nest([](NestArgs& n) {
      int64_t axis = axis_attr(n.node), length = n.in_type(0).dims[axis];
      n.each(n.out_type().dims, [&](const std::vector<Expr>& out) {
        std::vector<Expr> in = out;
        in[axis] = index_at(n, 1, out[axis], length);
        n.out(0, out, n.in(0, in));
      });
    }),
    .places = 1,
    .moves = true,
};

// Of few elements each one of a long axis looks for its own: it is stored once, so its reader may share the kernel, and
// the gradient of a table of embeddings need not be in memory to be applied.
constexpr int64_t kFewPlaces = 256;

void gather_sums(NestArgs& n, int64_t axis, int64_t count) {
  n.each(n.out_type().dims, [&](const std::vector<Expr>& out) {
    auto acc = n.reg("acc", loop::lit(0));
    n.loop("k", 0, count, [&](Expr k) {
      std::vector<Expr> in = out;
      in[axis] = k;
      n.when(index_at(n, 1, k, n.out_type().dims[axis]) == out[axis],
             [&] { n.set(acc, load(acc) + n.in(0, in)); });
    });
    n.out(0, out, load(acc));
  });
}

const OpDef kGatherGrad{
    .name = "gather_grad",
    .doc =
        "gather's gradient with respect to x of length `size` along `axis`, from dy, index: to each element "
        "the "
        "sum of all that were made of it, in the order of the index",
    .inputs = 2,
    .attrs = {int_attr("axis"), int_attr("size")},
    .infer = [](const InferArgs& a) -> Types {
      need_dtype(a, 0, DType::f32);
      need_index(a, 1);
      Type t = a.in(0);
      int64_t axis = need_axis(a, a.integer("axis"), t.rank());
      if (t.dims[axis] != a.in(1).dim(0))
        throw a.fail("there are {} numbers for {} elements along axis {}", a.in(1).dim(0), t.dims[axis],
                     axis);
      if (a.integer("size") < 1) throw a.fail("size is {}", a.integer("size"));
      t.dims[axis] = a.integer("size");
      return {t};
    },
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Nest([](NestArgs& n) {
      int64_t axis = axis_attr(n.node), size = n.node.integer("size"), count = n.in_type(1).dim(0);
      if (count <= std::min(size, kFewPlaces)) return gather_sums(n, axis, count);
      Dims outer = n.out_type().dims, inner(outer.begin() + axis + 1, outer.end());
      outer.resize(axis);
      n.each(outer, [&](const std::vector<Expr>& before) {
        auto at = [&](Expr along, const std::vector<Expr>& after) {
          std::vector<Expr> index = before;
          index.push_back(std::move(along));
          index.insert(index.end(), after.begin(), after.end());
          return index;
        };
        n.each("x", size, [&](Expr x) {
          n.each(inner, [&](const std::vector<Expr>& after) { n.out(0, at(x, after), loop::lit(0)); });
        });
        n.loop("k", 0, count, [&](Expr k) {
          Expr x = index_at(n, 1, k, size);
          n.each(inner, [&](const std::vector<Expr>& after) {
            n.out(0, at(x, after), n.made(0, at(x, after)) + n.in(0, at(k, after)));
          });
        });
      });
    }),
};

}  // namespace

OpList movement_ops() {
  return {&kReshape, &kTranspose, &kBroadcastTo, &kRelayout,  &kConcat,
          &kSlice,   &kPad,       &kGather,      &kGatherGrad};
}

}  // namespace pock
