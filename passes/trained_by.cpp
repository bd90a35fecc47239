// What a scheme means for a model.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "pock/ops/evaluate.h"
#include "pock/ops/op.h"
#include "pock/passes/layers.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

// How many letters must change for one name to become the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

// Something that a rule can name.
struct Named {
  Value* param;
  std::string node;  // the node that it belongs to, "" where there is none
};

class Selection {
 public:
  Selection(const Scheme& scheme, const Graph& g, const std::unordered_set<const Value*>& reach)
      : scheme_(scheme), g_(g), found_(layers_of(g, reach)) {
    std::unordered_set<const Value*> belongs;
    auto name = [&](std::vector<Named>& list, Value* p, const Node* n) {
      if (p && belongs.insert(p).second) list.push_back({p, n->loc.name});
    };
    for (const Layer& layer : found_.layers)
      for (Value* bias : layer.biases) name(biases_, bias, layer.node);
    for (const Norm& norm : found_.norms)
      for (Value* p : {norm.scale, norm.shift}) name(norms_, p, norm.node);
    for (const Layer& layer : found_.layers) name(weights_, layer.weight, layer.node);
    for (Value* p : g.params())
      if (p->kind == ValueKind::param && is_float(p->type.dtype) && belongs.insert(p).second)
        weights_.push_back({p, ""});
  }

  Selected run() {
    switch (scheme_.structure.kind) {
      case Scheme::Structure::none:
        rules();
        break;
      case Scheme::Structure::expand_convs:
        report_.collect([&] { expand_convs(); });
        break;
      case Scheme::Structure::attention:
        report_.collect([&] { attention(); });
        break;
    }
    report_.throw_if_any();
    Selected selected{std::move(chosen_), {}};
    for (const Layer& l : found_.layers)
      if (auto rule = lora_.find(l.weight); rule != lora_.end())
        selected.adapters.push_back({l, rule->second->rank, rule->second->alpha, rule->second->dropout});
    return selected;
  }

 private:
  static Layers layers_of(const Graph& g, const std::unordered_set<const Value*>& reach) {
    Layers found = find_layers(g);
    for (size_t i = found.layers.size(); i-- > 0;)
      if (!reach.count(found.layers[i].weight)) found.erase_layer(i);
    return found;
  }

  // ---- A scheme's own rules

  void rules() {
    report_.collect([&] { train(choose(scheme_.biases, biases_, "biases")); });
    report_.collect([&] { train(choose(scheme_.norms, norms_, "norms")); });
    for (const WeightRule& rule : scheme_.weights)
      report_.collect([&] {
        const std::vector<Value*> params = choose(rule.match, weights_, "weights");
        const bool any_layer =
            std::any_of(params.begin(), params.end(), [&](Value* p) { return layer_of(p); });
        for (Value* p : params)
          // Among weights that have input channels, those that have none are not meant.
          if (rule.channels.all() || layer_of(p) || !any_layer) chosen_[p] = channels_of(p, rule.channels);
      });
    for (const LoraRule& rule : scheme_.lora) report_.collect([&] { add_lora(rule); });
    for (const Layer& l : found_.layers)
      if (chosen_.count(l.weight) && lora_.count(l.weight))
        report_.add(Error(l.weight->loc(),
                          "{}: it is trained itself by [[weights]], and [[lora]] would freeze it and put an "
                          "adapter beside it: name it in one of them",
                          scheme_.name));
  }

  // Among layers that can have an adapter, those that cannot are not meant.
  void add_lora(const LoraRule& rule) {
    Report unfit;
    bool any = false;
    for (const Layer* l : lora_layers(rule.match))
      if (unfit.collect([&] { need_adaptable(*l); })) {
        lora_[l->weight] = &rule;
        any = true;
      }
    if (!any) unfit.throw_if_any();
  }

  std::vector<const Layer*> lora_layers(const LayerChoice& match) {
    std::vector<const Layer*> layers;
    if (match.kind == LayerChoice::all) {
      for (const Layer& l : found_.layers)
        if (!chosen_.count(l.weight)) layers.push_back(&l);
      if (layers.empty())
        throw error(
            "{}: lora: \"all\" are the layers whose weights [[weights]] does not train: there are none",
            scheme_.name);
      return layers;
    }
    std::vector<Named> of_layers;
    for (const Named& n : weights_)
      if (layer_of(n.param)) of_layers.push_back(n);
    for (const Value* p : choose(match, of_layers, "lora")) layers.push_back(layer_of(p));
    return layers;
  }

