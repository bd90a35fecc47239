// Losses: what --loss offers, and how the loss is derived where nobody says.
#include "pock/passes/loss.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>

#include "pock/ir/builder.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

// What a loss is made from, for one output.
struct LossArgs {
  Builder& b;
  const LossChoice& choice;
  Value* out;      // the output; where it was made of logits that the loss wants, those
  int softmax;     // the axis of a softmax that was taken away, or -1
  size_t index;    // the output's
  std::string of;  // the output's name
  bool only;       // no other output has a loss
  bool inference;
};

// f32[batch] each. Without weights every sample weighs 1.
struct SampleLoss {
  Value* losses;
  Value* weights;
};

struct LossDef {
  ChoiceDef choice;
  Probability undone;  // what such an operator made at the end of the model is taken away again
  SampleLoss (*make)(const LossArgs&);
  int64_t shift = 0;  // as LossChoice::shift
};

const KeyDef kWeight{"weight", 1};

// Adds the input for the labels and says what it expects.
Value* add_labels(const LossArgs& a, const Type& type, const std::string& what) {
  Graph& g = a.b.graph;
  if (g.is_whole(a.index))
    throw Error(a.out->loc(),
                "output '{}' is {}: its first axis is as long as the batch but is not that of the samples, "
                "and a loss "
                "is one of each sample",
                a.of, to_string(g.outputs()[a.index]->type));
  std::string name = a.only && a.of == g.output_name(0) ? "labels" : "labels." + a.of;
  if (const Value* other = g.find(name))
    throw Error(other->loc(), "has the name of the input that --loss adds: rename it in the model");
  std::string shape = "[N";
  for (size_t i = 1; i < type.dims.size(); ++i) shape += fmt::format(",{}", type.dims[i]);
  if (!a.inference) say(fmt::format("labels of output '{}': {}, of shape {}]", a.of, what, shape));
  return g.add_input(name, type);
}

// Over all axes but the batch.
Value* per_sample(Builder& b, Value* v, bool mean) {
  std::vector<int64_t> axes;
  for (int i = 1; i < v->type.rank(); ++i) axes.push_back(i);
  return axes.empty() ? v : mean ? b.reduce_mean(v, axes) : b.reduce_sum(v, axes);
}

// ---- Cross-entropy

int class_axis(const LossArgs& a) {
  const int rank = a.out->type.rank(), last = rank - 1;
  if (rank < 2)
    throw Error(a.out->loc(), "cross-entropy wants scores of shape [batch, classes, ...], output '{}' is {}",
                a.of, to_string(a.out->type));
  double key = a.choice.number("axis");
  int axis = !std::isnan(key) ? static_cast<int>(key) : a.softmax > 0 ? a.softmax : 1;
  if (axis < 0) axis += rank;
  if (axis != 1 && axis != last)
    throw Error(
        a.out->loc(),
        "cross-entropy:axis={}: the classes of output '{}', which is {}, lie along axis 1 or the last", key,
        a.of, to_string(a.out->type));
  if (a.softmax >= 0 && a.softmax != axis)
    throw Error(a.out->loc(), "is a softmax along axis {}, but the classes of output '{}' lie along axis {}",
                a.softmax, a.of, axis);
  if (a.out->type.dim(axis) < 2)
    throw Error(
        a.out->loc(),
        "cross-entropy over one class is always 0, output '{}' is {}; a single score that says yes or no "
        "wants --loss bce",
        a.of, to_string(a.out->type));
  return axis;
}

