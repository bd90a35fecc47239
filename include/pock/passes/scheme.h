// What is trained, as a sparse scheme says it: a preset, or a TOML file.
//
//   Scheme s = load_scheme("last:4");
//   Scheme s = load_scheme("scheme.toml");
//
//     biases = "last:20"            # "all", "none", "last:N", or a list of patterns; without it "none"
//     norms = "none"                # scales and shifts of normalisations, likewise
//     [[weights]]
//     match = "blocks.9.conv1.*"    # a pattern, "all" or "last:N"
//     channels = 0.5                # a share, a count or a list of input channels; without it all
//     select = "l2"                 # those with the largest weights; or "first"
//     [[lora]]
//     match = "*.q_proj.weight"     # likewise; these stay frozen, an adapter beside each is trained
//     rank = 8
//     alpha = 16
//     dropout = 0.1                 # of the adapter's input
//
// A pattern is a glob over names of parameters, and of the nodes that they belong to. "last:N" are the last N layers
// that have weights and reach the loss; a norm counts by where it stands among them. What no line names stays frozen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "pock/passes/layers.h"

namespace pock {

// Some of a model's layers.
struct LayerChoice {
  enum Kind : uint8_t { none, all, last, patterns } kind = none;
  int64_t count = 0;  // last
  std::vector<std::string> names = {};
};

// Some of a weight's input channels.
struct ChannelChoice {
  // A share of all, rounded down but at least one; so many; or just these.
  std::variant<double, int64_t, std::vector<int64_t>> amount = 1.0;
  bool largest = true;  // by their weights' L2 norm, the first of equals; else the first ones

  bool all() const { return std::get_if<double>(&amount) && std::get<double>(amount) == 1; }
};

struct WeightRule {
  LayerChoice match;
  ChannelChoice channels = {};
};

// W x becomes W x + alpha / rank * B (A x). Where nothing else is said, as in PEFT.
struct LoraRule {
  LayerChoice match;  // `all`: but for the weights that are trained themselves
  int64_t rank = 0;
  double alpha = 8, dropout = 0;
};
inline constexpr int64_t kMostRank = 1 << 16;

struct Scheme {
  std::string name;  // for messages: the preset or the file
  LayerChoice biases, norms;
  std::vector<WeightRule> weights;  // a weight goes by the last that names it
  std::vector<LoraRule> lora;       // likewise
  // Presets that look at the model's structure: parts of it, instead of the above.
  struct Structure {
    enum Kind : uint8_t { none, expand_convs, attention } kind = none;
    int64_t blocks = 0;  // the last so many
    double share = 1;    // of the input channels
  } structure = {};
};

// `text`: a preset or the name of a file. Throws an Error with everything that is wrong in it.
Scheme load_scheme(const std::string& text);
Scheme parse_scheme(const std::string& toml, const std::string& file);
std::string preset_text();  // "full, head, ...", with what each trains, for --help

// A layer that keeps its weight and gets an adapter.
struct Adapter {
  Layer layer;
  int64_t rank;
  double alpha, dropout;
};

struct Selected {
  std::unordered_map<const Value*, std::optional<Slice>> params;  // of some only these input channels
  std::vector<Adapter> adapters;                                  // in the graph's order
};

// What the scheme trains of a model as imported. A layer is one whose weight is among `reach`, those that reach the loss.
// Throws an Error with everything that does not fit the model.
Selected trained_by(const Scheme&, const Graph&, const std::unordered_set<const Value*>& reach);

}  // namespace pock
