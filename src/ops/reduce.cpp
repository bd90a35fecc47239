// Sums, means and maxima over axes, and what is made of them along the last axis: softmax.
#include <algorithm>
#include <limits>

#include "rules.h"
#include "sums.h"

namespace pock {
namespace {

using loop::Expr;
using loop::lit;

// Which axes `axes` names. No axes at all: every one.
std::vector<bool> reduced_axes(const std::vector<int64_t>& axes, int rank) {
  std::vector<bool> reduced(rank, axes.empty());
  for (int64_t axis : axes) reduced[from_start(axis, rank)] = true;
  return reduced;
}

// The shape with the reduced axes as 1, or without them.
Dims reduced_shape(const Dims& dims, const std::vector<bool>& reduced, bool keep) {
  Dims out;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (!reduced[axis])
      out.push_back(dims[axis]);
    else if (keep)
      out.push_back(1);
  }
  return out;
}

Types reduced_numbers(const InferArgs& a) {
  if (a.in(0).dtype == DType::mask) throw a.fail("input 0 is a mask, which holds no numbers");
  const Type& x = a.in(0);
  const auto& axes = a.integers("axes");
  for (int64_t axis : axes) need_axis(a, axis, x.rank());
  auto reduced = reduced_axes(axes, x.rank());
  if (!axes.empty() && std::count(reduced.begin(), reduced.end(), true) != std::ssize(axes))
    throw a.fail("axes {} name an axis twice", to_string(axes));
  for (int axis = 0; axis < x.rank(); ++axis)
    if (reduced[axis] && x.dims[axis] == 0) throw a.fail("axis {} to reduce has no elements", axis);
  return {Type{x.dtype, reduced_shape(x.dims, reduced, a.integer("keep"))}};
}

Types reduced_types(const InferArgs& a) {
  need_floats(a);
  return reduced_numbers(a);
}

const std::vector<AttrDef> kReduceAttrs = {ints_attr("axes"), int_attr("keep", 0)};

// dout with the reduced axes back, at x's shape; the same for any result of the reduction.
Value* spread(GradArgs& g, Value* v) {
  const Dims& dims = g.in(0)->type.dims;
  auto reduced = reduced_axes(g.node.integers("axes"), static_cast<int>(dims.size()));
  return g.b.broadcast_to(g.b.reshape(v, reduced_shape(dims, reduced, true)), dims);
}

struct Reduction {
  std::vector<bool> reduced;
  Dims reduced_dims;
  bool last_only = false;

