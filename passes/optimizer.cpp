// The optimizers. Formulas follow PyTorch's torch.optim documentation; the scalar work of a step is done
// once, in double.
#include "pock/passes/optimizer.h"

#include <charconv>
#include <limits>

namespace pock {
namespace {

using loop::Expr;
using loop::lit;

constexpr double kMax = std::numeric_limits<double>::max();
Expr one() { return lit(1, DType::f64); }

const OptimizerDef kSgd{
    .name = "sgd",
    .doc = "stochastic gradient descent, with momentum (nesterov=1 for Nesterov's) where momentum > 0",
    .hypers = {{"lr", 0.01, 0, kMax},
               {"momentum", 0, 0, kMax},
               {"dampening", 0, -kMax, kMax},
               {"weight_decay", 0, 0, kMax},
               {"nesterov", 0, 0, 1}},
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

const OptimizerDef kAdam{.name = "adam",
                         .doc = "Adam; weight_decay is added to the gradient",
                         .hypers = {{"lr", 0.001, 0, kMax},
                                    {"beta1", 0.9, 0, 1, true},
                                    {"beta2", 0.999, 0, 1, true},
                                    {"eps", 1e-8, 0, kMax},
                                    {"weight_decay", 0, 0, kMax}},
                         .scalars =
                             [](ScalarArgsF64& a) {
                               adam_scalars(a);
                               a.define("decay", a.hyper("weight_decay"));
                             },
                         .update = [](UpdateArgs& u) { adam_update(u, false); }};

const OptimizerDef kAdamW{.name = "adamw",
                          .doc = "Adam with decoupled weight decay",
                          .hypers = {{"lr", 0.001, 0, kMax},
                                     {"beta1", 0.9, 0, 1, true},
                                     {"beta2", 0.999, 0, 1, true},
                                     {"eps", 1e-8, 0, kMax},
                                     {"weight_decay", 0.01, 0, kMax}},
                          .scalars =
                              [](ScalarArgsF64& a) {
                                adam_scalars(a);
                                a.define("decay", a.hyper("lr") * a.hyper("weight_decay"));
                              },
                          .update = [](UpdateArgs& u) { adam_update(u, true); }};

const HyperDef* find_hyper(const OptimizerDef& def, std::string_view key) {
  for (const HyperDef& h : def.hypers)
    if (key == h.name) return &h;
  return nullptr;
}

}  // namespace

const std::vector<const OptimizerDef*>& all_optimizers() {
  static const std::vector<const OptimizerDef*> all = {&kSgd, &kAdam, &kAdamW};
  return all;
}

const OptimizerDef& get_optimizer(const std::string& name) {
  std::string names;
  for (const OptimizerDef* d : all_optimizers()) {
    if (name == d->name) return *d;
    names += fmt::format("\n  {}: {}", d->name, d->doc);
  }
  throw error("--optimizer {}: there is no such optimizer; the choices are{}", name, names);
}

double OptimizerChoice::hyper(std::string_view key) const {
  auto it = hypers.find(key);
  if (it != hypers.end()) return it->second;
  const HyperDef* h = find_hyper(get_optimizer(name), key);
  POCK_CHECK(h, "{} has no key {}", name, key);
  return h->standard;
}

OptimizerChoice parse_optimizer(const std::string& text) {
  OptimizerChoice choice;
  size_t colon = text.find(':');
  choice.name = text.substr(0, colon);
  const OptimizerDef& def = get_optimizer(choice.name);
  std::string keys;
  for (const HyperDef& h : def.hypers) keys += (keys.empty() ? "" : ", ") + std::string(h.name);
  Report report;
  size_t at = colon == std::string::npos ? text.size() : colon + 1;
  while (at < text.size()) {
    size_t end = std::min(text.find(',', at), text.size());
    std::string item = text.substr(at, end - at);
    at = end + 1;
    size_t equals = item.find('=');
    std::string key = item.substr(0, equals);
    const HyperDef* h = find_hyper(def, key);
    if (!h || equals == std::string::npos) {
      report.add(
          fmt::format("--optimizer {}: '{}' is not key=value with one of {}", choice.name, item, keys));
      continue;
    }
    double value = 0;
    const char *first = item.data() + equals + 1, *last = item.data() + item.size();
    auto [stop, problem] = std::from_chars(first, last, value);
    bool in_range = value >= h->low && (h->open ? value < h->high : value <= h->high);
    if (problem != std::errc{} || stop != last || first == last)
      report.add(fmt::format("--optimizer {}: {} is not a number: '{}'", choice.name, key,
                             std::string(first, last)));
    else if (!in_range)
      report.add(fmt::format("--optimizer {}: {} must lie in [{}, {}{}, not {}", choice.name, key, h->low,
                             h->high == kMax ? "inf" : fmt::format("{}", h->high), h->open ? ")" : "]",
                             value));
    else if (!choice.hypers.emplace(key, value).second)
      report.add(fmt::format("--optimizer {}: {} is given twice", choice.name, key));
  }
  if (def.disagreement && report.empty())
    if (const char* text = def.disagreement(choice))
      report.add(fmt::format("--optimizer {}: {}", choice.name, text));
  report.throw_if_any();
  return choice;
}

std::string to_string(const OptimizerChoice& choice) {
  std::string text;
  for (const HyperDef& h : get_optimizer(choice.name).hypers)
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
      for (const HyperDef& h : def.hypers)
        if (used.count(h.name)) {
          used[h.name] = next++;
          result.hypers.push_back(h);
          result.values.push_back(choice.hyper(h.name));
        }
      result.buffer = std::make_shared<loop::Buffer>(
          loop::Buffer{"hypers", {DType::f64, {2 * count + 1}}, loop::Space::in});
    }
    auto slot = [&](const std::string& key, int base) {
      POCK_CHECK(find_hyper(def, key), "{} has no key {}", def.name, key);
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
