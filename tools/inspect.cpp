#include "inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pock/codegen/compile.h"
#include "pock/frontends/inspect.h"
#include "pock/passes/pass.h"
#include "pock/support/new_file.h"

namespace pock {
namespace {

using json = nlohmann::ordered_json;
using Tensor = ModelSummary::Tensor;
using Tensors = std::vector<Tensor>;

// ---- Training

using Losses = std::vector<LossChoice>;

// What the model is trained for by itself, or else for each output a loss that fits any.
std::vector<Losses> some_losses(const Graph& model) {
  try {
    return {derive_losses(model, {})};
  } catch (const Error&) {
  }
  std::vector<Losses> choices;
  LossChoice any = parse_loss("mse");
  for (size_t i = 0; i < model.outputs().size(); ++i) {
    if (!is_float(model.outputs()[i]->type.dtype) || model.outputs()[i]->type.rank() == 0) continue;
    any.output = model.output_name(i);
    choices.push_back({any});
  }
  if (choices.empty()) choices.push_back({any});
  return choices;
}

// Why compiling would refuse it: all of it but machine code, with the fewest options. None where it would not.
std::vector<Error> refusals(const Graph& model, const Losses& losses) {
  Silence silence;
  Report report;
  report.collect([&] {
    PassOptions options;
    options.losses = losses;
    options.recipe = {parse_optimizer("sgd"), parse_schedule("constant")};
    ProgramGraphs graphs = program_graphs(model, options);
    CompileOptions plain{.schedule = false};
    plain.recipe = options.recipe;
    plain.losses = options.losses;
    lower(*graphs.train, *graphs.infer, plain);
  });
  return report.problems();
}

// Why a model that can be read trains for nothing: what speaks against the first choice. None where one is good.
std::vector<Error> refusals(const Graph& model) {
  std::vector<Error> first;
  for (const Losses& losses : some_losses(model)) {
    std::vector<Error> found = refusals(model, losses);
    if (found.empty()) return {};
    if (first.empty()) first = std::move(found);
  }
  return first;
}

struct Findings {
  ModelSummary model;
  std::vector<Error> refusals;