  explicit Reduction(const Node& n) {
    const Dims& dims = n.in(0)->type.dims;
    reduced = reduced_axes(n.integers("axes"), static_cast<int>(dims.size()));
    int count = 0;
    for (size_t axis = 0; axis < dims.size(); ++axis)
      if (reduced[axis]) {
        reduced_dims.push_back(dims[axis]);
        ++count;
      }
    last_only = count == 1 && reduced.back();
  }
  // The input's index from the result's and the position among the reduced axes.
  std::vector<Expr> index(const std::vector<Expr>& out, const std::vector<Expr>& position, bool keep) const {
    std::vector<Expr> index;
    size_t o = 0, p = 0;
    for (bool r : reduced) {
      index.push_back(r ? position[p++] : out[o]);
      if (!r || keep) ++o;
    }
    return index;
  }
};

// Whatever joins two elements into one, from `initial` on: floats in lanes along the last axis, else in order.
void join_nest(NestArgs& n, const std::string& name, const Expr& initial, Expr (*join)(Expr, Expr)) {
  Reduction r(n.node);
  bool keep = n.node.integer("keep");
  n.each(n.out_type().dims, [&](const std::vector<Expr>& out) {
    auto element = [&](const std::vector<Expr>& position) { return n.in(0, r.index(out, position, keep)); };
    if (r.last_only && is_float(n.in_type(0).dtype)) {
      auto step = [&](Expr joined, Expr i) { return join(std::move(joined), element({std::move(i)})); };
      n.out(0, out, reduce_lanes(n, name, r.reduced_dims[0], initial, step, join));
      return;
    }
    auto joined = n.reg(name, initial);
    std::vector<Expr> position;
    std::function<void()> next = [&] {
      if (position.size() == r.reduced_dims.size())
        return n.set(joined, join(load(joined), element(position)));
      n.loop("x", 0, r.reduced_dims[position.size()], [&](Expr x) {
        position.push_back(x);
        next();
        position.pop_back();
      });
    };
    next();
    n.out(0, out, load(joined));
  });
}

// `finish` makes the result of the sum.
void sum_nest(NestArgs& n, const std::function<Expr(Expr)>& finish) {
  Reduction r(n.node);
  bool keep = n.node.integer("keep");
  n.each(n.out_type().dims, [&](const std::vector<Expr>& out) {
    auto term = [&](const std::vector<Expr>& position) { return n.in(0, r.index(out, position, keep)); };
    Expr sum;
    if (r.last_only) {
      sum = sum_lanes(n, "sum", r.reduced_dims[0], [&](Expr i) { return term({i}); });
    } else {
      Chunks chunks(r.reduced_dims);
      sum = sum_chunks(n, chunks, 1, [&](Expr chunk, const auto& sums) {
        chunks.each_position(n, chunk, [&](const std::vector<Expr>& position) {
          std::vector<Expr> at(position.begin(), position.begin() + r.reduced_dims.size());
          n.set(sums[0], load(sums[0]) + term(at));
        });
      })[0];
    }
    n.out(0, out, finish(sum));
  });
}

const OpDef kReduceSum{
    .name = "reduce_sum",
    .doc = "sum over `axes` (none named: all), which stay as 1 where `keep`",
    .inputs = 1,
    .attrs = kReduceAttrs,
    .infer = reduced_numbers,
    .gradient = Gradient([](GradArgs& g) { g.add(0, spread(g, g.dout())); }),
    .lower = Nest([](NestArgs& n) {
      const DType type = n.in_type(0).dtype;
      if (is_float(type)) return sum_nest(n, [](Expr sum) { return sum; });
      join_nest(n, "sum", number(0, type), [](Expr a, Expr b) { return std::move(a) + std::move(b); });
    }),
};

int64_t reduced_count(const Node& n) { return n.in(0)->type.elements() / n.out(0)->type.elements(); }

const OpDef kReduceMean{
    .name = "reduce_mean",
    .doc = "the sum over `axes` divided by how many elements it has",
    .inputs = 1,
    .attrs = kReduceAttrs,
    .infer = reduced_types,
    .gradient = Gradient([](GradArgs& g) {
      Value* count = g.b.constant(static_cast<float>(reduced_count(g.node)));
      g.add(0, spread(g, g.b.div(g.dout(), count)));
    }),
    .lower = Nest([](NestArgs& n) {
      Expr count = lit(static_cast<double>(reduced_count(n.node)));
      sum_nest(n, [&](Expr sum) { return sum / count; });
    }),
};

// The gradient goes to all elements that equal the result, in equal shares.
void share_among_ties(GradArgs& g) {
  Builder& b = g.b;
  Value* ties = b.value("equal", {g.in(0), spread(g, g.out())});
  Value* count = b.reduce_sum(ties, g.node.integers("axes"), g.node.integer("keep"));
  g.add(0, b.mul(ties, spread(g, b.div(g.dout(), count))));
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const OpDef kReduceMax{
    .name = "reduce_max",
    .doc = "greatest element over `axes`, NaN if there is one; the gradient is spread evenly over ties",
    .inputs = 1,
    .attrs = kReduceAttrs,
    .infer = reduced_types,
    .gradient = Gradient(share_among_ties),
    .lower = Nest([](NestArgs& n) { join_nest(n, "max", lit(-kInfinity), loop::max); }),
};

const OpDef kReduceMin{
    .name = "reduce_min",
    .doc = "least element over `axes`, NaN if there is one; the gradient is spread evenly over ties",
    .inputs = 1,
    .attrs = kReduceAttrs,
    .infer = reduced_types,
    .gradient = Gradient(share_among_ties),
    .lower = Nest([](NestArgs& n) { join_nest(n, "min", lit(kInfinity), loop::min); }),
};

const OpDef kReduceProd{
    .name = "reduce_prod",
    .doc = "the product over `axes`",
    .inputs = 1,
    .attrs = kReduceAttrs,
    .infer = reduced_types,
    .gradient = Gradient([](GradArgs& g) {
      // The product of the other elements: where there is no 0, `rest` over the element itself; `rest` for an only
      // 0, and nothing for the others then; nothing where there are two.
      Builder& b = g.b;
      auto over = [&](const char* op, Value* v) { return b.value(op, {v}, g.node.attrs); };
      Value* is_zero = b.value("equal", {g.in(0), b.constant(0)});
      Value* safe = b.add(g.in(0), is_zero);
      Value *zeros = over("reduce_sum", is_zero), *rest = b.mul(g.dout(), over("reduce_prod", safe));
      auto where_zeros = [&](float n) {
        return spread(g, b.mul(rest, b.value("equal", {zeros, b.constant(n)})));
      };
      g.add(0, b.add(b.div(where_zeros(0), safe), b.mul(is_zero, where_zeros(1))));
    }),
    .lower = Nest([](NestArgs& n) {
      join_nest(n, "product", lit(1), [](Expr a, Expr b) { return std::move(a) * std::move(b); });
    }),
};

// Another reduction over the same axes.
Value* reduced(Builder& b, const Node& n, const char* op, Value* v) { return b.value(op, {v}, n.attrs); }

const OpDef kReduceL1{
    .name = "reduce_l1",
    .doc = "the sum of |x| over `axes`",
    .inputs = 1,
    .attrs = kReduceAttrs,
    .infer = reduced_types,
    .gradient = Gradient::none(kExpandedFirst),
    .lower = Expand([](Builder& b, const Node& n) -> std::vector<Value*> {
      return {reduced(b, n, "reduce_sum", b.value("abs", {n.in(0)}))};
    }),
};

const OpDef kReduceSumSquare{
    .name = "reduce_sum_square",
    .doc = "the sum of x * x over `axes`",
    .inputs = 1,
    .attrs = kReduceAttrs,
    .infer = reduced_types,
    .gradient = Gradient::none(kExpandedFirst),
    .lower = Expand([](Builder& b, const Node& n) -> std::vector<Value*> {
      return {reduced(b, n, "reduce_sum", b.value("pow_fixed", {n.in(0)}, {{"exponent", 2.0}}))};
    }),
};

const OpDef kReduceL2{
    .name = "reduce_l2",
    .doc = "the square root of the sum of x * x over `axes`; its derivative where that is 0 is 0",
    .inputs = 1,
    .attrs = kReduceAttrs,
    .infer = reduced_types,
    .gradient = Gradient::none(kExpandedFirst),
    .lower = Expand([](Builder& b, const Node& n) -> std::vector<Value*> {
      return {b.value("sqrt", {reduced(b, n, "reduce_sum_square", n.in(0))})};
    }),
};

const OpDef kReduceLogSum{
    .name = "reduce_log_sum",
    .doc = "the logarithm of the sum over `axes`",
    .inputs = 1,
    .attrs = kReduceAttrs,
    .infer = reduced_types,
    .gradient = Gradient::none(kExpandedFirst),
    .lower = Expand([](Builder& b, const Node& n) -> std::vector<Value*> {
      return {b.value("log", {reduced(b, n, "reduce_sum", n.in(0))})};
    }),
};

const OpDef kAboveMinusInfinity{
    .name = "above_minus_infinity",
    .doc = "x == -inf ? 0 : x: what may be subtracted from numbers that are not greater",
    .inputs = 1,
    .infer =
        [](const InferArgs& a) {
          need_floats(a);
          return same_as(a.in(0));
        },
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Scalar([](const ScalarArgs& a) { return select(a.in(0) == lit(-kInfinity), lit(0), a.in(0)); }),
    .in_place = 1,
};

const OpDef kReduceLogSumExp{
    .name = "reduce_log_sum_exp",
    .doc = "the logarithm of the sum of exp(x) over `axes`, -inf where all x are",
    .inputs = 1,
    .attrs = kReduceAttrs,
    .infer = reduced_types,
    .gradient = Gradient([](GradArgs& g) {
      Value* shift = spread(g, g.b.value("above_minus_infinity", {g.out()}));
      g.add(0, g.b.mul(spread(g, g.dout()), g.b.value("exp", {g.b.sub(g.in(0), shift)})));
    }),
    .lower = Expand([](Builder& b, const Node& n) -> std::vector<Value*> {
      Value* greatest =
          b.value("reduce_max", {n.in(0)}, {{"axes", n.integers("axes")}, {"keep", int64_t{1}}});
      Value* shift = b.value("above_minus_infinity", {greatest});
      Value* sum = reduced(b, n, "reduce_sum", b.value("exp", {b.sub(n.in(0), shift)}));
      return {b.add(b.value("log", {sum}), b.reshape(shift, n.out()->type.dims))};
    }),
};

Types last_axis(const InferArgs& a) {
  need_floats(a);
  if (a.in(0).rank() == 0 || a.in(0).dim(-1) == 0) throw a.fail("softmax needs a last axis with elements");
  return same_as(a.in(0));
}

// For every row: its elements minus their maximum, and the sum of the exponentials (1 where all are -inf, so
// that such a row divides to 0).
void softmax_nest(NestArgs& n, const std::function<Expr(Expr shifted, Expr sum)>& value) {
  Dims rows = n.out_type().dims;
  int64_t extent = rows.back();
  rows.pop_back();
  n.each(rows, [&](const std::vector<Expr>& row) {
    auto at = [&](Expr i) {
      std::vector<Expr> index = row;
      index.push_back(i);
      return index;
    };
    Expr shift = softmax_shift(n, extent, [&](Expr i) { return n.in(0, at(i)); });
    auto shifted = [&](Expr i) { return n.in(0, at(i)) - shift; };
    Expr total = sum_lanes(n, "sum", extent, [&](Expr i) { return exp(shifted(i)); });
    Expr sum = load(n.reg("total", select(total == lit(0), lit(1), total)));
    n.each("x", extent, [&](Expr i) { n.out(0, at(i), value(shifted(i), sum)); });
  });
}

const OpDef kSoftmax{
    .name = "softmax",
    .doc = "exp(x - max) / sum of those, along the last axis; a row of nothing but -inf gives 0",
    .inputs = 1,
    .infer = last_axis,
    .gradient = Gradient([](GradArgs& g) {
      Value* weighted = g.b.reduce_sum(g.b.mul(g.dout(), g.out()), {-1}, true);
      g.add(0, g.b.mul(g.out(), g.b.sub(g.dout(), weighted)));
    }),
    .lower =
        Nest([](NestArgs& n) { softmax_nest(n, [](Expr shifted, Expr sum) { return exp(shifted) / sum; }); }),
    .probability = Probability::of_classes,
};

const OpDef kLogSoftmax{
    .name = "log_softmax",
    .doc =
        "x - max - log of the sum of exp(x - max), along the last axis; a row of nothing but -inf stays -inf",
    .inputs = 1,
    .infer = last_axis,
    .gradient = Gradient([](GradArgs& g) {
      // A row of nothing but -inf has no probabilities, and no gradient.
      Builder& b = g.b;
      Value* probabilities = b.value("exp", {g.out()});
      Value *sum = b.reduce_sum(g.dout(), {-1}, true), *any = b.reduce_sum(probabilities, {-1}, true);
      Value* dout = b.value("where_positive", {any, g.dout(), b.constant(0)});
      g.add(0, b.sub(dout, b.mul(probabilities, sum)));
    }),
    .lower =
        Nest([](NestArgs& n) { softmax_nest(n, [](Expr shifted, Expr sum) { return shifted - log(sum); }); }),
    .probability = Probability::of_classes,
};

// An index along all axes from one along all but `axis`, and the place along that.
std::vector<Expr> with_axis(std::vector<Expr> others, int64_t axis, Expr place) {
  others.insert(others.begin() + axis, std::move(place));
  return others;
}

const OpDef kArgMax{
    .name = "arg_max",
    .doc =
        "where along `axis`, which goes away, the greatest element is, or the `least`: the first of equals, "
        "or "
        "the `last`. NaN is beyond all numbers",
    .inputs = 1,
    .attrs = {int_attr("axis"), int_attr("least", 0), int_attr("last", 0)},
    .infer = [](const InferArgs& a) -> Types {
      Dims dims = a.in(0).dims;
      if (a.in(0).dtype == DType::mask) throw a.fail("input 0 is a mask, which holds no numbers");
      int64_t axis = need_axis(a, a.integer("axis"), a.in(0).rank());
      if (dims[axis] == 0) throw a.fail("axis {} has no elements", axis);
      dims.erase(dims.begin() + axis);
      return {Type{DType::i64, dims}};
    },
    .gradient = Gradient::none("it says where an element is, which is no float"),
    .lower = Nest([](NestArgs& n) {
      const Type& x = n.in_type(0);
      int64_t axis = from_start(n.node.integer("axis"), x.rank());
      bool least = n.node.integer("least"), last = n.node.integer("last");
      n.each(n.out_type().dims, [&](const std::vector<Expr>& others) {
        auto best = n.reg("best", n.in(0, with_axis(others, axis, 0))), at = n.reg("at", Expr(0));
        n.loop("k", 1, x.dims[axis], [&](Expr k) {
          Expr element = n.in(0, with_axis(others, axis, k)), before = load(best);
          Expr better = least ? element < before : before < element;
          if (last) better = better || element == before;
          if (is_float(x.dtype)) {
            Expr is_nan = element != element, was_nan = before != before;
            better = (better && !was_nan) || (last ? is_nan : is_nan && !was_nan);
          }
          n.set(at, select(better, k, load(at)));
          n.set(best, select(better, element, before));
        });
        n.out(0, others, load(at));
      });
    }),
};

const OpDef kCumulativeSum{
    .name = "cumulative_sum",
    .doc =
        "for each element the sum of those before it along `axis` and, but where `exclusive`, its own, one "
        "after "
        "the other; where `reverse`, of those behind it",
    .inputs = 1,
    .attrs = {int_attr("axis"), int_attr("exclusive", 0), int_attr("reverse", 0)},
    .infer =
        [](const InferArgs& a) {
          if (a.in(0).dtype == DType::mask) throw a.fail("input 0 is a mask, which holds no numbers");
          need_axis(a, a.integer("axis"), a.in(0).rank());
          return same_as(a.in(0));
        },
    .gradient = Gradient([](GradArgs& g) {
      Attrs attrs = g.node.attrs;
      attrs["reverse"] = int64_t{!g.node.integer("reverse")};
      g.add(0, g.b.value("cumulative_sum", {g.dout()}, attrs));
    }),
    .lower = Nest([](NestArgs& n) {
      const Type& x = n.in_type(0);
      int64_t axis = from_start(n.node.integer("axis"), x.rank()), length = x.dims[axis];
      bool exclusive = n.node.integer("exclusive"), reverse = n.node.integer("reverse");
      Dims others = x.dims;
      others.erase(others.begin() + axis);
      n.each(others, [&](const std::vector<Expr>& at) {
        auto sum = n.reg("sum", number(0, x.dtype));
        n.loop("k", 0, length, [&](Expr k) {
          std::vector<Expr> index = with_axis(at, axis, reverse ? Expr(length - 1) - k : k);
          if (exclusive) n.out(0, index, load(sum));
          n.set(sum, load(sum) + n.in(0, index));
          if (!exclusive) n.out(0, index, load(sum));
        });
      });
    }),
};

}  // namespace

OpList reduce_ops() {
  return {&kReduceSum,          &kReduceMean,      &kReduceMax,  &kReduceMin,    &kReduceProd,
          &kReduceL1,           &kReduceSumSquare, &kReduceL2,   &kReduceLogSum, &kReduceLogSumExp,
          &kAboveMinusInfinity, &kSoftmax,         &kLogSoftmax, &kArgMax,       &kCumulativeSum};
}

}  // namespace pock
