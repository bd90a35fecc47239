// Decides for each batch norm whether it trains (batch statistics, running ones updated), is frozen (running
// statistics) or is folded into the convolution in front of it, and says what was chosen.
#include <cmath>

#include "pock/ops/evaluate.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {

const char* to_string(NormMode m) {
  constexpr const char* kNames[] = {"train", "frozen", "fold"};
  return kNames[static_cast<int>(m)];
}

NormRule parse_norm_rule(const std::string& text) {
  auto [pattern, wanted] = split_rule(text);
  std::string names;
  for (NormMode mode : {NormMode::train, NormMode::frozen, NormMode::fold}) {
    if (wanted == to_string(mode)) return {pattern, mode};
    names += (names.empty() ? "" : ", ") + std::string(to_string(mode));
  }
  throw error("--bn '{}': the mode is one of {}", text, names);
}

namespace {

// batch_norm(x, scale, shift, mean, variance) as imported.
struct BatchNorm {
  Node* node;
  Value *x, *scale, *shift, *mean, *variance;
};

bool match(Node* n, BatchNorm* out) {
  if (std::string_view(n->op->name) != "batch_norm") return false;
  *out = {n, n->in(0), n->in(1), n->in(2), n->in(3), n->in(4)};
  return true;
}

void train(Graph& g, const BatchNorm& bn, bool unbiased) {
  Node* n = bn.node;
  int64_t count = bn.x->type.elements() / bn.x->type.dim(1);
  if (count < 2)
    throw Error(
        n->loc,
        "batch statistics need more than one value a channel, the input has one; use a larger --batch, "
        "or freeze it: --bn '{}=frozen'",
        n->loc.name)
        .note(bn.x->loc(), "the input is {}", to_string(bn.x->type));
  Builder here(g, n->loc, n);
  Node* y = here.make("batch_norm_train", {bn.x, bn.scale, bn.shift}, {{"epsilon", n->number("epsilon")}});
  g.replace_uses(n->out(0), y->out(0));

  // Running statistics change after the loss is known: a step that is given up for a loss that is not finite
  // must leave them alone.
  Builder end(g, n->loc);
  auto follow = [&](int result, Value* running, double factor) {
    bool read = !n->out(result)->users.empty() || g.is_output(n->out(result));
    Value* now = (read ? here : end).running_average(running, y->out(result), n->number("momentum"), factor);
    g.replace_uses(n->out(result), now);
    end.update(running, now);
  };
  unbiased = unbiased && !n->integer("population");
  follow(1, bn.mean, 1);
  follow(2, bn.variance, unbiased ? static_cast<double>(count) / static_cast<double>(count - 1) : 1);
  g.erase(n);
}

// A convolution, perhaps with a bias of one number a channel behind it, that nothing else reads.
struct Convolution {
  Node* node = nullptr;
  Value* weight = nullptr;
  Value* bias = nullptr;  // the parameter itself, or null
};

bool match(Value* x, Convolution* out) {
  auto alone = [](Value* v) { return v->users.size() == 1; };
  if (!alone(x) || !x->node) return false;
  if (std::string_view(x->node->op->name) == "add") {
    Value *sum = x->node->in(0), *bias = x->node->in(1);
    if (bias->node && bias->node->op->is_view() && alone(bias)) bias = bias->node->in(0);
    bool per_channel = sum->type.rank() >= 2 && bias->type.dims == Dims{sum->type.dim(1)};
    if (!per_channel || bias->kind != ValueKind::param || !alone(bias)) return false;
    if (!match(sum, out) || out->bias) return false;
    out->bias = bias;
    return true;
  }
  int weight = x->node->op->channel_weight;
  if (weight < 0) return false;
  *out = {x->node, x->node->in(weight), nullptr};
  return out->weight->kind == ValueKind::param && alone(out->weight);
}

bool frozen(const BatchNorm& bn, const Convolution& conv) {
  return !conv.weight->trained && !(conv.bias && conv.bias->trained) && !bn.scale->trained &&
         !bn.shift->trained;
}

// What --bn says, or else: train where the scale is trained, fold in the part of the net that no trained tensor
// influences, freeze the rest.
NormMode mode_of(const BatchNorm& bn, const PassOptions& options,
                 const std::unordered_set<const Value*>& active) {
  NormMode mode = bn.scale->trained ? NormMode::train : NormMode::frozen;
  Convolution conv;
  if (!active.count(bn.node->out()) && match(bn.x, &conv) && frozen(bn, conv)) mode = NormMode::fold;
  for (const NormRule& rule : options.norms)
    if (glob_match(rule.pattern, bn.node->loc.name)) mode = rule.mode;
  return mode;
}

// Multiplies scale / sqrt(variance + epsilon) into the convolution's weight, and turns the rest into a bias.
// Both are computed here once, in double.
void fold(Graph& g, const BatchNorm& bn) {
  Convolution conv;
  if (!match(bn.x, &conv) || !frozen(bn, conv))
    throw Error(bn.node->loc,
                "cannot be folded: it must follow a convolution whose weight and bias, like the norm's own "
                "scale and shift, are frozen and used once; use --bn '{}=frozen'",
                bn.node->loc.name);
  auto numbers = [](Value* v) {
    Memory m;
    if (v->data) m.set(v, v->data);
    return v->data ? m.read(v) : std::vector<double>(v->type.elements(), 0);
  };
  std::vector<double> w = numbers(conv.weight), scale = numbers(bn.scale), shift = numbers(bn.shift),
                      mean = numbers(bn.mean), variance = numbers(bn.variance);
  std::vector<double> bias = conv.bias ? numbers(conv.bias) : std::vector<double>(scale.size(), 0);
  size_t channels = scale.size(), per = w.size() / channels;
  std::vector<float> folded(w.size()), added(channels);
  for (size_t c = 0; c < channels; ++c) {
    double factor = scale[c] / std::sqrt(variance[c] + bn.node->number("epsilon"));
    for (size_t i = 0; i < per; ++i) folded[c * per + i] = static_cast<float>(w[c * per + i] * factor);
    added[c] = static_cast<float>((bias[c] - mean[c]) * factor + shift[c]);
  }
  Builder b(g, bn.node->loc, bn.node);
  Dims dims(bn.x->type.rank() - 1, 1);
  dims[0] = static_cast<int64_t>(channels);
  g.set_input(conv.node, conv.node->op->channel_weight, b.constant(conv.weight->type, folded));
  g.replace_uses(bn.node->out(0), b.add(conv.node->out(), b.constant({DType::f32, dims}, added)));
  g.replace_uses(bn.node->out(1), bn.mean);
  g.replace_uses(bn.node->out(2), bn.variance);
  g.erase(bn.node);
}

}  // namespace

