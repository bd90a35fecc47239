#include "resize.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pock::onnx_frontend {
namespace {

// Along one axis: how many elements, and by which factor where that is not the ratio of the lengths.
struct Target {
  int64_t axis, size;
  double scale = 0, start = 0, end = 1;
};

// Products are taken in float, as ONNX's own shape rule takes them: a scale that was rounded to float (5/3) gives
// the whole length that was meant, and then the ratio of the lengths is the scale that was meant.
Target scaled(Call& c, int64_t axis, int64_t length, float scale) {
  if (!(scale > 0) || !std::isfinite(scale)) throw c.fail("the scale of axis {} is {}", axis, scale);
  float product = static_cast<float>(length) * scale;
  if (product < 1 || product >= static_cast<float>(kMostElements))
    throw c.fail("a scale of {} leaves axis {} of length {} with a length of {}", scale, axis, length,
                 product);
  float whole = std::floor(product);
  return {axis, static_cast<int64_t>(whole), product == whole ? 0.0 : double{scale}};
}

std::string choice(Call& c, const char* attribute, const char* standard, std::vector<std::string> choices) {
  std::string chosen = c.string(attribute, standard);
  if (std::find(choices.begin(), choices.end(), chosen) == choices.end())
    throw c.fail("attribute '{}' is '{}'; pock knows {}", attribute, chosen, fmt::join(choices, ", "));
  return chosen;
}

// One after the other, each of which is a pass over the tensor: what makes it smaller first.
Value* resized(Call& c, Value* x, std::vector<Target> targets, const Attrs& how) {
  const Dims from = x->type.dims;
  auto growth = [&](const Target& t) {
    return static_cast<double>(t.size) / static_cast<double>(from[t.axis]);
  };
  std::stable_sort(targets.begin(), targets.end(), [&](const Target& a, const Target& b) {
    return growth(a) != growth(b) ? growth(a) < growth(b) : a.axis > b.axis;
  });
  for (const Target& t : targets) {
    bool same = t.size == from[t.axis] && t.scale == 0 && t.start == 0 && t.end == 1;
    if (same) continue;
    Attrs attrs = how;
    attrs.insert(
        {{"axis", t.axis}, {"size", t.size}, {"scale", t.scale}, {"start", t.start}, {"end", t.end}});
    x = c.value("resize", {x}, attrs);
  }
  return x;
}

std::vector<Target> by_scales(Call& c, const std::vector<int64_t>& axes, const std::vector<float>& scales) {
  const Dims& from = c.shape(0);
  if (scales.size() != axes.size())
    throw c.fail("there are {} scales for {} axes", scales.size(), axes.size());
  std::vector<Target> targets;
  for (size_t i = 0; i < axes.size(); ++i) targets.push_back(scaled(c, axes[i], from[axes[i]], scales[i]));
  return targets;
}

std::vector<Target> by_sizes(Call& c, const std::vector<int64_t>& axes, std::vector<int64_t> sizes) {
  const Dims& from = c.shape(0);
  // Sizes that were written for the file's own batch: an axis that keeps its length keeps it with any.
  if (auto before = c.before(); before && before->integers(3) == sizes)
    for (size_t i = 0; i < std::min(axes.size(), sizes.size()); ++i)
      if (sizes[i] == before->shape(0)[axes[i]]) sizes[i] = from[axes[i]];
  if (sizes.size() != axes.size()) throw c.fail("there are {} sizes for {} axes", sizes.size(), axes.size());
  std::vector<double> ratios;
  std::vector<Target> targets;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (sizes[i] < 1) throw c.fail("the sizes are {}: each must be at least 1", to_string(sizes));
    targets.push_back({axes[i], sizes[i]});
    ratios.push_back(static_cast<double>(sizes[i]) / static_cast<double>(from[axes[i]]));
  }
  std::string policy = c.since < 18 ? "stretch"
                                    : choice(c, "keep_aspect_ratio_policy", "stretch",
                                             {"stretch", "not_larger", "not_smaller"});
  if (policy == "stretch" || targets.empty()) return targets;
  auto one = policy == "not_larger" ? std::min_element(ratios.begin(), ratios.end())
                                    : std::max_element(ratios.begin(), ratios.end());
  const double ratio = *one;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (ratios[i] == ratio) continue;
    double product = ratio * static_cast<double>(from[axes[i]]), whole = std::floor(product + 0.5);
    if (whole < 1)
      throw c.fail("axis {} of length {} would have a length of {}", axes[i], from[axes[i]], product);
    targets[i].size = static_cast<int64_t>(whole);
    targets[i].scale = product == whole ? 0 : ratio;
  }
  return targets;
}