  // An adapter is a product of two factors that can be merged into the weight, as PEFT has it.
  void need_adaptable(const Layer& l) const {
    auto refuse = [&](const std::string& why) {
      return Error(l.weight->loc(), "{}: lora: there can be no adapter beside it: {}", scheme_.name, why);
    };
    std::vector<std::string> readers;
    names_of_readers(l.weight, &readers);
    if (readers.size() > 1) throw refuse(fmt::format("several nodes read it ({})", fmt::join(readers, ", ")));
    if (convolution(l)) {
      if (l.node->in(l.operand) != l.weight) throw refuse("it is convolved under another shape");
      if (l.node->integer("groups") > 1)
        throw refuse(fmt::format("the convolution has {} groups, and the product of the factors has none",
                                 l.node->integer("groups")));
    } else if (!l.node->op->layouts.empty()) {
      throw refuse("the convolution is transposed");
    } else if (l.weight->type.rank() != 2 || l.input_channels < 0) {
      throw refuse(fmt::format("it is {} and no matrix that is multiplied as it is stored, or transposed",
                               to_string(l.weight->type)));
    }
  }

  static void names_of_readers(const Value* v, std::vector<std::string>* names) {
    for (const Node* user : v->users)
      if (user->op->is_view() || std::string_view(user->op->name) == "transpose")
        names_of_readers(user->out(), names);
      else
        names->push_back("'" + user->loc.name + "'");
  }

  void train(const std::vector<Value*>& params) {
    for (Value* p : params) chosen_[p] = std::nullopt;
  }

  std::vector<Value*> choose(const LayerChoice& choice, const std::vector<Named>& all, const char* kind) {
    std::vector<Value*> params;
    switch (choice.kind) {
      case LayerChoice::none:
        break;
      case LayerChoice::all:
        for (const Named& n : all) params.push_back(n.param);
        break;
      case LayerChoice::last:
        return last(choice.count, kind);
      case LayerChoice::patterns:
        Report report;
        for (const std::string& pattern : choice.names)
          report.collect([&] { add_matching(pattern, all, kind, &params); });
        report.throw_if_any();
        break;
    }
    return params;
  }

  std::vector<Value*> last(int64_t count, std::string_view kind) const {
    const auto layers = std::ssize(found_.layers);
    if (count > layers)
      throw error("{}: {}: the model has {} layers with weights, not {}", scheme_.name, kind, layers, count);
    std::vector<Value*> params;
    const auto first = static_cast<size_t>(layers - count);
    if (kind == "norms")
      for (const Norm& norm : found_.norms)
        for (Value* p : {norm.scale, norm.shift})
          if (p && norm.before > first) params.push_back(p);
    for (size_t i = first; i < found_.layers.size(); ++i) {
      const Layer& layer = found_.layers[i];
      if (kind == "biases")
        params.insert(params.end(), layer.biases.begin(), layer.biases.end());
      else if (kind != "norms")
        params.push_back(layer.weight);
    }
    return params;
  }

  static bool matches(const std::string& pattern, const Named& n) {
    return pattern == n.param->name || glob_match(pattern, n.param->name) ||
           (!n.node.empty() && (pattern == n.node || glob_match(pattern, n.node)));
  }

  void add_matching(const std::string& pattern, const std::vector<Named>& all, const char* kind,
                    std::vector<Value*>* params) const {
    const size_t before = params->size();
    for (const Named& n : all)
      if (matches(pattern, n)) params->push_back(n.param);
    if (params->size() == before) throw no_match(pattern, all, kind);
  }

