// Conversions of the operators that transformers are made of besides products, norms and activations.
#pragma once

#include "call.h"

namespace pock::onnx_frontend {

void rotary_embedding(Call&, const char*);
void attention(Call&, const char*);
void einsum(Call&, const char*);
void depth_to_space(Call&, const char*);
void space_to_depth(Call&, const char*);

}  // namespace pock::onnx_frontend
