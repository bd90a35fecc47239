// Element for element, broadcast as in numpy. A gradient is summed over the axes along which its input was
// broadcast.
#include "rules.h"

namespace pock {
namespace {

using loop::Expr;
using loop::lit;

void add_summed(GradArgs& g, int i, Value* gradient) { g.add(i, g.b.sum_to(gradient, g.in(i)->type.dims)); }

Types unary(const InferArgs& a) {
  need_floats(a);
  return same_as(a.in(0));
}

Types tie_types(const InferArgs& a) {
  if (!(a.number("tie") >= 0 && a.number("tie") <= 1))
    throw a.fail("the share of a side is {}, want 0 to 1", a.number("tie"));
  return broadcast_numbers(a);
}

Expr above_zero(const Expr& test, const Expr& value) { return select(test > lit(0), value, lit(0)); }

const OpDef kAdd{
    .name = "add",
    .doc = "a + b",
    .inputs = 2,
    .infer = broadcast_numbers,
    .gradient = Gradient([](GradArgs& g) {
      add_summed(g, 0, g.dout());
      add_summed(g, 1, g.dout());
    }),
    .lower = Scalar([](const ScalarArgs& a) { return a.in(0) + a.in(1); }),
    .in_place = 2,
    .cheap = true,
};

const OpDef kSub{
    .name = "sub",
    .doc = "a - b",
    .inputs = 2,
    .infer = broadcast_numbers,
    .gradient = Gradient([](GradArgs& g) {
      add_summed(g, 0, g.dout());
      add_summed(g, 1, g.b.neg(g.dout()));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return a.in(0) - a.in(1); }),
    .in_place = 2,
    .cheap = true,
};

const OpDef kMul{
    .name = "mul",
    .doc = "a * b",
    .inputs = 2,
    .infer = broadcast_numbers,
    .gradient = Gradient([](GradArgs& g) {
      add_summed(g, 0, g.b.mul(g.dout(), g.in(1)));
      add_summed(g, 1, g.b.mul(g.dout(), g.in(0)));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return a.in(0) * a.in(1); }),
    .in_place = 2,
    .cheap = true,
};

const OpDef kDiv{
    .name = "div",
    .doc = "a / b",
    .inputs = 2,
    .infer = broadcast_floats,
    .gradient = Gradient([](GradArgs& g) {
      // d(a/b)/db = -(a/b)/b
      Value* over_b = g.b.div(g.dout(), g.in(1));
      add_summed(g, 0, over_b);
      add_summed(g, 1, g.b.neg(g.b.mul(over_b, g.out())));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return a.in(0) / a.in(1); }),
    .in_place = 2,
};

// What flows back to side 0 or 1 of maximum and minimum: all of it where the side is taken, a share where they are equal.
Value* to_side(GradArgs& g, int side, bool taken_above) {
  const double tie = g.node.number("tie");
  Value *mine = g.in(side), *other = g.in(1 - side);
  if (!taken_above) std::swap(mine, other);
  return g.b.value("pass_greater", {mine, other, g.dout()}, {{"tie", side == 0 ? tie : 1 - tie}});
}

const OpDef kMaximum{
    .name = "maximum",
    .doc = "(a > b or a is NaN) ? a : b; at equality a has the share `tie` of the gradient, b the rest",
    .inputs = 2,
    .attrs = {number_attr("tie", 0.5)},
    .infer = tie_types,
    .gradient = Gradient([](GradArgs& g) {
      for (int side : {0, 1}) add_summed(g, side, to_side(g, side, true));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return max(a.in(0), a.in(1)); }),
    .in_place = 2,
};

const OpDef kMinimum{
    .name = "minimum",
    .doc = "(a < b or a is NaN) ? a : b; at equality a has the share `tie` of the gradient, b the rest",
    .inputs = 2,
    .attrs = {number_attr("tie", 0.5)},
    .infer = tie_types,
    .gradient = Gradient([](GradArgs& g) {
      for (int side : {0, 1}) add_summed(g, side, to_side(g, side, false));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return min(a.in(0), a.in(1)); }),
    .in_place = 2,
};

const OpDef kPassGreater{
    .name = "pass_greater",
    .doc = "a > b ? x : a == b ? x * tie : 0, of a, b, x: what flows back to one side of maximum and minimum",
    .inputs = 3,
    .attrs = {number_attr("tie", 0.5)},
    .infer = tie_types,
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Scalar([](const ScalarArgs& a) {
      const double tie = a.number("tie");
      Expr share = tie == 0 ? lit(0) : tie == 1 ? a.in(2) : a.in(2) * lit(tie);
      return select(a.in(0) > a.in(1), a.in(2), select(a.in(0) == a.in(1), share, lit(0)));
    }),
    .in_place = 3,
};

const OpDef kNeg{
    .name = "neg",
    .doc = "-x",
    .inputs = 1,
    .infer = broadcast_numbers,
    .gradient = Gradient([](GradArgs& g) { g.add(0, g.b.neg(g.dout())); }),
    .lower = Scalar([](const ScalarArgs& a) { return -a.in(0); }),
    .in_place = 1,
    .cheap = true,
};

const OpDef kAbs{
    .name = "abs",
    .doc = "|x|; its derivative at 0 is 0",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) {
      g.add(0, g.b.value("abs_grad", {g.in(0), g.dout()}));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return abs(a.in(0)); }),
    .in_place = 1,
};

