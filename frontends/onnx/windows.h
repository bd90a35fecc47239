// Conversions of the operators that slide a window: convolutions and poolings.
#pragma once

#include "call.h"

namespace pock::onnx_frontend {

void conv(Call&, const char*);
void conv_transpose(Call&, const char*);
void max_pool(Call&, const char*);
void average_pool(Call&, const char*);
void global_max_pool(Call&, const char*);
void global_average_pool(Call&, const char*);

}  // namespace pock::onnx_frontend
