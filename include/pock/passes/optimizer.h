// Optimizers, as PyTorch defines them. One OptimizerDef is all that pock knows of one: keys and defaults, state, the
// numbers computed once a step, and the update of one parameter.
#pragma once

#include <functional>
#include <map>

#include "pock/ir/builder.h"
#include "pock/loop/loop.h"

namespace pock {

struct HyperDef {
  const char* name;   // PyTorch's keyword (betas are beta1 and beta2)
  double standard;
  double low, high;   // allowed range, inclusive; high exclusive where `open`
  bool open = false;
};

struct OptimizerChoice {
  std::string name;                       // "" = sgd with its defaults
  std::map<std::string, double> hypers;   // what was given; the rest are defaults
};

// Chosen by name, with keys checked. "adam:lr=0.001,beta1=0.9". Throws Error naming the keys there are.
OptimizerChoice parse_optimizer(const std::string& text);

// Computes the step's scalars in double: `hyper("lr")`, `step()` counts from 1.
struct ScalarFormulas {
  std::vector<std::pair<std::string, loop::Expr>> formulas;  // scalar's name, f64 expression
  std::vector<HyperDef> hypers;                              // in the order of hyper index
};
// In the formulas, hyper i is load(hyper_buffer, {i}) and the step number is load(hyper_buffer, {hypers.size()}).
// `power(beta)` = beta^step is load(hyper_buffer, {hypers.size() + 1 + i}) for hyper i.
const loop::BufferRef& hyper_buffer();

struct UpdateArgs {
  Builder& b;
  Value* param;
  Value* gradient;
  std::function<Value*(const std::string& slot)> state;    // this parameter's state of the same shape, zero at start
  std::function<Value*(const std::string& name)> scalar;   // one of `scalars`
  std::function<double(const std::string& name)> hyper;    // compiled-in value, for choices of structure only
};

struct OptimizerDef {
  const char* name;
  const char* doc;
  std::vector<HyperDef> hypers;
  // scalar name -> formula over hypers and step.
  void (*scalars)(struct ScalarArgsF64&);
  void (*update)(UpdateArgs&);  // ends in b.update(param, ...) and b.update(state, ...)
};

const std::vector<const OptimizerDef*>& all_optimizers();
const OptimizerDef& get_optimizer(const std::string& name);
ScalarFormulas scalar_formulas(const OptimizerChoice&);

struct ScalarArgsF64 {
  std::function<loop::Expr(const std::string& name)> hyper;
  std::function<loop::Expr(const std::string& name)> power;  // hyper^step
  std::function<void(const std::string& name, loop::Expr value)> define;
};

}  // namespace pock