const OpDef kAbsGrad{
    .name = "abs_grad",
    .doc = "x > 0 ? dout : x < 0 ? -dout : 0, of x, dout",
    .inputs = 2,
    .infer = broadcast_floats,
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Scalar(
        [](const ScalarArgs& a) { return select(a.in(0) < lit(0), -a.in(1), above_zero(a.in(0), a.in(1))); }),
    .in_place = 2,
};

const OpDef kExp{
    .name = "exp",
    .doc = "e to the power of x",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) { g.add(0, g.b.mul(g.dout(), g.out())); }),
    .lower = Scalar([](const ScalarArgs& a) { return exp(a.in(0)); }),
    .in_place = 1,
};

const OpDef kLog{
    .name = "log",
    .doc = "natural logarithm of x",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) { g.add(0, g.b.div(g.dout(), g.in(0))); }),
    .lower = Scalar([](const ScalarArgs& a) { return log(a.in(0)); }),
    .in_place = 1,
};

const OpDef kSqrt{
    .name = "sqrt",
    .doc = "square root of x; its derivative at 0 is taken as 0, so that a norm of zeros has the gradient 0",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) {
      g.add(0, g.b.value("sqrt_grad", {g.out(), g.dout()}));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return sqrt(a.in(0)); }),
    .in_place = 1,
};

const OpDef kSqrtGrad{
    .name = "sqrt_grad",
    .doc = "out == 0 ? 0 : dout / 2 / out, of sqrt's result and its gradient",
    .inputs = 2,
    .infer = broadcast_floats,
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Scalar(
        [](const ScalarArgs& a) { return select(a.in(0) == lit(0), lit(0), a.in(1) * lit(0.5) / a.in(0)); }),
    .in_place = 2,
};

const OpDef kPow{
    .name = "pow",
    .doc =
        "a to the power of b. Where a is 0, the derivative by b is 0, and that by a is 0 where b is below 1; "
        "where a is negative, that by b is NaN",
    .inputs = 2,
    .infer = broadcast_floats,
    .gradient = Gradient([](GradArgs& g) {
      add_summed(g, 0, g.b.value("pow_base_grad", {g.in(0), g.in(1), g.dout()}));
      add_summed(g, 1, g.b.value("pow_exponent_grad", {g.in(0), g.out(), g.dout()}));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return pow(a.in(0), a.in(1)); }),
    .in_place = 2,
};

const OpDef kPowBaseGrad{
    .name = "pow_base_grad",
    .doc = "dout * b * a^(b - 1), and 0 where b is 0 or a is 0 and b below 1; of a, b, dout",
    .inputs = 3,
    .infer = broadcast_floats,
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Scalar([](const ScalarArgs& a) {
      Expr x = a.in(0), y = a.in(1), flat = y == lit(0) || (x == lit(0) && y < lit(1));
      return select(flat, lit(0), a.in(2) * (y * pow(x, y - lit(1))));
    }),
    .in_place = 3,
};

const OpDef kPowExponentGrad{
    .name = "pow_exponent_grad",
    .doc = "dout * a^b * log(a), and 0 where a is 0; of a, a^b, dout",
    .inputs = 3,
    .infer = broadcast_floats,
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Scalar([](const ScalarArgs& a) {
      return select(a.in(0) == lit(0), lit(0), a.in(2) * (a.in(1) * log(a.in(0))));
    }),
    .in_place = 3,
};

