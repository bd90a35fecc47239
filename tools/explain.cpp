#include "explain.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "pock/ir/storage.h"
#include "pock/ops/op.h"
#include "pock/passes/lora.h"
#include "pock/plan/plan.h"
#include "pock/support/new_file.h"

namespace pock {
namespace {

using json = nlohmann::ordered_json;

struct ParameterCost {
  std::string name;
  Type type, trained;
  int64_t weights = 0, state = 0;  // bytes of what is trained
  int64_t gradient_flop = 0;       // of what nothing else needs

  double share() const {
    return static_cast<double>(trained.elements()) / static_cast<double>(type.elements());
  }
};

// What the forward part leaves in memory for the backward part.
struct Saved {
  std::string node;
  Type type;
  std::vector<std::string> readers;
};

struct StepCost {
  std::vector<ParameterCost> parameters;  // that are trained
  std::vector<Saved> saved;
  int64_t forward_flop = 0, backward_flop = 0;
  int64_t arena = 0, bound = 0, forward_peak = 0, backward_peak = 0;
  std::string peak_node;

  int64_t saved_bytes(bool masks) const {
    return std::accumulate(saved.begin(), saved.end(), int64_t{0}, [&](int64_t n, const Saved& s) {
      return n + ((s.type.dtype == DType::mask) == masks ? s.type.bytes() : 0);
    });
  }
  template <class F>
  int64_t sum(F field) const {
    return std::accumulate(parameters.begin(), parameters.end(), int64_t{0},
                           [&](int64_t n, const ParameterCost& p) { return n + p.*field; });
  }
};

class Costs {
 public:
  explicit Costs(const Graph& g) : g_(g), at_(positions(g)), loss_(at_.at(loss_node(g))) {}

  StepCost run() {
    for (const Node* n : g_.nodes()) (forward(n) ? cost_.forward_flop : cost_.backward_flop) += flop(n);
    for (const Value* p : g_.params())
      if (p->trained) parameter(*p);
    for (const Node* n : g_.nodes())
      if (forward(n) && !n->op->is_view())
        for (const Value* v : n->results()) saved(*v);
    memory();
    return std::move(cost_);
  }

 private:
  bool forward(const Node* n) const { return at_.at(n) <= loss_; }

  static int64_t flop(const Node* n) {
    if (n->op->is_view() || n->op->has_effect()) return 0;
    return loop::cost(lower_node(*n)).flop;
  }

  void parameter(const Value& p) {
    ParameterCost c{p.name, p.type, p.trained_type(), p.trained_type().bytes()};
    std::unordered_set<const Node*> only_for_it;
    for (const Value* state : g_.params())
      if (state->owner == &p && state->kind == ValueKind::optimizer) c.state += state->type.bytes();
    // Backwards from its updates: what is read there alone.
    for (const Node* n : g_.nodes_backward()) {
      if (forward(n)) break;
      bool own = n->op->has_effect() && (n->in(0) == &p || n->in(0)->owner == &p);
      if (!n->op->has_effect()) {
        own = !n->results().empty();
        for (const Value* v : n->results()) {
          own &= !is_output_of_others(v, p);
          for (const Node* user : v->users) own &= only_for_it.count(user) != 0;
        }
      }
      if (!own) continue;
      only_for_it.insert(n);
      c.gradient_flop += flop(n);
    }
    cost_.parameters.push_back(c);
  }

  bool is_output_of_others(const Value* v, const Value& param) const {
    for (size_t i = 0; i < g_.outputs().size(); ++i)
      if (g_.outputs()[i] == v && g_.output_name(i) != gradient_output_name(param)) return true;
    return false;
  }

  // Names of the layers whose backward part reads the value.
  void readers(const Value& v, std::vector<std::string>* names) const {
    for (const Node* n : v.users) {
      if (n->op->is_view()) {
        readers(*n->out(), names);
      } else if (!forward(n) && std::find(names->begin(), names->end(), n->loc.name) == names->end()) {
        names->push_back(n->loc.name);
      }
    }
  }

  void saved(const Value& v) {
    Saved s{v.node->loc.name, v.type, {}};
    readers(v, &s.readers);
    if (!s.readers.empty() && !inside_kernel(g_, &v)) cost_.saved.push_back(std::move(s));
  }

  void memory() {
    const Plan plan = plan_memory(g_);
    cost_.arena = plan.arena_bytes;
    cost_.bound = plan.lower_bound;
    if (plan.peak_node) cost_.peak_node = plan.peak_node->loc.name;
    std::vector<int64_t> live(g_.node_count() + 1);
    for (const Block& b : plan.blocks)
      for (int i = b.first; i <= b.last; ++i) live[static_cast<size_t>(i)] += b.bytes;
    const auto behind = live.begin() + loss_ + 1;
    cost_.forward_peak = *std::max_element(live.begin(), behind);
    cost_.backward_peak = *std::max_element(behind, live.end());
  }

