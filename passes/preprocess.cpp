// --input-scale, --input-mean, --input-std: the graph takes u8 and computes (x * scale - mean) / std itself.
#include <cmath>

#include "pock/ir/builder.h"
#include "pock/passes/passes.h"

namespace pock {

namespace {

void need_finite(const Graph& g, const char* flag, float value) {
  if (!std::isfinite(value))
    throw error("{}: {} wants numbers that a float can hold, not {}", g.model_file, flag, value);
}

// Trainers take denormal numbers for zero.
void need_normal(const Graph& g, const char* flag, float value) {
  need_finite(g, flag, value);
  if (!std::isnormal(value))
    throw error("{}: {} wants numbers other than 0, not {}", g.model_file, flag, value);
}

}  // namespace

int preprocess(Graph& g, const PassOptions& options) {
  if (!options.input_scale && options.input_mean.empty() && options.input_std.empty()) return 0;
  std::vector<Value*> inputs;
  for (Value* v : g.inputs())
    if (is_float(v->type.dtype)) inputs.push_back(v);
  if (inputs.size() != 1)
    throw error(
        "{}: --input-scale, --input-mean and --input-std want a model with one float input, it has {}",
        g.model_file, inputs.size());
  Value* x = inputs[0];
  int64_t channels = x->type.rank() >= 2 ? x->type.dim(1) : 1;
  auto per_channel = [&](const char* flag, const std::vector<double>& values) {
    if (values.size() != 1 && static_cast<int64_t>(values.size()) != channels)
      throw error("{}: {} wants 1 number or {} (the channels of input '{}', {}), not {}", g.model_file, flag,
                  channels, x->name, to_string(x->type), values.size());
    std::vector<float> floats(values.begin(), values.end());
    for (float f : floats) need_finite(g, flag, f);
    return floats;
  };
  std::vector<Node*> readers = x->users;
  Type type = x->type;
  x->type.dtype = DType::u8;
  Builder b(g, x->loc(), g.nodes().empty() ? nullptr : g.nodes().front());
  Value* y = b.value("cast", {x}, {{"to", std::string("f32")}});
  if (options.input_scale) {
    auto scale = static_cast<float>(*options.input_scale);
    need_normal(g, "--input-scale", scale);
    y = b.mul(y, b.constant(scale));
  }
  auto constant = [&](std::vector<float> values) {
    if (values.size() == 1) return b.constant(values[0]);
    Dims dims(type.rank() - 1, 1);
    dims[0] = channels;
    return b.constant({DType::f32, dims}, values);
  };
  if (!options.input_mean.empty()) y = b.sub(y, constant(per_channel("--input-mean", options.input_mean)));
  if (!options.input_std.empty()) {
    std::vector<float> deviations = per_channel("--input-std", options.input_std);
    for (float f : deviations) need_normal(g, "--input-std", f);
    y = b.div(y, constant(deviations));
  }
  for (Node* n : readers)
    for (size_t i = 0; i < n->inputs().size(); ++i)
      if (n->in(i) == x) g.set_input(n, i, y);
  for (size_t i = 0; i < g.outputs().size(); ++i)
    if (g.outputs()[i] == x) g.set_output(i, y);
  return 1;
}

}  // namespace pock
