#include "shapes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "fold.h"

namespace pock::onnx_frontend {

std::vector<int64_t> first_axes(int64_t count) {
  std::vector<int64_t> axes(count);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

namespace {

int64_t product(Dims::const_iterator begin, Dims::const_iterator end) {
  return std::accumulate(begin, end, int64_t{1}, std::multiplies<>());
}

}  // namespace

int64_t need_listable(Call& c, const Dims& dims) {
  constexpr int64_t kMost = int64_t{1} << 26;
  const int64_t count = checked_elements(dims, c.loc());
  if (count > kMost) throw c.fail("{} is too large for a list of every element", to_string(dims));
  return count;
}

// The elements of an axis whose numbers are listed: a slice where they follow each other.
Value* picked(Call& c, Value* x, int64_t axis, const std::vector<int64_t>& index) {
  bool run = !index.empty();
  for (size_t i = 1; i < index.size(); ++i) run &= index[i] == index[i - 1] + 1;
  if (!run) return c.value("gather", {x, c.index_value(index)}, {{"axis", axis}});
  int64_t start = index.front(), end = index.back() + 1;
  if (start == 0 && end == x->type.dims[axis]) return x;
  return c.value("slice", {x}, {{"axis", axis}, {"start", start}, {"end", end}});
}

std::vector<int64_t> read_axes(Call& c, int input_since) {
  if (c.since < input_since) return c.integers("axes", std::vector<int64_t>{});
  return c.has(1) ? c.integers(1) : std::vector<int64_t>{};
}

// ---- The same elements under another shape

void flatten(Call& c, const char*) {
  const Dims d = c.shape(0);
  int64_t rank = std::ssize(d), axis = c.integer("axis", 1);
  if (axis != rank) axis = c.axis(axis, rank);
  c.out(0, c.reshape(c.any(0), {product(d.begin(), d.begin() + axis), product(d.begin() + axis, d.end())}));
}

namespace {

// What a reshape makes of `from`: 0 stands for the input's axis, -1 for whatever is left.
Dims reshaped(Call& c, const Dims& from, const std::vector<int64_t>& target, bool allow_zero) {
  Dims shape = target;
  int64_t free = -1, rest = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !allow_zero) {
      if (i >= from.size())
        throw c.fail("axis {} of the target shape {} is 0, but the input has no such axis", i,
                     to_string(target));
      shape[i] = from[i];
    }
    if (shape[i] == -1) {
      if (free >= 0) throw c.fail("the target shape {} has two free axes", to_string(target));
      free = static_cast<int64_t>(i);
      continue;
    }
    if (shape[i] < 0 || __builtin_mul_overflow(rest, shape[i], &rest))
      throw c.fail("the target shape {} is impossible", to_string(target));
  }
  int64_t elements = checked_elements(from, c.loc());
  if (free >= 0 && rest > 0 && elements % rest == 0) {
    shape[free] = elements / rest;
    rest *= shape[free];
  }
  if (rest != elements || (free >= 0 && shape[free] < 0))
    throw c.fail("{} elements of shape {} do not fit the target shape {}", elements, to_string(from),
                 to_string(target));
  return shape;
}

// The axis of a result of shape `to` in which the samples are that lie along `axis` of the input: as many elements
// stand in front of it, and it is the batch, or whatever was left for it. -1: there is none, or a choice.
int64_t batch_axis(const Dims& from, int64_t axis, const Dims& to, const std::vector<int64_t>& target,
                   int64_t batch) {
  int64_t before = product(from.begin(), from.begin() + axis), at = 1, found = -1, count = 0;
  for (int64_t i = 0; i < std::ssize(to); at *= to[i++]) {
    if (at != before || (to[i] != batch && (target[i] > 0 || to[i] % batch != 0))) continue;
    if (i == axis) return i;
    found = i;
    ++count;
  }
  return count == 1 ? found : -1;
}

// Where the file's batch is replaced by another, a target shape that was written for the one serves the other, if it
// keeps the samples in an axis of their own.
Dims rebatched(Call& c, const Dims& before, const std::vector<int64_t>& target, bool allow_zero) {
  const Dims& from = c.shape(0);
  const auto& batch = *c.scope().rebatch;
  Dims shape = reshaped(c, before, target, allow_zero);
  int64_t axis = 0;
  while (from[axis] == before[axis]) ++axis;  // no more than one differs: see check_rebatched
  int64_t to = batch_axis(before, axis, shape, target, batch.from);
  if (to < 0)
    throw c.fail(
        "the target shape {} is fixed to the batch of {} that the file was exported with, and the batch is "
        "to "
        "be {}: export the model with a symbolic batch axis",
        to_string(target), batch.from, batch.to);
  shape[to] = shape[to] / batch.from * batch.to;
  return shape;
}

}  // namespace

