#include "pock/frontends/import.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

#include "folded_norms.h"
#include "importer.h"
#include "leaves.h"
#include "ops.h"
#include "pock/support/safetensors.h"

namespace pock {
namespace {
using namespace onnx_frontend;

// PaddlePaddle writes -1 and "?" for sizes that only a run knows.
bool is_named(const onnx::TensorShapeProto_Dimension& dim) {
  return !dim.dim_param().empty() && dim.dim_param() != "?";
}

class Importer {
 public:
  Importer(const ModelFile& file, const ImportOptions& options, OpenSizes open)
      : file_(file),
        options_(options),
        open_(open),
        source_(file.model.graph()),
        graph_(std::make_unique<Graph>()),
        scope_(file, *graph_) {
    graph_->name = source_.name().empty() ? "model" : source_.name();
    graph_->model_file = file.name;
    graph_->model_hash = file.hash;
    graph_->producer = file.model.producer_name();
  }

  void run() {
    check_opset();
    body_ = inline_functions(file_, options_.assume_opset);
    check_names();
    define_initializers();
    define_inputs();
    if (scope_.rebatch) {
      if (!before_) read_before();
      scope_.before = &before_->scope_;
    }
    index_names();
    for (const Statement& s : body_.statements) import_node(s);
    if (!optimised_.empty())
      report_.add(fmt::format(
          "{}: operators such as {} come from graph optimisation: export the model again without it",
          file_.name, optimised_));
    define_outputs();
    check_param_names();
    if (scope_.rebatch) merge_problems();
  }

  // An output whose first axis is as long as the batch holds samples only where that axis grows with the batch, which
  // shows when the model is read with another one. Where it cannot be, the length decides.
  void find_whole_outputs() {
    if (!report_.empty() || !misfits_.empty() || graph_->inputs().empty()) return;
    auto batch_of = [](const Value* v) { return v->type.rank() ? v->type.dim(0) : 0; };
    const int64_t batch = batch_of(graph_->inputs()[0]);
    for (const Value* v : graph_->inputs())
      if (batch < 1 || batch_of(v) != batch) return;
    Importer* other = before_;
    std::unique_ptr<Importer> probe;
    if (!other) {
      ImportOptions more = options_;
      more.batch = batch + 1;
      for (const auto& info : source_.input())
        if (info.type().tensor_type().shape().dim_size()) more.dims.erase(open_axis(info, 0));
      probe = std::make_unique<Importer>(file_, more, open_);
      probe->before_ = this;
      probe->run();
      other = probe.get();
    }
    for (size_t i = 0; i < graph_->outputs().size(); ++i) {
      Entry* e = other->scope_.find(graph_->output_name(i));
      if (batch_of(graph_->outputs()[i]) != batch || !e || e->failed) continue;
      const Dims& dims = other->scope_.shape(*e);
      const int64_t grown = probe ? batch + 1 : scope_.rebatch->from;
      if (dims.size() != graph_->outputs()[i]->type.dims.size() || dims[0] != grown) graph_->set_whole(i);
    }
  }

  Imported result() {
    if (report_.empty() && misfits_.empty()) {
      graph_->erase_unused_values();
      order_params();
    }
    std::vector<std::string> notes = scope_.notes();
    if (scope_.rebatch) notes.push_back(rebatch_text());
    if (std::string hint = folded_norms(file_, body_); !hint.empty()) notes.push_back(hint);
    return {std::move(graph_), misfits_.problems(), report_.problems(), std::move(notes)};
  }

 private:
  Loc place(const std::string& what, const std::string& name) const { return {file_.name, name, "", what}; }

  Loc place(const onnx::NodeProto& node) const { return {file_.name, node_name(node), node.op_type()}; }

  void check_opset() const {
    int64_t opset = file_opset(file_, options_.assume_opset);
    if (!opset) throw error("{}: does not say which opset of ONNX it uses", file_.name);
    if (opset > kNewestOpset)
      throw error(
          "{}: uses opset {}, and the newest that pock knows is {}; if its operators have not changed since "
          "then, --assume-opset {} reads it",
          file_.name, opset, kNewestOpset, kNewestOpset);
  }

