// The type of a tensor: element type, static shape, and how it lies in memory.
//
//   Type t{DType::f32, {32, 784}};
//   to_string(t) == "f32[32,784]", t.bytes() == 100352, Type{}.rank() == 0
//   Type image{DType::f32, {8, 24, 56, 56}, {{0}, {2}, {3}, {1}}};   // channels last
//   to_string(image) == "f32[8,24,56,56]{0,2,3,1}", to_string(image.stored()) == "f32[8,56,56,24]"
//   Type panels{DType::f32, {64, 96}, {{1, Part::block, 48}, {0}, {1, Part::within, 48}}};
//   to_string(panels) == "f32[64,96]{1/48,0,1%48}", to_string(panels.stored()) == "f32[2,64,48]"
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

// An axis of a tensor in memory: an axis of its shape, or, where that is cut into blocks of `size`, the number of
// the block or the place within it.
struct Part {
  enum Kind : uint8_t { whole, block, within };
  int axis = 0;
  Kind kind = whole;
  int64_t size = 1;
  bool operator==(const Part&) const = default;
};
// The axes of a tensor in memory, the last one contiguous; empty where it is row-major. Blocks divide their axis.
using Layout = std::vector<Part>;

// Shapes and indices are those of the model, whatever the layout: it is nothing but an order of the elements in
// memory, and no result depends on it.
struct Type {
  DType dtype = DType::f32;
  Dims dims;
  Layout layout = {};

  int rank() const { return static_cast<int>(dims.size()); }
  int64_t dim(int axis) const { return dims[axis < 0 ? axis + dims.size() : axis]; }
  int64_t elements() const;
  int64_t bytes() const;  // mask: one bit an element, rows (last axis in memory) padded to a byte
  Type row_major() const { return {dtype, dims}; }
  Type stored() const;                // the row-major type of the same memory
  int64_t extent(const Part&) const;  // of an axis in memory
  bool operator==(const Type&) const = default;
};

// `t` in this layout, which is dropped where its elements lie as in row-major order.
Type laid_out(const Type& t, Layout);
// Whether a layout names every element of such a shape once.
bool fits(const Layout&, const Dims&);

// The axes of the shape that have more than one place, blocks before places within, and how far a step along each moves
// in memory.
struct Walk {  // an axis, cut where the layout cuts it
  int64_t extent, step;
};
std::vector<Walk> walk_of(const Type&);
// Elements of a tensor from row-major order into the layout's and back. No masks.
void pack(const Type&, const void* row_major, void* stored);
void unpack(const Type&, const void* stored, void* row_major);

std::string to_string(const Type&);
std::string to_string(const Layout&);  // "{0,2,3,1}"
std::string to_string(const Dims&);

}  // namespace pock
