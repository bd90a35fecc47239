#include "fold.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace pock::onnx_frontend {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

bool divide(int64_t a, int64_t b, int64_t* r) {  // towards zero
  if (b == 0 || (b == -1 && a == kLeast)) return false;
  *r = a / b;
  return true;
}
bool remainder(int64_t a, int64_t b, int64_t* r) {  // with the sign of a
  if (b == 0) return false;
  *r = b == -1 ? 0 : a % b;
  return true;
}
bool modulo(int64_t a, int64_t b, int64_t* r) {  // with the sign of b
  if (!remainder(a, b, r)) return false;
  if (*r != 0 && (*r < 0) != (b < 0)) *r += b;
  return true;
}
bool power(int64_t a, int64_t b, int64_t* r) {
  if (b < 0) return false;
  *r = 1;
  for (int64_t base = a; b; b >>= 1) {
    if ((b & 1) && __builtin_mul_overflow(*r, base, r)) return false;
    if (b > 1 && __builtin_mul_overflow(base, base, &base)) return false;
  }
  return true;
}

// False where there is no result within int64.
using Join = bool (*)(int64_t a, int64_t b, int64_t* r);

struct Row {
  const char* op;
  Join join;
  bool boolean = false;  // what the results are
};
constexpr Row kRows[] = {
    {"add", [](int64_t a, int64_t b, int64_t* r) { return !__builtin_add_overflow(a, b, r); }},
    {"sub", [](int64_t a, int64_t b, int64_t* r) { return !__builtin_sub_overflow(a, b, r); }},
    {"mul", [](int64_t a, int64_t b, int64_t* r) { return !__builtin_mul_overflow(a, b, r); }},
    {"div", divide},
    {"fmod", remainder},
    {"mod", modulo},
    {"pow", power},
    {"maximum", [](int64_t a, int64_t b, int64_t* r) { return *r = std::max(a, b), true; }},
    {"minimum", [](int64_t a, int64_t b, int64_t* r) { return *r = std::min(a, b), true; }},
    {"equal", [](int64_t a, int64_t b, int64_t* r) { return *r = a == b, true; }, true},
    {"less", [](int64_t a, int64_t b, int64_t* r) { return *r = a < b, true; }, true},
    {"less_or_equal", [](int64_t a, int64_t b, int64_t* r) { return *r = a <= b, true; }, true},
    {"greater", [](int64_t a, int64_t b, int64_t* r) { return *r = a > b, true; }, true},
    {"greater_or_equal", [](int64_t a, int64_t b, int64_t* r) { return *r = a >= b, true; }, true},
    {"and", [](int64_t a, int64_t b, int64_t* r) { return *r = a && b, true; }, true},
    {"or", [](int64_t a, int64_t b, int64_t* r) { return *r = a || b, true; }, true},
    {"xor", [](int64_t a, int64_t b, int64_t* r) { return *r = !a != !b, true; }, true},
};

const Row& find(std::string_view op) {
  for (const Row& row : kRows)
    if (op == row.op) return row;
  POCK_CHECK(false, "no integers are folded by '{}'", op);
  return kRows[0];
}

const Tensor& integer_input(Call& c, int i) {
  const Tensor& t = c.constant(i);
  if (t.is_float) throw c.fail("input {} mixes floats with integers", i);
  return t;
}

Dims broadcast(Call& c, const Dims& a, const Dims& b) {
  Dims y(std::max(a.size(), b.size()), 1);
  for (const Dims* from : {&a, &b})
    for (size_t i = 1; i <= from->size(); ++i) {
      int64_t d = (*from)[from->size() - i], &have = y[y.size() - i];
      if (d == 1 || d == have) continue;
      if (have != 1) throw c.fail("shapes {} and {} do not broadcast", to_string(a), to_string(b));
      have = d;
    }
  if (checked_elements(y, c.loc()) > kMostFolded)
    throw c.fail("the result {} is too large to be a shape", to_string(y));
  return y;
}

// Every element of a tensor that is broadcast to `shape`.
std::vector<int64_t> spread(const Tensor& t, const Dims& shape) {
  std::vector<int64_t> elements = t.ints;
  int64_t block = 1;  // elements that neighbours along the axis are apart, once it is spread
  for (size_t i = 1; i <= shape.size(); ++i) {
    int64_t want = shape[shape.size() - i], have = i <= t.dims.size() ? t.dims[t.dims.size() - i] : 1;
    if (have != want) {
      std::vector<int64_t> repeated;
      for (size_t at = 0; at < elements.size(); at += block)
        for (int64_t n = 0; n < want; ++n)
          repeated.insert(repeated.end(), elements.begin() + at, elements.begin() + at + block);
      elements = std::move(repeated);
    }
    block *= want;
  }
  return elements;
}

