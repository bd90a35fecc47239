// Conversions of Resize and of Upsample, which it took the place of.
#pragma once

#include "call.h"

namespace pock::onnx_frontend {

void resize(Call&, const char*);
void upsample(Call&, const char*);

}  // namespace pock::onnx_frontend