  // Names go into programs, reports and checkpoints, which hold text.
  void check_names() {
    std::set<std::pair<std::string, std::string>> said;
    auto check = [&](const Loc& loc, const std::string& what, const std::string& name) {
      if (!is_text(name) && said.emplace(what, name).second)
        report_.add(
            Error(loc,
                  "the name of the {}, '{}', is not UTF-8 or has a character 0 in it: rename it in the "
                  "model",
                  what, name));
    };
    auto check_ends = [&](const char* end, const auto& infos) {
      for (const onnx::ValueInfoProto& info : infos) {
        const Loc loc = place(end, info.name());
        check(loc, "tensor", info.name());
        for (const auto& dim : info.type().tensor_type().shape().dim()) check(loc, "axis", dim.dim_param());
      }
    };
    check({file_.name, "", "", ""}, "graph", source_.name());
    for (const auto& t : source_.initializer()) check(place("initializer", t.name()), "tensor", t.name());
    check_ends("input", source_.input());
    for (const Statement& s : body_.statements) {
      check(place(*s.node), "node", s.node->name());
      for (const std::string& name : s.node->output()) check(place(*s.node), "tensor", name);
    }
    check_ends("output", source_.output());
  }

  // Checkpoints hold parameters under their names.
  void check_param_names() {
    for (const Value* p : graph_->params())
      if (is_taken_in_checkpoints(p->name))
        report_.add(Error(p->loc(),
                          "checkpoints hold something else under the name '{}', as under every one that "
                          "starts with 'optimizer/' and "
                          "under '__metadata__': rename it in the model",
                          p->name));
  }

  // As in the file, whichever node reads a tensor first; weights in Constant nodes follow.
  void order_params() {
    std::unordered_map<std::string, int64_t> rank;
    for (const auto& t : source_.initializer()) rank.emplace(t.name(), rank.size());
    graph_->sort_params([&](const Value& v) {
      auto it = rank.find(v.name);
      return it == rank.end() ? static_cast<int64_t>(rank.size()) : it->second;
    });
  }

  void fail_name(const std::string& name, Loc loc) {
    if (!name.empty() && !scope_.find(name)) scope_.define(name, std::move(loc)).failed = true;
  }

  void define_initializers() {
    for (const auto& t : source_.initializer()) {
      Loc loc = place("initializer", t.name());
      if (scope_.find(t.name()))
        report_.add(Error(loc, "there are two initializers of this name").what());
      else
        scope_.define(t.name(), loc).stored = &t;
    }
    for (const auto& t : source_.sparse_initializer()) {
      Loc loc = place("initializer", t.values().name());
      report_.add(Error(loc, "is stored as a sparse tensor, which is not supported").what());
      fail_name(t.values().name(), loc);
    }
  }

  // ---- Inputs

  struct Input {
    const onnx::ValueInfoProto* info;
    DType type = DType::f32;
    const auto& dims() const { return info->type().tensor_type().shape().dim(); }
  };

  void define_inputs() {
    std::vector<Input> inputs;
    for (const auto& info : source_.input()) {
      Entry* known = scope_.find(info.name());
      if (known && known->loc.what != "input") continue;  // an initializer that is listed as an input, too
      Loc loc = place("input", info.name());
      bool good = report_.collect([&] {
        if (known) throw Error(loc, "there are two inputs of this name");
        inputs.push_back({&info, element_type(info, loc)});
      });
      if (good)
        scope_.define(info.name(), loc);
      else
        fail_name(info.name(), loc);
    }
    misfits_.collect([&] { bind_batch(inputs); });
    std::set<std::string> symbols;
    for (const Input& in : inputs) {
      Entry& e = *scope_.find(in.info->name());
      e.failed = (open_ == OpenSizes::leave && is_open(in)) || !report_.collect([&] {
        e.value = graph_->add_input(e.name, {in.type, bind(in, e.loc)}, e.loc);
        if (in.info->type().tensor_type().elem_type() == onnx::TensorProto::BOOL) e = as_truth(std::move(e));
        if (in.type == DType::f32) scope_.narrow(in.info->type().tensor_type().elem_type(), e.name);
      });
      for (int axis = 0; axis < in.dims().size(); ++axis)
        if (!is_fixed(in, axis)) symbols.insert(symbol(in, axis));
    }
    for (const auto& [name, size] : options_.dims)
      if (!symbols.count(name))
        misfits_.add(fmt::format(
            "{}: --dim {}={}: no input has a symbolic axis of this name{}", file_.name, name, size,
            symbols.empty() ? "" : fmt::format("; there are {}", fmt::join(symbols, ", "))));
  }