SampleLoss cross_entropy(const LossArgs& a) {
  const int axis = class_axis(a);
  const int64_t classes = a.out->type.dim(axis);
  Type labels_type{DType::i32, a.out->type.dims};
  labels_type.dims.erase(labels_type.dims.begin() + axis);
  const double ignored = a.choice.number("ignore_index");
  std::string what = fmt::format("class ids from 0 to {}", classes - 1);
  if (!std::isnan(ignored)) what += fmt::format(", {} is ignored", ignored);
  const std::vector<float>& class_weights = a.choice.class_weights;
  if (!class_weights.empty() && std::ssize(class_weights) != classes)
    throw Error(a.out->loc(), "has {} classes, class_weights gives {} numbers", classes,
                class_weights.size());
  Value *scores = a.out, *given = add_labels(a, labels_type, what), *labels = given;
  if (axis != 1) {
    int64_t rows = labels_type.elements();
    scores = a.b.reshape(scores, {rows, classes});
    labels = a.b.reshape(labels, {rows});
  }

  std::vector<Value*> inputs = {scores, labels}, weigh = {given};
  Attrs attrs;
  if (!class_weights.empty()) {
    Value* table = a.b.constant({DType::f32, {classes}}, class_weights);
    inputs.push_back(table);
    weigh.push_back(table);
  }
  if (!std::isnan(ignored)) attrs["ignore_index"] = static_cast<int64_t>(ignored);
  Attrs both = attrs;
  both["label_smoothing"] = a.choice.number("label_smoothing");
  Value* losses = a.b.reshape(a.b.value("softmax_cross_entropy", inputs, both), labels_type.dims);
  if (!a.choice.weighted()) return {per_sample(a.b, losses, true), nullptr};
  return {per_sample(a.b, losses, false), per_sample(a.b, a.b.value("label_weights", weigh, attrs), false)};
}

// Scores of each position are for the token that follows: labels move up by one, and nothing follows the last.
SampleLoss causal_lm(const LossArgs& a) {
  const Type& out = a.out->type;
  if (out.rank() != 3 || out.dim(1) < 2 || out.dim(2) < 2)
    throw Error(
        a.out->loc(),
        "causal-lm wants scores of shape [batch, positions, tokens] with 2 or more positions and tokens, "
        "output '{}' is {}",
        a.of, to_string(out));
  if (a.softmax >= 0 && a.softmax != 2)
    throw Error(a.out->loc(), "is a softmax along axis {}, but the tokens of output '{}' lie along the last",
                a.softmax, a.of);
  const int64_t ignored = static_cast<int64_t>(a.choice.number("ignore_index"));
  const int64_t samples = out.dim(0), length = out.dim(1), tokens = out.dim(2), axis = 1;
  Value* labels = add_labels(a, {DType::i32, {samples, length}},
                             fmt::format("tokens from 0 to {}, {} is ignored", tokens - 1, ignored));
  Value* next = a.b.value("slice", {labels}, {{"axis", axis}, {"start", int64_t{1}}, {"end", length}});
  next = a.b.value("pad", {next},
                   {{"axis", axis}, {"after", int64_t{1}}, {"value", static_cast<double>(ignored)}});
  Attrs attrs = {{"ignore_index", ignored}}, both = attrs;
  both["label_smoothing"] = a.choice.number("label_smoothing");
  Value* losses = a.b.value(
      "softmax_cross_entropy",
      {a.b.reshape(a.out, {samples * length, tokens}), a.b.reshape(next, {samples * length})}, both);
  return {per_sample(a.b, a.b.reshape(losses, {samples, length}), false),
          per_sample(a.b, a.b.value("label_weights", {next}, attrs), false)};
}

// ---- Losses of each number

SampleLoss mean_of(const LossArgs& a, Value* (*loss)(const LossArgs&, Value* labels)) {
  if (a.out->type.rank() == 0)
    throw Error(a.out->loc(), "{} wants an output with a batch axis, '{}' is a scalar", a.choice.name, a.of);
  return {per_sample(a.b, loss(a, add_labels(a, a.out->type, "numbers")), true), nullptr};
}

SampleLoss binary_cross_entropy(const LossArgs& a) {
  return mean_of(a, [](const LossArgs& a, Value* labels) {
    return a.b.value("bce_with_logits", {a.out, labels});
  });
}

