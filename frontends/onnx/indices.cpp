#include "indices.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fold.h"
#include "shapes.h"

namespace pock::onnx_frontend {
namespace {

int64_t product(Dims::const_iterator begin, Dims::const_iterator end) {
  return std::accumulate(begin, end, int64_t{1}, std::multiplies<>());
}

// Numbers of elements, negative ones counted from the end.
std::vector<int64_t> read_index(Call& c, const Tensor& t, int64_t length) {
  if (t.is_float) throw c.fail("the index must be of integers");
  std::vector<int64_t> index = t.ints;
  for (int64_t& i : index) i = c.axis(i, length);
  return index;
}

// Numbers that a step computes, from 0 and within an axis of this length.
Value* from_front(Call& c, Value* index, int64_t length) {
  Value *zero = c.index_value({0}), *none = c.value("less", {index, zero});
  Value* y = c.value("add", {index, c.value("where_positive", {none, c.index_value({length}), zero})});
  return c.value("minimum", {c.value("maximum", {y, zero}), c.index_value({length - 1})});
}

Value* whole_constant(Call& c, const Dims& dims, const std::vector<int64_t>& elements) {
  return c.reshape(c.index_value(elements), dims);
}

// A constant number, which may be stored as any type.
int64_t whole_number(Call& c, int i) {
  const float x = c.scalar(i);
  if (!(std::abs(x) < 0x1p31f)) throw c.fail("input {} is {}", i, x);
  return static_cast<int64_t>(x);
}

// Elements of x, as a list of rows of `inner` each, under the shape `dims` and that of a row.
Value* rows_of(Call& c, Value* x, const Dims& inner, Value* index, Dims dims) {
  int64_t row = product(inner.begin(), inner.end());
  Value* list = c.reshape(x, {x->type.elements() / row, row});
  Value* y = c.value("gather", {list, c.reshape(index, {index->type.elements()})}, {{"axis", int64_t{0}}});
  dims.insert(dims.end(), inner.begin(), inner.end());
  return c.reshape(y, dims);
}

}  // namespace

void gather(Call& c, const char*) {
  Value* x = c.any(0);
  int64_t axis = c.axis(c.integer("axis", 0), x->type.rank());
  const Dims at = c.shape(1);
  Dims shape = x->type.dims;
  Value* y = nullptr;
  if (const Tensor* index = c.computed(1)) {
    y = picked(c, x, axis, read_index(c, *index, shape[axis]));
  } else {
    // As it stands: the trainer checks an input whose elements are numbers of rows.
    Value* rows = c.is_whole(1) && c.any(1)->type.dtype == DType::i32 ? c.any(1) : c.whole(1);
    y = c.value("gather", {x, c.reshape(rows, {rows->type.elements()})}, {{"axis", axis}});
  }
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, at.begin(), at.end());
  c.out(0, c.reshape(y, shape));
}

// As a gather from a list of all elements.
void gather_elements(Call& c, const char*) {
  Value* x = c.any(0);
  const Dims d = x->type.dims, at = c.shape(1);
  int64_t rank = std::ssize(d), axis = c.axis(c.integer("axis", 0), rank);
  if (std::ssize(at) != rank) throw c.fail("the index has rank {}, its input {}", at.size(), rank);
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis && at[i] > d[i])
      throw c.fail("an index of shape {} is larger than {}", to_string(at), to_string(x->type));
  const int64_t stride = product(d.begin() + axis + 1, d.end());
  need_listable(c, at);
  const Tensor* known = c.computed(1);
  std::vector<int64_t> flat(product(at.begin(), at.end()), 0);
  if (known) {
    flat = read_index(c, *known, d[axis]);
    for (int64_t& i : flat) i *= stride;
  }
  for (size_t k = 0; k < flat.size(); ++k) {
    int64_t rest = static_cast<int64_t>(k), step = 1;
    for (int64_t i = rank; i-- > 0; step *= d[i], rest /= at[i])
      if (i != axis) flat[k] += rest % at[i] * step;
  }
  if (known) {
    Value* list = c.reshape(x, {product(d.begin(), d.end())});
    return c.out(0, c.reshape(picked(c, list, 0, flat), at));
  }
  Value* along = c.value("mul", {from_front(c, c.whole(1), d[axis]), c.index_value({stride})});
  c.out(0, rows_of(c, x, {}, c.value("add", {along, whole_constant(c, at, flat)}), at));
}

