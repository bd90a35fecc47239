#include "folded_norms.h"

#include <fmt/format.h>

#include <cctype>

namespace pock::onnx_frontend {
namespace {

// The name is one that an exporter gives to a tensor that has none: "onnx::Conv_193", or a number alone.
bool is_made_up(const std::string& name) {
  return name.starts_with("onnx::") ||
         (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos);
}

bool names_a_norm(const std::string& name) {
  std::string letters;
  for (char c : name)
    if (std::isalpha(static_cast<unsigned char>(c))) letters += static_cast<char>(std::tolower(c));
  return letters.find("batchnorm") != std::string::npos;
}

}  // namespace

std::string folded_norms(const ModelFile& file, const Body& body) {
  int count = 0;
  std::string example;
  for (const Statement& s : body.statements) {
    const onnx::NodeProto& node = *s.node;
    if (node.op_type() == "BatchNormalization") return "";
    bool made_up = node.op_type() == "Conv" && node.input_size() == 3 && is_made_up(node.input(1)) &&
                   is_made_up(node.input(2));
    const std::string name = node_name(node);
    if (!made_up && !names_a_norm(name)) continue;
    if (!count++)
      example = made_up ? fmt::format("the weight of '{}' is called '{}'", name, node.input(1))
                        : fmt::format("'{}' is {}", name, node.op_type());
  }
  if (!count) return "";
  return fmt::format(
      "{}: there is no batch norm, but it seems to have been folded into {} node{} ({}); they are trained as "
      "they are. To train with batch norm, export again without folding (PyTorch: an eval() model, with "
      "training=TrainingMode.PRESERVE)",
      file.name, count, count == 1 ? "" : "s", example);
}

}  // namespace pock::onnx_frontend