int64_t joined(Call& c, const Row& row, int64_t a, int64_t b) {
  int64_t r = 0;
  if (!row.join(a, b, &r)) throw c.fail("{} of {} and {} has no int64 result", row.op, a, b);
  return r;
}

}  // namespace

Tensor integers(std::vector<int64_t> data) {
  Tensor t;
  t.type = onnx::TensorProto::INT64;
  t.is_float = false;
  t.dims = {static_cast<int64_t>(data.size())};
  t.ints = std::move(data);
  return t;
}

int64_t wrapped(int64_t n, int type) {
  switch (type) {
    case onnx::TensorProto::BOOL:
      return n != 0;
    case onnx::TensorProto::INT8:
      return static_cast<int8_t>(n);
    case onnx::TensorProto::UINT8:
      return static_cast<uint8_t>(n);
    case onnx::TensorProto::INT16:
      return static_cast<int16_t>(n);
    case onnx::TensorProto::UINT16:
      return static_cast<uint16_t>(n);
    case onnx::TensorProto::INT32:
      return static_cast<int32_t>(n);
    case onnx::TensorProto::UINT32:
      return static_cast<uint32_t>(n);
    default:
      return n;
  }
}

void fold_pointwise(Call& c, std::string_view op) {
  const Row& row = find(op);
  Tensor y = integer_input(c, 0);
  for (int i = 1; i < c.inputs(); ++i) {
    const Tensor& x = integer_input(c, i);
    Dims dims = broadcast(c, y.dims, x.dims);
    std::vector<int64_t> a = spread(y, dims), b = spread(x, dims);
    for (size_t k = 0; k < a.size(); ++k) a[k] = wrapped(joined(c, row, a[k], b[k]), y.type);
    y.dims = std::move(dims);
    y.ints = std::move(a);
  }
  if (row.boolean) y.type = onnx::TensorProto::BOOL;
  c.out(0, std::move(y));
}

void fold_reduction(Call& c, std::string_view op, const std::vector<int64_t>& axes, bool keep) {
  const Row& row = find(op);
  const Tensor& x = integer_input(c, 0);
  Tensor y = x;
  std::vector<int64_t> stride(x.dims.size(), 0);  // in the result
  int64_t size = 1;
  for (size_t i = x.dims.size(); i-- > 0;) {
    bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    y.dims[i] = reduced ? 1 : x.dims[i];
    if (!reduced) stride[i] = size;
    size *= y.dims[i];
  }
  y.ints.assign(size, 0);
  std::vector<bool> begun(size, false);
  for (size_t k = 0; k < x.ints.size(); ++k) {
    int64_t at = 0, rest = static_cast<int64_t>(k);
    for (size_t i = x.dims.size(); i-- > 0; rest /= x.dims[i]) at += rest % x.dims[i] * stride[i];
    y.ints[at] = begun[at] ? wrapped(joined(c, row, y.ints[at], x.ints[k]), y.type) : x.ints[k];
    begun[at] = true;
  }
  if (std::count(begun.begin(), begun.end(), false)) throw c.fail("there is nothing to reduce");
  if (!keep)
    for (size_t i = axes.size(); i-- > 0;) y.dims.erase(y.dims.begin() + axes[i]);
  c.out(0, std::move(y));
}

void fold_where(Call& c) {
  const Tensor &condition = integer_input(c, 0), &then = integer_input(c, 1),
               &otherwise = integer_input(c, 2);
  Tensor y;
  y.is_float = false;
  y.type = then.type;
  y.dims = broadcast(c, broadcast(c, condition.dims, then.dims), otherwise.dims);
  std::vector<int64_t> which = spread(condition, y.dims), a = spread(then, y.dims),
                       b = spread(otherwise, y.dims);
  for (size_t k = 0; k < which.size(); ++k) y.ints.push_back(which[k] ? a[k] : b[k]);
  c.out(0, std::move(y));
}

void fold_cast(Call& c, int type) {
  Tensor t = c.constant(0);
  if (is_float_type(type)) {
    t.floats = make_data(std::vector<float>(t.ints.begin(), t.ints.end()));
    t.ints.clear();
    t.is_float = true;
    t.type = onnx::TensorProto::FLOAT;
    return c.out(0, std::move(t));
  }
  for (int64_t& i : t.ints) i = wrapped(i, type);
  t.type = type;
  c.out(0, std::move(t));
}

}  // namespace pock::onnx_frontend
