// From the bytes of an ONNX file to its protobuf message, and from a stored tensor to plain elements.
//
//   ModelFile file = read_model("net.onnx");
//   Tensor w = read_tensor(file, file.model.graph().initializer(0), loc);
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "float_storage.h"
#include "pock/ir/graph.h"
#include "pock/support/mapped_file.h"

namespace pock::onnx_frontend {

struct ModelFile {
  std::shared_ptr<const MappedFile> mapped;
  onnx::ModelProto model;  // external data stands in raw_data, too
  std::string name;        // the file's name without its folder
  std::string hash;        // 16 hex digits over the file and its external data
  std::unordered_map<const onnx::TensorProto*, std::string> problems;  // external data that could not be read
};

// Throws Error where the file cannot be read or is no ONNX model.
ModelFile read_model(const std::string& path);

// Where the bytes of a tensor are that lies in a file beside the model.
struct ExternalPlace {
  std::string location;  // as the model spells it
  std::string file;      // the same with all links followed
  uint64_t offset = 0, bytes = 0;
};
// Throws Error where the place is not inside the model's folder, or not all of it is there.
ExternalPlace external_place(const onnx::TensorProto&, const std::filesystem::path& model);

// The product of the dimensions; throws Error where one is negative or there are more than kMostElements.
int64_t checked_elements(const Dims&, const Loc&);

// A tensor's contents: floats of any width as f32, integers and booleans as i64.
struct Tensor {
  Dims dims;
  int type = onnx::TensorProto::FLOAT;  // as stored
  bool is_float = true;
  Data floats;                // is_float; denormals are zero
  std::vector<int64_t> ints;  // else

  float element(int64_t i) const;
  float scalar() const { return element(0); }  // of a tensor that has one
};
Tensor read_tensor(const ModelFile&, const onnx::TensorProto&, const Loc&);

// "float", "int64", "string", ...: ONNX's own word for an element type.
std::string type_name(int onnx_type);

}  // namespace pock::onnx_frontend
