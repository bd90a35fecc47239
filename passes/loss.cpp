// Losses: what --loss offers, and how the loss is derived where nobody says.
#include "pock/ir/builder.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

struct LossDef {
  const char* name;
  const char* doc;
  bool on_logits;  // a softmax in front of it is undone
  // Adds the label input and returns the loss of every sample, f32[batch].
  Value* (*per_sample)(Builder&, Value* prediction);
};

Value* add_labels(Graph& g, const Type& type) {
  if (const Value* other = g.find("labels"))
    throw Error(other->loc(), "has the name of the input that --loss adds: rename it in the model");
  return g.add_input("labels", type);
}

Value* cross_entropy(Builder& b, Value* logits) {
  if (logits->type.rank() != 2)
    throw Error(logits->loc(), "cross-entropy wants class scores of shape [batch, classes], the output is {}",
                to_string(logits->type));
  Value* labels = add_labels(b.graph, {DType::i32, {logits->type.dim(0)}});
  return b.value("softmax_cross_entropy", {logits, labels});
}

Value* mean_squared_error(Builder& b, Value* prediction) {
  const Dims& dims = prediction->type.dims;
  if (dims.empty())
    throw Error(prediction->loc(), "mse wants an output with a batch axis, this one is a scalar");
  Value* labels = add_labels(b.graph, prediction->type);
  Value* difference = b.sub(prediction, labels);
  Value* square = b.mul(difference, difference);
  std::vector<int64_t> axes;
  for (int i = 1; i < prediction->type.rank(); ++i) axes.push_back(i);
  return axes.empty() ? square : b.reduce_mean(square, axes);
}

constexpr LossDef kLosses[] = {
    {"cross-entropy", "softmax cross-entropy; labels are class ids", true, cross_entropy},
    {"mse", "mean squared error; labels have the output's shape", false, mean_squared_error},
};

const LossDef* find_loss(const std::string& name) {
  for (const LossDef& l : kLosses)
    if (name == l.name) return &l;
  return nullptr;
}

std::string choices() {
  std::string text;
  for (const LossDef& l : kLosses) text += fmt::format("\n  --loss {}: {}", l.name, l.doc);
  return text;
}

}  // namespace

std::string loss_names() {
  std::string text;
  for (const LossDef& l : kLosses) text += (text.empty() ? "" : ", ") + std::string(l.name);
  return text;
}

std::string derive_loss(const Graph& g, const std::string& wanted) {
  if (g.outputs().empty()) throw error("{}: the model has no output", g.model_file);
  const Value* out = g.outputs()[0];
  if (!wanted.empty()) {
    if (find_loss(wanted)) return wanted;
    throw error("--loss {}: there is no such loss; the choices are{}", wanted, choices());
  }
  if (g.outputs().size() == 1 && is_float(out->type.dtype) && out->type.elements() == 1 &&
      out->type.rank() == 0)
    return kModelLoss;
  if (g.outputs().size() == 1 && out->node && out->node->op->normalizes_classes) return "cross-entropy";
  std::string outputs;
  for (size_t i = 0; i < g.outputs().size(); ++i)
    outputs += fmt::format("\n  output '{}' is {}", g.output_name(i), to_string(g.outputs()[i]->type));
  throw error(
      "{}: cannot tell what to train for: no output is a scalar loss or ends in Softmax.{}\nSay it:{}",
      g.model_file, outputs, choices());
}

int attach_loss(Graph& g, const PassOptions& options) {
  std::string name = derive_loss(g, options.loss);
  if (name == kModelLoss) {
    if (options.inference) g.add_output(g.outputs()[0], "loss");
    return options.inference;
  }
  const LossDef& loss = *find_loss(name);
  Value* out = g.outputs()[0];
  Builder b(g, out->loc());
  bool undone = loss.on_logits && out->node && out->node->op->normalizes_classes;
  Value* samples = loss.per_sample(b, undone ? out->node->in(0) : out);
  if (options.inference) {
    g.add_output(samples, "sample_loss");
  } else {
    while (!g.outputs().empty()) g.remove_output(g.outputs().size() - 1);
    g.add_output(b.reduce_mean(samples, {0}), "loss");
  }
  return 1;
}

}  // namespace pock
