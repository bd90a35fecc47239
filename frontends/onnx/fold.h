// Arithmetic on constant integers and booleans at import: the chains of Shape, Gather, Mul, Concat, ... that exporters
// write to compute a shape. Whatever only moves elements (Gather, Concat, Slice, ...) needs nothing of this: an
// operator of constants is computed when it is made (Call::value).
#pragma once

#include "call.h"

namespace pock::onnx_frontend {

// Shapes are small: no constant that is computed at import has more elements.
constexpr int64_t kMostFolded = 1 << 20;

Tensor integers(std::vector<int64_t>);  // int64, rank 1

// A number as an element of this ONNX type holds it: as many bits as it has, or true and false.
int64_t wrapped(int64_t, int onnx_type);

// All inputs are constants; they are broadcast and joined from left to right, and output 0 is set. `op` is a name in
// the table of fold.cpp: add, maximum, less, and, ...
void fold_pointwise(Call&, std::string_view op);
void fold_reduction(Call&, std::string_view op, const std::vector<int64_t>& axes, bool keep);  // of input 0
void fold_where(Call&);                // as ONNX's Where
void fold_cast(Call&, int onnx_type);  // of integers

}  // namespace pock::onnx_frontend
