// Reverse-mode differentiation at compile time. Output 0 is the loss. For every trained parameter the graph
// gets an output "NAME.grad" (gradient_output_name), for which the update pass has a use of its own.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "pock/ir/builder.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {

std::string gradient_output_name(const Value& param) { return param.name + ".grad"; }

bool is_gradient_output(const Graph& g, size_t output) {
  return std::any_of(g.params().begin(), g.params().end(), [&](const Value* p) {
    return output > 0 && p->trained && g.output_name(output) == gradient_output_name(*p);
  });
}

std::unordered_set<const Value*> depends_on_trained(const Graph& g) {
  std::unordered_set<const Value*> active;
  for (const Value* p : g.params())
    if (p->trained) active.insert(p);
  for (const Node* n : g.nodes()) {
    for (const Value* v : differentiable_inputs(*n))
      if (active.count(v)) {
        for (const Value* r : n->results())
          if (is_float(r->type.dtype)) active.insert(r);
        break;
      }
  }
  return active;
}

Node* loss_node(const Graph& g) {
  Node* n = g.outputs().empty() ? nullptr : g.outputs()[0]->node;
  if (!n) throw error("graph '{}' has no loss: output 0 must be what a node computes", g.name);
  return n;
}

void need_no_updates(const Graph& g) {
  for (const Value* p : g.params())
    for (const Node* user : p->users)
      if (user->op->has_effect() && p->kind == ValueKind::param)
        throw Error(p->loc(), "has its update already: this graph is a whole training step");
}

bool is_open(const Node& n) {
  auto row_major = [](const Value* v) { return v->type.layout.empty(); };
  return !n.kernel && n.in_place < 0 && std::all_of(n.inputs().begin(), n.inputs().end(), row_major) &&
         std::all_of(n.results().begin(), n.results().end(), row_major);
}

// Gradients are derived in a graph where memory and kernels are still open.
void need_no_choices(const Graph& g) {
  for (const Node* n : g.nodes()) {
    for (const auto* values : {&n->inputs(), &n->results()})
      for (const Value* v : *values)
        if (!v->type.layout.empty())
          throw Error(n->loc, "{} has a {}, which is in an order of its own: derive before `layout`",
                      n->op->name.text, to_string(v->type));
    if (n->kernel) throw Error(n->loc, "{} shares a kernel: derive before `fuse`", n->op->name.text);
    if (n->in_place >= 0)
      throw Error(n->loc, "writes over its input, which a gradient may need: derive before `inplace`");
  }
}

int autodiff(Graph& g, const PassOptions&) {
  loss_node(g);
  need_no_updates(g);
  need_no_choices(g);
  Value* loss = g.outputs()[0];
  std::unordered_set<const Value*> active = depends_on_trained(g);
  if (!active.count(loss))
    throw error("graph '{}': the loss depends on nothing that is marked as trained", g.name);

  // Contributions to the gradient of a value, in the order in which they were made. Their sum is made when
  // the value's own node is reached: then all readers have been visited.
  std::unordered_map<const Value*, std::vector<Value*>> contributions;
  auto gradient_of = [&](Value* v, Builder& b) -> Value* {
    auto it = contributions.find(v);
    if (it == contributions.end()) return nullptr;
    Value* sum = it->second[0];
    for (size_t i = 1; i < it->second.size(); ++i) sum = b.add(sum, it->second[i]);
    return sum;
  };

  std::vector<Node*> forward = g.nodes_backward();
  Builder seed(g, loss->loc());
  contributions[loss] = {seed.constant(loss->type, std::vector<float>(loss->type.elements(), 1.0f))};
  for (Node* n : forward) {
    if (!n->op->gradient.rule) continue;
    bool reached = false, wanted = false;
    for (Value* r : n->results()) reached |= contributions.count(r) != 0;
    for (Value* v : n->inputs()) wanted |= active.count(v) != 0;
    if (!reached || !wanted) continue;
    Builder b(g, n->loc);
    GradArgs args{b, *n, {}, {}, {}};
    for (Value* r : n->results()) args.douts.push_back(gradient_of(r, b));
    args.gradients.resize(n->inputs().size());
    for (Value* v : n->inputs()) args.wanted.push_back(active.count(v) != 0);
    n->op->gradient.rule(args);
    for (size_t i = 0; i < args.gradients.size(); ++i)
      for (Value* gradient : args.gradients[i]) {
        POCK_CHECK(gradient->type == n->in(i)->type, "gradient of {} for input {} is {}, the input is {}",
                   std::string_view(n->op->name), i, to_string(gradient->type), to_string(n->in(i)->type));
        if (args.wanted[i]) contributions[n->in(i)].push_back(gradient);
      }
  }
  int count = 0;
  for (Value* p : g.params()) {
    if (!p->trained) continue;
    Builder b(g, p->loc());
    Value* gradient = gradient_of(p, b);
    if (!gradient) throw Error(p->loc(), "is marked as trained, but the loss does not depend on it");
    if (p->slice) gradient = b.take(gradient, *p->slice);
    g.add_output(gradient, gradient_output_name(*p));
    ++count;
  }
  return count;
}

}  // namespace pock
