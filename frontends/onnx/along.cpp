#include "along.h"

#include <numeric>

#include "shapes.h"

namespace pock::onnx_frontend {
namespace {

int64_t rank_of(Call& c, int input) { return std::ssize(c.shape(input)); }

int64_t product(const Dims& dims, int64_t begin, int64_t end) {
  return std::accumulate(dims.begin() + begin, dims.begin() + end, int64_t{1}, std::multiplies());
}

}  // namespace

bool apart(Call&, int, int64_t) { return false; }

bool by_axis(Call& c, int input, int64_t axis) {
  return (input == 0 || c.loc().op == "Concat") && c.axis(c.integer("axis", 0), rank_of(c, input)) == axis;
}

bool by_classes(Call& c, int, int64_t axis) {
  const bool all_behind = c.since < 13;
  const int64_t first = c.axis(c.integer("axis", all_behind ? 1 : -1), rank_of(c, 0));
  return all_behind ? first <= axis : first == axis;
}

bool by_window(Call&, int input, int64_t axis) { return input == 0 && axis >= 2; }

bool by_length(Call& c, int input, int64_t axis) {
  return input == 0 && c.made(0).at(axis) != c.shape(0).at(axis);
}

bool merged(Call& c, int, int64_t axis) {
  const int64_t rank = rank_of(c, 0), cut = c.integer("axis", 1), from = cut < 0 ? cut + rank : cut;
  return product(c.shape(0), axis < from ? 0 : from, axis) > 1;
}

bool by_indices(Call& c, int input, int64_t axis) {
  const int64_t first = c.integer("batch_dims", 0);
  return input == 0 && axis >= first && !c.shape(1).empty() && axis < first + c.shape(1).back();
}

bool by_steps(Call& c, int input, int64_t axis) {
  if (input > 0 || c.since < 10 || !c.has(4)) return false;
  const std::vector<int64_t> steps = c.integers(4);
  std::vector<int64_t> axes = c.has(3) ? c.integers(3) : std::vector<int64_t>{};
  if (axes.empty()) axes = first_axes(std::ssize(steps));
  for (size_t i = 0; i < steps.size(); ++i)
    if (c.axis(axes.at(i), rank_of(c, 0)) == axis && steps[i] != 1) return true;
  return false;
}

bool by_pads(Call& c, int input, int64_t axis) {
  if (input > 0) return false;
  const std::vector<int64_t> pads = c.since < 11 ? c.integers("pads") : c.integers(1),
                             axes = c.since >= 18 && c.has(3) ? c.integers(3) : first_axes(rank_of(c, 0));
  for (size_t i = 0; i < axes.size(); ++i)
    if (c.axis(axes[i], rank_of(c, 0)) == axis && (pads.at(i) != 0 || pads.at(i + axes.size()) != 0))
      return true;
  return false;
}

bool by_scores(Call&, int input, int64_t axis) { return input == 0 && axis == 1; }

bool by_rows(Call& c, int input, int64_t axis) {
  return input > 0 || axis >= c.axis(c.integer("axis", -1), rank_of(c, 0));
}

bool by_last(Call& c, int, int64_t axis) { return axis == c.axis(c.integer("axis", -1), rank_of(c, 0)); }

bool by_sum(Call& c, int, int64_t axis) {
  return axis == c.axis(static_cast<int64_t>(c.scalar(1)), rank_of(c, 0));
}

bool by_triangle(Call& c, int input, int64_t axis) { return input == 0 && axis >= rank_of(c, 0) - 2; }

bool by_sequence(Call&, int, int64_t axis) { return axis > 0; }

}  // namespace pock::onnx_frontend
