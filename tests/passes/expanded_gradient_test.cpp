// Operators without a gradient rule of their own, by way of what they expand to: autodiff's gradient against central
// differences, in double.
#include <gtest/gtest.h>

#include <cmath>

#include "pock/ir/builder.h"
#include "pock/ops/evaluate.h"
#include "pock/passes/passes.h"

namespace pock::test {
namespace {

struct Case {
  std::string op;
  Attrs attrs;
};

TEST(ExpandedGradient, AgreesWithDifferences) {
  const std::vector<Case> cases = {{"gelu_tanh", {}},
                                   {"hard_sigmoid", {{"alpha", 0.2}, {"beta", 0.5}}},
                                   {"hard_swish", {}},
                                   {"selu", {{"alpha", 1.5}, {"gamma", 1.25}}},
                                   {"celu", {{"alpha", 0.75}}}};
  // Away from every kink; some beyond the bounds of the hard ones.
  const std::vector<double> x = {-3.5, -2.1, -0.9, -0.3, 0.2, 0.8, 1.7, 2.4, 4.2};
  const std::vector<float> upstream = {0.7f, -1.3f, 2, 0.4f, -0.6f, 1.1f, -0.2f, 0.9f, 1.6f};
  for (const Case& c : cases) {
    Graph g;
    Builder b(g);
    Type type{DType::f32, {static_cast<int64_t>(x.size())}};
    Value* p = g.add_param("p", type, nullptr);
    p->trained = true;
    g.add_output(b.reduce_sum(b.mul(b.value(c.op, {p}, c.attrs), b.constant(type, upstream)), {0}), "loss");
    expand_without_gradient(g, {});
    autodiff(g, {});
    Memory m = initial_memory(g, loop::Precision::f64);
    m.set(p, x);
    evaluate(g, m);
    std::vector<double> gradient = m.read(g.outputs()[1]);
    for (size_t i = 0; i < x.size(); ++i) {
      double loss[2];
      const double h = 1e-6;
      for (int side : {0, 1}) {
        std::vector<double> moved = x;
        moved[i] += side ? -h : h;
        m.set(p, moved);
        evaluate(g, m);
        loss[side] = m.read(g.outputs()[0])[0];
      }
      EXPECT_NEAR(gradient[i], (loss[0] - loss[1]) / (2 * h), 1e-8) << c.op << " at " << x[i];
    }
  }
}

}  // namespace
}  // namespace pock::test
