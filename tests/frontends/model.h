// Builds small ONNX models in memory and imports them through a file.
#pragma once

#include <onnx/onnx_pb.h>

#include <random>
#include <string>
#include <variant>
#include <vector>

#include "pock/frontends/import.h"
#include "pock/ir/verify.h"
#include "pock/ops/evaluate.h"
#include "support/support.h"

namespace pock::test {

using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>>;
using Attributes = std::vector<std::pair<std::string, Attribute>>;
using Strings = std::vector<std::string>;

struct Model {
  explicit Model(int64_t opset = 13) {
    proto.set_ir_version(7);
    proto.add_opset_import()->set_version(opset);
    proto.mutable_graph()->set_name("g");
  }

  // A dimension of -1 is symbolic, named N, or without a name where it is -2.
  Model& input(const std::string& name, const Dims& dims, int type = onnx::TensorProto::FLOAT) {
    value_info(proto.mutable_graph()->add_input(), name, dims, type);
    return *this;
  }
  Model& output(const std::string& name) {
    proto.mutable_graph()->add_output()->set_name(name);
    return *this;
  }
  onnx::TensorProto& tensor(const std::string& name, const Dims& dims, int type) {
    onnx::TensorProto& t = *proto.mutable_graph()->add_initializer();
    t.set_name(name);
    t.set_data_type(type);
    for (int64_t d : dims) t.add_dims(d);
    return t;
  }
  Model& floats(const std::string& name, const Dims& dims, const std::vector<float>& data) {
    onnx::TensorProto& t = tensor(name, dims, onnx::TensorProto::FLOAT);
    for (float x : data) t.add_float_data(x);
    return *this;
  }
  // Random numbers between -1 and 1, the same for every name and shape.
  Model& random(const std::string& name, const Dims& dims) {
    std::mt19937 source(static_cast<uint32_t>(std::hash<std::string>()(name)));
    std::vector<float> data(Type{DType::f32, dims}.elements());
    for (float& x : data) x = static_cast<float>(source() % 2001) / 1000 - 1;
    return floats(name, dims, data);
  }
  Model& ints(const std::string& name, const std::vector<int64_t>& data, bool scalar = false) {
    onnx::TensorProto& t =
        tensor(name, scalar ? Dims{} : Dims{static_cast<int64_t>(data.size())}, onnx::TensorProto::INT64);
    for (int64_t x : data) t.add_int64_data(x);
    return *this;
  }
  Model& node(const std::string& op, const Strings& in, const Strings& out,
              const Attributes& attributes = {}) {
    onnx::NodeProto& n = *proto.mutable_graph()->add_node();
    n.set_op_type(op);
    for (const auto& name : in) n.add_input(name);
    for (const auto& name : out) n.add_output(name);
    for (const auto& [name, value] : attributes) {
      onnx::AttributeProto& a = *n.add_attribute();
      a.set_name(name);
      if (auto* i = std::get_if<int64_t>(&value)) a.set_type(onnx::AttributeProto::INT), a.set_i(*i);
      if (auto* f = std::get_if<float>(&value)) a.set_type(onnx::AttributeProto::FLOAT), a.set_f(*f);
      if (auto* s = std::get_if<std::string>(&value)) a.set_type(onnx::AttributeProto::STRING), a.set_s(*s);
      if (auto* list = std::get_if<std::vector<int64_t>>(&value)) {
        a.set_type(onnx::AttributeProto::INTS);
        for (int64_t i : *list) a.add_ints(i);
      }
    }
    return *this;
  }

  std::unique_ptr<Graph> import(const ImportOptions& options = {}) const {
    TempDir folder;
    auto g = import_onnx(folder.write("m.onnx", proto.SerializeAsString()), options);
    verify(*g, "import");
    return g;
  }
  // The message of the Error, empty where there is none.
  std::string problem(const ImportOptions& options = {}) const {
    try {
      import(options);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  }

  static void value_info(onnx::ValueInfoProto* info, const std::string& name, const Dims& dims, int type) {
    info->set_name(name);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (int64_t d : dims) {
      auto* dim = tensor->mutable_shape()->add_dim();
      if (d == -1) dim->set_dim_param("N");
      if (d >= 0) dim->set_dim_value(d);
    }
  }

  onnx::ModelProto proto;
};

// Output 0, for the data of input 0.
inline std::vector<double> run(const Graph& g, const std::vector<double>& x = {}) {
  Memory m = initial_memory(g);
  if (!g.inputs().empty()) m.set(g.inputs()[0], x);
  evaluate(g, m);
  return m.read(g.outputs()[0]);
}

}  // namespace pock::test
