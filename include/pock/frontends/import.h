// Reads a model file into a forward graph: inputs, parameters under their names in the file, outputs. Knows
// nothing of training. Batch norm arrives as `batch_norm` nodes whose mode a later pass decides.
//
//   std::unique_ptr<Graph> g = import_onnx("model.onnx", {.batch = 32});
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "pock/ir/graph.h"

namespace pock {

struct ImportOptions {
  // The first axis of every input, where it is symbolic. Where every input has the same fixed first axis, the
  // model is read with this one in its place.
  std::optional<int64_t> batch;
  std::optional<int64_t> assume_opset;  // instead of the opset that the file says it uses
  std::map<std::string, int64_t> dims;  // other symbolic axes, by name; one without a name is "INPUT:AXIS"
};

// All problems of the file in one Error. The graph's model_hash is over the file's bytes (and external data).
std::unique_ptr<Graph> import_onnx(const std::string& path, const ImportOptions&);

}  // namespace pock