SampleLoss squared_error(const LossArgs& a) {
  return mean_of(a, [](const LossArgs& a, Value* labels) {
    Value* difference = a.b.sub(a.out, labels);
    return a.b.mul(difference, difference);
  });
}

SampleLoss absolute_error(const LossArgs& a) {
  return mean_of(a,
                 [](const LossArgs& a, Value* labels) { return a.b.value("abs", {a.b.sub(a.out, labels)}); });
}

// With c the difference d clipped to +-delta, c * (d - c / 2) is d^2 / 2 inside and delta * (|d| - delta / 2) outside.
SampleLoss huber(const LossArgs& a) {
  return mean_of(a, [](const LossArgs& a, Value* labels) {
    double delta = a.choice.number("delta");
    Value* d = a.b.sub(a.out, labels);
    Value* c = a.b.value("clip", {d}, {{"low", -delta}, {"high", delta}});
    return a.b.mul(c, a.b.sub(d, a.b.mul(c, a.b.constant(0.5f))));
  });
}

const std::vector<LossDef>& all_losses() {
  static const std::vector<LossDef> all = {
      {{"cross-entropy",
        "softmax cross-entropy; labels are class ids",
        {{"ignore_index", NAN, INT32_MIN, INT32_MAX, false, KeyDef::whole},
         {"label_smoothing", 0, 0, 1},
         {"class_weights", 0, 0, 0, false, KeyDef::text},
         {"axis", NAN, -1, 64, false, KeyDef::whole},
         kWeight}},
       Probability::of_classes,
       cross_entropy},
      {{"causal-lm",
        "cross-entropy of each position's scores with the token after it; labels are the tokens",
        {{"ignore_index", -100, INT32_MIN, INT32_MAX, false, KeyDef::whole},
         {"label_smoothing", 0, 0, 1},
         kWeight}},
       Probability::of_classes,
       causal_lm,
       1},
      {{"bce",
        "binary cross-entropy of each number with a sigmoid; labels from 0 to 1 have the output's shape",
        {kWeight}},
       Probability::of_each,
       binary_cross_entropy},
      {{"mse", "mean squared error; labels have the output's shape", {kWeight}},
       Probability::none,
       squared_error},
      {{"l1", "mean absolute error; labels have the output's shape", {kWeight}},
       Probability::none,
       absolute_error},
      {{"huber",
        "squared error where that is below delta, else linear; labels have the output's shape",
        {{"delta", 1, 1e-6, 1e6}, kWeight}},
       Probability::none,
       huber},
  };
  return all;
}

const LossDef* find_loss(std::string_view name) {
  for (const LossDef& l : all_losses())
    if (name == l.choice.name) return &l;
  return nullptr;
}

std::vector<ChoiceDef> choices() {
  std::vector<ChoiceDef> list;
  for (const LossDef& l : all_losses()) list.push_back(l.choice);
  return list;
}

// ---- A softmax or sigmoid at the end of the model

bool is_transpose(const Node* n) { return std::string_view(n->op->name) == "transpose"; }

// Where an axis of a view's or transpose's input lies in its result; -1 where it is no axis of its own there.
int moved_axis(const Node* n, int axis) {
  if (is_transpose(n)) {
    const std::vector<int64_t>& order = n->integers("permutation");
    return static_cast<int>(std::find(order.begin(), order.end(), axis) - order.begin());
  }
  const Dims &from = n->in(0)->type.dims, &to = n->out()->type.dims;
  auto before = [](const Dims& dims, size_t axis) {
    int64_t product = 1;
    for (size_t i = 0; i < axis; ++i) product *= dims[i];
    return product;
  };
  for (size_t i = 0; i < to.size(); ++i)
    if (to[i] == from[axis] && before(to, i) == before(from, axis)) return static_cast<int>(i);
  return -1;
}