  const Graph& g_;
  const Positions at_;
  const int loss_;
  StepCost cost_;
};

// Whose gradient asks for one bit of what went in: behind the layer, or behind its norm.
bool is_clipped(const Value& v) {
  return std::any_of(v.users.begin(), v.users.end(), [](const Node* n) {
    const std::string_view op = n->op->name;
    if (n->op->norm_scale >= 0) return is_clipped(*n->out());
    return op == "relu" || op == "clip" || op == "leaky_relu";
  });
}

// ---- The analytic model of "On-Device Training Under 256KB Memory" (Lin 2022): what a scheme adds to inference. From the
// first convolution that is trained on, each keeps a bit an output, 32 bits a trained bias, and where its weight is
// trained, that and the input channels that it goes with; of a matrix product the input counts. Momentum does not. The
// formula knows of no adapters: of these, the factors count and what goes into them.
// `bits`: of a weight and of an activation; in floats only what is clipped has a mask, in bytes everything is.

struct Analytic {
  double weights_kib = 0, activations_kib = 0;
  double total() const { return weights_kib + activations_kib; }
};

Analytic analytic(const Layers& model, const Graph& train, int bits) {
  auto named = [&](const std::string& name) -> const Value* {
    const Value* there = train.find(name);
    return there && there->trained ? there : nullptr;
  };
  auto trained = [&](const Value* p) { return p ? named(p->name) : nullptr; };
  int64_t weights = 0, activations = 0;
  bool reached = false;
  for (const Layer& layer : model.layers) {
    const Value* weight = trained(layer.weight);
    int64_t biases = 0;
    for (const Value* p : layer.biases)
      if (trained(p)) biases += p->type.elements();
    const LoraNames names = lora_names(layer.weight->name);
    const Value *a = named(names.a), *b = named(names.b);
    reached |= weight || biases || a || b;
    if (!reached) continue;
    const bool images = layer.node->op->channel_weight >= 0;
    if (images && (bits == 8 || is_clipped(*layer.out))) activations += layer.node->out()->type.elements();
    if (images) weights += biases * 32;
    const Type &x = layer.node->in(1 - layer.operand)->type, &y = layer.node->out()->type;
    if (a) activations += x.elements() * bits;
    if (b) activations += y.elements() / b->type.dim(0) * b->type.dim(1) * bits;
    for (const Value* factor : {a, b})
      if (factor) weights += factor->type.elements() * bits;
    if (!weight) continue;
    const int64_t all = weight->type.dim(layer.input_channels),
                  some = weight->trained_type().dim(layer.input_channels);
    activations += x.elements() / all * some * bits;
    if (images) weights += weight->trained_type().elements() * bits;
  }
  return {static_cast<double>(weights) / 8 / 1024, static_cast<double>(activations) / 8 / 1024};
}

// ---- What is printed

// The planner's peak with each optional pass left out in turn.
std::vector<std::pair<std::string, StepCost>> ladder(const Graph& model, const PassOptions& options) {
  const Silence quiet;
  std::vector<std::pair<std::string, StepCost>> rungs;
  std::set<std::string> all;
  auto without = [&](const std::string& name, const std::set<std::string>& disabled) {
    rungs.emplace_back(name, Costs(*program_graphs(model, options, {disabled, nullptr}).train).run());
  };
  for (const Pass& p : training_pipeline())
    if (p.optional || p.rounds) {
      std::string flag = std::string("--no-") + p.name;
      std::replace(flag.begin(), flag.end(), '_', '-');
      without(flag, {p.name});
      all.insert(p.name);
    }
  without("none of them", all);
  return rungs;
}

json cost_json(const StepCost& c) {
  json parameters = json::array(), saved = json::array();
  for (const ParameterCost& p : c.parameters)
    parameters.push_back({{"name", p.name},
                          {"shape", p.type.dims},
                          {"share", p.share()},
                          {"weight_bytes", p.weights},
                          {"state_bytes", p.state},
                          {"gradient_flop", p.gradient_flop}});
  for (const Saved& s : c.saved)
    saved.push_back({{"node", s.node},
                     {"type", to_string(s.type)},
                     {"bytes", s.type.bytes()},
                     {"mask", s.type.dtype == DType::mask},
                     {"for", s.readers}});
  return {{"parameters", parameters},
          {"saved", saved},
          {"trained_weight_bytes", c.sum(&ParameterCost::weights)},
          {"state_bytes", c.sum(&ParameterCost::state)},
          {"saved_activation_bytes", c.saved_bytes(false)},
          {"saved_mask_bytes", c.saved_bytes(true)},
          {"forward_flop", c.forward_flop},
          {"backward_flop", c.backward_flop},
          {"arena_bytes", c.arena},
          {"arena_lower_bound_bytes", c.bound},
          {"peak_node", c.peak_node},
          {"forward_peak_bytes", c.forward_peak},
          {"backward_peak_bytes", c.backward_peak}};
}

json analytic_json(const Analytic& a) {
  return {{"weights", a.weights_kib}, {"activations", a.activations_kib}, {"total", a.total()}};
}

std::string flop_text(int64_t n) {
  return n < 10'000'000 ? fmt::format("{:.1f} k", n * 1e-3) : fmt::format("{:.1f} M", n * 1e-6);
}

std::string cost_text(const StepCost& c, const StepCost& full) {
  std::string text = fmt::format("{:>6} {:>11} {:>11} {:>13}  {}\n", "share", "weights", "state",
                                 "gradient FLOP", "parameter");
  for (const ParameterCost& p : c.parameters)
    text += fmt::format("{:5.1f}% {:>11} {:>11} {:>13}  {} {}\n", p.share() * 100, bytes_text(p.weights),
                        bytes_text(p.state), flop_text(p.gradient_flop), printable(p.name),
                        to_string(p.type.dims));
  text += fmt::format("\n{:>11}  {:24} {}\n", "saved", "made by", "for the backward part of");
  for (const Saved& s : c.saved)
    text += fmt::format("{:>11}  {:24} {}\n", bytes_text(s.type.bytes()), printable(s.node),
                        printable(fmt::format("{}", fmt::join(s.readers, ", "))));
  auto row = [&](const char* what, const std::string& some, const std::string& all) {
    text += fmt::format("{:24} {:>13} {:>13}\n", what, some, all);
  };
  text += "\n";
  row("", "this scheme", "full update");
  auto bytes = [&](const char* what, int64_t some, int64_t all) {
    row(what, bytes_text(some), bytes_text(all));
  };
  bytes("trained weights", c.sum(&ParameterCost::weights), full.sum(&ParameterCost::weights));
  bytes("optimizer state", c.sum(&ParameterCost::state), full.sum(&ParameterCost::state));
  bytes("saved activations", c.saved_bytes(false), full.saved_bytes(false));
  bytes("saved masks", c.saved_bytes(true), full.saved_bytes(true));
  bytes("arena", c.arena, full.arena);
  bytes("  peak of the forward part", c.forward_peak, full.forward_peak);
  bytes("  and of the rest", c.backward_peak, full.backward_peak);
  row("forward FLOP", flop_text(c.forward_flop), flop_text(full.forward_flop));
  row("backward FLOP", flop_text(c.backward_flop), flop_text(full.backward_flop));
  return text;
}

}  // namespace

void run_explain(const ExplainArgs& args) {
  const Prepared prepared = prepare(args);
  const Graph& train = *prepared.graphs.train;
  const StepCost cost = Costs(train).run();
  PassOptions all = prepared.passes;
  all.scheme.reset();
  all.train.clear();
  all.freeze.clear();
  const StepCost full = [&] {
    const Silence quiet;
    return Costs(*program_graphs(*prepared.model, all, {args.disabled, nullptr}).train).run();
  }();
  const auto rungs = ladder(*prepared.model, prepared.passes);
  const Layers layers = find_layers(*prepared.model);
  const Analytic int8 = analytic(layers, train, 8), fp32 = analytic(layers, train, 32);
  std::string text;
  if (args.json) {
    json object = {
        {"model", args.model},
        {"trained", prepared.options.scheme},
        {"this", cost_json(cost)},
        {"full", cost_json(full)},
        {"analytic_extra_memory_kib", {{"int8", analytic_json(int8)}, {"fp32", analytic_json(fp32)}}}};
    json steps = json::array();
    for (const auto& [name, rung] : rungs)
      steps.push_back({{"without", name}, {"arena_bytes", rung.arena}, {"peak_node", rung.peak_node}});
    object["ladder"] = steps;
    text = object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  } else {
    text = fmt::format("trained: {}\n\n", printable(prepared.trained)) + cost_text(cost, full);
    text += fmt::format("\narena {}, its peak at '{}'; what a pass saves shows without it:\n",
                        bytes_text(cost.arena), printable(cost.peak_node));
    for (const auto& [name, rung] : rungs)
      text += fmt::format("{:>11}  {:24} {}\n", bytes_text(rung.arena), name, printable(rung.peak_node));
    text += fmt::format(
        "\nbeside inference, by the published formula (no momentum): {:.2f} KiB in int8, {:.2f} KiB in "
        "fp32\n",
        int8.total(), fp32.total());
  }
  NewFile("-", text).commit();
}

}  // namespace pock
