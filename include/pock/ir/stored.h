// How a tensor stands in a safetensors file.
//
//   stored_tensor({DType::f32, {2, 3}}, bytes).dtype == "F32"
#pragma once

#include "pock/ir/type.h"
#include "pock/support/safetensors.h"

namespace pock {

// Masks are the bytes they are, without their axes.
StoredTensor stored_tensor(const Type&, std::string_view bytes);

}  // namespace pock
