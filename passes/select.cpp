// Marks what is trained: the float parameters that reach the loss through differentiable operators, narrowed
// by --train and --freeze, or chosen by a scheme.
#include <algorithm>
#include <unordered_set>

#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

// Values from which the loss, the graph's last outputs, can be reached through operators that have a gradient.
std::unordered_set<const Value*> reaches_loss(const Graph& g, const PassOptions& options) {
  size_t losses = options.inference ? loss_outputs(options.losses) : 1;
  return differentiable_ancestors(g, std::span(g.outputs()).last(losses));
}

// Marks what --train and --freeze leave.
void by_patterns(const Graph& g, const PassOptions& options) {
  auto matches = [&](const std::vector<std::string>& patterns, const std::string& name) {
    return std::any_of(patterns.begin(), patterns.end(), [&](const auto& p) { return glob_match(p, name); });
  };
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
  for (Value* p : g.params())
    if (p->kind == ValueKind::param && is_float(p->type.dtype))
      p->trained =
          (options.train.empty() || matches(options.train, p->name)) && !matches(options.freeze, p->name);
}

void by_scheme(const Graph& g, const Scheme& scheme) {
  const auto trained = trained_by(scheme, g);
  for (Value* p : g.params()) {
    auto chosen = trained.find(p);
    p->trained = chosen != trained.end();
    p->slice = p->trained ? chosen->second : std::nullopt;
  }
}

}  // namespace

int select(Graph& g, const PassOptions& options) {
  loss_node(g);
  if (options.scheme)
    by_scheme(g, *options.scheme);
  else
    by_patterns(g, options);
  const bool chosen = options.scheme || !options.train.empty();
  std::unordered_set<const Value*> reach = reaches_loss(g, options);
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
        "check {}, or that the model has weights",
        g.model_file, floats, options.scheme ? "--sparse-scheme" : "--train and --freeze");
  return trained;
}

}  // namespace pock
