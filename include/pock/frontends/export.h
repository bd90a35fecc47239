// Puts what was trained back into the model file that it came from. Every other byte stays as it is: nodes, names,
// versions, how each tensor is stored, fields that pock does not know.
//
//   TunedModel tuned = export_onnx("model.onnx", hash, {checkpoint.tensors, {}}, "tuned.onnx");
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

// What becomes of weights and running statistics, by pock's names for them.
struct Tuning {
  std::map<std::string, StoredTensor> tensors;  // in float, in the place of the model's
  struct Sum {
    std::vector<int64_t> dims;
    std::vector<double> elements;
  };
  std::map<std::string, Sum> added = {};  // to what the model has
};

// Throws an Error with all problems: where the model at `path` has not this hash, lacks a tensor or has it in another
// shape, where its type cannot hold a value, and where a file of the result would take the place of one of the model's.
// Writes nothing.
TunedModel export_onnx(const std::string& path, const std::string& model_hash, const Tuning&,
                       const std::string& out);
// The files that the model at `path` consists of, itself first. Throws an Error where it is none, or has not this hash.
std::vector<std::string> model_files(const std::string& path, const std::string& model_hash);

}  // namespace pock
