// Activations: one number in, one out. Gradients are rebuilt from the input, so that the result may die early.
//
// Derivatives at the kinks are 0, or that of the side above 0 where 0 is not a bound that clips: see each `.doc`.
#include "rules.h"

namespace pock {
namespace {

using loop::Expr;
using loop::lit;

Types unary(const InferArgs& a) {
  need_floats(a);
  return same_as(a.in(0));
}

Expr sigmoid(const Expr& x) { return lit(1) / (lit(1) + exp(-x)); }
// log(1 + exp(x)) without overflow.
Expr softplus(const Expr& x) { return max(x, lit(0)) + log(lit(1) + exp(-abs(x))); }

const OpDef kWherePositive{
    .name = "where_positive",
    .doc = "x > 0 ? a : b, element for element, of x (floats), a, b; x has no gradient",
    .inputs = 3,
    .infer = [](const InferArgs& a) -> Types {
      need_dtype(a, 0, DType::f32);
      if (a.in(1).dtype != a.in(2).dtype || a.in(1).dtype == DType::mask)
        throw a.fail("a is {}, b is {}: they must hold the same kind of numbers", to_string(a.in(1)),
                     to_string(a.in(2)));
      return {
          Type{a.in(1).dtype, broadcast(a, broadcast(a, a.in(0).dims, a.in(1).dims, 1), a.in(2).dims, 2)}};
    },
    .gradient = Gradient([](GradArgs& g) {
      Value* none = g.b.constant(0);
      auto add = [&](int i, Value* by) { g.add(i, g.b.sum_to(by, g.in(i)->type.dims)); };
      add(1, g.b.value("where_positive", {g.in(0), g.dout(), none}));
      add(2, g.b.value("where_positive", {g.in(0), none, g.dout()}));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return select(a.in(0) > lit(0), a.in(1), a.in(2)); }),
    .test = [](Builder& b, const Node& n) { return b.value("positive", {n.in(0)}); },
};

// Adds dout where x > 0, and `below` elsewhere.
void add_by_side(GradArgs& g, Value* below) {
  g.add(0, g.b.value("where_positive", {g.in(0), g.dout(), below}));
}

const OpDef kLeakyRelu{
    .name = "leaky_relu",
    .doc = "x < 0 ? alpha * x : x; its derivative at 0 is alpha",
    .inputs = 1,
    .attrs = {number_attr("alpha")},
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) {
      add_by_side(g, g.b.mul(g.dout(), g.b.constant(static_cast<float>(g.node.number("alpha")))));
    }),
    .lower = Scalar([](const ScalarArgs& a) {
      return select(a.in(0) < lit(0), lit(a.number("alpha")) * a.in(0), a.in(0));
    }),
    .in_place = 1,
    .cheap = true,
};

const OpDef kPRelu{
    .name = "prelu",
    .doc = "x < 0 ? slope * x : x; slope broadcasts to x; the derivative by x at 0 is slope",
    .inputs = 2,
    .infer =
        [](const InferArgs& a) {
          need_floats(a);
          if (!broadcasts_to(a.in(1).dims, a.in(0).dims))
            throw a.fail("the slope must broadcast to the input");
          return same_as(a.in(0));
        },
    .gradient = Gradient([](GradArgs& g) {
      Value* none = g.b.constant(0);
      add_by_side(g, g.b.mul(g.dout(), g.in(1)));
      Value* below = g.b.value("where_positive", {g.in(0), none, g.b.mul(g.dout(), g.in(0))});
      g.add(1, g.b.sum_to(below, g.in(1)->type.dims));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return select(a.in(0) < lit(0), a.in(1) * a.in(0), a.in(0)); }),
    .in_place = 1,
    .cheap = true,
};

const OpDef kElu{
    .name = "elu",
    .doc = "x < 0 ? alpha * (exp(x) - 1) : x; its derivative at 0 is alpha",
    .inputs = 1,
    .attrs = {number_attr("alpha")},
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) {
      Value* slope =
          g.b.mul(g.b.value("exp", {g.in(0)}), g.b.constant(static_cast<float>(g.node.number("alpha"))));
      add_by_side(g, g.b.mul(g.dout(), slope));
    }),
    .lower = Scalar([](const ScalarArgs& a) {
      return select(a.in(0) < lit(0), lit(a.number("alpha")) * (exp(a.in(0)) - lit(1)), a.in(0));
    }),
    .in_place = 1,
};

const OpDef kSilu{
    .name = "silu",
    .doc = "x * sigmoid(x)",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) {
      // s * (1 + x * (1 - s)) with s = sigmoid(x).
      Value* s = g.b.value("sigmoid", {g.in(0)});
      Value* one = g.b.constant(1);
      Value* slope = g.b.mul(s, g.b.add(one, g.b.mul(g.in(0), g.b.sub(one, s))));
      g.add(0, g.b.mul(g.dout(), slope));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return a.in(0) * sigmoid(a.in(0)); }),
    .in_place = 1,
};

const OpDef kSoftplus{
    .name = "softplus",
    .doc = "log(1 + exp(x))",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) { g.add(0, g.b.mul(g.dout(), g.b.value("sigmoid", {g.in(0)}))); }),
    .lower = Scalar([](const ScalarArgs& a) { return softplus(a.in(0)); }),
    .in_place = 1,
};

const OpDef kMish{
    .name = "mish",
    .doc = "x * tanh(log(1 + exp(x)))",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) {
      // t + x * (1 - t^2) * sigmoid(x) with t = tanh(softplus(x)).
      Value* t = g.b.value("tanh", {g.b.value("softplus", {g.in(0)})});
      Value* inner = g.b.mul(g.b.sub(g.b.constant(1), g.b.mul(t, t)), g.b.value("sigmoid", {g.in(0)}));
      g.add(0, g.b.mul(g.dout(), g.b.add(t, g.b.mul(g.in(0), inner))));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return a.in(0) * tanh(softplus(a.in(0))); }),
    .in_place = 1,
};

