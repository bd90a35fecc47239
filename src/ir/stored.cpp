#include "pock/ir/stored.h"

namespace pock {
namespace {

const char* stored_dtype(DType t) {
  switch (t) {
    case DType::f32:
      return "F32";
    case DType::f64:
      return "F64";
    case DType::i8:
      return "I8";
    case DType::i32:
      return "I32";
    case DType::i64:
      return "I64";
    case DType::u8:
    case DType::mask:
      break;
  }
  return "U8";
}

}  // namespace

StoredTensor stored_tensor(const Type& t, std::string_view bytes) {
  return {stored_dtype(t.dtype), t.dtype == DType::mask ? Dims{t.bytes()} : t.dims, bytes};
}

}  // namespace pock