// The output without the probabilities at its end: what they were made of, moved as they were.
void undo(LossArgs& a, Probability probability) {
  std::vector<Node*> moves;
  Value* v = a.out;
  while (v->node && (v->node->op->is_view() || is_transpose(v->node))) {
    moves.push_back(v->node);
    v = v->node->in(0);
  }
  if (probability == Probability::none || !v->node || v->node->op->probability != probability) return;
  Node* made = v->node;
  int axis = v->type.rank() - 1;
  a.out = made->in(0);
  for (size_t i = moves.size(); i-- > 0;) {
    a.out = a.b.value(moves[i]->op->name, {a.out}, moves[i]->attrs);
    if (probability != Probability::of_classes) continue;
    axis = moved_axis(moves[i], axis);
    if (axis < 0)
      throw Error(made->loc,
                  "is undone for {}, but its axis is no axis of output '{}', which is {}; export the "
                  "model without it",
                  a.choice.name, a.of, to_string(a.out->type));
  }
  if (probability == Probability::of_classes) a.softmax = axis;
}

// ---- Reading a choice

std::vector<float> read_class_weights(const std::string& path) {
  constexpr size_t kMostBytes = 1 << 24;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || text.empty()) throw error("class_weights: '{}' cannot be read, or is empty", path);
  std::replace(text.begin(), text.end(), ',', ' ');
  std::vector<float> weights;
  const char *at = text.data(), *end = at + text.size();
  auto skip = [&] {
    while (at < end && std::isspace(static_cast<unsigned char>(*at))) ++at;
  };
  for (skip(); at < end; skip()) {
    double weight = 0;
    auto [stop, problem] = std::from_chars(at, end, weight);
    bool separate = stop == end || std::isspace(static_cast<unsigned char>(*stop));
    if (problem != std::errc{} || !separate || !(weight >= 0 && weight <= 1e30))
      throw error(
          "class_weights: number {} of '{}' is not one from 0 to 1e30; the file is text, one number a class",
          weights.size() + 1, path);
    weights.push_back(flushed(static_cast<float>(weight)));
    at = stop;
  }
  if (std::count(weights.begin(), weights.end(), 0.0f) == std::ssize(weights))
    throw error("class_weights: '{}' has no weight above 0", path);
  return weights;
}

}  // namespace

bool LossChoice::weighted() const {
  return !class_weights.empty() || (find_key(keys, "ignore_index") && !std::isnan(number("ignore_index")));
}

int64_t LossChoice::shift() const { return find_loss(name)->shift; }

LossChoice parse_loss(const std::string& text) {
  // The name of an output may contain what separates names and keys: the first part that is a loss decides.
  size_t start = 0;
  while (!find_loss(text.substr(start, text.find(':', start) - start))) {
    size_t equals = text.find('=', start);
    if (equals == std::string::npos) {
      start = 0;
      break;
    }
    start = equals + 1;
  }
  LossChoice loss{
      parse_choice("--loss", text.substr(start), choices()), start ? text.substr(0, start - 1) : "", {}};
  if (start == 1) throw error("--loss {}: the name of the output is empty", text);
  if (auto file = loss.texts.find("class_weights"); file != loss.texts.end())
    loss.class_weights = read_class_weights(file->second);
  return loss;
}

size_t loss_outputs(const std::vector<LossChoice>& losses) {
  size_t count = losses.empty();
  for (const LossChoice& l : losses) count += l.weighted() ? 2 : 1;
  return count;
}

std::string losses_text() { return choices_text(choices()); }

std::string to_string(const std::vector<LossChoice>& losses) {
  std::string text;
  for (const LossChoice& l : losses) {
    if (!text.empty()) text += " + ";
    if (!l.output.empty()) text += l.output + "=";
    text += l.name;
    std::string keys;
    for (const auto& [name, value] : l.numbers)
      keys += fmt::format("{}{}={}", keys.empty() ? ":" : ",", name, value);
    text += keys;
  }
  return losses.empty() ? "the model's own" : text;
}

