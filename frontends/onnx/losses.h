// Losses of models that compute their own: SoftmaxCrossEntropyLoss, NegativeLogLikelihoodLoss.
#pragma once

#include "call.h"

namespace pock::onnx_frontend {

void loss(Call&, const char* op);

}  // namespace pock::onnx_frontend