void reshape(Call& c, const char*) {
  const std::vector<int64_t> target = c.integers(1);
  bool allow_zero = c.since >= 14 && c.flag("allowzero", false);
  std::optional<Call> before = c.before();
  bool fixed = before && before->shape(0) != c.shape(0) && before->integers(1) == target;
  c.out(0, c.reshape(c.any(0), fixed ? rebatched(c, before->shape(0), target, allow_zero)
                                     : reshaped(c, c.shape(0), target, allow_zero)));
}

void squeeze(Call& c, const char*) {
  const Dims from = c.shape(0);
  bool all = c.since < 13 ? !c.has("axes") : !c.has(1);
  std::vector<int64_t> axes = c.axes(read_axes(c, 13), std::ssize(from));
  Dims shape;
  for (size_t i = 0; i < from.size(); ++i) {
    bool named = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i));
    if (named && from[i] != 1)
      throw c.fail("axis {} of shape {} is not 1, so it cannot be squeezed", i, to_string(from));
    if (!(named || (all && from[i] == 1))) shape.push_back(from[i]);
  }
  c.out(0, c.reshape(c.any(0), shape));
}

void unsqueeze(Call& c, const char*) {
  Dims shape = c.shape(0);
  std::vector<int64_t> axes = read_axes(c, 13);
  axes = c.axes(axes, std::ssize(shape) + std::ssize(axes));
  for (int64_t a : axes) shape.insert(shape.begin() + a, 1);
  c.out(0, c.reshape(c.any(0), shape));
}

// ---- Elements moved and repeated

void transpose(Call& c, const char*) {
  const int64_t rank = std::ssize(c.shape(0));
  std::vector<int64_t> reversed = first_axes(rank);
  std::reverse(reversed.begin(), reversed.end());
  std::vector<int64_t> permutation = c.integers("perm", reversed);
  if (c.axes(permutation, rank).size() != reversed.size())
    throw c.fail("attribute 'perm' is {}, but the input has {} axes", to_string(permutation),
                 reversed.size());
  for (int64_t& axis : permutation) axis = c.axis(axis, rank);
  c.out(0, c.transpose(c.any(0), permutation));
}

void expand(Call& c, const char*) {
  Value* x = c.any(0);
  Dims shape = c.integers(1), from = x->type.dims;
  checked_elements(shape, c.loc());
  if (shape.size() < from.size()) shape.insert(shape.begin(), from.size() - shape.size(), 1);
  from.insert(from.begin(), shape.size() - from.size(), 1);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) shape[i] = from[i];
    if (from[i] != shape[i] && from[i] != 1)
      throw c.fail("{} does not broadcast to {}", to_string(x->type), to_string(c.integers(1)));
  }
  c.out(0, shape == x->type.dims ? x : c.value("broadcast_to", {x}, {{"shape", shape}}));
}

void tile(Call& c, const char*) {
  Value* x = c.any(0);
  const Dims d = x->type.dims;
  std::vector<int64_t> repeats = c.integers(1);
  if (repeats.size() != d.size()) throw c.fail("there are {} repeats for {} axes", repeats.size(), d.size());
  checked_elements(repeats, c.loc());
  Dims apart, repeated, whole;
  for (size_t i = 0; i < d.size(); ++i) {
    apart.insert(apart.end(), {1, d[i]});
    repeated.insert(repeated.end(), {repeats[i], d[i]});
    whole.push_back(checked_elements({repeats[i], d[i]}, c.loc()));
  }
  if (whole == d) return c.out(0, x);
  c.out(0, c.reshape(c.value("broadcast_to", {c.reshape(x, apart)}, {{"shape", repeated}}), whole));
}