  bool supported() const { return model.problems.empty(); }
  bool known() const { return model.graph || !supported(); }  // whether it trains
  bool trains() const { return model.graph && refusals.empty(); }
};

int64_t elements(const Tensors& weights) {  // whose sizes are known
  int64_t n = 0;
  for (const Tensor& t : weights) {
    int64_t product = 1;
    for (const auto& axis : t.shape) product *= axis.size;
    n += product;
  }
  return n;
}

std::map<std::string, int64_t> types(const Tensors& tensors) {
  std::map<std::string, int64_t> counts;
  for (const Tensor& t : tensors) ++counts[t.type];
  return counts;
}

// ---- JSON

json tensors_json(const Tensors& tensors) {
  json list = json::array();
  for (const Tensor& t : tensors) {
    json shape = json::array();
    for (const auto& axis : t.shape)
      shape.push_back(axis.symbol.empty() ? json(axis.size) : json(axis.symbol));
    list.push_back({{"name", t.name}, {"type", t.type}, {"shape", shape}});
  }
  return list;
}

json weights_json(const Tensors& weights) {
  return {{"count", weights.size()},
          {"elements", elements(weights)},
          {"types", types(weights)},
          {"tensors", tensors_json(weights)}};
}

json errors_json(const std::vector<Error>& errors) {
  json list = json::array();
  for (const Error& e : errors) {
    const bool placed = !e.loc().name.empty() || !e.loc().op.empty();
    list.push_back({{"what", placed ? e.loc().what : ""},
                    {"name", e.loc().name},
                    {"operator", e.loc().op},
                    {"why", e.reason()},
                    {"notes", e.notes()}});
  }
  return list;
}

json summary_json(const Findings& f) {
  const ModelSummary& s = f.model;
  json operators = json::array(), problems = errors_json(s.problems), stops = json::array();
  for (json& p : problems) p["freezing_helps"] = false;
  for (const auto& o : s.operators)
    operators.push_back({{"domain", o.domain},
                         {"name", o.name},
                         {"version", o.version},
                         {"count", o.count},
                         {"supported", o.version > 0}});
  for (const auto& stop : s.stops)
    stops.push_back({{"node", stop.node},
                     {"operator", stop.op},
                     {"why", stop.why},
                     {"freezing_helps", true},
                     {"freeze", stop.parameters}});
  return {{"file", s.file},
          {"producer", s.producer},
          {"ir_version", s.ir_version},
          {"opsets", s.opsets},
          {"supported", f.supported()},
          {"trains", f.known() ? json(f.trains()) : json()},
          {"inputs", tensors_json(s.inputs)},
          {"outputs", tensors_json(s.outputs)},
          {"sizes_taken", s.taken},
          {"sizes_open", s.open},
          {"parameters", weights_json(s.parameters)},
          {"statistics", weights_json(s.statistics)},
          {"operators", operators},
          {"problems", problems},
          {"refusals", errors_json(f.refusals)},
          {"without_gradient", stops},
          {"notes", s.notes}};
}

// ---- Text

// A name from the file stays on its line.
std::string shown(const std::string& name) {
  std::string line = printable(name);
  for (size_t at = 0; (at = line.find('\n', at)) != std::string::npos;) line.replace(at, 1, "\\x0a");
  return line;
}

std::string tensors_text(const Tensors& tensors) {
  std::string text;
  for (const Tensor& t : tensors) {
    std::string shape;
    for (const auto& axis : t.shape)
      shape +=
          (shape.empty() ? "" : ",") + (axis.symbol.empty() ? std::to_string(axis.size) : shown(axis.symbol));
    text += fmt::format("  '{}' {}[{}]\n", shown(t.name), t.type, shape);
  }
  return text;
}

std::string weights_text(const char* what, const Tensors& weights) {
  std::vector<std::string> counts;
  for (const auto& [type, count] : types(weights)) counts.push_back(fmt::format("{} {}", count, type));
  return fmt::format("{}: {} of {} elements{}\n", what, weights.size(), elements(weights),
                     counts.empty() ? "" : fmt::format(", stored as {}", fmt::join(counts, ", "))) +
         tensors_text(weights);
}

std::string operators_text(const ModelSummary& s) {
  std::string text = "operators:\n  count  version  name\n";
  for (const auto& o : s.operators)
    text += fmt::format("  {:5}  {:>7}  {}{}{}\n", o.count, o.version ? std::to_string(o.version) : "-",
                        o.domain == "ai.onnx" ? "" : shown(o.domain) + ".", shown(o.name),
                        o.version ? "" : ": not supported");
  return text;
}

std::string stops_text(const ModelSummary& s) {
  std::string text;
  for (const auto& stop : s.stops) {
    std::vector<std::string> names;
    for (const std::string& name : stop.parameters) names.push_back("'" + shown(name) + "'");
    text += fmt::format(
        "no gradient: '{}' ({}): {}; freezing what is in front of it avoids the need, and is done by itself: "
        "{}\n",
        shown(stop.node), shown(stop.op), stop.why, fmt::join(names, ", "));
  }
  return text;
}

std::string errors_text(const std::vector<Error>& errors) {
  std::string text;
  for (const Error& e : errors) {
    Loc place = e.loc();
    place.file.clear();
    place.name = shown(place.name);
    place.op = shown(place.op);
    const std::string where = to_string(place);
    text += fmt::format("  {}{}\n", where.empty() ? "" : where + ": ", e.reason());
    for (const std::string& note : e.notes()) text += fmt::format("    {}\n", note);
  }
  return text;
}

std::string verdict(const Findings& f) {
  const ModelSummary& s = f.model;
  if (!f.supported())
    return fmt::format(
        "supported: no, for {} reason{}; all are needed forwards, so freezing does not help:\n{}",
        s.problems.size(), s.problems.size() == 1 ? "" : "s", errors_text(s.problems));
  if (f.trains()) return "supported: yes\ntrains: yes\n";
  if (f.known()) return "supported: yes\ntrains: not by itself:\n" + errors_text(f.refusals);
  std::vector<std::string> options;
  for (const std::string& name : s.open) options.push_back(fmt::format("--dim {}=SIZE", shown(name)));
  return fmt::format("supported: as far as can be told without {}\n", fmt::join(options, " "));
}

std::string summary_text(const Findings& f) {
  const ModelSummary& s = f.model;
  std::vector<std::string> opsets;
  for (const auto& [domain, version] : s.opsets)
    opsets.push_back(fmt::format("{} {}", shown(domain), version));
  std::string text =
      fmt::format("{}: ONNX, IR version {}, opset {}{}\n", shown(s.file), s.ir_version,
                  fmt::join(opsets, ", "), s.producer.empty() ? "" : ", written by " + shown(s.producer));
  text += "inputs:\n" + tensors_text(s.inputs) + "outputs:\n" + tensors_text(s.outputs);
  for (const auto& [name, size] : s.taken)
    text += fmt::format("size {} is open, taken as {} here\n", shown(name), size);
  text += weights_text("parameters", s.parameters);
  if (!s.statistics.empty()) text += weights_text("running statistics", s.statistics);
  text += operators_text(s) + stops_text(s);
  for (const std::string& note : s.notes) text += fmt::format("note: {}\n", printable(note));
  return text + verdict(f);
}

}  // namespace

void run_inspect(const ModelArgs& args, bool as_json) {
  Findings summary{inspect_onnx(args.model, import_options(args)), {}};
  if (summary.model.graph) summary.refusals = refusals(*summary.model.graph);
  std::string text = as_json
                         ? summary_json(summary).dump(2, ' ', false, json::error_handler_t::replace) + "\n"
                         : summary_text(summary);
  NewFile("-", text).commit();
}

}  // namespace pock
