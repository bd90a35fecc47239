// Batch norm that is gone: exporters fold it into the convolution in front of it when they are asked for a model that
// only predicts.
#pragma once

#include "functions.h"

namespace pock::onnx_frontend {

// What to tell the person; empty where nothing shows it. What shows it: there is no batch norm, but convolutions have
// weights that the training code never named, or other nodes have names of batch norms.
std::string folded_norms(const ModelFile&, const Body&);

}  // namespace pock::onnx_frontend
