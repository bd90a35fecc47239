#include "leaves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace pock::onnx_frontend {
namespace {

bool is_a(const onnx::NodeProto& node, const char* op) {
  return node.op_type() == op && is_standard(node.domain());
}

bool is_statistic(const onnx::NodeProto& node, int input) {
  return is_a(node, "BatchNormalization") && (input == 3 || input == 4);
}

std::set<std::string> all_names(const onnx::GraphProto& g, const Body& body) {
  std::set<std::string> names;
  for (const auto& t : g.initializer()) names.insert(t.name());
  for (const auto& info : g.input()) names.insert(info.name());
  for (const Statement& s : body.statements) names.insert(s.node->output().begin(), s.node->output().end());
  return names;
}

// The tensor's floats; none where they cannot be read, which whoever needs them says.
std::vector<float> floats_of(const ModelFile& file, const onnx::TensorProto& t) {
  try {
    const Data data = read_tensor(file, t, {}).floats;
    std::vector<float> floats(data->size() / sizeof(float));
    if (!floats.empty()) std::memcpy(floats.data(), data->data(), data->size());
    return floats;
  } catch (const Error&) {
    return {};
  }
}

bool is_copy(const std::vector<float>& table, const std::vector<float>& other, int64_t columns,
             bool transposed) {
  const auto size = std::ssize(table);
  if (std::ssize(other) != size || size % columns != 0) return false;
  for (int64_t i = 0; i < size; ++i)
    if (table[i] != other[transposed ? i % columns * (size / columns) + i / columns : i]) return false;
  return true;
}

}  // namespace

bool is_standard(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

StatisticNames statistic_names(const onnx::GraphProto& g, const Body& body) {
  std::set<std::string> taken;  // by a weight, or by the first statistic
  for (const auto& [node, opset, inside] : body.statements)
    for (int i = 0; i < node->input_size(); ++i)
      if (!is_statistic(*node, i) && !is_a(*node, "Identity")) taken.insert(node->input(i));
  for (const auto& info : g.output()) taken.insert(info.name());

  StatisticNames names;
  std::set<std::string> everywhere = all_names(g, body);
  std::map<std::string, int> last;  // number given
  for (const auto& [node, opset, inside] : body.statements)
    for (int i = 3; i < node->input_size(); ++i) {
      if (!is_statistic(*node, i)) continue;
      std::string name = node->input(i);
      if (!taken.insert(name).second) {
        int& n = last.emplace(name, 1).first->second;
        do name = fmt::format("{}:{}", node->input(i), ++n);
        while (!everywhere.insert(name).second);
      }
      names[{node, i}] = name;
    }
  return names;
}

TiedCopies tied_copies(const ModelFile& file, const Body& body) {
  const onnx::GraphProto& g = file.model.graph();
  std::set<std::string> looked_up, multiplied;
  for (const Statement& s : body.statements)
    for (int i = 0; i < s.node->input_size(); ++i) {
      if (is_a(*s.node, "Gather") && i == 0) looked_up.insert(s.node->input(i));
      if ((is_a(*s.node, "MatMul") || is_a(*s.node, "Gemm")) && i == 1) multiplied.insert(s.node->input(i));
      if (is_a(*s.node, "Transpose")) multiplied.insert(s.node->input(i));
    }
  auto is_matrix = [](const onnx::TensorProto& t) {
    return t.dims_size() == 2 && is_float_type(t.data_type());
  };
  TiedCopies copies;
  for (const auto& table : g.initializer()) {
    if (!looked_up.count(table.name()) || !is_matrix(table)) continue;
    std::vector<float> rows;
    for (const auto& other : g.initializer()) {
      if (looked_up.count(other.name()) || !multiplied.count(other.name()) || !is_matrix(other)) continue;
      const bool transposed = other.dims(0) == table.dims(1) && other.dims(1) == table.dims(0);
      if (!transposed && !std::equal(table.dims().begin(), table.dims().end(), other.dims().begin()))
        continue;
      if (rows.empty()) rows = floats_of(file, table);
      // What was filled with one number says nothing.
      if (rows.empty() || std::count(rows.begin(), rows.end(), rows[0]) == std::ssize(rows)) break;
      const std::vector<float> elements = floats_of(file, other);
      for (bool turned : {true, false})
        if ((turned ? transposed : table.dims(0) == other.dims(0)) &&
            is_copy(rows, elements, table.dims(1), turned)) {
          copies[other.name()] = {table.name(), turned};
          break;
        }
    }
  }
  return copies;
}

}  // namespace pock::onnx_frontend
