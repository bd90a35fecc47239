// Appends the optimizer's step for every trained parameter and takes the gradient outputs away.
#include <unordered_map>

#include "pock/passes/passes.h"

namespace pock {

int update(Graph& g, const PassOptions& options) {
  need_no_updates(g);
  const OptimizerDef& optimizer = get_optimizer(options.optimizer.name);
  std::unordered_map<std::string, Value*> gradients;
  for (size_t i = g.outputs().size(); i-- > 1;) {
    gradients[g.output_name(i)] = g.outputs()[i];
    g.remove_output(i);
  }
  std::unordered_map<std::string, Value*> scalars;
  int count = 0;
  for (Value* p : std::vector<Value*>(g.params())) {
    if (!p->trained) continue;
    auto gradient = gradients.find(gradient_output_name(*p));
    if (gradient == gradients.end())
      throw Error(p->loc(), "is marked as trained, but the graph has no output '{}'",
                  gradient_output_name(*p));
    Builder b(g, p->loc());
    UpdateArgs args{b,
                    options.optimizer,
                    p,
                    gradient->second,
                    [&](const std::string& slot) { return g.add_optimizer_state(p, slot, p->type); },
                    [&](const std::string& name) {
                      Value*& v = scalars[name];
                      if (!v) v = g.add_scalar(name);
                      return v;
                    }};
    optimizer.update(args);
    ++count;
  }
  return count;
}

}  // namespace pock