  DType element_type(const onnx::ValueInfoProto& info, const Loc& loc) const {
    if (!info.type().has_tensor_type()) throw Error(loc, "is not a tensor");
    const auto& type = info.type().tensor_type();
    if (!type.has_shape()) throw Error(loc, "has no shape; pock needs the size of every axis");
    if (is_float_type(type.elem_type())) return DType::f32;
    switch (type.elem_type()) {
      case onnx::TensorProto::INT64:
        return DType::i64;
      case onnx::TensorProto::INT32:
        return DType::i32;
      case onnx::TensorProto::INT8:
        return DType::i8;
      case onnx::TensorProto::UINT8:
      case onnx::TensorProto::BOOL:
        return DType::u8;
      default:
        throw Error(loc, "is a tensor of {}, which no input can be", type_name(type.elem_type()));
    }
  }

  // Bytes that say true where they are not 0.
  Entry as_truth(Entry e) {
    Builder b(*graph_, e.loc);
    Value* bytes = b.value("cast", {e.value}, {{"to", std::string("f32")}});
    e.value = b.value("less", {b.constant(0), bytes});
    e.truth = true;
    return e;
  }

  static bool is_fixed(const Input& in, int axis) { return open_axis(*in.info, axis).empty(); }
  static std::string symbol(const Input& in, int axis) { return open_axis(*in.info, axis); }

  bool is_open(const Input& in) const {
    for (int axis = 0; axis < in.dims().size(); ++axis)
      if (!is_fixed(in, axis) && !bound_.count(symbol(in, axis))) return true;
    return false;
  }

  void bind_batch(const std::vector<Input>& inputs) {
    bound_ = options_.dims;
    if (!options_.batch) return;
    int64_t batch = *options_.batch;
    if (batch < 1) throw error("--batch {}: the batch must be at least 1", batch);
    std::set<int64_t> fixed;
    bool symbolic = false;
    for (const Input& in : inputs) {
      if (in.dims().empty()) continue;
      if (is_fixed(in, 0)) {
        fixed.insert(in.dims()[0].dim_value());
        continue;
      }
      symbolic = true;
      auto [it, added] = bound_.emplace(symbol(in, 0), batch);
      if (it->second != batch)
        throw error("--batch {} and --dim {}={} disagree: it is the first axis of input '{}'", batch,
                    it->first, it->second, in.info->name());
    }
    if (!symbolic && fixed.size() == 1 && *fixed.begin() >= 1 && *fixed.begin() != batch)
      scope_.rebatch = Scope::Rebatch{*fixed.begin(), batch};
  }

  Dims bind(const Input& in, const Loc& loc) const {
    Dims dims;
    std::vector<std::string> shown, missing;
    for (int axis = 0; axis < in.dims().size(); ++axis) {
      int64_t size = in.dims()[axis].dim_value();
      std::string name = is_fixed(in, axis) ? "" : symbol(in, axis);
      if (!name.empty()) {
        auto it = bound_.find(name);
        shown.push_back(is_named(in.dims()[axis]) ? name : "?");
        if (it == bound_.end()) {
          missing.push_back(axis == 0 ? "--batch SIZE" : fmt::format("--dim {}=SIZE", name));
          continue;
        }
        size = it->second;
      } else {
        shown.push_back(std::to_string(size));
        if (axis == 0 && scope_.rebatch) size = scope_.rebatch->to;
      }
      if (size < 1) throw Error(loc, "axis {} has length {}", axis, size);
      dims.push_back(size);
    }
    if (!missing.empty())
      throw Error(loc, "has shape [{}], whose sizes must be fixed: give {}", fmt::join(shown, ","),
                  fmt::join(missing, " "));
    checked_elements(dims, loc);
    return dims;
  }

