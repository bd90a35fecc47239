// The optimizers. Formulas follow PyTorch's torch.optim documentation; the scalar work of a step is done
// once, in double.
#include "pock/passes/optimizer.h"

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
                {"nesterov", 0, 0, 1}}},
    .scalars =
        [](ScalarArgsF64& a) {
          a.define("lr", a.hyper("lr"));
          a.define("weight_decay", a.hyper("weight_decay"));
          if (a.choice.hyper("momentum") == 0) return;
          a.define("momentum", a.hyper("momentum"));
          // The first step starts the buffer with the whole gradient.
          a.define("one_minus_dampening", select(a.step == one(), one(), one() - a.hyper("dampening")));
        },
    .update =
        [](UpdateArgs& u) {
          if (u.choice.hyper("momentum") == 0) {
            u.b.update(u.param, u.b.value("sgd_step",
                                          {u.param, u.gradient, u.scalar("lr"), u.scalar("weight_decay")}));
            return;
          }
          Value* buffer = u.state("momentum_buffer");
          Node* step = u.b.make("momentum_step",
                                {u.param, buffer, u.gradient, u.scalar("lr"), u.scalar("momentum"),
                                 u.scalar("one_minus_dampening"), u.scalar("weight_decay")},
                                {{"nesterov", int64_t{u.choice.hyper("nesterov") != 0}}});
          u.b.update(u.param, step->out(0));
          u.b.update(buffer, step->out(1));
        },
    .disagreement = [](const OptimizerChoice& c) -> const char* {
      bool fits = c.hyper("momentum") > 0 && c.hyper("dampening") == 0;
      return c.hyper("nesterov") == 0 || fits ? nullptr : "nesterov=1 needs momentum > 0 and dampening = 0";
    }};

void adam_scalars(ScalarArgsF64& a) {
  a.define("beta1", a.hyper("beta1"));
  a.define("one_minus_beta1", one() - a.hyper("beta1"));
  a.define("beta2", a.hyper("beta2"));
  a.define("one_minus_beta2", one() - a.hyper("beta2"));
  a.define("step_size", a.hyper("lr") / (one() - a.power("beta1")));
  a.define("inv_sqrt_bias2", one() / sqrt(one() - a.power("beta2")));
  a.define("eps", a.hyper("eps"));
}

void adam_update(UpdateArgs& u, bool decoupled) {
  Value *m = u.state("exp_avg"), *v = u.state("exp_avg_sq");
  Node* step = u.b.make("adam_step",
                        {u.param, m, v, u.gradient, u.scalar("beta1"), u.scalar("one_minus_beta1"),
                         u.scalar("beta2"), u.scalar("one_minus_beta2"), u.scalar("step_size"),
                         u.scalar("inv_sqrt_bias2"), u.scalar("eps"), u.scalar("decay")},
                        {{"decoupled", int64_t{decoupled}}});
  u.b.update(u.param, step->out(0));
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

std::vector<ChoiceDef> choices() {
  std::vector<ChoiceDef> list;
  for (const OptimizerDef* d : all_optimizers()) list.push_back(d->choice);
  return list;
}

}  // namespace

const std::vector<const OptimizerDef*>& all_optimizers() {
  static const std::vector<const OptimizerDef*> all = {&kSgd, &kAdam, &kAdamW};
  return all;
}

const OptimizerDef& get_optimizer(const std::string& name) {
  for (const OptimizerDef* d : all_optimizers())
    if (name == d->choice.name) return *d;
  POCK_CHECK(false, "no optimizer {}", name);
}

std::string optimizers_text() { return choices_text(choices()); }

double OptimizerChoice::hyper(std::string_view key) const {
  auto it = hypers.find(key);
  if (it != hypers.end()) return it->second;
  const KeyDef* k = find_key(get_optimizer(name).choice.keys, key);
  POCK_CHECK(k, "{} has no key {}", name, key);
  return k->standard;
}

OptimizerChoice parse_optimizer(const std::string& text) {
  ParsedChoice c = parse_choice("--optimizer", text, choices());
  OptimizerChoice choice{c.name, c.numbers};
  const OptimizerDef& def = get_optimizer(choice.name);
  if (const char* problem = def.disagreement ? def.disagreement(choice) : nullptr)
    throw error("--optimizer {}: {}", choice.name, problem);
  return choice;
}

std::string to_string(const OptimizerChoice& choice) {
  std::string text;
  for (const KeyDef& h : get_optimizer(choice.name).choice.keys)
    text += fmt::format("{}{}={}", text.empty() ? ":" : ",", h.name, choice.hyper(h.name));
  return choice.name + text;
}

ScalarFormulas scalar_formulas(const OptimizerChoice& choice) {
  const OptimizerDef& def = get_optimizer(choice.name);
  // A first run finds out which keys the formulas read; the second knows their number and builds the
  // expressions.
  std::map<std::string, int> used;
  ScalarFormulas result;
  for (bool build : {false, true}) {
    int count = static_cast<int>(used.size());
    if (build) {
      int next = 0;
      for (const KeyDef& h : def.choice.keys)
        if (used.count(h.name)) {
          used[h.name] = next++;
          result.hypers.push_back(h);
          result.values.push_back(choice.hyper(h.name));
        }
      result.buffer = std::make_shared<loop::Buffer>(
          loop::Buffer{"hypers", {DType::f64, {2 * count + 1}}, loop::Space::in});
    }
    auto slot = [&](const std::string& key, int base) {
      POCK_CHECK(find_key(def.choice.keys, key), "{} has no key {}", def.choice.name, key);
      if (!build) {
        used.emplace(key, 0);
        return one();
      }
      return load(result.buffer, {Expr(base + used.at(key))});
    };
    ScalarArgsF64 args{choice, [&](const std::string& key) { return slot(key, 0); },
                       [&](const std::string& key) { return slot(key, count); },
                       build ? load(result.buffer, {Expr(2 * count)}) : one(),
                       [&](const std::string& name, Expr value) {
                         if (build) result.formulas.emplace_back(name, std::move(value));
                       }};
    def.scalars(args);
  }
  return result;
}

}  // namespace pock
