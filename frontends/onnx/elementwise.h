// Conversions of the operators that compute element for element, of reductions and of softmax.
#pragma once

#include "call.h"

namespace pock::onnx_frontend {

// The row's `op` is the operator in pock and in fold.cpp.
void unary(Call&, const char* op);
void arithmetic(Call&, const char* op);  // two inputs
void chain(Call&, const char* op);       // any number, joined from left to right
void compare(Call&, const char* op);
void logic(Call&, const char* op);  // of booleans
void mean(Call&, const char*);
void mod(Call&, const char*);
void negate(Call&, const char*);
void logical_not(Call&, const char*);
void is_nan(Call&, const char*);
void pow(Call&, const char*);
void where(Call&, const char*);
void clip(Call&, const char*);

void leaky_relu(Call&, const char*);
void prelu(Call&, const char*);
void elu(Call&, const char*);
void celu(Call&, const char*);
void selu(Call&, const char*);
void hard_sigmoid(Call&, const char*);
void thresholded_relu(Call&, const char*);
void gelu(Call&, const char*);
void swish(Call&, const char*);

// An operator that works along the last axis, along another one.
Value* along(Call&, Value* x, int64_t axis, const char* op);
void softmax(Call&, const char* op);
void reduce_from_13(Call&, const char* op);  // the axes are an input from this version on
void reduce_from_18(Call&, const char* op);

}  // namespace pock::onnx_frontend