namespace {

size_t output_of(const Graph& g, const LossChoice& choice) {
  if (choice.output.empty()) return 0;
  std::string names;
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    if (g.output_name(i) == choice.output) return i;
    names += fmt::format("\n  {}", g.output_name(i));
  }
  throw error("--loss {}={}: {} has no output of this name; it has{}", choice.output, choice.name,
              g.model_file, names);
}

}  // namespace

int own_loss(const Graph& g) {
  int found = -1;
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const Type& type = g.outputs()[i]->type;
    if (!is_float(type.dtype) || type.rank() > 0) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return found;
}

std::vector<LossChoice> derive_losses(const Graph& g, const std::vector<LossChoice>& wanted) {
  if (g.outputs().empty()) throw error("{}: the model has no output", g.model_file);
  Report report;
  std::vector<size_t> taken;
  for (const LossChoice& l : wanted)
    report.collect([&] {
      taken.push_back(output_of(g, l));
      if (std::count(taken.begin(), taken.end(), taken.back()) > 1)
        throw error("--loss: output '{}' has two losses", g.output_name(taken.back()));
    });
  report.throw_if_any();
  if (!wanted.empty()) return wanted;

  const Value* out = g.outputs()[0];
  if (own_loss(g) >= 0) return {};
  if (g.outputs().size() == 1 && out->node && out->node->op->probability == Probability::of_classes)
    return {parse_loss("cross-entropy")};
  std::string outputs, losses;
  for (size_t i = 0; i < g.outputs().size(); ++i)
    outputs += fmt::format("\n  output '{}' is {}", g.output_name(i), to_string(g.outputs()[i]->type));
  for (const LossDef& l : all_losses())
    losses += fmt::format("\n  --loss {}: {}", l.choice.name, l.choice.doc);
  throw error(
      "{}: cannot tell what to train for: no single output is a scalar loss or ends in Softmax.{}\nSay it, "
      "for "
      "another "
      "output than the first as --loss OUTPUT=NAME:{}",
      g.model_file, outputs, losses);
}

int attach_loss(Graph& g, const PassOptions& options) {
  const std::vector<LossChoice> losses = derive_losses(g, options.losses);
  if (losses.empty()) {
    Value* loss = g.outputs()[static_cast<size_t>(own_loss(g))];
    if (!options.inference)
      while (!g.outputs().empty()) g.remove_output(g.outputs().size() - 1);
    g.add_output(loss, "loss");
    return 1;
  }
  std::vector<SampleLoss> made;
  Report report;
  for (const LossChoice& choice : losses)
    report.collect([&] {
      const LossDef& loss = *find_loss(choice.name);
      size_t output = output_of(g, choice);
      Value* out = g.outputs()[output];
      if (out->type.dtype != DType::f32)
        throw Error(out->loc(), "output '{}' is {}: a loss wants floats", g.output_name(output),
                    to_string(out->type));
      Builder b(g, out->loc());
      LossArgs args{b, choice, out, -1, output, g.output_name(output), losses.size() == 1, options.inference};
      undo(args, loss.undone);
      made.push_back(loss.make(args));
    });
  report.throw_if_any();
  if (options.inference) {
    for (const SampleLoss& s : made) {
      g.add_output(s.losses, "sample_loss");
      if (s.weights) g.add_output(s.weights, "sample_weight");
    }
    return static_cast<int>(made.size());
  }

  while (!g.outputs().empty()) g.remove_output(g.outputs().size() - 1);
  Value* total = nullptr;
  for (size_t i = 0; i < made.size(); ++i) {
    const SampleLoss& s = made[i];
    Builder b(g, s.losses->loc());
    Value* mean = s.weights
                      ? b.value("div_or_zero", {b.reduce_sum(s.losses, {0}), b.reduce_sum(s.weights, {0})})
                      : b.reduce_mean(s.losses, {0});
    double weight = losses[i].number("weight");
    if (weight != 1) mean = b.mul(mean, b.constant(static_cast<float>(weight)));
    total = total ? b.add(total, mean) : mean;
  }
  g.add_output(total, "loss");
  return static_cast<int>(made.size());
}

}  // namespace pock