  // The model with the batch that it was exported for: what goes wrong then has nothing to do with the batch.
  void read_before() {
    ImportOptions own = options_;
    own.batch.reset();
    own_before_ = std::make_unique<Importer>(file_, own, open_);
    before_ = own_before_.get();
    before_->run();
  }

  // Problems of the file itself, and those that the other batch adds.
  void merge_problems() {
    Report all = before_->report_;
    for (const Error& e : report_.problems()) {
      auto same = [&](const Error& b) {
        const Loc &x = e.loc(), &y = b.loc();
        return std::tie(x.what, x.name, x.op) == std::tie(y.what, y.name, y.op) &&
               (!x.name.empty() || e.reason() == b.reason());
      };
      if (std::none_of(before_->report_.problems().begin(), before_->report_.problems().end(), same))
        all.add(e);
    }
    report_ = std::move(all);
  }

  std::string rebatch_text() const {
    return fmt::format("{}: was exported for a batch of {} and is read with {}", file_.name,
                       scope_.rebatch->from, scope_.rebatch->to);
  }

  // The axis along which the tensor grows with the batch, or -1. Throws Error where it does otherwise than by one
  // longer axis.
  int growing_axis(const std::string& name, const Loc& loc) {
    Entry *now = scope_.find(name), *was = before_->scope_.find(name);
    if (!now || !was || was->failed) return -1;
    const auto& batch = *scope_.rebatch;
    const Dims &to = scope_.shape(*now), &from = before_->scope_.shape(*was);
    int found = -1;
    bool good = to.size() == from.size();
    for (size_t i = 0; good && i < to.size(); ++i) {
      if (to[i] == from[i]) continue;
      good = found < 0 && from[i] % batch.from == 0 && to[i] == from[i] / batch.from * batch.to;
      found = static_cast<int>(i);
    }
    if (!good)
      throw Error(
          loc,
          "its result has shape {} for the batch of {} that the file was exported with, but {} for {}: "
          "export the model with a symbolic batch axis",
          to_string(from), batch.from, to_string(to), batch.to);
    return found;
  }

  // Samples must stay apart: what is made of a batch grows with it, but for what is asked of shapes, and for a scalar,
  // which may be a loss. Of that only more such may be made: where it meets samples again, they depend on each other.
  void check_rebatched(const OpRow& row, Call& call, const onnx::NodeProto& node, const Loc& loc) {
    bool in = false, out = false;
    std::string whole;  // an input that is made of all samples
    for (const std::string& name : node.output()) out |= !name.empty() && growing_axis(name, loc) >= 0;
    for (int i = 0; i < node.input_size(); ++i) {
      const int growing = node.input(i).empty() ? -1 : growing_axis(node.input(i), loc);
      in |= growing >= 0;
      if (of_all_samples_.count(node.input(i))) whole = node.input(i);
      if (growing >= 0 && row.along(call, i, growing))
        throw Error(
            loc,
            "works along axis {} of '{}', which is the batch, so it mixes samples: a batch of {} cannot "
            "become one of {}",
            growing, node.input(i), scope_.rebatch->from, scope_.rebatch->to);
    }
    if (!whole.empty() && (in || out))
      throw Error(
          loc,
          "reads '{}', which is made of all samples of the batch, for results of single samples, so it mixes "
          "them: a batch of {} cannot become one of {}",
          whole, scope_.rebatch->from, scope_.rebatch->to);
    if (in || !whole.empty())
      for (const std::string& name : node.output())
        if (Entry* e = scope_.find(name); e && growing_axis(name, loc) < 0 && !scope_.contents(*e))
          of_all_samples_.insert(name);
    Entry* result = node.output_size() ? scope_.find(node.output(0)) : nullptr;
    if (!in || out || !result || scope_.shape(*result).empty() || scope_.contents(*result)) return;
    throw Error(
        loc,
        "its result has shape {} whatever the batch, so it is fixed to that of {} that the file was exported "
        "with, or mixes samples; it is to be {}: export the model with a symbolic batch axis",
        to_string(scope_.shape(*result)), scope_.rebatch->from, scope_.rebatch->to);
  }

  // ---- Nodes

