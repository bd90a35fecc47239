#include "pock/ir/type.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "pock/support/diag.h"

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
  int64_t row = layout.empty() ? dims.back() : extent(layout.back());
  return row ? elements() / row * ((row + 7) / 8) : 0;
}

int64_t Type::extent(const Part& p) const {
  if (p.kind == Part::within) return p.size;
  return dims[p.axis] / p.size;
}

Type Type::stored() const {
  if (layout.empty()) return *this;
  Type t{dtype, {}};
  for (const Part& p : layout) t.dims.push_back(extent(p));
  return t;
}

bool fits(const Layout& layout, const Dims& dims) {
  std::vector<Layout> parts(dims.size());
  for (const Part& p : layout) {
    if (p.axis < 0 || p.axis >= static_cast<int>(dims.size())) return false;
    if (p.size < 1 || dims[p.axis] % p.size != 0 || (p.kind == Part::whole && p.size != 1)) return false;
    parts[p.axis].push_back(p);
  }
  return std::all_of(parts.begin(), parts.end(), [](const Layout& of_axis) {
    if (of_axis.size() == 1) return of_axis[0].kind == Part::whole;
    return of_axis.size() == 2 && of_axis[0].size == of_axis[1].size && of_axis[0].kind != of_axis[1].kind &&
           of_axis[0].kind != Part::whole && of_axis[1].kind != Part::whole;
  });
}

namespace {

// Steps in memory of the layout's parts.
std::vector<int64_t> steps_of(const Type& t) {
  std::vector<int64_t> steps(t.layout.size());
  int64_t step = 1;
  for (size_t i = t.layout.size(); i-- > 0;) {
    steps[i] = step;
    step *= t.extent(t.layout[i]);
  }
  return steps;
}

void copy(const Type& t, const void* from, void* to) {
  if (int64_t bytes = t.bytes()) std::memcpy(to, from, bytes);
}

// Calls move(place in row-major order, place in memory).
template <class Move>
void each_element(const Type& t, Move move) {
  std::vector<Walk> walk = walk_of(t);
  std::vector<int64_t> at(walk.size());
  int64_t stored = 0;
  for (int64_t i = 0, n = t.elements(); i < n; ++i) {
    move(i, stored);
    for (size_t axis = walk.size(); axis-- > 0;) {
      stored += walk[axis].step;
      if (++at[axis] < walk[axis].extent) break;
      stored -= walk[axis].step * walk[axis].extent;
      at[axis] = 0;
    }
  }
}

}  // namespace

Type laid_out(const Type& t, Layout layout) {
  Type result{t.dtype, t.dims, std::move(layout)};
  if (result.layout.empty() || t.elements() == 0) return t.row_major();
  POCK_CHECK(fits(result.layout, t.dims), "layout {} of {}", to_string(result.layout),
             to_string(t.row_major()));
  int64_t row_major = t.elements();
  for (const Walk& w : walk_of(result)) {
    row_major /= w.extent;
    if (w.extent > 1 && w.step != row_major) return result;
  }
  return t.row_major();
}

std::vector<Walk> walk_of(const Type& t) {
  std::vector<Walk> walk;
  if (t.layout.empty()) {
    int64_t step = 1;
    for (int axis = t.rank(); axis-- > 0; step *= t.dims[axis])
      if (t.dims[axis] != 1) walk.insert(walk.begin(), {t.dims[axis], step});
    return walk;
  }
  std::vector<int64_t> steps = steps_of(t);
  for (int axis = 0; axis < t.rank(); ++axis)
    for (Part::Kind kind : {Part::whole, Part::block, Part::within})
      for (size_t i = 0; i < t.layout.size(); ++i)
        if (t.layout[i].axis == axis && t.layout[i].kind == kind && t.extent(t.layout[i]) != 1)
          walk.push_back({t.extent(t.layout[i]), steps[i]});
  return walk;
}

void pack(const Type& t, const void* row_major, void* stored) {
  if (t.layout.empty()) return copy(t, row_major, stored);
  const int64_t size = size_of(t.dtype);
  each_element(t, [&](int64_t from, int64_t to) {
    std::memcpy(static_cast<char*>(stored) + to * size, static_cast<const char*>(row_major) + from * size,
                size);
  });
}

void unpack(const Type& t, const void* stored, void* row_major) {
  if (t.layout.empty()) return copy(t, stored, row_major);
  const int64_t size = size_of(t.dtype);
  each_element(t, [&](int64_t to, int64_t from) {
    std::memcpy(static_cast<char*>(row_major) + to * size, static_cast<const char*>(stored) + from * size,
                size);
  });
}

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }
std::string to_string(const Layout& layout) {
  std::vector<std::string> parts;
  for (const Part& p : layout) {
    parts.push_back(fmt::format("{}", p.axis));
    if (p.kind != Part::whole) parts.back() += fmt::format("{}{}", p.kind == Part::block ? '/' : '%', p.size);
  }
  return fmt::format("{{{}}}", fmt::join(parts, ","));
}
std::string to_string(const Type& t) {
  return to_string(t.dtype) + to_string(t.dims) + (t.layout.empty() ? "" : to_string(t.layout));
}

}  // namespace pock