const OpDef kErf{
    .name = "erf",
    .doc = "the error function",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) {
      // 2 / sqrt(pi) * exp(-x^2)
      Value* bell = g.b.value("exp", {g.b.neg(g.b.mul(g.in(0), g.in(0)))});
      g.add(0, g.b.mul(g.dout(), g.b.mul(bell, g.b.constant(1.1283791671f))));
    }),
    .lower = Scalar([](const ScalarArgs& a) { return erf(a.in(0)); }),
    .in_place = 1,
};

const OpDef kGelu{
    .name = "gelu",
    .doc = "x * (1 + erf(x / sqrt(2))) / 2",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient([](GradArgs& g) {
      // (1 + erf(x / sqrt(2))) / 2 + x * exp(-x^2 / 2) / sqrt(2 * pi)
      Builder& b = g.b;
      Value *x = g.in(0), *half = b.constant(0.5f);
      Value* below =
          b.mul(half, b.add(b.constant(1), b.value("erf", {b.mul(x, b.constant(0.70710678119f))})));
      Value* bell = b.mul(b.value("exp", {b.neg(b.mul(half, b.mul(x, x)))}), b.constant(0.39894228040f));
      g.add(0, b.mul(g.dout(), b.add(below, b.mul(x, bell))));
    }),
    .lower = Scalar([](const ScalarArgs& a) {
      return lit(0.5) * a.in(0) * (lit(1) + erf(a.in(0) * lit(0.70710678119)));
    }),
    .in_place = 1,
};

const OpDef kGeluTanh{
    .name = "gelu_tanh",
    .doc = "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient::none(kExpandedFirst),
    .lower = Expand([](Builder& b, const Node& n) -> std::vector<Value*> {
      Value *x = n.in(0), *one = b.constant(1);
      Value* cubic = b.mul(b.add(one, b.mul(b.constant(0.044715f), b.mul(x, x))), x);
      Value* inner = b.value("tanh", {b.mul(b.constant(0.79788456080f), cubic)});
      return {b.mul(b.mul(b.constant(0.5f), x), b.add(one, inner))};
    }),
};

const OpDef kHardSigmoid{
    .name = "hard_sigmoid",
    .doc = "clip(alpha * x + beta, 0, 1)",
    .inputs = 1,
    .attrs = {number_attr("alpha"), number_attr("beta")},
    .infer = unary,
    .gradient = Gradient::none(kExpandedFirst),
    .lower = Expand([](Builder& b, const Node& n) -> std::vector<Value*> {
      auto number = [&](const char* name) { return b.constant(static_cast<float>(n.number(name))); };
      return {b.value("clip", {b.add(b.mul(n.in(0), number("alpha")), number("beta"))},
                      {{"low", 0.0}, {"high", 1.0}})};
    }),
};

const OpDef kHardSwish{
    .name = "hard_swish",
    .doc = "x * clip(x / 6 + 1/2, 0, 1)",
    .inputs = 1,
    .infer = unary,
    .gradient = Gradient::none(kExpandedFirst),
    .lower = Expand([](Builder& b, const Node& n) -> std::vector<Value*> {
      return {b.mul(n.in(0), b.value("hard_sigmoid", {n.in(0)}, {{"alpha", 1.0 / 6}, {"beta", 0.5}}))};
    }),
};

const OpDef kSelu{
    .name = "selu",
    .doc = "gamma * (x < 0 ? alpha * (exp(x) - 1) : x)",
    .inputs = 1,
    .attrs = {number_attr("alpha"), number_attr("gamma")},
    .infer = unary,
    .gradient = Gradient::none(kExpandedFirst),
    .lower = Expand([](Builder& b, const Node& n) -> std::vector<Value*> {
      Value* y = b.value("elu", {n.in(0)}, {{"alpha", n.number("alpha")}});
      return {b.mul(y, b.constant(static_cast<float>(n.number("gamma"))))};
    }),
};

const OpDef kCelu{
    .name = "celu",
    .doc = "x < 0 ? alpha * (exp(x / alpha) - 1) : x",
    .inputs = 1,
    .attrs = {number_attr("alpha")},
    .infer = unary,
    .gradient = Gradient::none(kExpandedFirst),
    .lower = Expand([](Builder& b, const Node& n) -> std::vector<Value*> {
      Value* alpha = b.constant(static_cast<float>(n.number("alpha")));
      return {b.mul(b.value("elu", {b.div(n.in(0), alpha)}, {{"alpha", 1.0}}), alpha)};
    }),
};

const OpDef kThresholdedRelu{
    .name = "thresholded_relu",
    .doc = "x > alpha ? x : 0; its derivative at alpha is 0",
    .inputs = 1,
    .attrs = {number_attr("alpha")},
    .infer = unary,
    .gradient = Gradient::none(kExpandedFirst),
    .lower = Expand([](Builder& b, const Node& n) -> std::vector<Value*> {
      Value* above = b.sub(n.in(0), b.constant(static_cast<float>(n.number("alpha"))));
      return {b.value("where_positive", {above, n.in(0), b.constant(0)})};
    }),
};

}  // namespace

OpList activation_ops() {
  return {&kWherePositive, &kLeakyRelu, &kPRelu, &kElu,  &kSilu,
          &kSoftplus,      &kMish,      &kErf,   &kGelu, &kGeluTanh,
          &kHardSigmoid,   &kHardSwish, &kSelu,  &kCelu, &kThresholdedRelu};
}

}  // namespace pock
