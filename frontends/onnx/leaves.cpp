#include "leaves.h"

#include <fmt/format.h>

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

}  // namespace pock::onnx_frontend
