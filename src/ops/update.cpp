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
    .doc = "stores input 1 into the parameter, statistic or optimizer state that is input 0",
    .inputs = 2,
    .results = 0,
    .infer = [](const InferArgs& a) -> Types {
      need_type(a, 1, a.in(0), "the new value");
      return {};
    },
    .gradient = Gradient::none("it ends a step"),
    .lower = Effect(),
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

}  // namespace

OpList update_ops() { return {&kUpdate, &kSgdStep, &kMomentumStep, &kAdamStep}; }

}  // namespace pock