// As a gather of rows: every index names one by its position along several axes.
void gather_nd(Call& c, const char*) {
  Value* x = c.any(0);
  const Dims d = x->type.dims, at = c.shape(1);
  int64_t rank = std::ssize(d), batch = c.since < 12 ? 0 : c.integer("batch_dims", 0);
  int64_t index_rank = std::ssize(at), named = index_rank ? at.back() : 0;
  if (batch < 0 || batch >= std::min(rank, index_rank) || named < 1 || batch + named > rank ||
      !std::equal(d.begin(), d.begin() + batch, at.begin()))
    throw c.fail("an index of shape {} with {} batch axes does not fit {}", to_string(at), batch,
                 to_string(x->type));
  const Dims outer(at.begin(), at.end() - 1), inner(d.begin() + batch + named, d.end());
  const int64_t count = need_listable(c, outer);
  const int64_t per_batch = product(at.begin() + batch, at.end() - 1);
  std::vector<int64_t> rows(count);
  for (int64_t k = 0; k < count; ++k) rows[k] = k / per_batch;  // the number of the batch
  if (const Tensor* known = c.computed(1)) {
    if (known->is_float) throw c.fail("the index must be of integers");
    for (int64_t k = 0; k < count; ++k)
      for (int64_t i = 0; i < named; ++i)
        rows[k] = rows[k] * d[batch + i] + c.axis(known->ints[k * named + i], d[batch + i]);
    Value* list =
        c.reshape(x, {product(d.begin(), d.begin() + batch + named), product(inner.begin(), inner.end())});
    Dims shape = outer;
    shape.insert(shape.end(), inner.begin(), inner.end());
    return c.out(0, c.reshape(picked(c, list, 0, rows), shape));
  }
  Value *index = c.reshape(c.whole(1), {count, named}), *flat = whole_constant(c, {count}, rows);
  for (int64_t i = 0; i < named; ++i) {
    const int64_t length = d[batch + i];
    Value* part = c.reshape(picked(c, index, 1, {i}), {count});
    flat = c.value("add", {c.value("mul", {flat, c.index_value({length})}), from_front(c, part, length)});
  }
  c.out(0, rows_of(c, x, inner, flat, outer));
}

namespace {

// Elements of the data, in order, each replaced by an update where `from` names one.
void replace(Call& c, const std::vector<int64_t>& from) {
  if (c.string("reduction", "none") != "none")
    throw c.fail("attribute 'reduction' is '{}', which is not supported", c.string("reduction", "none"));
  const bool whole = c.is_whole(0), truth = !whole && c.element_type(0) == onnx::TensorProto::BOOL;
  auto in = [&](int i) { return whole ? c.whole(i) : truth ? c.truth(i) : c.in(i); };
  Value *data = in(0), *updates = in(2);
  const Dims d = data->type.dims;
  std::vector<float> replaced;
  std::vector<int64_t> source;
  for (int64_t i : from) {
    replaced.push_back(i >= 0);
    source.push_back(std::max<int64_t>(i, 0));
  }
  Value* mask = c.scope().graph.add_constant({DType::f32, d}, make_data(replaced));
  updates = c.reshape(picked(c, c.reshape(updates, {updates->type.elements()}), 0, source), d);
  Value* y = c.value("where_positive", {mask, updates, data});
  whole ? c.out_whole(0, y) : truth ? c.out_truth(0, y) : c.out(0, y);
}

const Tensor& places(Call& c) {
  const Tensor& index = c.constant(1);
  if (index.is_float) throw c.fail("the index must be of integers");
  return index;
}

}  // namespace

void scatter_elements(Call& c, const char*) {
  const Dims d = c.shape(0);
  const Tensor& index = places(c);
  int64_t rank = std::ssize(d), axis = c.axis(c.integer("axis", 0), rank);
  if (std::ssize(index.dims) != rank || c.shape(2) != index.dims)
    throw c.fail("updates of shape {} go to places of shape {} in data of shape {}", to_string(c.shape(2)),
                 to_string(index.dims), to_string(d));
  for (int64_t i = 0; i < rank; ++i)
    if (i != axis && index.dims[i] > d[i])
      throw c.fail("an index of shape {} is larger than {}", to_string(index.dims), to_string(d));
  std::vector<int64_t> along = read_index(c, index, d[axis]), from(need_listable(c, d), -1);
  for (size_t k = 0; k < along.size(); ++k) {
    int64_t to = 0, rest = static_cast<int64_t>(k), step = 1;
    for (int64_t i = rank; i-- > 0; step *= d[i], rest /= index.dims[i])
      to += (i == axis ? along[k] : rest % index.dims[i]) * step;
    from[to] = static_cast<int64_t>(k);
  }
  replace(c, from);
}

