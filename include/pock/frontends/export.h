// Puts what was trained back into the model file that it came from. Every other byte stays as it is: nodes, names,
// versions, how each tensor is stored, fields that pock does not know.
//
//   TunedModel tuned = export_onnx("model.onnx", hash, checkpoint.tensors, "tuned.onnx");
//   for (const TunedFile& f : tuned.files) write(f.path, f.bytes);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pock/support/safetensors.h"

namespace pock {

struct TunedFile {
  std::string path;
  std::string_view bytes;
};

struct TunedModel {
  std::vector<TunedFile> files;  // external data, in the folders that the model names; the model itself last
  int changed = 0;               // tensors that are not what they were
  std::vector<std::string> notes;           // for the person
  std::vector<std::shared_ptr<void>> kept;  // what the bytes of the files lie in
};

// `tensors` are weights and running statistics under pock's names for them, in float. Throws an Error with all
// problems: where the model at `path` has not this hash, lacks a tensor or has it in another shape, where its type
// cannot hold a value, and where a file of the result would take the place of one of the model's. Writes nothing.
TunedModel export_onnx(const std::string& path, const std::string& model_hash,
                       const std::map<std::string, StoredTensor>& tensors, const std::string& out);

}  // namespace pock
