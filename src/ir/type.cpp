#include "pock/ir/type.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace pock {
namespace {
struct Row {
  const char* name;
  int64_t bytes;
};
// Indexed by DType.
constexpr Row kRows[] = {{"f32", 4}, {"f64", 8}, {"i8", 1}, {"u8", 1}, {"i32", 4}, {"i64", 8}, {"mask", 1}};
}  // namespace

const char* to_string(DType t) { return kRows[static_cast<int>(t)].name; }

bool parse_dtype(const std::string& name, DType* out) {
  for (size_t i = 0; i < std::size(kRows); ++i)
    if (name == kRows[i].name) {
      *out = static_cast<DType>(i);
      return true;
    }
  return false;
}

int64_t size_of(DType t) { return kRows[static_cast<int>(t)].bytes; }

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

bool are_possible(const Dims& dims) {
  int64_t elements = 1;
  for (int64_t d : dims)
    if (d < 0 || __builtin_mul_overflow(elements, std::max<int64_t>(d, 1), &elements) ||
        elements > kMostElements)
      return false;
  return true;
}

int64_t Type::elements() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

int64_t Type::bytes() const {
  if (dtype != DType::mask) return elements() * size_of(dtype);
  if (dims.empty()) return 1;
  int64_t rows = dims.back() ? elements() / dims.back() : 0;
  return rows * ((dims.back() + 7) / 8);
}

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }
std::string to_string(const Type& t) { return to_string(t.dtype) + to_string(t.dims); }

}  // namespace pock
