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
  Choice choice;
  Numbers w, first, second, third;  // momentum, or averages

  double key(const char* name) const { return choice.number(name); }

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

// Three weights, whose gradient is an input, and the optimizer's step.
struct Update {
  explicit Update(const std::string& optimizer) {
    options.recipe.optimizer = parse_optimizer(optimizer);
    w = g.add_param("w", {DType::f32, {3}}, make_data({0.5f, -2.0f, 0.0f}));
    w->trained = true;
    gradient = g.add_input("gradient", w->type);
    g.add_output(gradient, "loss");
    g.add_output(gradient, gradient_output_name(*w));
    update(g, options);
    formulas = scalar_formulas(options.recipe);
  }
  void step(Memory& memory, int t, const Numbers& dw) {
    memory.set(gradient, dw);
    set_scalars(g, formulas, t, &memory);
    evaluate(g, memory);
  }
  PassOptions options;
  Graph g;
  Value *w, *gradient;
  ScalarFormulas formulas;
};

class Optimizer : public testing::TestWithParam<const char*> {};

TEST_P(Optimizer, FollowsItsFormula) {
  Update u(GetParam());
  Reference reference{u.options.recipe.optimizer, {0.5, -2, 0}, Numbers(3, 0), Numbers(3, 0), Numbers(3, 0)};
  Memory memory = initial_memory(u.g, loop::Precision::f64);
  for (int t : {1, 2, 3, 10000}) {
    Numbers dw = {1.0 / t, 0.25 * t, t == 2 ? 0.0 : -0.01};
    u.step(memory, t, dw);
    reference.step(dw, t);
    Numbers got = memory.read(u.w);
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

// In f32, against what torch.optim.AdamW of PyTorch 1.13 gave in float64: weight decay apart from the averages, eps outside
// of the root and behind the bias correction, which is whole at step 1.
TEST(AdamW, FiveStepsArePyTorchs) {
  const Numbers gradients[] = {
      {0.3, -0.5, 0.01}, {0.1, 0.25, -0.02}, {-0.7, 0.125, 0.0}, {0.2, -0.3, 0.04}, {0.05, 0.6, -0.01}};
  struct {
    const char* options;
    Numbers after[5];
  } cases[] = {{"weight_decay=0.01",
                {{0.48995, -1.9898, -0.00999999},
                 {0.481190366, -1.98693765, -0.00633795705},
                 {0.484194947, -1.98612507, -0.00350733457},
                 {0.485101114, -1.98278212, -0.00745061834},
                 {0.485514518, -1.98435052, -0.00954256084}}},
               {"weight_decay=0",
                {{0.49, -1.99, -0.00999999},
                 {0.481289361, -1.98733663, -0.00633895704},
                 {0.484342061, -1.98672274, -0.00350896836},
                 {0.485296647, -1.98357841, -0.00745260287},
                 {0.485758562, -1.98534508, -0.00954529043}}},
               {"weight_decay=0.01,eps=0.1",
                {{0.49245, -1.99146667, -0.000909090909},
                 {0.486382223, -1.98914196, -0.000409104855},
                 {0.488824736, -1.98847172, -8.55159711e-05},
                 {0.489538337, -1.98587151, -0.000820954825},
                 {0.489849918, -1.98708237, -0.00118380781}}}};
  for (const auto& [options, after] : cases) {
    SCOPED_TRACE(options);
    Update u(std::string("adamw:lr=0.01,") + options);
    Memory memory = initial_memory(u.g);
    for (int t = 1; t <= 5; ++t) {
      u.step(memory, t, gradients[t - 1]);
      const Numbers got = memory.read(u.w);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], after[t - 1][i], 1e-6) << "step " << t << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace pock::test