  void index_names() {
    for (const Statement& s : body_.statements) {
      for (const std::string& name : s.node->output())
        if (!name.empty()) makers_.emplace(name, s.node);
      scope_.read_names.insert(s.node->input().begin(), s.node->input().end());
    }
    for (const auto& info : source_.output()) scope_.read_names.insert(info.name());
    scope_.statistic_names = statistic_names(source_, body_);
    scope_.tied = tied_copies(file_, body_);
  }

  void import_node(const Statement& s) {
    const onnx::NodeProto& node = *s.node;
    Loc loc = place(node);
    bool good = report_.collect([&] {
      const OpRow& row = find_operator(s, loc);
      int since = version_for(row, s.opset, loc);
      if (!check_tensors(node, loc)) return;
      Call call(scope_, s, since, loc);
      row.convert(call, row.op);
      call.check_complete();
      if (scope_.rebatch) check_rebatched(row, call, node, loc);
    });
    for (const std::string& name : node.output()) {
      if (good && scope_.find(name)) continue;
      fail_name(name, loc);
    }
  }

  const OpRow& find_operator(const Statement& s, const Loc& loc) {
    const onnx::NodeProto& node = *s.node;
    if (auto fault = body_.faults.find(&node); fault != body_.faults.end())
      throw Error(loc, "{}", fault->second);
    // Those of onnxruntime's optimiser; one of them it writes without its domain.
    if (node.domain() == "com.microsoft" || node.op_type() == "SimplifiedLayerNormalization")
      optimised_ = node.op_type();
    if (!is_standard(node.domain()))
      throw Error(loc, "operator {} of domain {} is unknown", node.op_type(), node.domain());
    for (const auto& a : node.attribute()) {
      if (a.has_g() || a.graphs_size())
        throw Error(loc, "has a subgraph: control flow is not supported, pock compiles static graphs");
      if (!a.ref_attr_name().empty())
        throw Error(loc, "attribute '{}' is to be '{}' of a function, but the node is in none", a.name(),
                    a.ref_attr_name());
    }
    const OpRow* row = find_row(node.op_type());
    if (!row) throw Error(loc, "operator {} is not supported (opset {})", node.op_type(), s.opset);
    return *row;
  }

  // False where an input failed before: the node is left out silently.
  bool check_tensors(const onnx::NodeProto& node, const Loc& loc) {
    if (node.output_size() == 0) throw Error(loc, "makes nothing: it has no outputs");
    for (const std::string& name : node.input()) {
      if (name.empty() || scope_.find(name)) continue;
      auto maker = makers_.find(name);
      if (maker == makers_.end()) throw Error(loc, "reads '{}', which nothing in the file makes", name);
      throw Error(loc, "reads '{}' before {} makes it: the nodes are not sorted, or form a cycle", name,
                  described(place(*maker->second)));
    }
    for (int i = 0; i < node.output_size(); ++i) {
      const std::string& name = node.output(i);
      const Entry* other = name.empty() ? nullptr : scope_.find(name);
      if (other) throw Error(loc, "makes '{}', a name that {} has already", name, described(other->loc));
      if (!name.empty() &&
          std::find(node.output().begin(), node.output().begin() + i, name) != node.output().begin() + i)
        throw Error(loc, "makes '{}' twice", name);
    }
    return std::none_of(node.input().begin(), node.input().end(),
                        [&](auto& name) { return !name.empty() && scope_.find(name)->failed; });
  }

  static std::string described(Loc loc) {
    loc.file.clear();
    return to_string(loc);
  }

  // ---- Outputs

  void define_outputs() {
    if (!source_.output_size()) report_.add(file_.name + ": the graph has no output");
    std::set<std::string> names;
    for (const auto& info : source_.output()) {
      Loc loc = place("output", info.name());
      report_.collect([&] {
        Entry* e = scope_.find(info.name());
        if (!e) throw Error(loc, "nothing in the file makes it");
        if (!names.insert(info.name()).second) throw Error(loc, "there are two outputs of this name");
        if (e->failed) return;
        if (const Tensor* t = scope_.contents(*e); t && !t->is_float)
          throw Error(loc, "is a constant of integers");
        Value* v = scope_.value(*e);
        check_declared(info, v, loc);
        graph_->add_output(as_declared(info, v), info.name());
      });
    }
  }

