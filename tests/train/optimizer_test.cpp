// Every optimizer over several steps, in double, against PyTorch's formulas written out. The steps are 1, 2,
// 3 and then 10000: the first one starts momentum, and the bias corrections have all but vanished at the
// last.
#include <gtest/gtest.h>

#include <cmath>

#include "pock/passes/passes.h"
#include "train/scalars.h"

namespace pock::test {
namespace {

using Numbers = std::vector<double>;

struct Reference {
  OptimizerChoice choice;
  Numbers w, first, second;  // momentum, or Adam's two averages

  double key(const char* name) const { return choice.hyper(name); }

  void step(const Numbers& gradient, int t) {
    for (size_t i = 0; i < w.size(); ++i)
      choice.name == "sgd" ? sgd(i, gradient[i], t) : adam(i, gradient[i], t);
  }

 private:
  void sgd(size_t i, double g, int t) {
    double d = g + key("weight_decay") * w[i], momentum = key("momentum");
    if (momentum != 0) {
      first[i] = t == 1 ? d : momentum * first[i] + (1 - key("dampening")) * d;
      d = key("nesterov") != 0 ? d + momentum * first[i] : first[i];
    }
    w[i] -= key("lr") * d;
  }

  void adam(size_t i, double g, int t) {
    double beta1 = key("beta1"), beta2 = key("beta2"), decay = key("weight_decay");
    if (choice.name == "adamw") w[i] -= key("lr") * decay * w[i];
    if (choice.name == "adam") g += decay * w[i];
    first[i] = beta1 * first[i] + (1 - beta1) * g;
    second[i] = beta2 * second[i] + (1 - beta2) * g * g;
    double correction1 = 1 - std::pow(beta1, t), correction2 = 1 - std::pow(beta2, t);
    double below = std::sqrt(second[i]) / std::sqrt(correction2) + key("eps");
    w[i] -= key("lr") / correction1 * first[i] / below;
  }
};

class Optimizer : public testing::TestWithParam<const char*> {};

TEST_P(Optimizer, FollowsItsFormula) {
  PassOptions options;
  options.optimizer = parse_optimizer(GetParam());
  const Numbers start = {0.5, -2, 0};
  Graph g;
  Value* w = g.add_param("w", {DType::f32, {3}}, make_data({0.5f, -2.0f, 0.0f}));
  w->trained = true;
  Value* gradient = g.add_input("gradient", w->type);
  g.add_output(gradient, "loss");
  g.add_output(gradient, gradient_output_name(*w));
  update(g, options);

  Reference reference{options.optimizer, start, Numbers(3, 0), Numbers(3, 0)};
  Memory memory = initial_memory(g, loop::Precision::f64);
  ScalarFormulas formulas = scalar_formulas(options.optimizer);
  for (int t : {1, 2, 3, 10000}) {
    Numbers dw = {1.0 / t, 0.25 * t, t == 2 ? 0.0 : -0.01};
    memory.set(gradient, dw);
    set_scalars(g, formulas, t, &memory);
    evaluate(g, memory);
    reference.step(dw, t);
    Numbers got = memory.read(w);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], reference.w[i], 1e-12 * (1 + std::abs(reference.w[i])))
          << "step " << t << ", element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Optimizer,
                         testing::Values("sgd:lr=0.1", "sgd:lr=0.1,weight_decay=0.3",
                                         "sgd:lr=0.1,momentum=0.9",
                                         "sgd:lr=0.1,momentum=0.9,dampening=0.4,weight_decay=0.3",
                                         "sgd:lr=0.1,momentum=0.9,nesterov=1",
                                         "sgd:lr=0.1,momentum=0.8,nesterov=1,weight_decay=0.3", "adam",
                                         "adam:lr=0.1,weight_decay=0.3",
                                         "adam:lr=0.1,beta1=0.5,beta2=0.75,eps=0.1", "adam:beta1=0,beta2=0",
                                         "adamw", "adamw:lr=0.1,weight_decay=0.3",
                                         "adamw:lr=0.1,beta1=0.5,beta2=0.75,eps=0.1,weight_decay=0"));

}  // namespace
}  // namespace pock::test
