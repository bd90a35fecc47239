// What reading a model gives, good or bad: import_onnx wants the graph, inspect_onnx all of it.
#pragma once

#include "call.h"
#include "pock/frontends/import.h"

namespace pock::onnx_frontend {

struct Imported {
  std::unique_ptr<Graph> graph;  // whole only where there are no problems
  std::vector<Error> problems;
  std::vector<std::string> notes;  // for the person, where there are no problems
};

// Throws Error where nothing can be read: the opset is not said or not known.
Imported import_model(const ModelFile&, const ImportOptions&);

}  // namespace pock::onnx_frontend