void concat(Call& c, const char*) {
  int64_t axis = c.integer("axis");
  std::vector<Value*> in;
  for (int i = 0; i < c.inputs(); ++i) in.push_back(c.any(i));
  if (in.empty()) throw c.fail("there is nothing to concatenate");
  axis = c.axis(axis, in[0]->type.rank());
  c.out(0, in.size() == 1 ? in[0] : c.value("concat", in, {{"axis", axis}}));
}

void split(Call& c, const char*) {
  Value* x = c.any(0);
  int64_t axis = c.axis(c.integer("axis", 0), x->type.rank()), length = x->type.dims[axis];
  std::vector<int64_t> sizes;
  int64_t parts = c.outputs();
  if (c.since >= 13 && c.has(1))
    sizes = c.integers(1);
  else if (c.since < 13)
    sizes = c.integers("split", std::vector<int64_t>{});
  if (c.since >= 18 && sizes.empty()) parts = c.integer("num_outputs");
  if (parts != c.outputs() || (!sizes.empty() && std::ssize(sizes) != parts))
    throw c.fail("there are {} outputs for {} parts", c.outputs(), sizes.empty() ? parts : std::ssize(sizes));
  if (sizes.empty()) {
    int64_t each =
        (length + parts - 1) / parts;  // the last one may be smaller, since it may be said how many
    if (c.since < 18 && length % parts)
      throw c.fail("{} elements do not divide into {} equal parts", length, parts);
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<int64_t>(length - i * each, 0, each));
  }
  int64_t total = 0;
  for (int64_t n : sizes)
    if (n < 0 || __builtin_add_overflow(total, n, &total)) throw c.fail("the parts are {}", to_string(sizes));
  if (total != length)
    throw c.fail("the parts {} make {} elements, but axis {} has {}", to_string(sizes), total, axis, length);
  int64_t start = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t end = start + sizes[i];
    if (c.wants(static_cast<int>(i)))
      c.out(static_cast<int>(i),
            sizes[i] == length ? x : c.value("slice", {x}, {{"axis", axis}, {"start", start}, {"end", end}}));
    start = end;
  }
}

namespace {

// Which elements of an axis of length n a slice has.
std::vector<int64_t> sliced(Call& c, int64_t n, int64_t start, int64_t end, int64_t step) {
  if (step == 0 || step == std::numeric_limits<int64_t>::min())
    throw c.fail("a slice with a step of {}", step);
  int64_t least = step > 0 ? 0 : -1, most = step > 0 ? n : n - 1;
  start = std::clamp(start < 0 ? start + n : start, least, most);
  end = std::clamp(end < 0 ? end + n : end, least, most);
  std::vector<int64_t> index;
  int64_t count = step > 0 ? (end > start ? (end - start - 1) / step + 1 : 0)
                           : (start > end ? (start - end - 1) / -step + 1 : 0);
  for (int64_t i = 0; i < count; ++i) index.push_back(start + i * step);
  return index;
}

}  // namespace

void slice(Call& c, const char*) {
  std::vector<int64_t> starts, ends, axes, steps;
  if (c.since < 10) {
    starts = c.integers("starts");
    ends = c.integers("ends");
    axes = c.integers("axes", std::vector<int64_t>{});
  } else {
    starts = c.integers(1);
    ends = c.integers(2);
    if (c.has(3)) axes = c.integers(3);
    if (c.has(4)) steps = c.integers(4);
  }
  if (axes.empty()) axes = first_axes(std::ssize(starts));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    throw c.fail("there are {} starts, {} ends, {} axes and {} steps", starts.size(), ends.size(),
                 axes.size(), steps.size());
  Value* x = c.any(0);
  c.axes(axes, x->type.rank());  // none twice
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = c.axis(axes[i], x->type.rank()), n = x->type.dims[axis];
    std::vector<int64_t> index = sliced(c, n, starts[i], ends[i], steps[i]);
    if (index.empty() && is_float(x->type.dtype))
      throw c.fail("the slice [{},{}) of axis {} with length {} is empty", starts[i], ends[i], axis, n);
    x = picked(c, x, axis, index);
  }
  c.out(0, x);
}