// x to the power of a number that is known now.
Expr fixed_power(const Expr& x, double exponent) {
  if (exponent == 1) return x;
  if (exponent == 2) return x * x;
  if (exponent == 3) return x * x * x;
  if (exponent == 0.5) return sqrt(x);
  if (exponent == 0) return lit(1);
  if (exponent < 0 && exponent >= -3) return lit(1) / fixed_power(x, -exponent);
  return pow(x, lit(exponent));
}

const OpDef kPowFixed{
    .name = "pow_fixed",
    .doc = "x to the power of `exponent`; where that is below 1, the derivative at 0 is taken as 0",
    .inputs = 1,
    .attrs = {number_attr("exponent")},
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) {
      g.add(0, g.b.value("pow_fixed_grad", {g.in(0), g.dout()}, g.node.attrs));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return fixed_power(a.in(0), a.number("exponent")); }),
    .in_place = 1,
};

const OpDef kPowFixedGrad{
    .name = "pow_fixed_grad",
    .doc = "dout * exponent * x^(exponent - 1), of x, dout; 0 where x is 0 and the exponent below 1",
    .inputs = 2,
    .attrs = {number_attr("exponent")},
    .infer = broadcast_floats,
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Scalar([](const ScalarArgs& a) {
      double exponent = a.number("exponent");
      Expr slope = a.in(1) * (lit(exponent) * fixed_power(a.in(0), exponent - 1));
      return exponent < 1 ? select(a.in(0) == lit(0), lit(0), slope) : slope;
    }),
    .in_place = 2,
};

constexpr const char* kFlat = "it is a step function: its derivative is 0 wherever there is one";

Expr rounded_down(const Expr& x) {
  Expr nearest = round_even(x);
  return select(nearest > x, nearest - lit(1), nearest);
}

const OpDef kSign{
    .name = "sign",
    .doc = "x > 0 ? 1 : x < 0 ? -1 : x",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient::none(kFlat),
    .lower = Scalar([](const ScalarArgs& a) {
      return select(a.in(0) > lit(0), lit(1), select(a.in(0) < lit(0), lit(-1), a.in(0)));
    }),
    .in_place = 1,
};

const OpDef kFloor{
    .name = "floor",
    .doc = "the greatest integer not above x",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient::none(kFlat),
    .lower = Scalar([](const ScalarArgs& a) { return rounded_down(a.in(0)); }),
    .in_place = 1,
};

const OpDef kCeil{
    .name = "ceil",
    .doc = "the least integer not below x",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient::none(kFlat),
    .lower = Scalar([](const ScalarArgs& a) { return -rounded_down(-a.in(0)); }),
    .in_place = 1,
};

const OpDef kRound{
    .name = "round",
    .doc = "the integer nearest to x, halves to even",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient::none(kFlat),
    .lower = Scalar([](const ScalarArgs& a) { return round_even(a.in(0)); }),
    .in_place = 1,
};

const OpDef kReciprocal{
    .name = "reciprocal",
    .doc = "1 / x",
    .inputs = 1,
    .infer = unary,
    .gradient =
        Gradient([](GradArgs& g) { g.add(0, g.b.neg(g.b.mul(g.dout(), g.b.mul(g.out(), g.out())))); }),
    .lower = Scalar([](const ScalarArgs& a) { return lit(1) / a.in(0); }),
    .in_place = 1,
};

// The derivative of either is the other, but for a sign.
const OpDef kSin{
    .name = "sin",
    .doc = "sine of x in radians",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) { g.add(0, g.b.mul(g.dout(), g.b.value("cos", {g.in(0)}))); }),
    .lower = Scalar([](const ScalarArgs& a) { return sin(a.in(0)); }),
    .in_place = 1,
};

const OpDef kCos{
    .name = "cos",
    .doc = "cosine of x in radians",
    .inputs = 1,
    .infer = unary,
    .gradient =
        Gradient([](GradArgs& g) { g.add(0, g.b.neg(g.b.mul(g.dout(), g.b.value("sin", {g.in(0)})))); }),
    .lower = Scalar([](const ScalarArgs& a) { return cos(a.in(0)); }),
    .in_place = 1,
};

// Booleans that a step computes are floats, 0 and 1: what they choose from are floats as well.
Types comparison(const InferArgs& a) { return {Type{DType::f32, broadcast_numbers(a)[0].dims}}; }

