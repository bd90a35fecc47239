// Appends the optimizer's step for every trained parameter and takes the gradient outputs away, or lets them show what
// the optimizer sees. In between, gradients are added up over batches and clipped, as the recipe says.
#include <algorithm>
#include <unordered_map>

#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

class Updates {
 public:
  Updates(Graph& g, const Recipe& recipe) : g_(g), recipe_(recipe) {
    take_gradients();
    say_what_is_kept();
    if (recipe_.accumulate) accumulate();
    Value* measured = nullptr;
    if (recipe_.measures()) {
      // Before values are clipped: what is infinite must not hide.
      g_.add_output(measured = norm(), kNormOutput);
      wait();
    }
    if (recipe_.clip_value) clip_values();
    if (recipe_.clip_norm) clip_norm(recipe_.clip_value ? norm() : measured);
  }

  int run() {
    const OptimizerDef& optimizer = get_optimizer(recipe_.optimizer.name);
    for (Gradient& gradient : gradients_) {
      Value* p = gradient.param;
      Builder b(g_, p->loc());
      UpdateArgs args{b,
                      recipe_.optimizer,
                      p->slice ? b.take(p, *p->slice) : p,
                      gradient.value,
                      [&](const std::string& slot, double initial) {
                        return g_.add_optimizer_state(p, slot, p->trained_type(),
                                                      flushed(static_cast<float>(initial)));
                      },
                      [&](const std::string& name) { return scalar(name); },
                      [&](Value* by) { p->slice ? b.update(p, *p->slice, by) : b.update(p, by); }};
      optimizer.update(args);
      if (keeps_outputs()) g_.add_output(gradient.value, gradient_output_name(*p));
    }
    return static_cast<int>(gradients_.size());
  }

 private:
  struct Gradient {
    Value *param, *value;
  };

  // Sums over batches are there anyway.
  bool keeps_outputs() const { return recipe_.keep_gradients && (!recipe_.accumulate || recipe_.clips()); }

  void say_what_is_kept() const {
    int64_t bytes = 0;
    for (const Gradient& gradient : gradients_) bytes += gradient.param->trained_type().bytes();
    if (recipe_.accumulate)
      say(fmt::format("gradients are added up over batches in {} bytes of their own{}", bytes,
                      keeps_outputs() ? ", and kept as they are clipped in as many again" : ""));
    else if (recipe_.keep_gradients || recipe_.measures())
      say(fmt::format("all gradients, {} bytes, are kept {}", bytes,
                      recipe_.keep_gradients ? "to the end of the step" : "until their norm is known"));
  }

  void take_gradients() {
    std::unordered_map<std::string, Value*> outputs;
    for (size_t i = g_.outputs().size(); i-- > 1;) {
      outputs[g_.output_name(i)] = g_.outputs()[i];
      g_.remove_output(i);
    }
    for (Value* p : g_.params()) {
      if (!p->trained) continue;
      auto gradient = outputs.find(gradient_output_name(*p));
      if (gradient == outputs.end())
        throw Error(p->loc(), "is marked as trained, but the graph has no output '{}'",
                    gradient_output_name(*p));
      gradients_.push_back({p, gradient->second});
    }
  }

  Value* scalar(const std::string& name) {
    Value*& v = scalars_[name];
    if (!v) v = g_.add_scalar(name);
    return v;
  }

  // The mean over the batches of a step; statistics follow each batch on the side.
  void accumulate() {
    for (Gradient& gradient : gradients_) {
      Builder b(g_, gradient.param->loc());
      Value* sum = g_.add_accumulator(gradient.param);
      gradient.value = b.value("accumulate", {sum, gradient.value, scalar("keep"), scalar("share")});
      b.update(sum, gradient.value);
    }
    std::vector<Node*> updates;
    for (Node* n : g_.nodes())
      if (n->op->has_effect() && n->in(0)->kind == ValueKind::statistic) updates.push_back(n);
    for (Node* n : updates) follow_aside(n);
    for (Node* n : updates) g_.move_before(n, nullptr);  // not before the last batch
  }

  void follow_aside(Node* update) {
    Value *statistic = update->in(0), *aside = g_.add_accumulator(statistic);
    const std::vector<Node*> readers = statistic->users;
    Node* first = nullptr;
    for (Node* n : g_.nodes())
      if (!first && n != update && std::count(readers.begin(), readers.end(), n)) first = n;
    if (first) {
      Value* last = Builder(g_, statistic->loc(), first).value("either", {statistic, aside, scalar("keep")});
      for (Node* reader : readers)
        for (size_t i = 0; reader != update && i < reader->inputs().size(); ++i)
          if (reader->in(static_cast<int>(i)) == statistic) g_.set_input(reader, static_cast<int>(i), last);
    }
    Builder(g_, statistic->loc()).update(aside, update->in(1));
  }

  // Statistics wait like the rest, so that a step that is given up leaves everything alone.
  void wait() {
    for (Node* n : g_.nodes()) {
      if (!n->op->has_effect() || n->in(0)->kind != ValueKind::statistic) continue;
      const Node* behind = recipe_.accumulate ? step_parts(g_).sums : loss_node(g_);
      for (Node* member : update_group(n, positions(g_), behind)) g_.move_before(member, nullptr);
    }
  }

  // The Euclidean norm of all gradients together.
  Value* norm() {
    Builder b(g_, {});
    b.loc.name = kNormOutput;
    Value* squares = b.constant(0);
    for (Gradient& gradient : gradients_) {
      Value* flat = b.reshape(gradient.value, {gradient.value->type.elements()});
      squares = b.add(squares, b.reduce_sum(b.mul(flat, flat), {0}));
    }
    return b.value("sqrt", {squares});
  }

  void clip_values() {
    for (Gradient& gradient : gradients_) {
      Builder b(g_, gradient.param->loc());
      Value* least = b.value("maximum", {gradient.value, scalar("clip_low")});
      gradient.value = b.value("minimum", {least, scalar("clip_high")});
    }
  }

  // As in PyTorch's clip_grad_norm_.
  void clip_norm(Value* norm) {
    Builder b(g_, norm->loc());
    Value* safe = b.add(norm, b.constant(1e-6f));
    Value* ratio = b.div(scalar("clip_norm"), safe);
    Value* factor = b.value("minimum", {ratio, b.constant(1)});
    for (Gradient& gradient : gradients_) gradient.value = b.mul(gradient.value, factor);
  }

  Graph& g_;
  const Recipe& recipe_;
  std::vector<Gradient> gradients_;
  std::unordered_map<std::string, Value*> scalars_;
};

}  // namespace

int update(Graph& g, const PassOptions& options) {
  need_no_updates(g);
  return Updates(g, options.recipe).run();
}

Node* StepParts::earliest(const Node& update) const {
  if (update.in(0)->kind == ValueKind::accumulator) return loss;
  return norm ? norm : sums ? sums : loss;
}

StepParts step_parts(const Graph& g) {
  StepParts parts{.loss = loss_node(g)};
  for (Node* n : g.nodes())
    if (n->op->has_effect() && n->in(0)->kind == ValueKind::accumulator) parts.sums = n;
  for (size_t i = 1; i < g.outputs().size(); ++i)
    if (g.output_name(i) == kNormOutput) parts.norm = g.outputs()[i]->node;
  return parts;
}

}  // namespace pock