// A region of the input, in parts of its length, in the place of all of it.
void crop(Call& c, std::vector<Target>& targets, bool sizes_given) {
  std::vector<float> region = c.floats(1);
  if (region.size() != 2 * targets.size())
    throw c.fail("the region of interest has {} numbers for {} axes", region.size(), targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    Target& t = targets[i];
    t.start = region[i];
    t.end = region[targets.size() + i];
    if (sizes_given) continue;
    double length = static_cast<double>(c.shape(0)[t.axis]);
    double scale = t.scale == 0 ? static_cast<double>(t.size) / length : t.scale;
    t.size = static_cast<int64_t>(std::floor(length * (t.end - t.start) * scale));
    t.scale = 0;
    if (t.size < 1) throw c.fail("axis {} would have a length of {}", t.axis, t.size);
  }
}

std::vector<int64_t> all_axes(Call& c) {
  std::vector<int64_t> axes(c.shape(0).size());
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

// As Upsample and the first Resize do it.
void resize_by_scales(Call& c, const std::vector<float>& scales) {
  Value* x = c.in(0);
  std::string mode = choice(c, "mode", "nearest", {"nearest", "linear"});
  c.out(0, resized(c, x, by_scales(c, all_axes(c), scales),
                   {{"mode", mode}, {"coordinates", "asymmetric"}, {"rounding", "floor"}}));
}

}  // namespace

void upsample(Call& c, const char*) {
  if (c.opset >= 10) throw c.fail("ends with opset 9, the file has opset {}: it is Resize now", c.opset);
  resize_by_scales(c, c.since < 9 ? c.numbers("scales") : c.floats(1));
}

void resize(Call& c, const char*) {
  if (c.since < 11) return resize_by_scales(c, c.floats(1));
  Value* x = c.in(0);
  std::vector<int64_t> axes = all_axes(c);
  if (c.since >= 18) {
    axes = c.integers("axes", axes);
    c.axes(axes, x->type.rank());  // none twice
    for (int64_t& axis : axes) axis = c.axis(axis, x->type.rank());
    if (c.flag("antialias", false)) throw c.fail("attribute 'antialias' is not supported");
  }
  std::string mode = choice(c, "mode", "nearest", {"nearest", "linear", "cubic"});
  std::string coordinates = choice(c, "coordinate_transformation_mode", "half_pixel",
                                   {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                                    "tf_half_pixel_for_nn", "half_pixel_symmetric", "tf_crop_and_resize"});
  std::string rounding = choice(c, "nearest_mode", "round_prefer_floor",
                                {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  float outside = c.number("extrapolation_value", 0);
  double coefficient = c.number("cubic_coeff_a", -0.75f);
  int64_t exclude_outside = c.flag("exclude_outside", false);
  if (c.has(1)) c.shape(1);  // the region, which only tf_crop_and_resize reads
  // An input without elements is as good as none.
  auto given = [&](int i) { return c.has(i) && c.shape(i) != Dims{0}; };
  if (given(2) == given(3)) throw c.fail("needs either scales or sizes");
  std::vector<Target> targets = given(3) ? by_sizes(c, axes, c.integers(3)) : by_scales(c, axes, c.floats(2));
  const bool cropped = coordinates == "tf_crop_and_resize";
  if (cropped) crop(c, targets, given(3));
  // PyTorch's corners are those of whole lengths.
  if (coordinates == "align_corners" && c.scope().graph.producer == "pytorch")
    for (Target& t : targets) t.scale = 0;
  // What lies outside of the input is 0: moved there and back, it is any other number.
  Value* shift = cropped && outside != 0 ? c.number_value(outside) : nullptr;
  if (shift) x = c.value("sub", {x, shift});
  x = resized(c, x, targets,
              {{"mode", mode},
               {"coordinates", coordinates},
               {"rounding", rounding},
               {"cubic", coefficient},
               {"exclude_outside", exclude_outside}});
  c.out(0, shift ? c.value("add", {x, shift}) : x);
}

}  // namespace pock::onnx_frontend
