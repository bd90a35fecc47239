#include "pock/frontends/inspect.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_set>

#include "importer.h"
#include "leaves.h"
#include "ops.h"
#include "pock/ops/op.h"

namespace pock {
namespace {
using namespace onnx_frontend;
using Tensor = ModelSummary::Tensor;

std::string full_domain(const std::string& domain) { return is_standard(domain) ? "ai.onnx" : domain; }

Tensor described(const std::string& name, int type, const Dims& dims) {
  Tensor t{name, type_name(type), {}};
  for (int64_t d : dims) t.shape.push_back({d, ""});
  return t;
}

Tensor described(const onnx::ValueInfoProto& info) {
  if (!info.type().has_tensor_type()) return {info.name(), "not a tensor", {}};
  Tensor t{info.name(), type_name(info.type().tensor_type().elem_type()), {}};
  for (int axis = 0; axis < info.type().tensor_type().shape().dim_size(); ++axis)
    t.shape.push_back({info.type().tensor_type().shape().dim(axis).dim_value(), open_axis(info, axis)});
  return t;
}

class Inspector {
 public:
  Inspector(const ModelFile& file, ImportOptions options) : file_(file), options_(std::move(options)) {}

  ModelSummary run() {
    const onnx::ModelProto& model = file_.model;
    summary_.file = file_.name;
    summary_.producer = model.producer_name();
    summary_.ir_version = model.ir_version();
    for (const auto& import : model.opset_import())
      summary_.opsets.emplace(full_domain(import.domain()), import.version());
    read_ends();
    Imported imported;
    try {
      imported = import_model(file_, options_, OpenSizes::leave);
    } catch (const Error& e) {
      imported.problems.push_back(e);
    }
    Report misfits;
    for (const Error& e : imported.misfits) misfits.add(e);
    misfits.throw_if_any();
    summary_.problems = std::move(imported.problems);
    summary_.notes = imported.notes;
    count_operators();
    bool whole = summary_.problems.empty() && summary_.open.empty();
    if (whole) find_stops(*imported.graph);
    read_weights(whole ? imported.graph.get() : nullptr);
    if (whole) summary_.graph = std::move(imported.graph);
    return std::move(summary_);
  }

 private:
  // Inputs, outputs, and the sizes that the inputs leave open.
  void read_ends() {
    const onnx::GraphProto& graph = file_.model.graph();
    std::set<std::string> stored, open;
    for (const auto& t : graph.initializer()) stored.insert(t.name());
    for (const auto& info : graph.output()) {
      Tensor& t = summary_.outputs.emplace_back(described(info));
      for (auto& axis : t.shape)  // only those of inputs can be bound
        if (axis.symbol.starts_with(t.name + ":")) axis.symbol = "?";
    }
    for (const auto& info : graph.input()) {
      if (stored.count(info.name())) continue;
      const Tensor& t = summary_.inputs.emplace_back(described(info));
      for (size_t axis = 0; axis < t.shape.size(); ++axis) {
        const std::string& name = t.shape[axis].symbol;
        auto given = options_.dims.find(name);
        if (given != options_.dims.end()) summary_.taken.insert(*given);
        if (name.empty() || given != options_.dims.end()) continue;
        open.insert(name);
        if (axis > 0) continue;
        if (!options_.batch) options_.batch = kTakenBatch;
        summary_.taken[name] = *options_.batch;
      }
    }
    for (const std::string& name : open)
      if (!summary_.taken.count(name)) summary_.open.push_back(name);
  }

  void count_operators() {
    Body body;
    try {
      body = inline_functions(file_, options_.assume_opset);
    } catch (const Error&) {  // said already: the graph as it stands
      for (const auto& node : file_.model.graph().node())
        body.statements.push_back({&node, file_opset(file_, options_.assume_opset)});
    }
    std::map<std::tuple<std::string, std::string, int64_t>, ModelSummary::Operator> found;
    for (const Statement& s : body.statements) {
      ModelSummary::Operator op{full_domain(s.node->domain()), s.node->op_type()};
      const OpRow* row = is_standard(s.node->domain()) ? find_row(op.name) : nullptr;
      for (int since : row ? row->since : std::vector<int>{})
        if (since <= s.opset) op.version = since;
      ++found.emplace(std::tuple(op.domain, op.name, op.version), op).first->second.count;
    }
    for (auto& [key, op] : found) summary_.operators.push_back(std::move(op));
  }

  // Without a graph, every float tensor that some node reads counts as a parameter, but for those that only batch norms
  // read as running statistics.
  void read_weights(const Graph* graph) {
    const onnx::GraphProto& source = file_.model.graph();
    std::map<std::string, int> types;
    std::set<std::string> read, statistics;
    for (const auto& node : source.node())
      for (int i = 0; i < node.input_size(); ++i)
        (node.op_type() == "BatchNormalization" && i >= 3 ? statistics : read).insert(node.input(i));
    auto add = [&](const std::string& name, const onnx::TensorProto& t) {
      types[name] = t.data_type();
      if (graph || !is_float_type(t.data_type()) || !t.dims_size()) return;
      Dims dims(t.dims().begin(), t.dims().end());
      try {
        checked_elements(dims, {});
      } catch (const Error&) {  // of no size: among the problems where anything reads it
        return;
      }
      if (read.count(name))
        summary_.parameters.push_back(described(name, t.data_type(), dims));
      else if (statistics.count(name))
        summary_.statistics.push_back(described(name, t.data_type(), dims));
    };
    for (const auto& t : source.initializer()) add(t.name(), t);
    for (const auto& node : source.node())
      for (const auto& a : node.attribute())
        if (node.op_type() == "Constant" && a.has_t() && node.output_size()) add(node.output(0), a.t());
    if (!graph) return;
    for (const Value* p : graph->params()) {
      auto type = types.find(p->name);
      Tensor t = described(p->name, type == types.end() ? int{onnx::TensorProto::FLOAT} : type->second,
                           p->type.dims);
      (p->kind == ValueKind::param ? summary_.parameters : summary_.statistics).push_back(std::move(t));
    }
  }

  // Nodes without a gradient behind which parameters stand that reach the outputs on no other way.
  void find_stops(const Graph& g) {
    std::unordered_set<const Value*> reach = differentiable_ancestors(g, g.outputs());
    // The parameters that stand behind each value.
    std::map<const Value*, std::set<std::string>> behind;
    for (const Value* p : g.params())
      if (p->kind == ValueKind::param && !reach.count(p)) behind[p].insert(p->name);
    for (const Node* n : g.nodes()) {
      std::set<std::string> names;
      for (const Value* v : n->inputs())
        if (auto it = behind.find(v); it != behind.end()) names.insert(it->second.begin(), it->second.end());
      if (names.empty()) continue;
      if (differentiable_inputs(*n).empty())
        summary_.stops.push_back(
            {n->loc.name, n->loc.op, n->op->gradient.reason, {names.begin(), names.end()}});
      else
        for (const Value* v : n->results()) behind[v] = names;
    }
  }

  const ModelFile& file_;
  ImportOptions options_;
  ModelSummary summary_;
};

}  // namespace

ModelSummary inspect_onnx(const std::string& path, const ImportOptions& options) {
  ModelFile file = read_model(path);
  return Inspector(file, options).run();
}

}  // namespace pock
