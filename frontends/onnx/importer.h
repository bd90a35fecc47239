// What reading a model gives, good or bad: import_onnx wants the graph, inspect_onnx all of it.
#pragma once

#include "call.h"
#include "pock/frontends/import.h"

namespace pock::onnx_frontend {

struct Imported {
  std::unique_ptr<Graph> graph;    // whole only where there are no misfits and no problems
  std::vector<Error> misfits;      // options that do not fit the model's inputs
  std::vector<Error> problems;     // of the model
  std::vector<std::string> notes;  // for the person
};

// An input of open size is a problem, or is left out with all that depends on it.
enum class OpenSizes { refuse, leave };

// Throws Error where nothing can be read: the opset is not said or not known.
Imported import_model(const ModelFile&, const ImportOptions&, OpenSizes = OpenSizes::refuse);

// What --dim calls this axis of an input; empty where the file says its size.
std::string open_axis(const onnx::ValueInfoProto&, int axis);

}  // namespace pock::onnx_frontend
