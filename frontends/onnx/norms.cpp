#include "norms.h"

#include <numeric>

namespace pock::onnx_frontend {
namespace {

int64_t product(Dims::const_iterator begin, Dims::const_iterator end) {
  return std::accumulate(begin, end, int64_t{1}, std::multiplies<>());
}

Value* mean_of_rows(Call& c, Value* x) {
  return c.value("reduce_mean", {x}, {{"axes", std::vector<int64_t>{-1}}, {"keep", int64_t{1}}});
}

// The rows, along the last axis, over their root mean square.
struct Scaled {
  Value *y, *inverse;
};
Scaled scaled(Call& c, Value* x, float epsilon) {
  if (!(epsilon >= 0)) throw c.fail("attribute 'epsilon' is {}", epsilon);
  Value* square = mean_of_rows(c, c.value("mul", {x, x}));
  Value* root = c.value("sqrt", {c.value("add", {square, c.number_value(epsilon)})});
  Value* inverse = c.value("reciprocal", {root});
  return {c.value("mul", {x, inverse}), inverse};
}

struct Normalised {
  Value *y, *mean, *inverse;
};
Normalised normalised(Call& c, Value* x, float epsilon) {
  Value* mean = mean_of_rows(c, x);
  Scaled s = scaled(c, c.value("sub", {x, mean}), epsilon);
  return {s.y, mean, s.inverse};
}

// Axes from `axis` on as one.
Value* with_rows(Call& c, Value* x, int64_t axis) {
  Dims d = x->type.dims;
  const int64_t length = product(d.begin() + axis, d.end());
  d.resize(axis);
  d.push_back(length);
  return c.reshape(x, d);
}

// y with the scale and, where there is one, the shift of these inputs under a shape that broadcasts to y's.
Value* scaled_and_shifted(Call& c, Value* y, int scale, int shift, const Dims& shape) {
  auto join = [&](const char* op, int i) {
    Value* by = c.in(i);
    if (by->type.elements() == product(shape.begin(), shape.end())) by = c.reshape(by, shape);
    Value* joined = c.value(op, {y, by});
    if (joined->type != y->type)
      throw c.fail("input {} has shape {}, which does not broadcast to {}", i, to_string(c.shape(i)),
                   to_string(shape));
    y = joined;
  };
  join("mul", scale);
  if (c.has(shift)) join("add", shift);
  return y;
}

}  // namespace

void layer_norm(Call& c, const char*) {
  Value* x = c.in(0);
  const Dims d = x->type.dims;
  const int64_t axis = c.axis(c.integer("axis", -1), std::ssize(d));
  c.integer("stash_type", 1);
  Normalised n = normalised(c, with_rows(c, x, axis), c.number("epsilon", 1e-5f));
  c.out(0, scaled_and_shifted(c, c.reshape(n.y, d), 1, 2, Dims(d.begin() + axis, d.end())));
  Dims reduced = d;
  std::fill(reduced.begin() + axis, reduced.end(), 1);
  c.out(1, c.reshape(n.mean, reduced));
  c.out(2, c.reshape(n.inverse, reduced));
}

void rms_norm(Call& c, const char*) {
  Value* x = c.in(0);
  const Dims d = x->type.dims;
  const int64_t axis = c.axis(c.integer("axis", -1), std::ssize(d));
  c.integer("stash_type", 1);
  Value* y = scaled(c, with_rows(c, x, axis), c.number("epsilon", 1e-5f)).y;
  c.out(0, scaled_and_shifted(c, c.reshape(y, d), 1, 2, Dims(d.begin() + axis, d.end())));
}

namespace {

// Every group of channels of [N,C,...].
void by_groups(Call& c, int64_t groups, bool scale_of_groups) {
  Value* x = c.in(0);
  const Dims d = x->type.dims;
  if (d.size() < 3) throw c.fail("the input has rank {}, but wants [N,C,...]", d.size());
  if (groups < 1 || d[1] % groups != 0)
    throw c.fail("{} channels do not divide into {} groups", d[1], groups);
  Value* rows = c.reshape(x, {d[0], groups, x->type.elements() / d[0] / groups});
  Value* y = normalised(c, rows, c.number("epsilon", 1e-5f)).y;
  if (scale_of_groups) return c.out(0, c.reshape(scaled_and_shifted(c, y, 1, 2, {groups, 1}), d));
  Dims channels(d.size() - 1, 1);
  channels[0] = d[1];
  c.out(0, scaled_and_shifted(c, c.reshape(y, d), 1, 2, channels));
}

}  // namespace

void group_norm(Call& c, const char*) {
  if (c.since >= 21) c.integer("stash_type", 1);
  by_groups(c, c.integer("num_groups"), c.since < 21);
}

void instance_norm(Call& c, const char*) { by_groups(c, c.shape(0).size() > 1 ? c.shape(0)[1] : 1, false); }

void lp_norm(Call& c, const char*) {
  Value* x = c.in(0);
  const int64_t axis = c.axis(c.integer("axis", -1), x->type.rank()), p = c.integer("p", 2);
  if (p != 1 && p != 2) throw c.fail("attribute 'p' is {}; there are 1 and 2", p);
  Value* norm = c.value(p == 1 ? "reduce_l1" : "reduce_l2", {x},
                        {{"axes", std::vector<int64_t>{axis}}, {"keep", int64_t{1}}});
  c.out(0, c.value("div_or_zero", {x, norm}));
}

}  // namespace pock::onnx_frontend
