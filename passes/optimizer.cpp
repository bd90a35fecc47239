// The optimizers. Formulas follow PyTorch's torch.optim documentation; the scalar work of a step is done
// once, in double.
#include "pock/passes/optimizer.h"

#include <algorithm>

namespace pock {
namespace {

using loop::Expr;
using loop::lit;

Expr one() { return lit(1, DType::f64); }

const OptimizerDef kSgd{
    .choice = {"sgd",
               "stochastic gradient descent, with momentum (nesterov=1 for Nesterov's) where momentum > 0",
               {{"lr", 0.01, 0, kMost},
                {"momentum", 0, 0, kMost},
                {"dampening", 0, -kMost, kMost},
                {"weight_decay", 0, 0, kMost},
                {"nesterov", 0, 0, 1, false, KeyDef::whole}}},
    .scalars =
        [](ScalarArgsF64& a) {
          a.define("lr", a.hyper("lr"));
          a.define("weight_decay", a.hyper("weight_decay"));
          if (a.choice.number("momentum") == 0) return;
          a.define("momentum", a.hyper("momentum"));
          // The first step starts the buffer with the whole gradient.
          a.define("one_minus_dampening", select(a.step == one(), one(), one() - a.hyper("dampening")));
        },
    .update =
        [](UpdateArgs& u) {
          if (u.choice.number("momentum") == 0) {
            u.update(u.b.value("sgd_step", {u.param, u.gradient, u.scalar("lr"), u.scalar("weight_decay")}));
            return;
          }
          Value* buffer = u.state("momentum_buffer", 0);
          Node* step = u.b.make("momentum_step",
                                {u.param, buffer, u.gradient, u.scalar("lr"), u.scalar("momentum"),
                                 u.scalar("one_minus_dampening"), u.scalar("weight_decay")},
                                {{"nesterov", int64_t{u.choice.number("nesterov") != 0}}});
          u.update(step->out(0));
          u.b.update(buffer, step->out(1));
        },
    .disagreement = [](const Choice& c) -> const char* {
      bool fits = c.number("momentum") > 0 && c.number("dampening") == 0;
      return c.number("nesterov") == 0 || fits ? nullptr : "nesterov=1 needs momentum > 0 and dampening = 0";
    }};

void adam_scalars(ScalarArgsF64& a) {
  a.define("beta1", a.hyper("beta1"));
  a.define("one_minus_beta1", one() - a.hyper("beta1"));
  a.define("beta2", a.hyper("beta2"));
  a.define("one_minus_beta2", one() - a.hyper("beta2"));
  a.define("step_size", a.hyper("lr") / (one() - pow(a.hyper("beta1"), a.step)));
  a.define("inv_sqrt_bias2", one() / sqrt(one() - pow(a.hyper("beta2"), a.step)));
  a.define("eps", a.hyper("eps"));
}

void adam_update(UpdateArgs& u, bool decoupled) {
  Value *m = u.state("exp_avg", 0), *v = u.state("exp_avg_sq", 0);
  Node* step = u.b.make("adam_step",
                        {u.param, m, v, u.gradient, u.scalar("beta1"), u.scalar("one_minus_beta1"),
                         u.scalar("beta2"), u.scalar("one_minus_beta2"), u.scalar("step_size"),
                         u.scalar("inv_sqrt_bias2"), u.scalar("eps"), u.scalar("decay")},
                        {{"decoupled", int64_t{decoupled}}});
  u.update(step->out(0));
  u.b.update(m, step->out(1));
  u.b.update(v, step->out(2));
}

const OptimizerDef kAdam{.choice = {"adam",
                                    "Adam; weight_decay is added to the gradient",
                                    {{"lr", 0.001, 0, kMost},
                                     {"beta1", 0.9, 0, 1, true},
                                     {"beta2", 0.999, 0, 1, true},
                                     {"eps", 1e-8, 0, kMost},
                                     {"weight_decay", 0, 0, kMost}}},
                         .scalars =
                             [](ScalarArgsF64& a) {
                               adam_scalars(a);
                               a.define("decay", a.hyper("weight_decay"));
                             },
                         .update = [](UpdateArgs& u) { adam_update(u, false); }};

const OptimizerDef kAdamW{.choice = {"adamw",
                                     "Adam with decoupled weight decay",
                                     {{"lr", 0.001, 0, kMost},
                                      {"beta1", 0.9, 0, 1, true},
                                      {"beta2", 0.999, 0, 1, true},
                                      {"eps", 1e-8, 0, kMost},
                                      {"weight_decay", 0.01, 0, kMost}}},
                          .scalars =
                              [](ScalarArgsF64& a) {
                                adam_scalars(a);
                                a.define("decay", a.hyper("lr") * a.hyper("weight_decay"));
                              },
                          .update = [](UpdateArgs& u) { adam_update(u, true); }};

const OptimizerDef kAdagrad{
    .choice = {"adagrad",
               "Adagrad: the step shrinks with the sum of all squared gradients",
               {{"lr", 0.01}, {"lr_decay"}, {"weight_decay"}, {"initial_accumulator_value"}, {"eps", 1e-10}}},
    .scalars =
        [](ScalarArgsF64& a) {
          a.define("lr", a.hyper("lr") / (one() + (a.step - one()) * a.hyper("lr_decay")));
          a.define("eps", a.hyper("eps"));
          a.define("weight_decay", a.hyper("weight_decay"));
        },
    .update =
        [](UpdateArgs& u) {
          Value* sum = u.state("sum", u.choice.number("initial_accumulator_value"));
          Node* step = u.b.make("adagrad_step", {u.param, sum, u.gradient, u.scalar("lr"), u.scalar("eps"),
                                                 u.scalar("weight_decay")});
          u.update(step->out(0));
          u.b.update(sum, step->out(1));
        }};

const OptimizerDef kRmsprop{
    .choice = {"rmsprop",
               "RMSProp: gradients over the root of their squares' running mean",
               {{"lr", 0.01},
                {"alpha", 0.99, 0, 1},
                {"eps", 1e-8},
                {"weight_decay"},
                {"momentum"},
                {"centered", 0, 0, 1, false, KeyDef::whole}}},
    .scalars =
        [](ScalarArgsF64& a) {
          a.define("lr", a.hyper("lr"));
          a.define("alpha", a.hyper("alpha"));
          a.define("one_minus_alpha", one() - a.hyper("alpha"));
          a.define("eps", a.hyper("eps"));
          a.define("weight_decay", a.hyper("weight_decay"));
          if (a.choice.number("momentum") > 0) a.define("momentum", a.hyper("momentum"));
        },
    .update =
        [](UpdateArgs& u) {
          const bool centered = u.choice.number("centered") != 0, momentum = u.choice.number("momentum") > 0;
          std::vector<Value*> state = {u.state("square_avg", 0)};
          if (centered) state.push_back(u.state("grad_avg", 0));
          if (momentum) state.push_back(u.state("momentum_buffer", 0));
          std::vector<Value*> inputs = {u.param};
          inputs.insert(inputs.end(), state.begin(), state.end());
          inputs.push_back(u.gradient);
          for (const char* name : {"lr", "alpha", "one_minus_alpha", "eps", "weight_decay"})
            inputs.push_back(u.scalar(name));
          if (momentum) inputs.push_back(u.scalar("momentum"));
          Node* step = u.b.make(
              fmt::format("rmsprop_{}{}step", centered ? "centered_" : "", momentum ? "momentum_" : ""),
              inputs);
          u.update(step->out(0));
          for (size_t i = 0; i < state.size(); ++i) u.b.update(state[i], step->out(static_cast<int>(i) + 1));
        }};

const OptimizerDef kLion{
    .choice = {"lion",
               "Lion: steps of one size, by the sign of an average; weight_decay is decoupled",
               {{"lr", 0.0001}, {"beta1", 0.9, 0, 1, true}, {"beta2", 0.99, 0, 1, true}, {"weight_decay"}}},
    .scalars =
        [](ScalarArgsF64& a) {
          a.define("lr", a.hyper("lr"));
          for (const char* beta : {"beta1", "beta2"}) {
            a.define(beta, a.hyper(beta));
            a.define(fmt::format("one_minus_{}", beta), one() - a.hyper(beta));
          }
          a.define("weight_decay", a.hyper("weight_decay"));
        },
    .update =
        [](UpdateArgs& u) {
          Value* m = u.state("exp_avg", 0);
          std::vector<Value*> inputs = {u.param, m, u.gradient};
          for (const char* name :
               {"lr", "beta1", "one_minus_beta1", "beta2", "one_minus_beta2", "weight_decay"})
            inputs.push_back(u.scalar(name));
          Node* step = u.b.make("lion_step", inputs);
          u.update(step->out(0));
          u.b.update(m, step->out(1));
        }};

std::vector<ChoiceDef> choices() {
  std::vector<ChoiceDef> list;
  for (const OptimizerDef* d : all_optimizers()) list.push_back(d->choice);
  return list;
}

}  // namespace

const std::vector<const OptimizerDef*>& all_optimizers() {
  static const std::vector<const OptimizerDef*> all = {&kSgd, &kAdam, &kAdamW, &kAdagrad, &kRmsprop, &kLion};
  return all;
}

const OptimizerDef& get_optimizer(const std::string& name) {
  for (const OptimizerDef* d : all_optimizers())
    if (name == d->choice.name) return *d;
  POCK_CHECK(false, "no optimizer {}", name);
}

std::string optimizers_text() { return choices_text(choices()); }

Choice parse_optimizer(const std::string& text) {
  Choice choice = parse_choice("--optimizer", text, choices());
  const OptimizerDef& def = get_optimizer(choice.name);
  if (const char* problem = def.disagreement ? def.disagreement(choice) : nullptr)
    throw error("--optimizer {}: {}", choice.name, problem);
  return choice;
}

namespace {

struct Key {
  KeyDef def;
  double value;
};

// All keys of a recipe, those of the optimizer first.
std::vector<Key> keys_of(const Recipe& r) {
  std::vector<Key> keys;
  for (const KeyDef& k : r.optimizer.keys) keys.push_back({k, r.optimizer.number(k.name)});
  for (const KeyDef& k : r.schedule.keys) keys.push_back({k, r.schedule.number(k.name)});
  if (r.accumulate)
    keys.push_back(
        {{"accumulate", 0, 1, kMostAccumulated, false, KeyDef::whole}, static_cast<double>(r.accumulate)});
  if (r.clip_value) keys.push_back({{"clip_value", 0, kLeastClip, kMostClip}, *r.clip_value});
  if (r.clip_norm) keys.push_back({{"clip_norm", 0, kLeastClip, kMostClip}, *r.clip_norm});
  return keys;
}

void define_all(const Recipe& r, ScalarArgsF64& a, const Expr& batch) {
  get_optimizer(r.optimizer.name).scalars(a);
  if (r.accumulate) {
    a.define("keep", select(batch == one(), lit(0, DType::f64), one()));
    a.define("share", one() / a.hyper("accumulate"));
  }
  if (r.clip_value) {
    a.define("clip_low", -a.hyper("clip_value"));
    a.define("clip_high", a.hyper("clip_value"));
  }
  if (r.clip_norm) a.define("clip_norm", a.hyper("clip_norm"));
}

}  // namespace

ScalarFormulas scalar_formulas(const Recipe& recipe) {
  const std::vector<Key> keys = keys_of(recipe);
  ScalarFormulas result;
  // A first run finds out which keys the formulas read; the second knows their number and builds them.
  std::map<std::string, int> used;
  for (bool build : {false, true}) {
    const int count = static_cast<int>(used.size());
    if (build) {
      int next = 0;
      for (const Key& k : keys)
        if (used.count(k.def.name)) {
          used[k.def.name] = next++;
          result.hypers.push_back(k.def);
          result.values.push_back(k.value);
        }
      result.buffer =
          std::make_shared<loop::Buffer>(loop::Buffer{"hypers", {DType::f64, {count + 2}}, loop::Space::in});
    }
    auto number = [&](int index) { return build ? load(result.buffer, {Expr(index)}) : one(); };
    auto hyper = [&](const std::string& key) {
      POCK_CHECK(std::any_of(keys.begin(), keys.end(), [&](const Key& k) { return key == k.def.name; }),
                 "the recipe has no key {}", key);
      return number(build ? used.at(key) : used.emplace(key, 0).first->second);
    };
    const Expr step = number(count);
    result.lr = get_schedule(recipe.schedule.name).rate({hyper("lr"), step - one(), hyper});
    ScalarArgsF64 args{recipe.optimizer,
                       [&](const std::string& key) { return key == "lr" ? result.lr : hyper(key); }, step,
                       [&](const std::string& name, Expr value) {
                         if (build) result.formulas.emplace_back(name, std::move(value));
                       }};
    define_all(recipe, args, number(count + 1));
  }
  return result;
}

}  // namespace pock
