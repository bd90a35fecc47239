#include "gradients.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "pock/ops/evaluate.h"
#include "pock/passes/passes.h"

namespace pock::test {
namespace {

// The sum of all float outputs, each element times a random number, as output 0.
void make_objective(Graph& g) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> between(-1, 1);
  Builder b(g);
  Value* sum = nullptr;
  for (Value* out : g.outputs()) {
    if (out->type.dtype != DType::f32) continue;
    std::vector<float> upstream(out->type.elements());
    for (float& u : upstream) u = between(random);
    Value* part = b.reduce_sum(b.mul(out, b.constant(out->type, upstream)), {});
    sum = sum ? b.add(sum, part) : part;
  }
  while (!g.outputs().empty()) g.remove_output(g.outputs().size() - 1);
  g.add_output(sum, "objective");
}

// Where a case has infinities and NaN, the gradient is checked at other numbers.
void make_finite(const std::vector<Value*>& params) {
  for (Value* p : params) {
    std::vector<float> data(p->type.elements());
    std::memcpy(data.data(), p->data->data(), p->data->size());
    for (float& x : data)
      if (!std::isfinite(x)) x = 0.75f;
    p->data = make_data(data);
  }
}

// Of an objective, by every parameter that is marked as trained.
NamedNumbers derive(const Graph& objective, loop::Precision precision) {
  std::unique_ptr<Graph> step = objective.clone();
  run_passes(*step, {get_pass("expand_without_gradient"), get_pass("autodiff")}, {});
  Memory m = initial_memory(*step, precision);
  evaluate(*step, m);
  NamedNumbers gradients;
  for (size_t i = 1; i < step->outputs().size(); ++i) {
    std::string name = step->output_name(i);
    gradients[name.substr(0, name.size() - std::strlen(".grad"))] = m.read(step->outputs()[i]);
  }
  return gradients;
}

}  // namespace

NamedNumbers gradients(std::unique_ptr<Graph> forward) {
  make_objective(*forward);
  run_passes(*forward, {get_pass("select")}, {});
  return derive(*forward, loop::Precision::f32);
}

Gradients check_gradients(std::unique_ptr<Graph> forward) {
  constexpr double kTolerance = 2e-5;
  constexpr size_t kMostElements = 64;
  make_finite(forward->params());
  make_objective(*forward);
  run_passes(*forward, {get_pass("select")}, {});
  Gradients result;
  for (const auto& [name, gradient] : derive(*forward, loop::Precision::f64)) {
    const Value* param = forward->find(name);
    Memory moved = initial_memory(*forward, loop::Precision::f64);
    std::vector<double> x = moved.read(param);
    auto objective = [&](size_t k, double by) {
      std::vector<double> there = x;
      there[k] += by;
      moved.set(param, there);
      evaluate(*forward, moved);
      return moved.read(forward->outputs()[0])[0];
    };
    std::vector<size_t> elements(x.size());
    for (size_t k = 0; k < elements.size(); ++k) elements[k] = k;
    std::shuffle(elements.begin(), elements.end(), std::mt19937(3));
    elements.resize(std::min(elements.size(), kMostElements));
    for (size_t k : elements) {
      double after = 0, before = 0;
      bool fits = false;
      // The smaller step is for slopes that change too fast, as that of x^1.7 at 0.
      for (double step : {1e-5, 1e-8}) {
        if (fits) break;
        after = (objective(k, 2 * step) - objective(k, step)) / step;
        before = (objective(k, -step) - objective(k, -2 * step)) / step;
        // At the end of where a function is defined, one side is enough.
        if (std::isnan(before)) before = after;
        if (std::isnan(after)) after = before;
        double tolerance = kTolerance * std::max({1.0, std::abs(after), std::abs(before)});
        fits = gradient[k] >= std::min(before, after) - tolerance &&
               gradient[k] <= std::max(before, after) + tolerance;
      }
      if (!fits)
        return {0, fmt::format("the gradient of '{}': element {} is {}, the slopes there are {} and {}",
                               param->name, k, gradient[k], before, after)};
    }
    ++result.checked;
  }
  return result;
}

}  // namespace pock::test
