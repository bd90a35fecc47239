// What of a model file changes when tensors of it were trained. See export.cpp for how that is written.
#pragma once

#include "pock/frontends/export.h"
#include "reader.h"

namespace pock::onnx_frontend {

// Keys point into the ModelFile.
struct Changes {
  std::map<const onnx::TensorProto*, std::string> tensors;   // all bytes, as raw_data would hold them
  std::map<const onnx::AttributeProto*, std::string> lists;  // floats of a Constant's value_floats
  // A copy that is no longer equal: the Identity becomes a Constant with this attribute.
  std::map<const onnx::NodeProto*, onnx::AttributeProto> constants;
  // Running statistics that shared a tensor: inputs of a node that a Constant in front of it makes from now on.
  std::map<const onnx::NodeProto*, std::map<int, onnx::NodeProto>> inputs;
  int count = 0;                   // of tensors that are not what they were
  std::vector<std::string> notes;  // for the person
};

// Names are those of leaves.h. Throws an Error with all problems.
Changes find_changes(const ModelFile&, const Tuning&);

}  // namespace pock::onnx_frontend
