// Conversions of the operators that take, put and count elements by their numbers.
#pragma once

#include "call.h"

namespace pock::onnx_frontend {

void gather(Call&, const char*);
void gather_elements(Call&, const char*);
void gather_nd(Call&, const char*);
// At places that are known at import.
void scatter_elements(Call&, const char*);
void scatter_nd(Call&, const char*);

void one_hot(Call&, const char*);
void arg_max(Call&, const char* op);  // "greatest" or "least"
void cumulative_sum(Call&, const char*);
void trilu(Call&, const char*);

}  // namespace pock::onnx_frontend
