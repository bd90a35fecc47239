// The only way a parameter changes, and the optimizers' arithmetic as PyTorch defines it. A step's results
// are new values; `update` nodes store them. The scalars (lr, ...) are f32[] inputs that the runtime computes
// for every step.
#include "rules.h"

namespace pock {
namespace {

using loop::Expr;
using loop::lit;

const OpDef kUpdate{
    .name = "update",
    .doc =
        "stores input 1 into the parameter, statistic or optimizer state that is input 0; with an index [K], "
        "a "
        "constant, into those of its elements along `axis`",
    .inputs = 2,
    .results = 0,
    .attrs = {int_attr("axis", 0)},
    .infer = [](const InferArgs& a) -> Types {
      Type stored = a.in(0);
      if (a.count() > 3) throw a.fail("has {} inputs, want 2 or 3", a.count());
      if (a.count() > 2) {
        need_index(a, 2);
        stored.dims[need_axis(a, a.integer("axis"), stored.rank())] = a.in(2).dim(0);
      }
      need_type(a, 1, stored, "the new value");
      return {};
    },
    .gradient = Gradient::none("it ends a step"),
    .lower = Effect(),
    .variadic = true,
};

// The first `tensors` inputs are of one shape (w, its state, its gradient), the others scalars; the first
// `results` of them have a new value.
Types step_types(const InferArgs& a, int tensors, int results) {
  need_floats(a);
  for (int i = 1; i < tensors; ++i) need_type(a, i, a.in(0), "a tensor of an optimizer's step");
  for (int i = tensors; i < a.count(); ++i)
    need_type(a, i, {DType::f32, {}}, "a scalar of an optimizer's step");
  return Types(results, a.in(0));
}

const OpDef kAccumulate{
    .name = "accumulate",
    .doc = "sum + share * g, of sum, g, keep, share; share * g where keep is 0, whatever sum holds",
    .inputs = 4,
    .infer = [](const InferArgs& a) { return step_types(a, 2, 1); },
    .gradient = Gradient::none("it is an optimizer's step"),
    .lower = Scalar([](const ScalarArgs& a) {
      return select(a.in(2) == lit(0), a.in(3) * a.in(1), fma(a.in(3), a.in(1), a.in(0)));
    }),
    .in_place = 1,
};

const OpDef kEither{
    .name = "either",
    .doc = "a where c is 0, else b, of a, b, c",
    .inputs = 3,
    .infer = [](const InferArgs& a) { return step_types(a, 2, 1); },
    .gradient = Gradient::none("it is an optimizer's step"),
    .lower = Scalar([](const ScalarArgs& a) { return select(a.in(2) == lit(0), a.in(0), a.in(1)); }),
    .in_place = 2,
};

const OpDef kSgdStep{
    .name = "sgd_step",
    .doc = "w - lr * (g + weight_decay * w), of w, g, lr, weight_decay",
    .inputs = 4,
    .infer = [](const InferArgs& a) { return step_types(a, 2, 1); },
    .gradient = Gradient::none("it is an optimizer's step"),
    .lower = Scalar([](const ScalarArgs& a) {
      Expr w = a.in(0), g = a.in(1), lr = a.in(2), weight_decay = a.in(3);
      return w - lr * (g + weight_decay * w);
    }),
    .in_place = 1,
};

const OpDef kMomentumStep{
    .name = "momentum_step",
    .doc =
        "SGD with momentum, of w, m, g, lr, momentum, one_minus_dampening, weight_decay: "
        "d = g + weight_decay * w; m' = momentum * m + one_minus_dampening * d; "
        "w' = w - lr * (nesterov ? d + momentum * m' : m')",
    .inputs = 7,
    .results = 2,
    .attrs = {int_attr("nesterov", 0)},
    .infer = [](const InferArgs& a) { return step_types(a, 3, 2); },
    .gradient = Gradient::none("it is an optimizer's step"),
    .lower = Scalar([](const ScalarArgs& a) {
      Expr w = a.in(0), m = a.in(1), lr = a.in(3), momentum = a.in(4);
      Expr d = a.in(2) + a.in(6) * w;
      Expr new_m = momentum * m + a.in(5) * d;
      Expr direction = a.node.integer("nesterov") ? d + momentum * new_m : new_m;
      return Exprs{w - lr * direction, new_m};
    }),
    .in_place = 2,
};

const OpDef kAdamStep{
    .name = "adam_step",
    .doc =
        "Adam, of w, m, v, g, beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, inv_sqrt_bias2, "
        "eps, weight_decay: g += weight_decay * w (decoupled: instead w *= 1 - weight_decay, which is lr "
        "times the decay); m' = beta1 * m + one_minus_beta1 * g; v' = beta2 * v + one_minus_beta2 * g * g; "
        "w' = w - step_size * m' / (sqrt(v') * inv_sqrt_bias2 + eps)",
    .inputs = 12,
    .results = 3,
    .attrs = {int_attr("decoupled", 0)},
    .infer = [](const InferArgs& a) { return step_types(a, 4, 3); },
    .gradient = Gradient::none("it is an optimizer's step"),
    .lower = Scalar([](const ScalarArgs& a) {
      Expr w = a.in(0), g = a.in(3), step_size = a.in(8), weight_decay = a.in(11);
      if (a.node.integer("decoupled"))
        w = w * (lit(1) - weight_decay);
      else
        g = g + weight_decay * w;
      Expr m = a.in(4) * a.in(1) + a.in(5) * g;
      Expr v = a.in(6) * a.in(2) + a.in(7) * (g * g);
      return Exprs{w - step_size * (m / (sqrt(v) * a.in(9) + a.in(10))), m, v};
    }),
    .in_place = 3,
};

const OpDef kAdagradStep{
    .name = "adagrad_step",
    .doc =
        "Adagrad, of w, sum, g, lr, eps, weight_decay: g += weight_decay * w; sum' = sum + g * g; w' = w - "
        "lr * (g / "
        "(sqrt(sum') + eps))",
    .inputs = 6,
    .results = 2,
    .infer = [](const InferArgs& a) { return step_types(a, 3, 2); },
    .gradient = Gradient::none("it is an optimizer's step"),
    .lower = Scalar([](const ScalarArgs& a) {
      Expr w = a.in(0), g = a.in(2) + a.in(5) * w;
      Expr sum = a.in(1) + g * g;
      return Exprs{w - a.in(3) * (g / (sqrt(sum) + a.in(4))), sum};
    }),
    .in_place = 2,
};

// RMSProp in its four forms. Tensors come first: w, the average of squares, that of gradients where `centered`, the
// momentum's buffer where there is one; then g, lr, alpha, one_minus_alpha, eps, weight_decay, and momentum.
template <bool centered, bool momentum>
Exprs rmsprop(const ScalarArgs& a) {
  constexpr int kState = 2 + centered + momentum;
  Expr w = a.in(0), lr = a.in(kState + 1), alpha = a.in(kState + 2), rest = a.in(kState + 3);
  Expr g = a.in(kState) + a.in(kState + 5) * w;
  Expr squares = alpha * a.in(1) + rest * (g * g), mean, spread = squares;
  if (centered) {
    mean = alpha * a.in(2) + rest * g;
    spread = max(squares - mean * mean, lit(0));  // rounding must not make it negative
  }
  Expr step = g / (sqrt(spread) + a.in(kState + 4));
  if (momentum) step = a.in(kState + 6) * a.in(kState - 1) + step;
  Exprs results = {w - lr * step, squares};
  if (centered) results.push_back(mean);
  if (momentum) results.push_back(step);
  return results;
}

template <bool centered, bool momentum>
OpDef rmsprop_step(const char* name, const char* doc) {
  return {
      .name = name,
      .doc = doc,
      .inputs = 8 + centered + 2 * momentum,
      .results = 2 + centered + momentum,
      .infer =
          [](const InferArgs& a) { return step_types(a, 3 + centered + momentum, 2 + centered + momentum); },
      .gradient = Gradient::none("it is an optimizer's step"),
      .lower = Scalar([](const ScalarArgs& a) { return rmsprop<centered, momentum>(a); }),
      .in_place = 2 + centered + momentum};
}

const OpDef kRmspropStep =
    rmsprop_step<false, false>("rmsprop_step",
                               "RMSProp, of w, v, g, lr, alpha, one_minus_alpha, eps, weight_decay: g += "
                               "weight_decay * w; v' = alpha * v + "
                               "one_minus_alpha * g * g; w' = w - lr * (g / (sqrt(v') + eps))");
const OpDef kRmspropCenteredStep =
    rmsprop_step<true, false>("rmsprop_centered_step",
                              "rmsprop_step with the mean gradient m behind v: m' = alpha * m + "
                              "one_minus_alpha * g; under the root stands v' - "
                              "m' * m'");
const OpDef kRmspropMomentumStep =
    rmsprop_step<false, true>("rmsprop_momentum_step",
                              "rmsprop_step with a buffer b behind v and momentum behind weight_decay: b' = "
                              "momentum * b + g / (sqrt(v') + eps); "
                              "w' = w - lr * b'");
const OpDef kRmspropCenteredMomentumStep =
    rmsprop_step<true, true>("rmsprop_centered_momentum_step",
                             "rmsprop_centered_step and rmsprop_momentum_step in one, of w, v, m, b, g, ...");

const OpDef kLionStep{
    .name = "lion_step",
    .doc =
        "Lion, of w, m, g, lr, beta1, one_minus_beta1, beta2, one_minus_beta2, weight_decay: c = beta1 * m + "
        "one_minus_beta1 * g; w' = w - lr * (sign(c) + weight_decay * w), not a number where c is not "
        "finite; m' = "
        "beta2 * m + one_minus_beta2 * g",
    .inputs = 9,
    .results = 2,
    .infer = [](const InferArgs& a) { return step_types(a, 3, 2); },
    .gradient = Gradient::none("it is an optimizer's step"),
    .lower = Scalar([](const ScalarArgs& a) {
      Expr w = a.in(0), m = a.in(1), g = a.in(2);
      Expr c = a.in(4) * m + a.in(5) * g;
      // The difference is 0, or NaN: a gradient that is not finite must not hide behind its sign.
      Expr sign = select(c < lit(0), lit(-1), select(c > lit(0), lit(1), lit(0))) + (c - c);
      return Exprs{w - a.in(3) * (sign + a.in(8) * w), a.in(6) * m + a.in(7) * g};
    }),
    .in_place = 2,
};

}  // namespace

OpList update_ops() {
  return {&kUpdate,
          &kAccumulate,
          &kEither,
          &kSgdStep,
          &kMomentumStep,
          &kAdamStep,
          &kAdagradStep,
          &kRmspropStep,
          &kRmspropCenteredStep,
          &kRmspropMomentumStep,
          &kLionStep,
          &kRmspropCenteredMomentumStep};
}

}  // namespace pock