int norms(Graph& g, const PassOptions& options) {
  bool unbiased = options.unbiased_variance.value_or(g.producer == "pytorch");
  int count = 0, chosen[3] = {};
  std::unordered_set<const Value*> active = depends_on_trained(g);
  Report report;
  for (const NormRule& rule : options.norms) {
    bool hit = false;
    BatchNorm bn;
    for (Node* n : g.nodes()) hit |= match(n, &bn) && glob_match(rule.pattern, n->loc.name);
    if (!hit)
      report.add(
          fmt::format("--bn '{}={}' matches no batch norm of the model", rule.pattern, to_string(rule.mode)));
  }
  for (Node* n : g.nodes()) {
    BatchNorm bn;
    if (!match(n, &bn)) continue;
    NormMode mode = mode_of(bn, options, active);
    n->attrs["training"] = int64_t{0};  // what the file says of it does not count
    if (mode == NormMode::train && !options.inference) report.collect([&] { train(g, bn, unbiased); });
    if (mode == NormMode::fold) report.collect([&] { fold(g, bn); });
    // What is left expands to running statistics: a frozen one, and all in the inference graph.
    ++chosen[static_cast<int>(mode)];
    ++count;
  }
  report.throw_if_any();
  if (count && !options.inference)
    say(fmt::format("batch norm: {} train, {} frozen, {} folded{}", chosen[0], chosen[1], chosen[2],
                    chosen[0] ? fmt::format("; running variance takes the {} batch variance",
                                            unbiased ? "unbiased" : "population")
                              : ""));
  return count;
}

}  // namespace pock