Expr as_number(const Expr& holds) { return select(holds, lit(1), lit(0)); }

constexpr const char* kTruth = "it is true or false: its derivative is 0 wherever there is one";

const OpDef kEqual{
    .name = "equal",
    .doc = "a == b ? 1 : 0, as f32",
    .inputs = 2,
    .infer = comparison,
    .gradient = Gradient::none(kTruth),
    .lower = Scalar([](const ScalarArgs& a) { return as_number(a.in(0) == a.in(1)); }),
    .in_place = 2,
};

const OpDef kLess{
    .name = "less",
    .doc = "a < b ? 1 : 0, as f32",
    .inputs = 2,
    .infer = comparison,
    .gradient = Gradient::none(kTruth),
    .lower = Scalar([](const ScalarArgs& a) { return as_number(a.in(0) < a.in(1)); }),
    .in_place = 2,
};

const OpDef kLessOrEqual{
    .name = "less_or_equal",
    .doc = "a <= b ? 1 : 0, as f32",
    .inputs = 2,
    .infer = comparison,
    .gradient = Gradient::none(kTruth),
    .lower = Scalar([](const ScalarArgs& a) { return as_number(a.in(0) <= a.in(1)); }),
    .in_place = 2,
};

const OpDef kTanh{
    .name = "tanh",
    .doc = "hyperbolic tangent of x",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) {
      g.add(0, g.b.mul(g.dout(), g.b.sub(g.b.constant(1), g.b.mul(g.out(), g.out()))));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return tanh(a.in(0)); }),
    .in_place = 1,
};

const OpDef kSigmoid{
    .name = "sigmoid",
    .doc = "1 / (1 + exp(-x))",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) {
      Value* slope = g.b.mul(g.out(), g.b.sub(g.b.constant(1), g.out()));
      g.add(0, g.b.mul(g.dout(), slope));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return lit(1) / (lit(1) + exp(-a.in(0))); }),
    .in_place = 1,
    .probability = Probability::of_each,
};

const OpDef kSoftsign{
    .name = "softsign",
    .doc = "x / (1 + |x|)",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) {
      // d/dx x / (1 + |x|) = 1 / (1 + |x|)^2, at 0 too. Made from x: the result may die early.
      Value* below = g.b.add(g.b.constant(1), g.b.value("abs", {g.in(0)}));
      g.add(0, g.b.div(g.dout(), g.b.mul(below, below)));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return a.in(0) / (lit(1) + abs(a.in(0))); }),
    .in_place = 1,
};

const OpDef kRelu{
    .name = "relu",
    .doc = "x < 0 ? 0 : x; its derivative at 0 is 0",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) {
      g.add(0, g.b.value("relu_grad", {g.out(), g.dout()}));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return select(a.in(0) < lit(0), lit(0), a.in(0)); }),
    .in_place = 1,
    .cheap = true,
};

const OpDef kReluGrad{
    .name = "relu_grad",
    .doc = "out > 0 ? dout : 0, of relu's result and its gradient",
    .inputs = 2,
    .infer = broadcast_floats,
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Scalar([](const ScalarArgs& a) { return above_zero(a.in(0), a.in(1)); }),
    .in_place = 2,
    .cheap = true,
    .test = [](Builder& b, const Node& n) { return b.value("positive", {n.in(0)}); },
};

Types clip_types(const InferArgs& a) {
  if (!(a.number("low") <= a.number("high")))
    throw a.fail("clip's low is {}, its high is {}", a.number("low"), a.number("high"));
  return broadcast_floats(a);
}

const OpDef kClip{
    .name = "clip",
    .doc = "min(max(x, low), high); its derivative is 1 strictly between the bounds and 0 elsewhere",
    .inputs = 1,
    .attrs = {number_attr("low"), number_attr("high")},
    .infer = clip_types,
    .gradient = Gradient([](GradArgs& g) {
      // The result tells as well, and is kept for its readers; behind a normalisation both are made again from its input.
      const Node* made_by = g.in(0)->node;
      const bool normalized = made_by && made_by->op->norm_scale >= 0;
      g.add(0, g.b.value("clip_grad", {normalized ? g.in(0) : g.out(), g.dout()}, g.node.attrs));
    }),
    .lower = Scalar(
        [](const ScalarArgs& a) { return min(max(a.in(0), lit(a.number("low"))), lit(a.number("high"))); }),
    .in_place = 1,
    .cheap = true,
};

