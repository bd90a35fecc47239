// Integer arithmetic at import: the chains of Shape, Gather, Concat, ... that exporters write to compute a
// shape.
#pragma once

#include "call.h"

namespace pock::onnx_frontend {

// Shapes are small: no chain makes more integers.
constexpr int64_t kMostFolded = 1 << 20;

Tensor integers(std::vector<int64_t>);  // int64, rank 1

// All inputs are known integer tensors; each sets output 0. `op`: add, sub, mul, div (towards zero).
void fold_arithmetic(Call&, std::string_view op);
void fold_concat(Call&);
void fold_gather(Call&);  // from a list, with any constant index
void fold_slice(Call&, int64_t axis, int64_t start, int64_t end, int64_t step);
void fold_transpose(Call&, const std::vector<int64_t>& permutation);
void fold_cast(Call&, int onnx_type);

}  // namespace pock::onnx_frontend
