// Optimizers, as PyTorch defines them. One OptimizerDef is all that pock knows of one: keys and defaults, the
// numbers computed once a step, state, and the update of one parameter.
//
//   OptimizerChoice c = parse_optimizer("adam:lr=0.01");
//   c.hyper("beta1") == 0.9
#pragma once

#include <functional>

#include "pock/ir/builder.h"
#include "pock/loop/loop.h"
#include "pock/passes/choice.h"

namespace pock {

struct OptimizerChoice {
  std::string name = "sgd";
  std::map<std::string, double, std::less<>> hypers;  // what was given; the rest are defaults

  double hyper(std::string_view key) const;  // the given value or the default
};

// "adam:lr=0.001,beta1=0.9", "sgd". Throws Error naming the optimizers or keys there are.
OptimizerChoice parse_optimizer(const std::string& text);
std::string to_string(const OptimizerChoice&);  // with all keys

// What defines the step's scalars: formulas in double over hyper-parameters and the step number.
struct ScalarArgsF64 {
  const OptimizerChoice& choice;
  std::function<loop::Expr(const std::string& key)> hyper;
  std::function<loop::Expr(const std::string& key)> power;  // hyper^step
  loop::Expr step;                                          // counts from 1
  std::function<void(const std::string& name, loop::Expr)> define;
};

struct UpdateArgs {
  Builder& b;
  const OptimizerChoice& choice;
  Value* param;
  Value* gradient;
  std::function<Value*(const std::string& slot)> state;   // of the parameter's shape, zero at start
  std::function<Value*(const std::string& name)> scalar;  // one that `scalars` defines
};

struct OptimizerDef {
  ChoiceDef choice;  // keys are PyTorch's keywords (betas are beta1 and beta2)
  void (*scalars)(ScalarArgsF64&);
  void (*update)(UpdateArgs&);  // ends in b.update(param, ...) and one for each state
  // What is wrong with keys that are good one by one; null where none depends on another.
  const char* (*disagreement)(const OptimizerChoice&) = nullptr;
};

const std::vector<const OptimizerDef*>& all_optimizers();
std::string optimizers_text();  // all with their keys and defaults
const OptimizerDef& get_optimizer(const std::string& name);

// The formulas of a choice. Hyper-parameters that no formula reads cannot be changed at run time and are left
// out. In a formula, hyper i is load(buffer, {i}), hyper i to the power of the step number load(buffer,
// {count + i}), and the step number load(buffer, {2 * count}), with count = hypers.size().
struct ScalarFormulas {
  std::vector<std::pair<std::string, loop::Expr>> formulas;  // scalar's name, f64
  std::vector<KeyDef> hypers;
  std::vector<double> values;  // compiled-in, per hyper
  loop::BufferRef buffer;
};
ScalarFormulas scalar_formulas(const OptimizerChoice&);

}  // namespace pock