const OpDef kClipGrad{
    .name = "clip_grad",
    .doc = "low < x and x < high ? dout : 0, of x, dout (of clip's result just as well)",
    .inputs = 2,
    .attrs = {number_attr("low"), number_attr("high")},
    .infer = clip_types,
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Scalar([](const ScalarArgs& a) {
      Expr inside = lit(a.number("low")) < a.in(0) && a.in(0) < lit(a.number("high"));
      return select(inside, a.in(1), lit(0));
    }),
    .in_place = 2,
    .cheap = true,
    .test = [](Builder& b, const Node& n) { return b.value("inside", {n.in(0)}, n.attrs); },
};

Types mask_of(const InferArgs& a) {
  need_floats(a);
  return {{DType::mask, a.in(0).dims}};
}

constexpr const char* kOneBit = "it is one bit";

const OpDef kPositive{
    .name = "positive",
    .doc = "0 < x, one bit an element",
    .inputs = 1,
    .infer = mask_of,
    .gradient = Gradient::none(kOneBit),
    .lower = Scalar([](const ScalarArgs& a) { return lit(0) < a.in(0); }),
};

const OpDef kInside{
    .name = "inside",
    .doc = "low < x and x < high, one bit an element",
    .inputs = 1,
    .attrs = {number_attr("low"), number_attr("high")},
    .infer = mask_of,
    .gradient = Gradient::none(kOneBit),
    .lower = Scalar([](const ScalarArgs& a) {
      return lit(a.number("low")) < a.in(0) && a.in(0) < lit(a.number("high"));
    }),
};

const OpDef kWhere{
    .name = "where",
    .doc = "a where the mask holds, else b, of mask, a, b",
    .inputs = 3,
    .infer = [](const InferArgs& a) -> Types {
      need_dtype(a, 0, DType::mask);
      for (int i : {1, 2}) need_dtype(a, i, DType::f32);
      const Dims dims = broadcast(a, broadcast(a, a.in(0).dims, a.in(1).dims, 1), a.in(2).dims, 2);
      if (dims != a.in(0).dims)
        throw a.fail("the mask is {}, what it chooses {}", to_string(a.in(0)), to_string(dims));
      return {{DType::f32, dims}};
    },
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Scalar([](const ScalarArgs& a) { return select(a.in(0), a.in(1), a.in(2)); }),
    .in_place = 3,
};

const OpDef kCast{
    .name = "cast",
    .doc = "x as another element type; a float becomes an integer by truncation, saturating",
    .inputs = 1,
    .attrs = {string_attr("to")},
    .infer = [](const InferArgs& a) -> Types {
      DType to;
      if (!parse_dtype(a.string("to"), &to) || to == DType::f64 || to == DType::mask)
        throw a.fail("cannot cast to '{}': pock casts to f32, i8, u8, i32, i64", a.string("to"));
      if (a.in(0).dtype == DType::mask) throw a.fail("cannot cast a mask");
      return {Type{to, a.in(0).dims}};
    },
    .gradient = Gradient([](GradArgs& g) {
      if (is_float(g.in(0)->type.dtype) && is_float(g.out()->type.dtype)) g.add(0, g.dout());
    }),
    .lower = Scalar([](const ScalarArgs& a) { return cast(a.in(0), a.node.out(0)->type.dtype); }),
    .in_place = 1,
    .moves = true,
};

}  // namespace

OpList pointwise_ops() {
  return {&kPow,        &kPowBaseGrad,  &kPowExponentGrad,
          &kPowFixed,   &kPowFixedGrad, &kSqrtGrad,
          &kSign,       &kFloor,        &kCeil,
          &kRound,      &kAdd,          &kSub,
          &kMul,        &kDiv,          &kMaximum,
          &kMinimum,    &kPassGreater,  &kNeg,
          &kAbs,        &kExp,          &kLog,
          &kReciprocal, &kSqrt,         &kTanh,
          &kSigmoid,    &kRelu,         &kAbsGrad,
          &kClip,       &kCast,         &kReluGrad,
          &kClipGrad,   &kSoftsign,     &kPositive,
          &kInside,     &kWhere,        &kSin,
          &kCos,        &kEqual,        &kLess,
          &kLessOrEqual};
}

}  // namespace pock
