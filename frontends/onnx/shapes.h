// Conversions of the operators that make, move and count elements, and of casts.
#pragma once

#include "call.h"

namespace pock::onnx_frontend {

// `axes` is an attribute before the version where it became input 1.
std::vector<int64_t> read_axes(Call&, int input_since);

std::vector<int64_t> first_axes(int64_t count);  // 0, 1, ..., count - 1

// How many elements a shape has; an Error where they are too many to list each in a constant.
int64_t need_listable(Call&, const Dims&);

// The elements of an axis whose numbers are listed: a slice where they follow each other.
Value* picked(Call&, Value* x, int64_t axis, const std::vector<int64_t>& index);

void flatten(Call&, const char*);
void reshape(Call&, const char*);
void squeeze(Call&, const char*);
void unsqueeze(Call&, const char*);
void transpose(Call&, const char*);
void expand(Call&, const char*);
void tile(Call&, const char*);

void concat(Call&, const char*);
void split(Call&, const char*);
void slice(Call&, const char*);
void pad(Call&, const char*);

void constant(Call&, const char*);
void constant_of_shape(Call&, const char*);
void range(Call&, const char*);
void shape(Call&, const char*);
void size(Call&, const char*);

void identity(Call&, const char*);
void cast(Call&, const char*);
void cast_like(Call&, const char*);

}  // namespace pock::onnx_frontend
