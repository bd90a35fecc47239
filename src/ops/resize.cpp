// Resampling along one axis: which elements of the input an element of the result is made of, and with what
// weights, is a table that is known when the kernel is made. Forwards a result has one or two of them; backwards
// an element of the input gathers from all results that it is part of, in ascending order.
#include <algorithm>
#include <cmath>
#include <limits>

#include "rules.h"

namespace pock {
namespace {

using loop::Expr;
using loop::lit;

// x as [outer, length, inner].
Dims around_axis(const Type& x, int64_t axis) {
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < x.rank(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : x.dims[i];
  return {outer, x.dims[axis], inner};
}

const OpDef kResample{
    .name = "resample",
    .doc =
        "along the middle one of x's three axes, of first and count i32[M] and weight f32[M,T]: element m is "
        "the "
        "sum over t < count[m] of weight[m,t] * x[first[m] + t]",
    .inputs = 4,
    .infer = [](const InferArgs& a) -> Types {
      need_dtype(a, 0, DType::f32);
      need_rank(a, 0, 3);
      need_rank(a, 3, 2);
      Dims elements{a.in(3).dim(0)};
      need_type(a, 1, {DType::i32, elements}, "first");
      need_type(a, 2, {DType::i32, elements}, "count");
      need_dtype(a, 3, DType::f32);
      return {Type{DType::f32, {a.in(0).dim(0), elements[0], a.in(0).dim(2)}}};
    },
    .gradient = Gradient::none("only resize, which it is a part of, has one"),
    .lower = Nest([](NestArgs& n) {
      const Dims& dims = n.out_type().dims;
      n.each("outer", dims[0], [&](Expr outer) {
        n.each("m", dims[1], [&](Expr m) {
          n.each("inner", dims[2], [&](Expr inner) {
            auto acc = n.reg("acc", lit(0));
            n.loop("t", 0, cast(n.in(2, {m}), DType::i64), [&](Expr t) {
              Expr x = n.in(0, {outer, cast(n.in(1, {m}), DType::i64) + t, inner});
              n.set(acc, fma(n.in(3, {m, t}), x, load(acc)));
            });
            n.out(0, {outer, m, inner}, load(acc));
          });
        });
      });
    }),
};

constexpr const char* kModes[] = {"nearest", "linear", "cubic"};
constexpr const char* kCoordinates[] = {"half_pixel",        "pytorch_half_pixel",   "align_corners",
                                        "asymmetric",        "tf_half_pixel_for_nn", "half_pixel_symmetric",
                                        "tf_crop_and_resize"};
constexpr const char* kRounding[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};

std::vector<AttrDef> resize_attrs(std::vector<AttrDef> more = {}) {
  std::vector<AttrDef> attrs = {int_attr("axis"),
                                int_attr("size"),
                                number_attr("scale", 0),  // 0: the ratio of the lengths
                                string_attr("mode"),
                                string_attr("coordinates"),
                                string_attr("rounding", kRounding[0]),
                                number_attr("start", 0),
                                number_attr("end", 1),
                                number_attr("cubic", -0.75),
                                int_attr("exclude_outside", 0)};
  attrs.insert(attrs.end(), more.begin(), more.end());
  return attrs;
}

// A resize along one axis, as its attributes say.
struct Resize {
  double length, size, scale, start, end, cubic;
  bool exclude_outside;
  std::string mode, coordinates, rounding;

  Resize(const Node& n, int64_t length)
      : length(static_cast<double>(length)),
        size(static_cast<double>(n.integer("size"))),
        scale(n.number("scale")),
        start(n.number("start")),
        end(n.number("end")),
        cubic(n.number("cubic")),
        exclude_outside(n.integer("exclude_outside")),
        mode(n.string("mode")),
        coordinates(n.string("coordinates")),
        rounding(n.string("rounding")) {}

  double unscaled(double x) const { return scale == 0 ? x * length / size : x / scale; }

  // Where element `i` of the result lies in the input. As ONNX computes it, with a scale that is given the length
  // of the result need not be whole.
  double place(int64_t i) const {
    const double x = static_cast<double>(i), scaled = scale == 0 ? size : length * scale;
    if (coordinates == "asymmetric") return unscaled(x);
    if (coordinates == "align_corners") return scaled == 1 ? 0 : x * (length - 1) / (scaled - 1);
    if (coordinates == "tf_half_pixel_for_nn") return unscaled(x + 0.5);
    if (coordinates == "tf_crop_and_resize")
      return size > 1 ? start * (length - 1) + x * (end - start) * (length - 1) / (size - 1)
                      : 0.5 * (start + end) * (length - 1);
    if (coordinates == "pytorch_half_pixel" && size == 1) return 0;
    double moved = coordinates == "half_pixel_symmetric" ? length / 2 * (1 - size / scaled) : 0;
    return moved + unscaled(x + 0.5) - 0.5;
  }

  double nearest(double x) const {
    if (rounding == "round_prefer_floor") return std::ceil(x - 0.5);
    if (rounding == "round_prefer_ceil") return std::floor(x + 0.5);
    return rounding == "floor" ? std::floor(x) : std::ceil(x);
  }

  // What the elements from below(x) - (n - 2) / 2 on weigh, where x is `part` beyond below(x).
  std::vector<double> weights(double part) const {
    if (mode == "linear") return {1 - part, part};
    auto near = [&](double t) { return ((cubic + 2) * t - (cubic + 3)) * t * t + 1; };  // t up to 1
    auto far = [&](double t) {
      return ((cubic * t - 5 * cubic) * t + 8 * cubic) * t - 4 * cubic;
    };  // up to 2
    return {far(1 + part), near(part), near(1 - part), far(2 - part)};
  }

  using Tap = std::pair<int64_t, double>;  // element of the input, weight
  std::vector<Tap> taps(int64_t i) const {
    const double x = place(i), last = length - 1;
    if (coordinates == "tf_crop_and_resize" && !(x >= 0 && x <= last)) return {};
    if (mode == "nearest") return {{static_cast<int64_t>(std::clamp(nearest(x), 0.0, last)), 1}};
    const double below = std::floor(x);
    std::vector<double> all = weights(x - below);
    std::vector<Tap> taps;
    double total = 0, at = below - static_cast<double>(all.size() / 2 - 1);
    for (double weight : all) {
      // Outside of the input is the element at its edge, or nothing.
      double inside = std::clamp(at, 0.0, last);
      bool counts = weight != 0 && (inside == at || !exclude_outside);
      at += 1;
      if (!counts) continue;
      total += weight;
      int64_t element = static_cast<int64_t>(inside);
      if (!taps.empty() && taps.back().first == element)
        taps.back().second += weight;
      else
        taps.emplace_back(element, weight);
    }
    if (exclude_outside)
      for (Tap& tap : taps) tap.second /= total;
    return taps;
  }

  // For every element of the result, or backwards of the input, the elements of the other side.
  std::vector<std::vector<Tap>> table(bool backwards) const {
    std::vector<std::vector<Tap>> rows(static_cast<size_t>(backwards ? length : size));
    for (int64_t i = 0; i < static_cast<int64_t>(size); ++i)
      for (const auto& [element, weight] : taps(i))
        backwards ? rows[element].emplace_back(i, weight) : rows[i].emplace_back(element, weight);
    return rows;
  }
};

// `x` resampled along `axis`; the taps of a row ascend.
Value* resample(Builder& b, Value* x, int64_t axis, const std::vector<std::vector<Resize::Tap>>& rows) {
  const int64_t count = std::ssize(rows);
  std::vector<int32_t> first(rows.size(), 0), counts(rows.size(), 0);
  int64_t most = 1;
  for (size_t m = 0; m < rows.size(); ++m) {
    if (rows[m].empty()) continue;
    first[m] = static_cast<int32_t>(rows[m].front().first);
    counts[m] = static_cast<int32_t>(rows[m].back().first) - first[m] + 1;
    most = std::max<int64_t>(most, counts[m]);
  }
  std::vector<float> weights(rows.size() * most, 0);
  for (size_t m = 0; m < rows.size(); ++m)
    for (const auto& [element, weight] : rows[m])
      weights[m * most + (element - first[m])] = static_cast<float>(weight);
  auto integers = [&](const std::vector<int32_t>& v) {
    return b.graph.add_constant({DType::i32, {count}}, make_data(v.data(), v.size() * sizeof v[0]));
  };
  Dims dims = x->type.dims;
  Value* y = b.value("resample", {b.reshape(x, around_axis(x->type, axis)), integers(first), integers(counts),
                                  b.constant({DType::f32, {count, most}}, weights)});
  dims[axis] = count;
  return b.reshape(y, dims);
}

void need_choice(const InferArgs& a, const char* attr, std::span<const char* const> choices) {
  if (std::find(choices.begin(), choices.end(), a.string(attr)) == choices.end())
    throw a.fail("'{}' is '{}'; there are {}", attr, a.string(attr), fmt::join(choices, ", "));
}

// The axis, once all attributes are right.
int64_t need_resize(const InferArgs& a) {
  need_floats(a);
  int64_t axis = need_axis(a, a.integer("axis"), a.in(0).rank());
  need_choice(a, "mode", kModes);
  need_choice(a, "coordinates", kCoordinates);
  need_choice(a, "rounding", kRounding);
  if (!(a.number("scale") >= 0)) throw a.fail("scale is {}", a.number("scale"));
  for (const char* bound : {"start", "end", "cubic"})
    if (!std::isfinite(a.number(bound))) throw a.fail("'{}' is {}", bound, a.number(bound));
  for (int64_t length : {a.integer("size"), a.in(0).dims[axis]})
    if (length < 1 || length > std::numeric_limits<int32_t>::max())
      throw a.fail("axis {} cannot be resized from {} to {} elements", axis, a.in(0).dims[axis],
                   a.integer("size"));
  return axis;
}

const OpDef kResize{
    .name = "resize",
    .doc =
        "`size` elements along `axis` in the place of those of x, by `mode` nearest, linear or cubic; "
        "`coordinates`, `rounding` and `scale` (0: the ratio of the lengths) as ONNX's Resize defines them, "
        "`start` and `end` its region, `cubic` its coefficient a",
    .inputs = 1,
    .attrs = resize_attrs(),
    .infer = [](const InferArgs& a) -> Types {
      int64_t axis = need_resize(a);
      Type y = a.in(0);
      y.dims[axis] = a.integer("size");
      return {y};
    },
    .gradient = Gradient([](GradArgs& g) {
      Attrs attrs = g.node.attrs;
      attrs["length"] = g.in(0)->type.dim(static_cast<int>(g.node.integer("axis")));
      g.add(0, g.b.value("resize_grad", {g.dout()}, attrs));
    }),
    .lower = Expand([](Builder& b, const Node& n) {
      Value* x = n.in(0);
      int64_t axis = from_start(n.integer("axis"), x->type.rank());
      return std::vector{resample(b, x, axis, Resize(n, x->type.dims[axis]).table(false))};
    }),
};

const OpDef kResizeGrad{
    .name = "resize_grad",
    .doc = "resize's gradient with respect to x of `length` elements along `axis`, from dy",
    .inputs = 1,
    .attrs = resize_attrs({int_attr("length")}),
    .infer = [](const InferArgs& a) -> Types {
      int64_t axis = need_resize(a);
      Type x = a.in(0), y = x;
      y.dims[axis] = a.integer("size");
      need_type(a, 0, y, "the gradient of the resized tensor");
      x.dims[axis] = a.integer("length");
      return {x};
    },
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Expand([](Builder& b, const Node& n) {
      int64_t axis = from_start(n.integer("axis"), n.in(0)->type.rank());
      return std::vector{resample(b, n.in(0), axis, Resize(n, n.integer("length")).table(true))};
    }),
};

}  // namespace

OpList resize_ops() { return {&kResample, &kResize, &kResizeGrad}; }

}  // namespace pock
