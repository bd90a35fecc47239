#include <algorithm>
#include <cmath>

#include "ops/cases/op_case.h"

namespace pock::test {
namespace {

CaseAttrs resize(int64_t axis, int64_t size, const char* mode, const char* coordinates, double scale = 0,
                 const char* rounding = "round_prefer_floor") {
  return attrs({{"axis", axis},
                {"size", size},
                {"scale", scale},
                {"mode", std::string(mode)},
                {"coordinates", std::string(coordinates)},
                {"rounding", std::string(rounding)}});
}
CaseAttrs region(double start, double end, CaseAttrs a) {
  a.attrs["start"] = start;
  a.attrs["end"] = end;
  return a;
}
CaseAttrs outside_excluded(CaseAttrs a) {
  a.attrs["exclude_outside"] = int64_t{1};
  return a;
}
CaseAttrs backwards(int64_t length, CaseAttrs a) {
  a.attrs["length"] = length;
  return a;
}

// The part of element `i` at a place between two, as a float: so are the tables of weights.
double weight(double at, int64_t i) {
  return static_cast<float>(std::max(0.0, 1 - std::abs(at - static_cast<double>(i))));
}

// Linear interpolation at the places i * slope + offset, elements past the ends repeated.
Numbers interpolated(const Node& n, const Type& x, const Numbers& in, double slope, double offset) {
  int64_t axis = n.integer("axis"), size = n.integer("size"), inner = 1, length = x.dims[axis];
  for (int i = x.rank() - 1; i > axis; --i) inner *= x.dims[i];
  Numbers out;
  for (int64_t outer = 0; outer < x.elements() / inner / length; ++outer)
    for (int64_t m = 0; m < size; ++m)
      for (int64_t k = 0; k < inner; ++k) {
        double at = std::clamp(static_cast<double>(m) * slope + offset, 0.0, static_cast<double>(length - 1));
        double sum = 0;
        for (int64_t i = 0; i < length; ++i) sum += weight(at, i) * in[(outer * length + i) * inner + k];
        out.push_back(sum);
      }
  return out;
}
std::vector<Numbers> half_pixel(const Node& n, const std::vector<Numbers>& in) {
  const Type& x = n.in(0)->type;
  double ratio = static_cast<double>(x.dims[n.integer("axis")]) / static_cast<double>(n.integer("size"));
  return {interpolated(n, x, in[0], ratio, ratio / 2 - 0.5)};
}
std::vector<Numbers> align_corners(const Node& n, const std::vector<Numbers>& in) {
  const Type& x = n.in(0)->type;
  auto steps = [](int64_t length) { return static_cast<double>(length - 1); };
  return {interpolated(n, x, in[0], steps(x.dims[n.integer("axis")]) / steps(n.integer("size")), 0)};
}
std::vector<Numbers> by_scale(const Node& n, const std::vector<Numbers>& in) {
  return {interpolated(n, n.in(0)->type, in[0], 1 / n.number("scale"), 0)};
}
// dx of a linear resize, element by element of dy.
std::vector<Numbers> half_pixel_grad(const Node& n, const std::vector<Numbers>& in) {
  int64_t axis = n.integer("axis"), length = n.integer("length"), size = n.integer("size"), inner = 1;
  const Type& dx = n.out(0)->type;
  for (int i = dx.rank() - 1; i > axis; --i) inner *= dx.dims[i];
  Numbers out(dx.elements(), 0);
  double ratio = static_cast<double>(length) / static_cast<double>(size);
  for (int64_t e = 0; e < std::ssize(in[0]); ++e) {
    int64_t k = e % inner, m = e / inner % size, outer = e / inner / size;
    double at =
        std::clamp((static_cast<double>(m) + 0.5) * ratio - 0.5, 0.0, static_cast<double>(length - 1));
    for (int64_t i = 0; i < length; ++i) out[(outer * length + i) * inner + k] += weight(at, i) * in[0][e];
  }
  return {out};
}

OP_CASE(resize, in({3}).is({1, 2, 3}), resize(0, 6, "nearest", "asymmetric", 0, "floor"),
        gives({1, 1, 2, 2, 3, 3}));
OP_CASE(resize, in({2, 3}).is({1, 2, 3, 4, 5, 6}), resize(0, 4, "nearest", "half_pixel"),
        gives({1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
OP_CASE(resize, in({4}).is({1, 2, 3, 4}), resize(0, 2, "nearest", "asymmetric", 0.6, "ceil"), gives({1, 3}));
OP_CASE(resize, in({4}).is({1, 2, 3, 4}), resize(0, 2, "nearest", "half_pixel", 0, "round_prefer_ceil"),
        gives({2, 4}));
OP_CASE(resize, in({4}).is({1, 2, 3, 4}), resize(0, 2, "nearest", "half_pixel"), gives({1, 3}));
OP_CASE(resize, in({3}).is({1, 2, 3}), resize(0, 1, "nearest", "pytorch_half_pixel"), gives({1}));
OP_CASE(resize, in({3}).is({1, 2, 3}), resize(0, 1, "linear", "align_corners"), gives({1}));
OP_CASE(resize, in({2}).is({1, 2}), resize(0, 4, "nearest", "tf_half_pixel_for_nn", 0, "floor"),
        gives({1, 1, 2, 2}));
OP_CASE(resize, in({3}).is({1, 2, 4}), resize(0, 4, "linear", "asymmetric", 1.5),
        gives({1, 1 + 2 / 3.0, 2 + 2 / 3.0, 4}));
OP_CASE(resize, in({3}).is({1, 2, 4}), resize(0, 6, "cubic", "align_corners"),
        gives({1, 1.244, 1.632, 2.448, 3.296, 4}));
OP_CASE(resize, in({2, 9, 5}), resize(1, 17, "cubic", "half_pixel"));
OP_CASE(resize, in({2, 9, 5}), outside_excluded(resize(1, 4, "cubic", "half_pixel")));
// Centred, where half_pixel would leave out more of the end.
OP_CASE(resize, in({4}).is({1, 2, 3, 4}), resize(0, 2, "linear", "half_pixel_symmetric", 0.6),
        gives({5 / 3.0, 10 / 3.0}));
OP_CASE(resize, in({5}).is({1, 2, 3, 4, 5}), region(0.25, 0.75, resize(0, 3, "linear", "tf_crop_and_resize")),
        gives({2, 3, 4}));
OP_CASE(resize, in({3}).is({1, 2, 3}), region(-0.5, 1.5, resize(0, 3, "nearest", "tf_crop_and_resize")),
        gives({0, 2, 0}));
OP_CASE(resize, in({3}).is({1, 2, 3}), region(1, 0, resize(0, 5, "linear", "tf_crop_and_resize")),
        gives({3, 2.5, 2, 1.5, 1}));
OP_CASE(resize, in({2, 3, 5}), resize(2, 10, "linear", "half_pixel"), like(half_pixel));
OP_CASE(resize, in({2, 7, 17}), resize(1, 11, "linear", "half_pixel"), like(half_pixel));
OP_CASE(resize, in({3, 9, 4}), resize(-2, 4, "linear", "half_pixel"));
OP_CASE(resize, in({9, 4}), resize(0, 4, "linear", "half_pixel"), like(half_pixel));
OP_CASE(resize, in({2, 3, 7, 9}), resize(3, 15, "linear", "align_corners"), like(align_corners));
OP_CASE(resize, in({2, 3, 7, 9}), resize(2, 4, "linear", "align_corners"), like(align_corners));
OP_CASE(resize, in({3, 5, 33}), resize(1, 7, "linear", "asymmetric", 1.5), like(by_scale));
OP_CASE(resize, in({2, 5, 8}), resize(1, 13, "nearest", "asymmetric", 2.75));
OP_CASE(resize_grad, in({6}).is({1, 2, 3, 4, 5, 6}),
        backwards(3, resize(0, 6, "nearest", "asymmetric", 0, "floor")), gives({3, 7, 11}));
OP_CASE(resize_grad, in({2}).is({1, 2}), backwards(4, resize(0, 2, "nearest", "asymmetric", 0, "floor")),
        gives({1, 0, 2, 0}));
OP_CASE(resize_grad, in({2, 10, 3}), backwards(5, resize(1, 10, "linear", "half_pixel")),
        like(half_pixel_grad));
OP_CASE(resize_grad, in({2, 4, 9}), backwards(23, resize(2, 9, "linear", "half_pixel")),
        like(half_pixel_grad));
// A row without elements, one of all.
OP_CASE(resample, in({1, 3, 2}).is({1, 2, 3, 4, 5, 6}), in(DType::i32, {3}).is({0, 0, 1}),
        in(DType::i32, {3}).is({0, 3, 1}), in({3, 3}).is({9, 9, 9, 1, 10, 100, 2, 9, 9}),
        gives({0, 0, 531, 642, 6, 8}));

}  // namespace
}  // namespace pock::test
