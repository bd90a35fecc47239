// The type of a tensor: element type and static shape.
//
//   Type t{DType::f32, {32, 784}};
//   to_string(t) == "f32[32,784]", t.bytes() == 100352, Type{}.rank() == 0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pock {

// Numbered as pock_dtype in runtime/pock.h.
enum class DType : uint8_t { f32, f64, i8, u8, i32, i64, mask };

const char* to_string(DType);
// True and sets `out` where `name` is an element type's text form.
bool parse_dtype(const std::string& name, DType* out);
inline bool is_float(DType t) { return t == DType::f32 || t == DType::f64; }
// Bytes of one element in memory; mask is counted by rows (see Type::bytes).
int64_t size_of(DType);

// Every f32 on its way into memory: denormals are zero everywhere (docs/arithmetic.md).
float flushed(float);

using Dims = std::vector<int64_t>;
// No tensor has more elements: sizes in bytes stay far from the ends of int64.
constexpr int64_t kMostElements = int64_t{1} << 40;
// None is negative, and they make no more than kMostElements, with 0 counted as 1.
bool are_possible(const Dims&);

struct Type {
  DType dtype = DType::f32;
  Dims dims;

  int rank() const { return static_cast<int>(dims.size()); }
  int64_t dim(int axis) const { return dims[axis < 0 ? axis + dims.size() : axis]; }
  int64_t elements() const;
  int64_t bytes() const;  // mask: one bit an element, rows (last axis) padded to a byte
  bool operator==(const Type&) const = default;
};

std::string to_string(const Type&);
std::string to_string(const Dims&);

}  // namespace pock
