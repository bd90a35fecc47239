#include "fold.h"

#include <algorithm>
#include <limits>

namespace pock::onnx_frontend {

Tensor integers(std::vector<int64_t> data) {
  Tensor t;
  t.type = onnx::TensorProto::INT64;
  t.is_float = false;
  t.dims = {static_cast<int64_t>(data.size())};
  t.ints = std::move(data);
  return t;
}

void fold_arithmetic(Call& c, std::string_view op) {
  const Tensor &a = c.constant(0), &b = c.constant(1);
  if (a.dims != b.dims && a.ints.size() != 1 && b.ints.size() != 1)
    throw c.fail("integer tensors of shapes {} and {} do not fit", to_string(a.dims), to_string(b.dims));
  bool like_a = a.ints.size() != 1 || (b.ints.size() == 1 && a.dims.size() >= b.dims.size());
  Tensor y = like_a ? a : b;
  for (size_t i = 0; i < y.ints.size(); ++i) {
    int64_t p = a.ints[a.ints.size() == 1 ? 0 : i], q = b.ints[b.ints.size() == 1 ? 0 : i], r = 0;
    bool bad = op == "add"   ? __builtin_add_overflow(p, q, &r)
               : op == "sub" ? __builtin_sub_overflow(p, q, &r)
               : op == "mul" ? __builtin_mul_overflow(p, q, &r)
                             : q == 0 || (q == -1 && p == std::numeric_limits<int64_t>::min());
    if (op == "div" && !bad) r = p / q;
    if (bad) throw c.fail("{} of {} and {} has no int64 result", op, p, q);
    y.ints[i] = r;
  }
  c.out(0, std::move(y));
}

void fold_concat(Call& c) {
  std::vector<int64_t> all;
  for (int i = 0; i < c.inputs(); ++i) {
    const Tensor& t = c.constant(i);
    if (t.dims.size() != 1)
      throw c.fail("integer tensors of shape {} cannot be concatenated", to_string(t.dims));
    if (all.size() + t.ints.size() > kMostFolded) throw c.fail("the result is too large to be a shape");
    all.insert(all.end(), t.ints.begin(), t.ints.end());
  }
  c.out(0, integers(std::move(all)));
}

void fold_gather(Call& c) {
  const Tensor &from = c.constant(0), &index = c.constant(1);
  if (from.dims.size() != 1)
    throw c.fail("an integer tensor of shape {} cannot be gathered from", to_string(from.dims));
  Tensor y = integers({});
  y.dims = index.dims;
  for (int64_t i : index.ints) y.ints.push_back(from.ints[c.axis(i, from.dims[0])]);
  c.out(0, std::move(y));
}

void fold_slice(Call& c, int64_t axis, int64_t start, int64_t end, int64_t step) {
  Tensor t = c.constant(0);
  int64_t n = t.dims[axis];
  if (step == 0 || step == std::numeric_limits<int64_t>::min())
    throw c.fail("a slice with a step of {}", step);
  int64_t least = step > 0 ? 0 : -1, most = step > 0 ? n : n - 1;
  start = std::clamp(start < 0 ? start + n : start, least, most);
  end = std::clamp(end < 0 ? end + n : end, least, most);
  int64_t count = step > 0 ? (end > start ? (end - start - 1) / step + 1 : 0)
                           : (start > end ? (start - end - 1) / -step + 1 : 0);
  int64_t inner = 1;  // elements that neighbours along the axis are apart
  for (size_t i = axis + 1; i < t.dims.size(); ++i) inner *= t.dims[i];
  std::vector<int64_t> picked;
  for (int64_t block = 0; block < std::ssize(t.ints); block += n * inner)
    for (int64_t i = 0; i < count; ++i)
      for (int64_t k = 0; k < inner; ++k) picked.push_back(t.ints[block + (start + i * step) * inner + k]);
  t.ints = std::move(picked);
  t.dims[axis] = count;
  c.out(0, std::move(t));
}

void fold_transpose(Call& c, const std::vector<int64_t>& permutation) {
  Tensor t = c.constant(0);
  const Dims from = t.dims;
  std::vector<int64_t> stride(from.size(), 1), index(from.size(), 0);
  for (size_t axis = from.size(); axis-- > 1;) stride[axis - 1] = stride[axis] * from[axis];
  for (size_t axis = 0; axis < from.size(); ++axis) t.dims[axis] = from[permutation[axis]];
  std::vector<int64_t> ints;
  for (size_t i = 0; i < t.ints.size(); ++i) {
    int64_t at = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * stride[permutation[axis]];
    ints.push_back(t.ints[at]);
    for (size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < t.dims[axis]) break;
      index[axis] = 0;
    }
  }
  t.ints = std::move(ints);
  c.out(0, std::move(t));
}

void fold_cast(Call& c, int type) {
  Tensor t = c.constant(0);
  if (is_float_type(type)) {
    t.floats = make_data(std::vector<float>(t.ints.begin(), t.ints.end()));
    t.ints.clear();
    t.is_float = true;
  } else if (type == onnx::TensorProto::BOOL) {
    for (int64_t& i : t.ints) i = i != 0;
  } else if (type == onnx::TensorProto::INT32) {
    for (int64_t& i : t.ints) i = static_cast<int32_t>(i);
  } else if (type != onnx::TensorProto::INT64) {
    throw c.fail("a cast to {} is not supported", type_name(type));
  }
  t.type = is_float_type(type) ? onnx::TensorProto::FLOAT : type;
  c.out(0, std::move(t));
}

}  // namespace pock::onnx_frontend
