#include "elementwise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "fold.h"
#include "shapes.h"

namespace pock::onnx_frontend {

void unary(Call& c, const char* op) { c.out(0, c.value(op, {c.in(0)})); }

namespace {

// The input that says of what type the integers are: one that a step computes, if there is one.
int model_of(Call& c, int first = 0) {
  for (int i = first; i < c.inputs(); ++i)
    if (!c.known(i)) return i;
  return first;
}

}  // namespace

void chain(Call& c, const char* op) {
  if (c.all_integers()) return fold_pointwise(c, op);
  const bool whole = c.is_whole(0);
  auto in = [&](int i) { return whole ? c.whole(i) : c.in(i); };
  Value* y = in(0);
  for (int i = 1; i < c.inputs(); ++i) y = c.value(op, {y, in(i)});
  whole ? c.out_whole(0, y, model_of(c)) : c.out(0, y);
}

void arithmetic(Call& c, const char* op) {
  if (std::string_view(op) == "div" && !c.all_integers() && c.is_whole(0))
    throw c.fail("divides integers that a step computes, which is not supported");
  chain(c, op);
}

namespace {

// What is 1 where a boolean is 0.
Value* inverse(Call& c, Value* truth) { return c.value("sub", {c.number_value(1), truth}); }

}  // namespace

void compare(Call& c, const char* op) {
  if (c.all_integers()) return fold_pointwise(c, op);
  const bool whole = c.is_whole(0), truth = !whole && c.element_type(0) == onnx::TensorProto::BOOL;
  auto in = [&](int i) { return whole ? c.whole(i) : truth ? c.truth(i) : c.in(i); };
  Value *a = in(0), *b = in(1);
  std::string name = op;
  if (name.starts_with("greater")) {
    std::swap(a, b);
    name.replace(0, std::string_view("greater").size(), "less");
  }
  c.out_truth(0, c.value(name, {a, b}));
}

void logic(Call& c, const char* op) {
  if (c.all_integers()) return fold_pointwise(c, op);
  Value *a = c.truth(0), *b = c.truth(1);
  std::string_view name = op;
  c.out_truth(0, name == "and"  ? c.value("mul", {a, b})
                 : name == "or" ? c.value("maximum", {a, b})
                                : inverse(c, c.value("equal", {a, b})));
}

void is_nan(Call& c, const char*) {
  Value* x = c.in(0);
  c.out_truth(0, inverse(c, c.value("equal", {x, x})));
}

void mean(Call& c, const char*) {
  Value* y = c.in(0);
  for (int i = 1; i < c.inputs(); ++i) y = c.value("add", {y, c.in(i)});
  c.out(0, c.inputs() == 1 ? y : c.value("div", {y, c.number_value(static_cast<float>(c.inputs()))}));
}

void mod(Call& c, const char*) { fold_pointwise(c, c.flag("fmod", false) ? "fmod" : "mod"); }

void negate(Call& c, const char*) {
  if (!c.all_integers()) {
    if (!c.is_whole(0)) return unary(c, "neg");
    return c.out_whole(0, c.value("neg", {c.whole(0)}));
  }
  Tensor t = c.constant(0);
  for (int64_t& i : t.ints) {
    if (i == std::numeric_limits<int64_t>::min()) throw c.fail("-({}) is no int64", i);
    i = wrapped(-i, t.type);
  }
  c.out(0, std::move(t));
}

void logical_not(Call& c, const char*) {
  if (!c.known(0)) return c.out_truth(0, inverse(c, c.truth(0)));
  Tensor t = c.constant(0);
  if (t.type != onnx::TensorProto::BOOL) throw c.fail("is supported for booleans only");
  for (int64_t& i : t.ints) i = !i;
  c.out(0, std::move(t));
}

namespace {

// A constant of integers as floats.
Value* as_float(Call& c, int i) {
  const Tensor* t = c.known(i);
  if (!t || t->is_float) return c.in(i);
  return c.value("cast", {c.any(i)}, {{"to", std::string("f32")}});
}

// Integers to the power of constant floats: truncated, in double.
void fold_power_of_floats(Call& c) {
  const Tensor &base = c.constant(0), &exponent = c.constant(1);
  if (base.dims != exponent.dims)
    throw c.fail("integers to the power of floats are supported for equal shapes only");
  Tensor y = base;
  for (size_t i = 0; i < y.ints.size(); ++i) {
    double r = std::pow(static_cast<double>(y.ints[i]), exponent.element(static_cast<int64_t>(i)));
    if (!(std::abs(r) < 0x1p63))
      throw c.fail("{} to the power of {} is no integer", y.ints[i], exponent.element(i));
    y.ints[i] = wrapped(static_cast<int64_t>(r), y.type);
  }
  c.out(0, std::move(y));
}

}  // namespace

// A constant number as the exponent is part of the operator, and a weight is an input of it.
void pow(Call& c, const char*) {
  if (c.all_integers()) return fold_pointwise(c, "pow");
  if (const Tensor* base = c.known(0); base && !base->is_float) return fold_power_of_floats(c);
  Value *x = c.in(0), *y = as_float(c, 1);
  if (y->kind != ValueKind::constant || y->type.elements() != 1 || y->type.rank() > x->type.rank())
    return c.out(0, c.value("pow", {x, y}));
  double exponent = c.scalar(1);
  c.out(0, exponent == 1 ? x : c.value("pow_fixed", {x}, {{"exponent", exponent}}));
}

void where(Call& c, const char*) {
  if (c.all_integers()) return fold_where(c);
  const bool whole = c.is_whole(1), truth = !whole && c.element_type(1) == onnx::TensorProto::BOOL;
  auto in = [&](int i) { return whole ? c.whole(i) : truth ? c.truth(i) : c.in(i); };
  Value *condition = c.truth(0), *then = in(1), *y = c.value("where_positive", {condition, then, in(2)});
  whole ? c.out_whole(0, y, model_of(c, 1)) : truth ? c.out_truth(0, y) : c.out(0, y, -1);
}

namespace {

void clip_integers(Call& c) {
  if (!c.known(0)) {
    Value* y = c.whole(0);
    if (c.has(1)) y = c.value("maximum", {y, c.whole(1)});
    if (c.has(2)) y = c.value("minimum", {y, c.whole(2)});
    return c.out_whole(0, y);
  }
  auto bound = [&](int i, int64_t none) {
    if (!c.has(i)) return none;
    std::vector<int64_t> list = c.integers(i);
    if (list.size() != 1) throw c.fail("a bound has {} elements", list.size());
    return list[0];
  };
  int64_t low = bound(1, std::numeric_limits<int64_t>::min());
  int64_t high = bound(2, std::numeric_limits<int64_t>::max());
  Tensor t = c.constant(0);
  for (int64_t& i : t.ints) i = std::min(std::max(i, low), high);
  c.out(0, std::move(t));
}

// Bounds that only a run knows. At a bound, as beyond it, the gradient is the bound's alone.
void clip_between_values(Call& c) {
  auto bound = [&](int i) {
    Value* v = c.in(i);
    if (v->type.elements() != 1) throw c.fail("a bound has {} elements", v->type.elements());
    return c.reshape(v, {});
  };
  Value* y = c.in(0);
  const Attrs bounds_win = {{"tie", 0.0}};
  if (c.has(1)) y = c.value("maximum", {y, bound(1)}, bounds_win);
  if (c.has(2)) y = c.value("minimum", {y, bound(2)}, bounds_win);
  c.out(0, y);
}

}  // namespace

void clip(Call& c, const char*) {
  if (c.is_whole(0)) return clip_integers(c);
  for (int i : {1, 2})
    if (c.has(i) && !c.known(i)) return clip_between_values(c);
  double low = std::numeric_limits<float>::lowest(), high = std::numeric_limits<float>::max();
  if (c.since < 11) {
    low = c.number("min", low);
    high = c.number("max", high);
  } else {
    if (c.has(1)) low = c.scalar(1);
    if (c.has(2)) high = c.scalar(2);
  }
  if (std::isnan(low) || std::isnan(high)) throw c.fail("a bound is NaN");
  bool bounded = low > std::numeric_limits<float>::lowest() || high < std::numeric_limits<float>::max();
  low = std::min(low, high);  // where they cross, everything is the upper bound
  c.out(0, bounded ? c.value("clip", {c.in(0)}, {{"low", low}, {"high", high}}) : c.in(0));
}

// ---- Activations with attributes

void leaky_relu(Call& c, const char*) {
  c.out(0, c.value("leaky_relu", {c.in(0)}, {{"alpha", double{c.number("alpha", 0.01f)}}}));
}

void prelu(Call& c, const char*) {
  Value* x = c.in(0);
  c.out(0, c.value("prelu", {x, c.in(1)}));
}

void elu(Call& c, const char*) {
  c.out(0, c.value("elu", {c.in(0)}, {{"alpha", double{c.number("alpha", 1)}}}));
}

void celu(Call& c, const char*) {
  float alpha = c.number("alpha", 1);
  if (alpha == 0) throw c.fail("attribute 'alpha' is 0");
  c.out(0, c.value("celu", {c.in(0)}, {{"alpha", double{alpha}}}));
}

void selu(Call& c, const char*) {
  double alpha = c.number("alpha", 1.67326319217681884765625f),
         gamma = c.number("gamma", 1.05070102214813232421875f);
  c.out(0, c.value("selu", {c.in(0)}, {{"alpha", alpha}, {"gamma", gamma}}));
}

void hard_sigmoid(Call& c, const char*) {
  double alpha = c.number("alpha", 0.2f), beta = c.number("beta", 0.5f);
  c.out(0, c.value("hard_sigmoid", {c.in(0)}, {{"alpha", alpha}, {"beta", beta}}));
}

void thresholded_relu(Call& c, const char*) {
  c.out(0, c.value("thresholded_relu", {c.in(0)}, {{"alpha", double{c.number("alpha", 1)}}}));
}

void gelu(Call& c, const char*) {
  std::string how = c.string("approximate", "none");
  if (how != "none" && how != "tanh")
    throw c.fail("attribute 'approximate' is '{}'; there are none and tanh", how);
  c.out(0, c.value(how == "tanh" ? "gelu_tanh" : "gelu", {c.in(0)}));
}

void swish(Call& c, const char*) {
  Value* x = c.in(0);
  float alpha = c.number("alpha", 1);
  if (alpha == 1) return c.out(0, c.value("silu", {x}));
  c.out(0, c.value("mul", {x, c.value("sigmoid", {c.value("mul", {x, c.number_value(alpha)})})}));
}

// ---- Softmax, reductions

Value* along(Call& c, Value* x, int64_t axis, const char* op) {
  int64_t rank = x->type.rank();
  if (axis == rank - 1) return c.value(op, {x});
  std::vector<int64_t> swapped(rank);
  std::iota(swapped.begin(), swapped.end(), 0);
  std::swap(swapped[axis], swapped[rank - 1]);
  return c.transpose(c.value(op, {c.transpose(x, swapped)}), swapped);
}

void softmax(Call& c, const char* op) {
  Value* x = c.in(0);
  Dims d = x->type.dims;
  int64_t rank = x->type.rank();
  if (c.since < 13) {  // one softmax over all axes from `axis` on
    int64_t axis = c.integer("axis", 1);
    axis = axis == rank ? rank : c.axis(axis, rank);
    int64_t rows = std::accumulate(d.begin(), d.begin() + axis, int64_t{1}, std::multiplies<>());
    Value* flat = c.reshape(x, {rows, x->type.elements() / rows});
    c.out(0, c.reshape(c.value(op, {flat}), d));
    return;
  }
  c.out(0, along(c, x, c.axis(c.integer("axis", -1), rank), op));
}

namespace {

// The operators that integers are reduced with.
const char* folding_of(std::string_view op) {
  return op == "reduce_sum"    ? "add"
         : op == "reduce_prod" ? "mul"
         : op == "reduce_max"  ? "maximum"
         : op == "reduce_min"  ? "minimum"
                               : nullptr;
}

void reduce(Call& c, const char* op, int input_since) {
  int64_t rank = std::ssize(c.shape(0)), keep = c.flag("keepdims", true);
  std::vector<int64_t> axes = c.axes(read_axes(c, input_since), rank);
  bool noop = c.since >= input_since && c.flag("noop_with_empty_axes", false);
  bool none = axes.empty() && (noop || rank == 0);
  if (axes.empty() && !none) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (const Tensor* t = c.known(0); t && !t->is_float && folding_of(op))
    return fold_reduction(c, folding_of(op), axes, keep);
  const bool whole = std::string_view(op) == "reduce_sum" && c.is_whole(0);
  Value* x = whole ? c.whole(0) : c.in(0);
  if (none) {  // every element is reduced alone
    Dims alone = x->type.dims;
    alone.push_back(1);
    x = c.reshape(x, alone);
    axes = {rank};
    keep = 0;
  }
  Value* y = c.value(op, {x}, {{"axes", axes}, {"keep", keep}});
  whole ? c.out_whole(0, y) : c.out(0, y);
}

}  // namespace

void reduce_from_13(Call& c, const char* op) { reduce(c, op, 13); }
void reduce_from_18(Call& c, const char* op) { reduce(c, op, 18); }

}  // namespace pock::onnx_frontend
