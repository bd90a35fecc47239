#include "functions.h"

#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <array>
#include <set>

#include "leaves.h"
#include "ops.h"

namespace pock::onnx_frontend {
namespace {
using onnx::AttributeProto;
using onnx::FunctionProto;
using onnx::NodeProto;

// Fields that are younger than the messages pock was built with.
constexpr int kNodeOverload = 8, kFunctionAttribute = 11, kFunctionOverload = 13;

std::vector<std::string> unknown_fields(const google::protobuf::UnknownFieldSet& fields, int number) {
  std::vector<std::string> found;
  for (int i = 0; i < fields.field_count(); ++i)
    if (const auto& f = fields.field(i);
        f.number() == number && f.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      found.push_back(f.length_delimited());
  return found;
}

std::string last_of(const std::vector<std::string>& list) { return list.empty() ? "" : list.back(); }

template <class List>
const AttributeProto* find(const List& attributes, const std::string& name) {
  for (const AttributeProto& a : attributes)
    if (a.name() == name) return &a;
  return nullptr;
}

// Domain, name and overload.
using Id = std::array<std::string, 3>;

std::optional<int64_t> said_opset(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  for (const auto& import : imports)
    if (is_standard(import.domain())) return import.version();
  return {};
}

std::string domain_of(const std::string& domain) { return is_standard(domain) ? "" : domain; }

Id called(const NodeProto& node) {
  return {domain_of(node.domain()), node.op_type(),
          last_of(unknown_fields(node.unknown_fields(), kNodeOverload))};
}

struct Function {
  const FunctionProto* proto = nullptr;
  std::vector<AttributeProto> defaults;
  int64_t opset = 0;
  std::string fault;  // why it cannot be called, to be read behind its name
  // Of the body with all that it calls in turn.
  bool measured = false;
  int64_t nodes = 0, depth = 0;
};

class Inliner {
 public:
  Inliner(const ModelFile& file, std::optional<int64_t> assumed)
      : file_(file), assumed_(assumed), opset_(file_opset(file, assumed)) {
    for (const FunctionProto& f : file.model.functions()) {
      Id id{domain_of(f.domain()), f.name(), last_of(unknown_fields(f.unknown_fields(), kFunctionOverload))};
      auto [it, fresh] = functions_.try_emplace(id);
      if (fresh)
        read(f, it->second);
      else
        it->second.fault = "is defined twice";
    }
  }

  Body run() {
    const onnx::GraphProto& graph = file_.model.graph();
    if (!functions_.empty()) {
      for (const auto& t : graph.initializer()) names_.insert(t.name());
      for (const auto& info : graph.input()) names_.insert(info.name());
      for (const NodeProto& node : graph.node()) names_.insert(node.output().begin(), node.output().end());
    }
    int64_t nodes = 0;
    for (const NodeProto& node : graph.node())
      if (Function* f = function_of(node)) {
        measure(*f);
        if (f->fault.empty()) nodes += f->nodes;
      }
    if (nodes > kMostInlined)
      throw error("{}: its calls of functions unfold to {} nodes, and {} is the most", file_.name, nodes,
                  kMostInlined);
    for (const NodeProto& node : graph.node()) add({&node, opset_});
    return std::move(body_);
  }

 private:
  void read(const FunctionProto& f, Function& function) const {
    function.proto = &f;
    function.opset = assumed_.value_or(said_opset(f.opset_import()).value_or(opset_));
    if (function.opset > kNewestOpset)
      function.fault =
          fmt::format("uses opset {}, and the newest that pock knows is {}", function.opset, kNewestOpset);
    for (const std::string& bytes : unknown_fields(f.unknown_fields(), kFunctionAttribute))
      if (!function.defaults.emplace_back().ParseFromString(bytes))
        function.fault = "has a default that is no attribute";
  }

  Function* function_of(const NodeProto& node) {
    if (functions_.empty()) return nullptr;
    auto found = functions_.find(called(node));
    return found == functions_.end() ? nullptr : &found->second;
  }

  // What a call adds is known before anything is copied: of functions that each call the next one twice, a short file
  // has enough to fill any memory.
  void measure(Function& f) {
    if (f.measured || !f.fault.empty()) return;
    if (std::find(open_.begin(), open_.end(), &f) != open_.end()) {
      f.fault = "calls itself: there is no end to its body";
      return;
    }
    open_.push_back(&f);
    if (std::ssize(open_) > kDeepestCall) f.depth = kDeepestCall;
    for (const NodeProto& node : f.proto->node()) {
      f.nodes = std::min(f.nodes + 1, kMostInlined + 1);
      Function* inner = f.depth < kDeepestCall ? function_of(node) : nullptr;
      if (!inner) continue;
      measure(*inner);
      f.nodes = std::min(f.nodes + inner->nodes, kMostInlined + 1);
      f.depth = std::max(f.depth, inner->depth + 1);
    }
    open_.pop_back();
    f.measured = true;
    if (f.depth >= kDeepestCall)
      f.fault = fmt::format("belongs to calls that are nested more than {} deep", kDeepestCall);
    else if (f.nodes > kMostInlined)
      f.fault = fmt::format("unfolds to more than {} nodes", kMostInlined);
  }

  // Why this call has no body; empty where it has one.
  static std::string fault(const NodeProto& node, const Function& function) {
    const FunctionProto& f = *function.proto;
    if (!function.fault.empty()) return function.fault;
    if (node.input_size() > f.input_size() || node.output_size() > f.output_size())
      return fmt::format("takes {} and makes {}, but is given {} inputs for {} outputs", f.input_size(),
                         f.output_size(), node.input_size(), node.output_size());
    for (const AttributeProto& a : node.attribute())
      if (std::find(f.attribute().begin(), f.attribute().end(), a.name()) == f.attribute().end() &&
          !find(function.defaults, a.name()))
        return fmt::format("has no attribute '{}'", a.name());
    return "";
  }

  // The node, or what the function has that it calls.
  void add(const Statement& s) {
    const Function* function = function_of(*s.node);
    if (!function) {
      body_.statements.push_back(s);
      return;
    }
    const FunctionProto& f = *function->proto;
    if (std::string why = fault(*s.node, *function); !why.empty()) {
      body_.statements.push_back(s);
      body_.faults[s.node] = fmt::format("calls the function {}, which {}", f.name(), why);
      return;
    }
    Call call{s.node, function, node_name(*s.node), {}};
    for (int i = 0; i < f.input_size(); ++i)
      call.names[f.input(i)] = i < s.node->input_size() ? s.node->input(i) : "";
    for (int i = 0; i < s.node->output_size(); ++i) {
      const std::string& name = s.node->output(i);
      if (name.empty()) continue;  // made under a name of its own, if at all
      auto [known, fresh] = call.names.emplace(f.output(i), name);
      if (!fresh) add_copy(known->second, name, function->opset);  // an input that is returned
    }
    for (const NodeProto& node : f.node()) add({&copied(call, node), function->opset, true});
  }

  struct Call {
    const NodeProto* node;
    const Function* function;
    std::string prefix;
    std::map<std::string, std::string> names;  // inside: outside
  };

  std::string unused(const std::string& wish) {
    std::string name = wish;
    while (!names_.insert(name).second)
      name = fmt::format("{}:{}", wish, ++last_.try_emplace(wish, 1).first->second);
    return name;
  }

  const std::string& outside(Call& call, const std::string& inside) {
    static const std::string kNone;
    if (inside.empty()) return kNone;
    auto [it, fresh] = call.names.emplace(inside, "");
    if (fresh) it->second = unused(call.prefix + "/" + inside);
    spend(it->second.size());
    return it->second;
  }

  // Long names and large constants may fill a memory with few nodes.
  void spend(size_t bytes) {
    bytes_ += static_cast<int64_t>(bytes);
    if (bytes_ > kMostInlinedBytes)
      throw error("{}: its calls of functions unfold to more than {} MiB", file_.name,
                  kMostInlinedBytes >> 20);
  }

  const NodeProto& copied(Call& call, const NodeProto& node) {
    NodeProto& copy = body_.copies.emplace_back(node);
    for (std::string& name : *copy.mutable_input()) name = outside(call, name);
    for (std::string& name : *copy.mutable_output()) name = outside(call, name);
    copy.set_name(call.prefix + "/" + (node.name().empty() ? node.op_type() : node.name()));
    copy.clear_attribute();
    for (const AttributeProto& a : node.attribute()) {
      const AttributeProto* value = a.ref_attr_name().empty() ? &a : given(call, a.ref_attr_name());
      if (!value) continue;  // as if it was not there: the operator's own default
      spend(value->ByteSizeLong());
      AttributeProto& b = *copy.add_attribute();
      b = *value;
      b.set_name(a.name());
    }
    return copy;
  }

  // What the call says of an attribute of the function, or the function itself.
  static const AttributeProto* given(const Call& call, const std::string& name) {
    const AttributeProto* here = find(call.node->attribute(), name);
    return here ? here : find(call.function->defaults, name);
  }

  void add_copy(const std::string& from, const std::string& to, int64_t opset) {
    NodeProto& copy = body_.copies.emplace_back();
    copy.set_op_type("Identity");
    copy.set_name(to);
    copy.add_input(from);
    copy.add_output(to);
    body_.statements.push_back({&copy, opset, true});
  }

  const ModelFile& file_;
  const std::optional<int64_t> assumed_;
  const int64_t opset_;
  std::map<Id, Function> functions_;
  std::set<std::string> names_;
  std::map<std::string, int> last_;    // the number that a name was given last
  std::vector<const Function*> open_;  // being measured
  int64_t bytes_ = 0;                  // copied
  Body body_;
};

}  // namespace

std::string node_name(const onnx::NodeProto& node) {
  return node.name().empty() && node.output_size() ? node.output(0) : node.name();
}

int64_t file_opset(const ModelFile& file, std::optional<int64_t> assumed) {
  return assumed.value_or(said_opset(file.model.opset_import()).value_or(0));
}

Body inline_functions(const ModelFile& file, std::optional<int64_t> assumed) {
  return Inliner(file, assumed).run();
}

}  // namespace pock::onnx_frontend
