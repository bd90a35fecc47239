// Marks what is trained: the float parameters that reach the loss through differentiable operators, narrowed
// by --train and --freeze.
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

}  // namespace

int select(Graph& g, const PassOptions& options) {
  loss_node(g);
  Report report;
  auto matches = [&](const std::vector<std::string>& patterns, const std::string& name) {
    for (const std::string& p : patterns)
      if (glob_match(p, name)) return true;
    return false;
  };
  for (const auto* patterns : {&options.train, &options.freeze})
    for (const std::string& pattern : *patterns) {
      bool hit = false;
      for (const Value* p : g.params()) hit |= p->kind == ValueKind::param && glob_match(pattern, p->name);
      if (!hit)
        report.add(fmt::format("{} '{}' matches no parameter of the model; see `pockc compile --help`",
                               patterns == &options.train ? "--train" : "--freeze", pattern));
    }
  std::unordered_set<const Value*> reach = reaches_loss(g, options);
  int trained = 0, floats = 0;
  for (Value* p : g.params()) {
    if (p->kind != ValueKind::param || !is_float(p->type.dtype)) continue;
    ++floats;
    bool wanted = options.train.empty() || matches(options.train, p->name);
    p->trained = wanted && reach.count(p) && !matches(options.freeze, p->name);
    if (!options.train.empty() && wanted && !reach.count(p) && !options.inference)
      say(fmt::format(
          "note: parameter '{}' does not reach the loss through differentiable operators; it stays frozen",
          p->name));
    trained += p->trained;
  }
  if (!trained && report.empty())
    report.add(
        fmt::format("{}: nothing to train: of {} float parameters none is selected and reaches the loss; "
                    "check --train and --freeze, or that the model has weights",
                    g.model_file, floats));
  report.throw_if_any();
  return trained;
}

}  // namespace pock