namespace {

// Where the elements of a padded axis of length n come from; the pads are not negative.
std::vector<int64_t> padded(Call& c, const std::string& mode, int64_t n, int64_t before, int64_t after) {
  std::vector<int64_t> index;
  for (int64_t i = -before; i < n + after; ++i) {
    int64_t period = 2 * (n - 1), at = 0;
    if (mode == "edge")
      at = std::clamp<int64_t>(i, 0, n - 1);
    else if (mode == "wrap")
      at = (i % n + n) % n;
    else if (mode == "reflect")
      at = period == 0 ? 0 : std::min((i % period + period) % period, (-i % period + period) % period);
    else
      throw c.fail("attribute 'mode' is '{}'; there are constant, edge, reflect and wrap", mode);
    index.push_back(at);
  }
  return index;
}

}  // namespace

void pad(Call& c, const char*) {
  Value* x = c.any(0);
  int64_t rank = x->type.rank();
  std::string mode = c.string("mode", "constant");
  std::vector<int64_t> pads = c.since < 11 ? c.integers("pads") : c.integers(1);
  double fill = c.since < 11 ? c.number("value", 0) : c.has(2) ? c.scalar(2) : 0;
  std::vector<int64_t> axes = c.since >= 18 && c.has(3) ? c.integers(3) : first_axes(rank);
  c.axes(axes, rank);  // none twice
  if (pads.size() != 2 * axes.size())
    throw c.fail("the pads are {}, but {} axes need {} numbers", to_string(pads), axes.size(),
                 2 * axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = c.axis(axes[i], rank), n = x->type.dims[axis];
    int64_t before = pads[i], after = pads[axes.size() + i];
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (std::max(before, after) > kMost || std::min(before, after) < -n ||
        std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0) <= -n)
      throw c.fail("the pads are {}: of axis {}, which has {} elements, they leave none or too many",
                   to_string(pads), axis, n);
    // Negative pads cut off; what is left is padded.
    int64_t start = std::max<int64_t>(-before, 0), end = n - std::max<int64_t>(-after, 0);
    if (start > 0 || end < n) x = c.value("slice", {x}, {{"axis", axis}, {"start", start}, {"end", end}});
    before = std::max<int64_t>(before, 0);
    after = std::max<int64_t>(after, 0);
    if (before == 0 && after == 0) continue;
    if (mode == "constant")
      x = c.value("pad", {x}, {{"axis", axis}, {"before", before}, {"after", after}, {"value", fill}});
    else
      x = picked(c, x, axis, padded(c, mode, end - start, before, after));
  }
  c.out(0, x);
}

// ---- Elements made

void constant(Call& c, const char*) {
  if (const auto* a = c.attribute("value")) {
    if (!a->has_t()) throw c.fail("attribute 'value' must be a tensor");
    return c.out(0, a->t());
  }
  Tensor t;
  if (c.attribute("value_int") || c.attribute("value_ints")) {
    t = integers(c.has("value_int") ? std::vector<int64_t>{c.integer("value_int")}
                                    : c.integers("value_ints"));
    if (c.has("value_int")) t.dims = {};
  } else if (c.has("value_float")) {
    t.floats = make_data(std::vector<float>{c.number("value_float")});
  } else if (const auto* a = c.attribute("value_floats")) {
    t.floats = make_data(std::vector<float>(a->floats().begin(), a->floats().end()));
    t.dims = {a->floats_size()};
  } else {
    throw c.fail("this form of constant is not supported: there is no value, value_int(s) or value_float(s)");
  }
  c.out(0, std::move(t), false);
}

void constant_of_shape(Call& c, const char*) {
  const Dims dims = c.integers(0);
  Tensor fill;
  fill.floats = make_data(std::vector<float>{0});
  if (const auto* a = c.attribute("value")) fill = c.read(a->t());
  int64_t n = checked_elements(fill.dims, c.loc());
  if (n != 1) throw c.fail("attribute 'value' must have one element, but has {}", n);
  if (fill.is_float)
    return c.out(0, c.value("broadcast_to", {c.number_value(fill.scalar())}, {{"shape", dims}}));
  n = checked_elements(dims, c.loc());
  if (n > kMostFolded) throw c.fail("a constant of {} integers is too large to be a shape", n);
  fill.dims = dims;
  fill.ints.assign(n, fill.ints[0]);
  c.out(0, std::move(fill));
}