void scatter_nd(Call& c, const char*) {
  const Dims d = c.shape(0);
  const Tensor& index = places(c);
  const int64_t named = index.dims.empty() ? 0 : index.dims.back();
  if (named < 1 || named > std::ssize(d))
    throw c.fail("an index of shape {} does not fit {}", to_string(index.dims), to_string(d));
  Dims want(index.dims.begin(), index.dims.end() - 1);
  want.insert(want.end(), d.begin() + named, d.end());
  if (c.shape(2) != want)
    throw c.fail("the updates have shape {}, not {}", to_string(c.shape(2)), to_string(want));
  const int64_t row = product(d.begin() + named, d.end());
  std::vector<int64_t> from(need_listable(c, d), -1);
  for (size_t k = 0; k < index.ints.size(); k += named) {
    int64_t to = 0;
    for (int64_t i = 0; i < named; ++i) to = to * d[i] + c.axis(index.ints[k + i], d[i]);
    for (int64_t i = 0; i < row; ++i) from[to * row + i] = static_cast<int64_t>(k) / named * row + i;
  }
  replace(c, from);
}

void one_hot(Call& c, const char*) {
  const int64_t depth = whole_number(c, 1), rank = std::ssize(c.shape(0));
  const int64_t axis = c.axis(c.integer("axis", -1), rank + 1);
  if (depth < 1 || depth > kMostFolded || c.shape(2) != Dims{2})
    throw c.fail("there are {} classes and values of shape {}", depth, to_string(c.shape(2)));
  Value* index = c.is_whole(0) ? c.whole(0) : c.value("cast", {c.in(0)}, {{"to", std::string("i64")}});
  Dims apart = index->type.dims, along(rank + 1, 1);
  apart.insert(apart.begin() + axis, 1);
  along[axis] = depth;
  // Negative classes count from the end; what is no class is nowhere.
  Value *zero = c.index_value({0}), *none = c.value("less", {index, zero});
  index = c.value("add", {index, c.value("where_positive", {none, c.index_value({depth}), zero})});
  Value* own = c.value("equal", {c.reshape(index, apart), whole_constant(c, along, first_axes(depth))});
  Value* values = c.is_whole(2) ? c.whole(2) : c.in(2);
  auto value = [&](int64_t i) { return c.reshape(picked(c, values, 0, {i}), {}); };
  Value* y = c.value("where_positive", {own, value(1), value(0)});
  c.is_whole(2) ? c.out_whole(0, y, 2) : c.out(0, y, -1);
}

void arg_max(Call& c, const char* op) {
  Value* x = c.is_whole(0) ? c.any(0) : c.in(0);
  Dims shape = x->type.dims;
  int64_t axis = c.axis(c.integer("axis", 0), std::ssize(shape));
  int64_t last = c.since >= 12 && c.flag("select_last_index", false);
  int64_t least = std::string_view(op) == "least";
  Value* y = c.value("arg_max", {x}, {{"axis", axis}, {"least", least}, {"last", last}});
  shape[axis] = 1;
  c.out(0, c.flag("keepdims", true) ? c.reshape(y, shape) : y, -1);
}

void cumulative_sum(Call& c, const char*) {
  Value* x = c.is_whole(0) ? c.any(0) : c.in(0);
  int64_t axis = c.axis(whole_number(c, 1), x->type.rank());
  int64_t exclusive = c.flag("exclusive", false), reverse = c.flag("reverse", false);
  c.out(0, c.value("cumulative_sum", {x}, {{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}}));
}

void trilu(Call& c, const char*) {
  Value* x = c.any(0);
  if (x->type.rank() < 2) throw c.fail("a triangle wants 2 axes or more, there are {}", x->type.rank());
  const bool upper = c.flag("upper", true);
  const int64_t k = c.has(1) ? whole_number(c, 1) : 0;
  const int64_t rows = x->type.dim(-2), columns = x->type.dim(-1);
  need_listable(c, {rows, columns});
  std::vector<float> keep;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) keep.push_back(upper ? j - i >= k : j - i <= k);
  Value* kept = c.scope().graph.add_constant({DType::f32, {rows, columns}}, make_data(keep));
  Value* zero = is_float(x->type.dtype) ? c.number_value(0) : c.reshape(c.index_value({0}), {});
  if (!is_float(x->type.dtype)) x = c.is_whole(0) ? c.whole(0) : x;
  Value* y = c.value("where_positive", {kept, x, zero});
  is_float(x->type.dtype) || !c.is_whole(0) ? c.out(0, y) : c.out_whole(0, y);
}

}  // namespace pock::onnx_frontend
