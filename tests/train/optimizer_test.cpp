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
  Numbers w, first, second, third;  // momentum, or averages

  double key(const char* name) const { return choice.hyper(name); }

  void step(const Numbers& gradient, int t) {
    for (size_t i = 0; i < w.size(); ++i) {
      double g = gradient[i];
      if (choice.name == "sgd") sgd(i, g, t);
      if (choice.name == "adam" || choice.name == "adamw") adam(i, g, t);
      if (choice.name == "adagrad") adagrad(i, g, t);
      if (choice.name == "rmsprop") rmsprop(i, g);
      if (choice.name == "lion") lion(i, g);
    }
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

  void adagrad(size_t i, double g, int t) {
    g += key("weight_decay") * w[i];
    if (t == 1) first[i] = static_cast<float>(key("initial_accumulator_value"));
    first[i] += g * g;
    w[i] -= key("lr") / (1 + (t - 1) * key("lr_decay")) * g / (std::sqrt(first[i]) + key("eps"));
  }

  void rmsprop(size_t i, double g) {
    double alpha = key("alpha");
    g += key("weight_decay") * w[i];
    first[i] = alpha * first[i] + (1 - alpha) * g * g;
    second[i] = alpha * second[i] + (1 - alpha) * g;
    double spread = key("centered") != 0 ? first[i] - second[i] * second[i] : first[i];
    third[i] = key("momentum") * third[i] + g / (std::sqrt(spread) + key("eps"));
    w[i] -= key("lr") * third[i];
  }

  void lion(size_t i, double g) {
    double c = key("beta1") * first[i] + (1 - key("beta1")) * g;
    w[i] -= key("lr") * ((c > 0) - (c < 0) + key("weight_decay") * w[i]);
    first[i] = key("beta2") * first[i] + (1 - key("beta2")) * g;
  }
};

class Optimizer : public testing::TestWithParam<const char*> {};

TEST_P(Optimizer, FollowsItsFormula) {
  PassOptions options;
  options.recipe.optimizer = parse_optimizer(GetParam());
  const Numbers start = {0.5, -2, 0};
  Graph g;
  Value* w = g.add_param("w", {DType::f32, {3}}, make_data({0.5f, -2.0f, 0.0f}));
  w->trained = true;
  Value* gradient = g.add_input("gradient", w->type);
  g.add_output(gradient, "loss");
  g.add_output(gradient, gradient_output_name(*w));
  update(g, options);

  Reference reference{options.recipe.optimizer, start, Numbers(3, 0), Numbers(3, 0), Numbers(3, 0)};
  Memory memory = initial_memory(g, loop::Precision::f64);
  ScalarFormulas formulas = scalar_formulas(options.recipe);
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
                                         "adamw:lr=0.1,beta1=0.5,beta2=0.75,eps=0.1,weight_decay=0",
                                         "adagrad", "adagrad:lr=0.1,lr_decay=0.25,weight_decay=0.3,eps=0.1",
                                         "adagrad:lr=0.1,initial_accumulator_value=0.1", "rmsprop:lr=0.1",
                                         "rmsprop:lr=0.1,alpha=0.5,eps=0.1,weight_decay=0.3",
                                         "rmsprop:lr=0.1,momentum=0.9", "rmsprop:lr=0.1,centered=1",
                                         "rmsprop:lr=0.1,centered=1,momentum=0.5,alpha=0.75,weight_decay=0.3",
                                         "lion:lr=0.1", "lion:lr=0.1,beta1=0.5,beta2=0.75,weight_decay=0.3"));

}  // namespace
}  // namespace pock::test