namespace {

// start, start + delta, ..., before limit.
template <class T>
std::vector<T> steps(Call& c, T start, T limit, T delta) {
  double count =
      std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta));
  if (!(delta != 0) || !(count <= kMostFolded)) throw c.fail("a range of {} elements", count);
  std::vector<T> all;
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) all.push_back(static_cast<T>(start + i * delta));
  return all;
}

}  // namespace

void range(Call& c, const char*) {
  for (int i = 0; i < 3; ++i) c.scalar(i);  // each is a constant of one element
  Tensor t;
  if (c.all_integers()) {
    t = integers(steps(c, c.constant(0).ints[0], c.constant(1).ints[0], c.constant(2).ints[0]));
    t.type = c.constant(0).type;
  } else {
    std::vector<float> all = steps(c, c.scalar(0), c.scalar(1), c.scalar(2));
    t.dims = {std::ssize(all)};
    t.floats = make_data(all);
  }
  c.out(0, std::move(t));
}

void shape(Call& c, const char*) {
  Dims d = c.shape(0);
  int64_t rank = std::ssize(d), start = 0, end = rank;
  if (c.since >= 15) {
    start = c.integer("start", 0);
    end = c.integer("end", rank);
  }
  start = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
  end = std::clamp<int64_t>(end < 0 ? end + rank : end, start, rank);
  c.out(0, integers({d.begin() + start, d.begin() + end}));
}

void size(Call& c, const char*) {
  Tensor t = integers({checked_elements(c.shape(0), c.loc())});
  t.dims = {};
  c.out(0, std::move(t));
}

// ---- Copies, types

void identity(Call& c, const char*) { c.out_copy(0, 0); }

namespace {

const char* pock_type(Call& c, int type) {
  switch (type) {
    case onnx::TensorProto::INT64:
      return "i64";
    case onnx::TensorProto::INT32:
      return "i32";
    case onnx::TensorProto::INT8:
      return "i8";
    case onnx::TensorProto::UINT8:
      return "u8";
    default:
      throw c.fail("a cast to {} is not supported", type_name(type));
  }
}

void cast_to(Call& c, int to) {
  const Tensor* t = c.known(0);
  if (t && !t->is_float) return fold_cast(c, to);
  const bool truth = c.element_type(0) == onnx::TensorProto::BOOL;
  if (truth && to == onnx::TensorProto::BOOL) return c.out_same(0, 0);
  if (is_float_type(to)) {
    c.scope().narrow(to, c.loc().name);
    if (truth) return c.out(0, c.truth(0), -1);
    if (t || c.any(0)->type.dtype == DType::f32) return c.out_same(0, 0);
    return c.out(0, c.value("cast", {c.any(0)}, {{"to", std::string("f32")}}));
  }
  Value* x = c.any(0);
  if (x->kind == ValueKind::constant) {
    Tensor y = integers({});
    y.type = to;
    y.dims = x->type.dims;
    for (int64_t i = 0; i < x->type.elements(); ++i) {
      float from = t->element(i);
      if (to == onnx::TensorProto::BOOL) from = from != 0;
      if (!(std::abs(from) < 0x1p63f)) throw c.fail("{} cannot be cast to {}", from, type_name(to));
      y.ints.push_back(wrapped(static_cast<int64_t>(from), to));
    }
    return c.out(0, std::move(y));
  }
  if (to == onnx::TensorProto::BOOL) {
    Value* zero = is_float(x->type.dtype) ? c.number_value(0) : c.reshape(c.index_value({0}), {});
    if (!is_float(x->type.dtype)) x = c.whole(0);
    return c.out_truth(0, c.value("sub", {c.number_value(1), c.value("equal", {x, zero})}));
  }
  c.out(0, c.value("cast", {x}, {{"to", std::string(pock_type(c, to))}}), -1);
}

}  // namespace

void cast(Call& c, const char*) {
  if (c.since >= 19) c.integer("saturate", 1);  // of 8-bit floats, which are refused
  if (c.since >= 24) c.string("round_mode", "up");
  cast_to(c, static_cast<int>(c.integer("to")));
}

void cast_like(Call& c, const char*) {
  if (c.since >= 19) c.integer("saturate", 1);
  if (c.since >= 24) c.string("round_mode", "up");
  cast_to(c, c.element_type(1));
}

}  // namespace pock::onnx_frontend