  Error no_match(const std::string& pattern, const std::vector<Named>& all, const char* kind) const {
    Error e = error("{}: {}: '{}' matches none of them", scheme_.name, kind, pattern);
    const std::pair<const char*, const std::vector<Named>*> others[] = {
        {"biases", &biases_}, {"norms", &norms_}, {"weights", &weights_}};
    for (const auto& [other, list] : others)
      for (const Named& n : *list)
        if (list != &all && matches(pattern, n)) {
          e.note({}, "it matches '{}', which is {}", n.param->name,
                 std::string_view(kind) == "lora" && list == &weights_
                     ? "no weight of a convolution or a matrix product"
                     : fmt::format("one of the {}", other));
          return e;
        }
    if (all.empty())
      return e.note({}, "the model has no {}",
                    std::string_view(kind) == "lora" ? "weight of a convolution or a matrix product" : kind);
    std::vector<std::pair<size_t, const std::string*>> near;
    for (const Named& n : all) near.emplace_back(distance(pattern, n.param->name), &n.param->name);
    std::stable_sort(near.begin(), near.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    near.resize(std::min<size_t>(near.size(), 3));
    std::vector<std::string> names;
    for (const auto& [far, name] : near) names.push_back("'" + *name + "'");
    return e.note({}, "near it {} {}", names.size() == 1 ? "is" : "are", fmt::join(names, ", "));
  }

  // ---- Input channels

  const Layer* layer_of(const Value* weight) const {
    for (const Layer& l : found_.layers)
      if (l.weight == weight) return &l;
    return nullptr;
  }

  std::optional<Slice> channels_of(const Value* p, const ChannelChoice& choice) const {
    if (choice.all()) return {};
    const Layer* layer = layer_of(p);
    if (!layer || layer->input_channels < 0)
      throw Error(p->loc(),
                  "{}: channels: it is no weight of a convolution or a matrix product, only those have input "
                  "channels; leave 'channels' out",
                  scheme_.name);
    const int axis = layer->input_channels;
    const int64_t all = p->type.dim(axis);
    Slice slice{axis, {}};
    if (const auto* list = std::get_if<std::vector<int64_t>>(&choice.amount)) {
      slice.index = *list;
      if (slice.index.back() >= all)
        throw Error(p->loc(), "{}: channels: it has the input channels 0 to {}, not {}", scheme_.name,
                    all - 1, slice.index.back());
    } else {
      int64_t count = 0;
      if (const auto* share = std::get_if<double>(&choice.amount))
        count = std::max<int64_t>(1, static_cast<int64_t>(std::floor(*share * static_cast<double>(all))));
      else
        count = std::get<int64_t>(choice.amount);
      if (count > all)
        throw Error(p->loc(), "{}: channels: it has {} input channels, not {}", scheme_.name, all, count);
      slice.index = choice.largest ? largest(*p, axis, count) : first(count);
    }
    if (std::ssize(slice.index) == all) return {};
    return slice;
  }

  static std::vector<int64_t> first(int64_t count) {
    std::vector<int64_t> index(static_cast<size_t>(count));
    std::iota(index.begin(), index.end(), 0);
    return index;
  }

  static std::vector<int64_t> largest(const Value& p, int axis, int64_t count) {
    Memory memory;
    if (p.data) memory.set(&p, p.data);
    const auto elements = static_cast<size_t>(p.type.elements());
    const std::vector<double> w = p.data ? memory.read(&p) : std::vector<double>(elements, 0);
    size_t behind = 1;
    for (int i = axis + 1; i < p.type.rank(); ++i) behind *= static_cast<size_t>(p.type.dim(i));
    const auto channels = static_cast<size_t>(p.type.dim(axis));
    std::vector<double> squares(channels, 0);
    for (size_t i = 0; i < w.size(); ++i) squares[i / behind % channels] += w[i] * w[i];
    std::vector<int64_t> index = first(p.type.dim(axis));
    std::stable_sort(index.begin(), index.end(), [&](int64_t a, int64_t b) {
      return squares[static_cast<size_t>(a)] > squares[static_cast<size_t>(b)];
    });
    index.resize(static_cast<size_t>(count));
    std::sort(index.begin(), index.end());
    return index;
  }

  // ---- Presets that look at the structure

  void head() {
    train(last(1, "weights"));
    train(last(1, "biases"));
  }

  void expand_convs() {
    std::vector<const Layer*> expands;
    for (size_t i = 0; i + 2 < found_.layers.size(); ++i)
      if (pointwise(found_.layers[i]) && depthwise(found_.layers[i + 1]) && pointwise(found_.layers[i + 2]))
        expands.push_back(&found_.layers[i]);
    const int64_t blocks = scheme_.structure.blocks;
    if (blocks > std::ssize(expands))
      throw error(
          "{}: the model has {} inverted residual blocks (a pointwise, a depthwise and a pointwise "
          "convolution in a row)",
          scheme_.name, expands.size());
    for (auto i = expands.end() - blocks; i != expands.end(); ++i)
      chosen_[(*i)->weight] = channels_of((*i)->weight, {.amount = scheme_.structure.share});
    const size_t third = (found_.layers.size() + 2) / 3;
    for (size_t i = found_.layers.size() - third; i < found_.layers.size(); ++i)
      train(biases_or_shift(found_.layers[i]));
    head();
  }

  static bool convolution(const Layer& l) { return l.node->op->channel_weight >= 0; }
  static bool pointwise(const Layer& l) {
    const Dims& w = l.weight->type.dims;
    return convolution(l) && std::all_of(w.begin() + 2, w.end(), [](int64_t taps) { return taps == 1; }) &&
           l.node->integer("groups") == 1;
  }
  static bool depthwise(const Layer& l) {
    return convolution(l) && l.node->integer("groups") > 1 && l.weight->type.dim(1) == 1;
  }

  std::vector<Value*> biases_or_shift(const Layer& l) const {
    if (!l.biases.empty()) return l.biases;
    for (const Norm& norm : found_.norms)
      if (norm.x == l.out && norm.shift) return {norm.shift};
    return {};
  }

  // A block is a softmax whose result goes into a product with what no parameter is. Its queries, keys and values come
  // from the nearest layers before that; the first layer behind it ends the attention, and the next begins the
  // feed-forward net, perhaps beside others that read the same.
  void attention() {
    std::vector<std::vector<const Layer*>> blocks;
    for (const Node* n : g_.nodes()) {
      if (n->op->probability != Probability::of_classes) continue;
      const Node* product = product_behind(n->out());
      if (!product) continue;
      std::vector<const Layer*> block;
      std::unordered_set<const Value*> seen;
      for (const Value* v : product->inputs()) layers_before(v, &seen, &block);
      if (block.empty()) continue;
      const std::vector<const Layer*> behind = layers_behind(n);
      if (behind.size() > 1)
        for (const Layer* l : behind)
          if (input_of(*l) == input_of(*behind[1])) block.push_back(l);
      blocks.push_back(std::move(block));
    }
    const int64_t wanted = scheme_.structure.blocks;
    if (wanted > std::ssize(blocks))
      throw error("{}: the model has {} attention blocks (a softmax between two products of matrices)",
                  scheme_.name, blocks.size());
    for (auto block = blocks.end() - wanted; block != blocks.end(); ++block)
      for (const Layer* l : *block) {
        train({l->weight});
        train(l->biases);
      }
    head();
  }

  const Node* product_behind(const Value* v) const {
    for (const Node* user : v->users) {
      if (user->op->input_channels && !is_layer(user)) return user;
      if (!user->op->pointwise() && !user->op->is_view() && std::string_view(user->op->name) != "dropout")
        continue;
      if (const Node* found = product_behind(user->out())) return found;
    }
    return nullptr;
  }

  bool is_layer(const Node* n) const {
    return std::any_of(found_.layers.begin(), found_.layers.end(),
                       [&](const Layer& l) { return l.node == n; });
  }

  void layers_before(const Value* v, std::unordered_set<const Value*>* seen,
                     std::vector<const Layer*>* found) const {
    if (!v->node || !seen->insert(v).second) return;
    for (const Layer& l : found_.layers)
      if (l.node == v->node) {
        if (std::find(found->begin(), found->end(), &l) == found->end()) found->push_back(&l);
        return;
      }
    for (const Value* input : v->node->inputs()) layers_before(input, seen, found);
  }

  std::vector<const Layer*> layers_behind(const Node* n) const {
    std::unordered_set<const Node*> before;
    for (const Node* other : g_.nodes()) {
      before.insert(other);
      if (other == n) break;
    }
    std::vector<const Layer*> behind;
    for (const Layer& l : found_.layers)
      if (!before.count(l.node)) behind.push_back(&l);
    return behind;
  }

  static const Value* input_of(const Layer& l) {
    for (const Value* v : l.node->inputs()) {
      while (v->node && v->node->op->is_view()) v = v->node->in(0);
      if (v->node) return v;
    }
    return nullptr;
  }

  const Scheme& scheme_;
  const Graph& g_;
  const Layers found_;
  std::vector<Named> biases_, norms_, weights_;
  Report report_;
  std::unordered_map<const Value*, std::optional<Slice>> chosen_;
  std::unordered_map<const Value*, const LoraRule*> lora_;
};

}  // namespace

Selected trained_by(const Scheme& scheme, const Graph& g, const std::unordered_set<const Value*>& reach) {
  return Selection(scheme, g, reach).run();
}

}  // namespace pock
