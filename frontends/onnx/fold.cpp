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

void fold_slice(Call& c, int64_t start, int64_t end, int64_t step) {
  const Tensor& from = c.constant(0);
  int64_t n = from.dims[0];
  if (step == 0 || step == std::numeric_limits<int64_t>::min())
    throw c.fail("a slice with a step of {}", step);
  int64_t least = step > 0 ? 0 : -1, most = step > 0 ? n : n - 1;
  start = std::clamp(start < 0 ? start + n : start, least, most);
  end = std::clamp(end < 0 ? end + n : end, least, most);
  std::vector<int64_t> picked;
  int64_t count = step > 0 ? (end > start ? (end - start - 1) / step + 1 : 0)
                           : (start > end ? (start - end - 1) / -step + 1 : 0);
  for (int64_t i = 0; i < count; ++i) picked.push_back(from.ints[start + i * step]);
  c.out(0, integers(std::move(picked)));
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
