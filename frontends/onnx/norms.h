// Conversions of the normalisations other than batch norm: each over elements of one sample.
#pragma once

#include "call.h"

namespace pock::onnx_frontend {

void layer_norm(Call&, const char*);
void rms_norm(Call&, const char*);
void group_norm(Call&, const char*);
void instance_norm(Call&, const char*);
void lp_norm(Call&, const char*);

}  // namespace pock::onnx_frontend
