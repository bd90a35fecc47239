// How gradients become steps: optimizers as PyTorch defines them, schedules of the learning rate, batches added up to
// a step, clipping. One OptimizerDef is all that pock knows of an optimizer: keys and defaults, the numbers computed
// once a step, state, and the update of one parameter.
//
//   Choice c = parse_optimizer("adam:lr=0.01");
//   c.number("beta1") == 0.9
#pragma once

#include <functional>
#include <optional>

#include "pock/ir/builder.h"
#include "pock/loop/loop.h"
#include "pock/passes/choice.h"

namespace pock {

// "adam:lr=0.001,beta1=0.9", "sgd". Throws Error naming the optimizers or keys there are.
Choice parse_optimizer(const std::string& text);

// How the learning rate goes from step to step: "cosine:steps=1000,warmup=50". Throws Error naming the schedules or keys
// there are.
Choice parse_schedule(const std::string& text);
std::string schedules_text();  // all with their keys and defaults

// What a schedule's formula reads: the rate that the optimizer was given, the steps done before this one, and the
// schedule's keys.
struct ScheduleArgsF64 {
  loop::Expr lr, done;
  std::function<loop::Expr(const std::string& key)> number;
};
struct ScheduleDef {
  ChoiceDef choice;
  loop::Expr (*rate)(const ScheduleArgsF64&);  // of the step
};
const ScheduleDef& get_schedule(const std::string& name);

inline constexpr double kMostAccumulated = 1 << 20;
// A bound of clipping is a normal f32.
inline constexpr double kLeastClip = std::numeric_limits<float>::min(),
                        kMostClip = std::numeric_limits<float>::max();

struct Recipe {
  Choice optimizer = parse_optimizer("sgd"), schedule = parse_schedule("constant");
  // Batches whose mean gradient makes a step; the trainer may change it. 0: a step is one batch.
  int64_t accumulate = 0;
  std::optional<double> clip_value, clip_norm;  // of every element of the gradient; of all of it
  bool skip_nonfinite = false;  // leave out steps whose loss or gradient is not finite, instead of giving up
  bool keep_gradients = false;  // as the optimizer sees them, to the end of the step

  // The optimizer sees a gradient's norm before it may change anything.
  bool measures() const { return clip_norm || skip_nonfinite; }
  bool clips() const { return clip_value || clip_norm; }
};

// What defines the step's scalars: formulas in double over hyper-parameters and the step number.
struct ScalarArgsF64 {
  const Choice& choice;
  std::function<loop::Expr(const std::string& key)> hyper;  // "lr": as the schedule has it
  loop::Expr step;                                          // counts from 1
  std::function<void(const std::string& name, loop::Expr)> define;
};

struct UpdateArgs {
  Builder& b;
  const Choice& choice;
  Value* param;                                                          // what is trained of it
  Value* gradient;                                                       // of the same shape
  std::function<Value*(const std::string& slot, double initial)> state;  // likewise
  std::function<Value*(const std::string& name)> scalar;                 // one that `scalars` defines
  std::function<void(Value* by)> update;                                 // stores the new value
};

struct OptimizerDef {
  ChoiceDef choice;  // keys are PyTorch's keywords (betas are beta1 and beta2)
  void (*scalars)(ScalarArgsF64&);
  void (*update)(UpdateArgs&);  // ends in update(...) and a b.update for each state
  // What is wrong with keys that are good one by one; null where none depends on another.
  const char* (*disagreement)(const Choice&) = nullptr;
};

const std::vector<const OptimizerDef*>& all_optimizers();
std::string optimizers_text();  // all with their keys and defaults
const OptimizerDef& get_optimizer(const std::string& name);

// The formulas of a recipe. Hyper-parameters that no formula reads cannot be changed at run time and are left out. In
// a formula, hyper i is load(buffer, {i}), the number of the step load(buffer, {count}) and that of the batch within the
// step load(buffer, {count + 1}), with count = hypers.size(); both count from 1. The exponent of a pow is a whole number
// from 0 on.
struct ScalarFormulas {
  std::vector<std::pair<std::string, loop::Expr>> formulas;  // scalar's name, f64
  loop::Expr lr;                                             // of the step
  std::vector<KeyDef> hypers;
  std::vector<double> values;  // compiled-in, per hyper
  loop::BufferRef buffer;
};
ScalarFormulas scalar_formulas(const Recipe&);

}  // namespace pock
