#include "pock/ops/op.h"

#include <algorithm>

#include "rules.h"

namespace pock {

std::unordered_set<const Value*> differentiable_ancestors(const Graph& g, std::span<Value* const> ends) {
  std::unordered_set<const Value*> found(ends.begin(), ends.end());
  for (const Node* n : g.nodes_backward())
    for (const Value* r : n->results())
      if (found.count(r)) {
        for (const Value* v : differentiable_inputs(*n))
          if (is_float(v->type.dtype)) found.insert(v);
        break;
      }
  return found;
}

int64_t InferArgs::integer(std::string_view name) const { return get_attr<int64_t>(attrs_, name); }
double InferArgs::number(std::string_view name) const { return get_attr<double>(attrs_, name); }
const std::string& InferArgs::string(std::string_view name) const {
  return get_attr<std::string>(attrs_, name);
}
const std::vector<int64_t>& InferArgs::integers(std::string_view name) const {
  return get_attr<std::vector<int64_t>>(attrs_, name);
}

Error InferArgs::with_inputs(Error e) const {
  for (size_t i = 0; i < in_.size(); ++i) e.note(in_[i]->loc(), "input {} is {}", i, to_string(in_[i]->type));
  return e;
}

void need_dtype(const InferArgs& a, int i, DType dtype) {
  if (a.in(i).dtype != dtype)
    throw a.fail("input {} must be {}, it is {}", i, to_string(dtype), to_string(a.in(i).dtype));
}

void need_floats(const InferArgs& a) {
  for (int i = 0; i < a.count(); ++i) need_dtype(a, i, DType::f32);
}

void need_rank(const InferArgs& a, int i, int rank) {
  if (a.in(i).rank() != rank) throw a.fail("input {} must have {} axes, it has {}", i, rank, a.in(i).rank());
}

void need_index(const InferArgs& a, int i) {
  need_rank(a, i, 1);
  if (a.in(i).dtype != DType::i64 && a.in(i).dtype != DType::i32)
    throw a.fail("the index (input {}) must be i64 or i32, it is {}", i, to_string(a.in(i).dtype));
}

void need_type(const InferArgs& a, int i, const Type& type, const char* what) {
  if (a.in(i) != type)
    throw a.fail("{} (input {}) must be {}, it is {}", what, i, to_string(type), to_string(a.in(i)));
}

const std::vector<int64_t>& need_ints(const InferArgs& a, const char* attr, size_t count, int64_t least) {
  const auto& v = a.integers(attr);
  if (v.size() != count) throw a.fail("'{}' needs {} numbers, it is {}", attr, count, to_string(v));
  for (int64_t n : v)
    if (n < least) throw a.fail("'{}' is {}, none may be below {}", attr, to_string(v), least);
  return v;
}

int64_t need_axis(const InferArgs& a, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) throw a.fail("axis {} is outside of the {} axes there are", axis, rank);
  return from_start(axis, rank);
}

Dims broadcast(const InferArgs& a, const Dims& left, const Dims& right, int i) {
  Dims out = left;
  if (right.size() > out.size()) out.insert(out.begin(), right.size() - out.size(), 1);
  for (size_t axis = 1; axis <= right.size(); ++axis) {
    int64_t& have = out[out.size() - axis];
    int64_t d = right[right.size() - axis];
    if (d == have || d == 1) continue;
    if (have != 1)
      throw a.fail("shapes do not broadcast: {} of input {} meets {} at axis -{}", to_string(right), i,
                   to_string(left), axis);
    have = d;
  }
  return out;
}

Types broadcast_all(const InferArgs& a) {
  Type out = a.in(0);
  for (int i = 1; i < a.count(); ++i) {
    if (a.in(i).dtype != out.dtype)
      throw a.fail("inputs are of different element types, {} and {}", to_string(out), to_string(a.in(i)));
    out.dims = broadcast(a, out.dims, a.in(i).dims, i);
  }
  return {out};
}

Types broadcast_floats(const InferArgs& a) {
  need_floats(a);
  return broadcast_all(a);
}

Types broadcast_numbers(const InferArgs& a) {
  for (int i = 0; i < a.count(); ++i)
    if (a.in(i).dtype == DType::mask) throw a.fail("input {} is a mask, which holds no numbers", i);
  return broadcast_all(a);
}

bool broadcasts_to(const Dims& from, const Dims& to) {
  if (from.size() > to.size()) return false;
  return std::equal(from.rbegin(), from.rend(), to.rbegin(),
                    [](int64_t f, int64_t t) { return f == t || f == 1; });
}

Type channel_shape(const Type& x) {
  Type t{x.dtype, Dims(x.rank() - 1, 1)};
  t.dims[0] = x.dim(1);
  return t;
}

}  // namespace pock
