// Marks what is trained: the float parameters that reach the loss through differentiable operators, narrowed
// by --train and --freeze, or chosen by a scheme, which may put adapters beside others.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "pock/ops/op.h"
#include "pock/passes/lora.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

// Values from which the loss, the graph's last outputs, can be reached through operators that have a gradient.
std::unordered_set<const Value*> reaches_loss(const Graph& g, const PassOptions& options) {
  size_t losses = options.inference ? loss_outputs(options.losses) : 1;
  return differentiable_ancestors(g, std::span(g.outputs()).last(losses));
}

bool matches(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& p) { return glob_match(p, name); });
}

void need_matches(const Graph& g, const PassOptions& options) {
  Report report;
  for (const auto* patterns : {&options.train, &options.freeze})
    for (const std::string& pattern : *patterns) {
      bool hit = false;
      for (const Value* p : g.params()) hit |= p->kind == ValueKind::param && glob_match(pattern, p->name);
      if (!hit)
        report.add(fmt::format("{} '{}' matches no parameter of the model; see `pockc compile --help`",
                               patterns == &options.train ? "--train" : "--freeze", pattern));
    }
  report.throw_if_any();
}

// What the scheme says, but for adapters beside what --freeze names.
Selected selection(const Graph& g, const PassOptions& options,
                   const std::unordered_set<const Value*>& reach) {
  Selected selected = trained_by(*options.scheme, g, reach);
  std::erase_if(selected.adapters,
                [&](const Adapter& a) { return matches(options.freeze, a.layer.weight->name); });
  return selected;
}

// Marks what the scheme or --train names, and takes back what --freeze does. Returns the factors of adapters.
std::vector<Value*> mark(Graph& g, const PassOptions& options,
                         const std::unordered_set<const Value*>& reach) {
  std::unordered_map<const Value*, std::optional<Slice>> scheme;
  std::vector<Value*> factors;
  if (options.scheme) {
    Selected selected = selection(g, options, reach);
    scheme = std::move(selected.params);
    factors = add_adapters(g, selected.adapters, options.seed);
    for (Value* factor : factors) scheme[factor] = std::nullopt;
  }
  need_matches(g, options);
  for (Value* p : g.params()) {
    if (p->kind != ValueKind::param || !is_float(p->type.dtype)) continue;
    const bool named =
        options.scheme ? scheme.count(p) != 0 : options.train.empty() || matches(options.train, p->name);
    p->trained = named && !matches(options.freeze, p->name);
    p->slice = p->trained && options.scheme ? scheme.at(p) : std::nullopt;
  }
  return factors;
}

}  // namespace

std::vector<Adapter> adapters(const Graph& g, const PassOptions& options) {
  if (!options.scheme) return {};
  // By way of a copy, whose values have the same numbers.
  const std::unique_ptr<Graph> with_loss = g.clone();
  PassOptions inference = options;  // says nothing
  inference.inference = true;
  attach_loss(*with_loss, inference);
  std::unordered_set<int> numbers;
  for (const Value* v : reaches_loss(*with_loss, inference)) numbers.insert(v->id);
  std::unordered_set<const Value*> reach;
  for (const Value* v : g.params())
    if (numbers.count(v->id)) reach.insert(v);
  return selection(g, options, reach).adapters;
}

int select(Graph& g, const PassOptions& options) {
  loss_node(g);
  const std::vector<Value*> factors = mark(g, options, reaches_loss(g, options));
  const bool chosen = options.scheme || !options.train.empty();
  std::unordered_set<const Value*> reach = reaches_loss(g, options);  // factors of adapters, too
  int trained = 0, floats = 0;
  for (Value* p : g.params()) {
    floats += p->kind == ValueKind::param && is_float(p->type.dtype);
    if (!p->trained) continue;
    p->trained = reach.count(p) != 0;
    if (!p->trained) p->slice = {};
    if (!p->trained && chosen && !options.inference)
      say(fmt::format(
          "note: parameter '{}' does not reach the loss through differentiable operators; it stays frozen",
          p->name));
    trained += p->trained;
  }
  if (!trained)
    throw error(
        "{}: nothing to train: of {} float parameters none is selected and reaches the loss; "
        "check {} and --freeze, or that the model has weights",
        g.model_file, floats, options.scheme ? "--sparse-scheme" : "--train");
  // A factor that stays as it starts stands in no model file: it is saved with what is trained, as a statistic is.
  for (Value* factor : factors)
    if (!factor->trained) factor->kind = ValueKind::statistic;
  return trained;
}

}  // namespace pock
