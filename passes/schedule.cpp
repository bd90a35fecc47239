// Schedules of the learning rate, in double, once a step. All begin with a warm-up: over its `warmup` steps the rate
// grows in equal parts from lr / warmup to lr. What follows is as PyTorch's schedulers of these names, counted from
// there on.
#include <cmath>
#include <numbers>

#include "pock/passes/optimizer.h"
#include "pock/support/diag.h"

namespace pock {
namespace {

using loop::Expr;

Expr number(double v) { return loop::lit(v, DType::f64); }

// cos(pi t) of t in [0, 1]: the sine's series around the middle, good to the last bit or so.
Expr cos_pi(const Expr& t) {
  const Expr x = number(std::numbers::pi) * (number(0.5) - t), square = x * x;
  Expr sum = number(0);
  for (int k = 21; k > 1; k -= 2) sum = -(square / number(k * (k - 1))) * (number(1) + sum);
  return x + x * sum;
}

Expr warmed_up(const ScheduleArgsF64& a, Expr after) {
  const Expr warmup = a.number("warmup");
  return select(a.done < warmup, a.lr * (a.done + number(1)) / warmup, std::move(after));
}

// The part of the steps behind the warm-up that is done.
Expr part_done(const ScheduleArgsF64& a) {
  const Expr warmup = a.number("warmup");
  return min((a.done - warmup) / max(a.number("steps") - warmup, number(1)), number(1));
}

Expr from_lr_to_min(const ScheduleArgsF64& a, const Expr& part_left) {
  const Expr least = a.number("min_lr");
  return warmed_up(a, least + (a.lr - least) * part_left);
}

const KeyDef kWarmup{"warmup", 0, 0, 1e15, false, KeyDef::whole};
const KeyDef kSteps{"steps", 0, 0, 1e15, false, KeyDef::whole};  // 0: as many as the trainer is told to do

const ScheduleDef kSchedules[] = {
    {{"constant", "the rate stays as it is", {kWarmup}},
     [](const ScheduleArgsF64& a) { return warmed_up(a, a.lr); }},
    {{"step",
      "times gamma after every step_size steps",
      {{"step_size", std::nan(""), 1, 1e15, false, KeyDef::whole}, {"gamma", 0.1}, kWarmup}},
     [](const ScheduleArgsF64& a) {
       Expr periods = max(a.done - a.number("warmup"), number(0)) / a.number("step_size");
       Expr whole = cast(cast(periods, DType::i64), DType::f64);
       return warmed_up(a, a.lr * pow(a.number("gamma"), whole));
     }},
    {{"cosine", "half a cosine from lr to min_lr", {kSteps, {"min_lr"}, kWarmup}},
     [](const ScheduleArgsF64& a) {
       return from_lr_to_min(a, (number(1) + cos_pi(max(part_done(a), number(0)))) * number(0.5));
     }},
    {{"linear", "in a straight line from lr to min_lr", {kSteps, {"min_lr"}, kWarmup}},
     [](const ScheduleArgsF64& a) { return from_lr_to_min(a, number(1) - part_done(a)); }}};

std::vector<ChoiceDef> choices() {
  std::vector<ChoiceDef> list;
  for (const ScheduleDef& d : kSchedules) list.push_back(d.choice);
  return list;
}

}  // namespace

const ScheduleDef& get_schedule(const std::string& name) {
  for (const ScheduleDef& d : kSchedules)
    if (name == d.choice.name) return d;
  POCK_CHECK(false, "no schedule {}", name);
}

Choice parse_schedule(const std::string& text) {
  Choice choice = parse_choice("--schedule", text, choices());
  for (const KeyDef& k : choice.keys)
    if (std::isnan(choice.number(k.name))) throw error("--schedule {}: it needs {}=N", choice.name, k.name);
  if (choice.numbers.count("steps") && choice.number("steps") > 0 &&
      choice.number("warmup") >= choice.number("steps"))
    throw error("--schedule {}: warmup={} leaves nothing of steps={}, which count from the first step",
                choice.name, choice.number("warmup"), choice.number("steps"));
  return choice;
}

std::string schedules_text() { return choices_text(choices()); }

}  // namespace pock