  // Of whole numbers, the element type that the file gives is that of predictions.
  Value* as_declared(const onnx::ValueInfoProto& info, Value* v) {
    DType type = v->type.dtype;
    switch (info.type().tensor_type().elem_type()) {
      case onnx::TensorProto::INT64:
        type = DType::i64;
        break;
      case onnx::TensorProto::INT32:
        type = DType::i32;
        break;
      case onnx::TensorProto::BOOL:
        type = DType::u8;
        scope_.said.insert(fmt::format("{}: output '{}' is bool: predictions hold it as u8, 0 and 1",
                                       file_.name, info.name()));
        break;
      default:
        break;
    }
    if (type == v->type.dtype) return v;
    return Builder(*graph_, v->loc()).value("cast", {v}, {{"to", std::string(to_string(type))}});
  }

  // A shape that the file gives for an output is a promise that the import has kept.
  void check_declared(const onnx::ValueInfoProto& info, const Value* v, const Loc& loc) const {
    if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape()) return;
    const auto& dims = info.type().tensor_type().shape().dim();
    std::vector<std::string> shown;
    bool equal = dims.size() == v->type.rank();
    for (int axis = 0; axis < dims.size(); ++axis) {
      int64_t size = dims[axis].dim_value();
      bool fixed = dims[axis].value_case() == onnx::TensorShapeProto_Dimension::kDimValue;
      shown.push_back(fixed                            ? std::to_string(size)
                      : dims[axis].dim_param().empty() ? "?"
                                                       : dims[axis].dim_param());
      if (axis == 0 && scope_.rebatch && size == scope_.rebatch->from) size = scope_.rebatch->to;
      // Exporters often leave the traced batch in outputs whose inputs are symbolic.
      bool free = !fixed || size <= 0 || (axis == 0 && options_.batch && !scope_.rebatch);
      if (equal && !free && size != v->type.dims[axis]) equal = false;
    }
    if (!equal)
      throw Error(loc, "is declared with shape [{}], but comes out as {}{}", fmt::join(shown, ","),
                  to_string(v->type),
                  scope_.rebatch ? fmt::format(" with a batch of {} instead of {}", scope_.rebatch->to,
                                               scope_.rebatch->from)
                                 : "");
  }

  const ModelFile& file_;
  const ImportOptions options_;
  const OpenSizes open_;
  const onnx::GraphProto& source_;
  std::unique_ptr<Graph> graph_;
  Scope scope_;
  Report misfits_, report_;  // of the options, of the model
  Body body_;
  Importer* before_ = nullptr;  // where the batch is replaced: the model as it is in the file
  std::unique_ptr<Importer> own_before_;
  std::set<std::string> of_all_samples_;  // there: what has no axis of samples, but is made of them
  std::map<std::string, int64_t> bound_;  // sizes of symbols
  std::map<std::string, const onnx::NodeProto*> makers_;  // of every name, the first node that makes it
  std::string optimised_;                                 // an operator that graph optimisers write
};

}  // namespace

namespace onnx_frontend {

std::string open_axis(const onnx::ValueInfoProto& info, int axis) {
  const auto& dim = info.type().tensor_type().shape().dim(axis);
  if (dim.value_case() == onnx::TensorShapeProto_Dimension::kDimValue && dim.dim_value() != -1) return "";
  return is_named(dim) ? dim.dim_param() : fmt::format("{}:{}", info.name(), axis);
}

Imported import_model(const ModelFile& file, const ImportOptions& options, OpenSizes open) {
  Importer importer(file, options, open);
  importer.run();
  importer.find_whole_outputs();
  return importer.result();
}

}  // namespace onnx_frontend

std::unique_ptr<Graph> import_onnx(const std::string& path, const ImportOptions& options) {
  Imported imported = import_model(read_model(path), options);
  Report report;
  for (auto* errors : {&imported.misfits, &imported.problems})
    for (Error& e : *errors) report.add(std::move(e));
  for (const std::string& note : imported.notes) say(note);
  report.throw_if_any();
  return std::move(imported.graph);
}

}  // namespace pock
