#include "ops.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "fold.h"
#include "resize.h"
#include "windows.h"

namespace pock::onnx_frontend {
namespace {

void unary(Call& c, const char* op) { c.out(0, c.value(op, {c.in(0)})); }

void arithmetic(Call& c, const char* op) {
  if (c.all_integers()) return fold_arithmetic(c, op);
  Value* a = c.in(0);
  c.out(0, c.value(op, {a, c.in(1)}));
}

// Any number of inputs, joined from left to right.
void chain(Call& c, const char* op) {
  Value* y = c.in(0);
  for (int i = 1; i < c.inputs(); ++i) y = c.value(op, {y, c.in(i)});
  c.out(0, y);
}

void clip(Call& c, const char*) {
  double low = std::numeric_limits<float>::lowest(), high = std::numeric_limits<float>::max();
  if (c.since < 11) {
    low = c.number("min", low);
    high = c.number("max", high);
  } else {
    if (c.has(1)) low = c.scalar(1);
    if (c.has(2)) high = c.scalar(2);
  }
  bool bounded = low > std::numeric_limits<float>::lowest() || high < std::numeric_limits<float>::max();
  c.out(0, bounded ? c.value("clip", {c.in(0)}, {{"low", low}, {"high", high}}) : c.in(0));
}

// ---- Activations with attributes

void leaky_relu(Call& c, const char*) {
  c.out(0, c.value("leaky_relu", {c.in(0)}, {{"alpha", double{c.number("alpha", 0.01f)}}}));
}

void prelu(Call& c, const char*) {
  Value* x = c.in(0);
  c.out(0, c.value("prelu", {x, c.in(1)}));
}

void elu(Call& c, const char*) {
  c.out(0, c.value("elu", {c.in(0)}, {{"alpha", double{c.number("alpha", 1)}}}));
}

void celu(Call& c, const char*) {
  float alpha = c.number("alpha", 1);
  if (alpha == 0) throw c.fail("attribute 'alpha' is 0");
  c.out(0, c.value("celu", {c.in(0)}, {{"alpha", double{alpha}}}));
}

void selu(Call& c, const char*) {
  double alpha = c.number("alpha", 1.67326319217681884765625f),
         gamma = c.number("gamma", 1.05070102214813232421875f);
  c.out(0, c.value("selu", {c.in(0)}, {{"alpha", alpha}, {"gamma", gamma}}));
}

void hard_sigmoid(Call& c, const char*) {
  double alpha = c.number("alpha", 0.2f), beta = c.number("beta", 0.5f);
  c.out(0, c.value("hard_sigmoid", {c.in(0)}, {{"alpha", alpha}, {"beta", beta}}));
}

void gelu(Call& c, const char*) {
  std::string how = c.string("approximate", "none");
  if (how != "none" && how != "tanh")
    throw c.fail("attribute 'approximate' is '{}'; there are none and tanh", how);
  c.out(0, c.value(how == "tanh" ? "gelu_tanh" : "gelu", {c.in(0)}));
}

// ---- Products

// numpy's matmul: a vector on the left is a row, on the right a column, and that axis is dropped from the result.
void matmul(Call& c, const char*) {
  Value *a = c.in(0), *b = c.in(1);
  Dims left = a->type.dims, right = b->type.dims;
  if (left.empty() || right.empty()) throw c.fail("a scalar cannot be a matrix");
  bool row = left.size() == 1, column = right.size() == 1;
  if (row) left.insert(left.begin(), 1);
  if (column) right.push_back(1);
  int64_t sum = left.back(), columns = right.back();
  if (sum != right.end()[-2])
    throw c.fail("rows of {} elements on the left meet columns of {} on the right", sum, right.end()[-2]);
  Dims shape = left;
  if (b->type.elements() == sum * columns) {
    // One matrix on the right: all rows on the left are those of one product, and so is the gradient.
    if (right.size() > left.size()) shape.insert(shape.begin(), right.size() - left.size(), 1);
    left = {a->type.elements() / sum, sum};
    right = {sum, columns};
  }
  Value* y = c.value("matmul", {c.reshape(a, left), c.reshape(b, right)});
  if (left.size() > 2 || right.size() > 2) shape = y->type.dims;
  shape.back() = columns;
  if (column) shape.pop_back();
  if (row) shape.erase(shape.end() - (column ? 1 : 2));
  c.out(0, c.reshape(y, shape));
}

void gemm(Call& c, const char*) {
  Value *a = c.in(0), *b = c.in(1);
  int64_t transpose_a = c.flag("transA", false), transpose_b = c.flag("transB", false);
  float alpha = c.number("alpha", 1), beta = c.number("beta", 1);
  if (a->type.rank() != 2 || b->type.rank() != 2)
    throw c.fail("A and B must be matrices, but have ranks {} and {}", a->type.rank(), b->type.rank());
  Value* y = c.value("matmul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
  if (alpha != 1) y = c.value("mul", {y, c.number_value(alpha)});
  if (c.has(2)) {
    Value* bias = c.in(2);
    if (beta != 0) {
      if (beta != 1) bias = c.value("mul", {bias, c.number_value(beta)});
      Value* sum = c.value("add", {y, bias});
      if (sum->type != y->type)
        throw c.fail("C must broadcast to {}, the shape of the product", to_string(y->type.dims));
      y = sum;
    }
  }
  c.out(0, y);
}

// ---- Normalisation, softmax, reductions

// The number that was meant: 0.9, where the file has the float nearest to it.
double decimal(float x) { return std::stod(fmt::format("{}", x)); }

void batch_norm(Call& c, const char*) {
  Value* x = c.in(0);
  if (c.since < 9 && c.integer("spatial", 1) != 1) throw c.fail("batch norm with spatial=0 is not supported");
  if (c.since >= 14) c.flag("training_mode", false);  // the mode is chosen when the training step is made
  float epsilon = c.number("epsilon", 1e-5f), momentum = c.number("momentum", 0.9f);
  Dims channels{x->type.rank() < 2 ? 1 : x->type.dims[1]};
  for (int i = 1; i <= 4; ++i)
    if (c.shape(i) != channels)
      throw c.fail("input {} has shape {}, but the input has {} channels", i, to_string(c.shape(i)),
                   channels[0]);
  Value *scale = c.in(1), *shift = c.in(2), *mean = c.statistic(3);
  Value* y = c.value("batch_norm", {x, scale, shift, mean, c.statistic(4)},
                     {{"epsilon", decimal(epsilon)}, {"momentum", decimal(momentum)}});
  c.out(0, y);
}

void softmax(Call& c, const char* op) {
  Value* x = c.in(0);
  Dims d = x->type.dims;
  int64_t rank = x->type.rank();
  if (c.since < 13) {  // one softmax over all axes from `axis` on
    int64_t axis = c.integer("axis", 1);
    axis = axis == rank ? rank : c.axis(axis, rank);
    int64_t rows = std::accumulate(d.begin(), d.begin() + axis, int64_t{1}, std::multiplies<>());
    Value* flat = c.reshape(x, {rows, x->type.elements() / rows});
    c.out(0, c.reshape(c.value(op, {flat}), d));
    return;
  }
  int64_t axis = c.axis(c.integer("axis", -1), rank);
  if (axis == rank - 1) {
    c.out(0, c.value(op, {x}));
    return;
  }
  std::vector<int64_t> swapped(rank);
  std::iota(swapped.begin(), swapped.end(), 0);
  std::swap(swapped[axis], swapped[rank - 1]);
  c.out(0, c.transpose(c.value(op, {c.transpose(x, swapped)}), swapped));
}

// `axes` is an attribute before the version where it became an input.
std::vector<int64_t> read_axes(Call& c, int input_since) {
  if (c.since < input_since) return c.integers("axes", std::vector<int64_t>{});
  return c.has(1) ? c.integers(1) : std::vector<int64_t>{};
}

void reduce(Call& c, const char* op, int input_since) {
  Value* x = c.in(0);
  int64_t rank = x->type.rank(), keep = c.flag("keepdims", true);
  std::vector<int64_t> axes = c.axes(read_axes(c, input_since), rank);
  bool noop = c.since >= input_since && c.flag("noop_with_empty_axes", false);
  if (axes.empty()) {
    if (noop || rank == 0) return c.out(0, x);
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  c.out(0, c.value(op, {x}, {{"axes", axes}, {"keep", keep}}));
}

void reduce_from_13(Call& c, const char* op) { reduce(c, op, 13); }
void reduce_from_18(Call& c, const char* op) { reduce(c, op, 18); }

// ---- Shapes

// A constant tensor of integers keeps its elements; a value gets a reshape.
void with_shape(Call& c, Dims shape) {
  if (c.all_integers() || (c.known(0) && !c.known(0)->is_float)) {
    Tensor t = *c.known(0);
    t.dims = std::move(shape);
    return c.out(0, std::move(t));
  }
  c.out(0, c.reshape(c.any(0), std::move(shape)));
}

void flatten(Call& c, const char*) {
  Value* x = c.any(0);
  int64_t rank = x->type.rank(), axis = c.integer("axis", 1);
  if (axis != rank) axis = c.axis(axis, rank);
  const Dims& d = x->type.dims;
  int64_t rows = std::accumulate(d.begin(), d.begin() + axis, int64_t{1}, std::multiplies<>());
  c.out(0, c.reshape(x, {rows, x->type.elements() / rows}));
}

void reshape(Call& c, const char*) {
  const Dims from = c.shape(0);
  const std::vector<int64_t> target = c.integers(1);
  bool allow_zero = c.since >= 14 && c.flag("allowzero", false);
  const auto& rebatch = c.scope().rebatch;
  if (rebatch && !target.empty() && target[0] == rebatch->from && !from.empty() && from[0] == rebatch->to)
    throw c.fail(
        "the target shape {} is fixed to the batch of {} that the file was exported with, and the batch is "
        "to be {}: export the model with a symbolic batch axis",
        to_string(target), rebatch->from, rebatch->to);
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
  with_shape(c, shape);
}

void squeeze(Call& c, const char*) {
  const Dims from = c.shape(0);
  bool all = c.since < 13 ? !c.has("axes") : !c.has(1);
  std::vector<int64_t> axes = c.axes(read_axes(c, 13), static_cast<int64_t>(from.size()));
  Dims shape;
  for (size_t i = 0; i < from.size(); ++i) {
    bool named = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i));
    if (named && from[i] != 1)
      throw c.fail("axis {} of shape {} is not 1, so it cannot be squeezed", i, to_string(from));
    if (!(named || (all && from[i] == 1))) shape.push_back(from[i]);
  }
  with_shape(c, shape);
}

void unsqueeze(Call& c, const char*) {
  const Dims from = c.shape(0);
  std::vector<int64_t> axes = read_axes(c, 13);
  int64_t rank = static_cast<int64_t>(from.size() + axes.size());
  axes = c.axes(axes, rank);
  Dims shape = from;
  for (int64_t a : axes) shape.insert(shape.begin() + a, 1);
  with_shape(c, shape);
}

void transpose(Call& c, const char*) {
  const int64_t rank = std::ssize(c.shape(0));
  std::vector<int64_t> reversed(rank);
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  std::vector<int64_t> permutation = c.integers("perm", reversed);
  if (c.axes(permutation, rank).size() != reversed.size())
    throw c.fail("attribute 'perm' is {}, but the input has {} axes", to_string(permutation),
                 reversed.size());
  for (int64_t& axis : permutation) axis = c.axis(axis, rank);
  if (c.all_integers()) return fold_transpose(c, permutation);
  c.out(0, c.transpose(c.any(0), permutation));
}

void concat(Call& c, const char*) {
  int64_t axis = c.integer("axis");
  if (c.all_integers()) return fold_concat(c);
  std::vector<Value*> in;
  for (int i = 0; i < c.inputs(); ++i) in.push_back(c.in(i));
  if (in.empty()) throw c.fail("there is nothing to concatenate");
  axis = c.axis(axis, in[0]->type.rank());
  c.out(0, in.size() == 1 ? in[0] : c.value("concat", in, {{"axis", axis}}));
}

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
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    throw c.fail("there are {} starts, {} ends, {} axes and {} steps", starts.size(), ends.size(),
                 axes.size(), steps.size());
  const Dims from = c.shape(0);
  c.axes(axes, static_cast<int64_t>(from.size()));
  if (const Tensor* t = c.known(0); t && !t->is_float) {
    if (axes.size() != 1)
      throw c.fail("an integer tensor of shape {} cannot be sliced along {} axes", to_string(from),
                   axes.size());
    return fold_slice(c, c.axis(axes[0], std::ssize(from)), starts[0], ends[0], steps[0]);
  }
  Value* x = c.any(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = c.axis(axes[i], static_cast<int64_t>(from.size())), n = from[axis];
    if (steps[i] != 1)
      throw c.fail("slices with steps {} are not supported, only with steps of 1", to_string(steps));
    int64_t start = std::clamp<int64_t>(starts[i] < 0 ? starts[i] + n : starts[i], 0, n);
    int64_t end = std::clamp<int64_t>(ends[i] < 0 ? ends[i] + n : ends[i], 0, n);
    if (start >= end)
      throw c.fail("the slice [{},{}) of axis {} with length {} is empty", starts[i], ends[i], axis, n);
    if (start > 0 || end < n) x = c.value("slice", {x}, {{"axis", axis}, {"start", start}, {"end", end}});
  }
  c.out(0, x);
}

void pad(Call& c, const char*) {
  Value* x = c.any(0);
  int64_t rank = x->type.rank();
  std::string mode = c.string("mode", "constant");
  std::vector<int64_t> pads = c.since < 11 ? c.integers("pads") : c.integers(1), axes;
  float fill = c.since < 11 ? c.number("value", 0) : c.has(2) ? c.scalar(2) : 0;
  if (c.since >= 18 && c.has(3)) {
    axes = c.integers(3);
  } else {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  c.axes(axes, rank);  // none twice
  if (pads.size() != 2 * axes.size())
    throw c.fail("the pads are {}, but {} axes need {} numbers", to_string(pads), axes.size(),
                 2 * axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t before = pads[i], after = pads[axes.size() + i];
    if (before == 0 && after == 0) continue;
    if (mode != "constant" || fill != 0)
      throw c.fail("padding is supported with zeros only, not in mode '{}' with {}", mode, fill);
    if (std::min(before, after) < 0 || std::max(before, after) > std::numeric_limits<int32_t>::max())
      throw c.fail("the pads are {}: each must be at least 0", to_string(pads));
    x = c.value("pad", {x}, {{"axis", c.axis(axes[i], rank)}, {"before", before}, {"after", after}});
  }
  c.out(0, x);
}

void gather(Call& c, const char*) {
  int64_t rank = static_cast<int64_t>(c.shape(0).size()), axis = c.axis(c.integer("axis", 0), rank);
  const Tensor& index = c.constant(1);
  if (index.is_float) throw c.fail("the index must be of integers");
  if (const Tensor* t = c.known(0); t && !t->is_float) return fold_gather(c);
  if (!index.dims.empty()) throw c.fail("Gather is supported with one constant index only");
  Value* x = c.any(0);
  int64_t n = x->type.dims[axis], i = c.axis(index.ints[0], n);
  Dims shape = x->type.dims;
  shape.erase(shape.begin() + axis);
  c.out(0, c.reshape(c.value("slice", {x}, {{"axis", axis}, {"start", i}, {"end", i + 1}}), shape));
}

// ---- Constants, copies, types

void constant(Call& c, const char*) {
  if (const auto* a = c.attribute("value")) {
    if (!a->has_t()) throw c.fail("attribute 'value' must be a tensor");
    return c.out(0, a->t());
  }
  Tensor t;
  if (c.attribute("value_int") || c.attribute("value_ints")) {
    t.is_float = false;
    t.type = onnx::TensorProto::INT64;
    t.ints = c.has("value_int") ? std::vector<int64_t>{c.integer("value_int")} : c.integers("value_ints");
    if (!c.has("value_int")) t.dims = {static_cast<int64_t>(t.ints.size())};
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

void identity(Call& c, const char*) { c.out_copy(0, 0); }

void dropout(Call& c, const char*) {
  float ratio = c.since < 12 ? c.number("ratio", 0.5f) : c.has(1) ? c.scalar(1) : 0.5f;
  if (c.since >= 12) {
    c.attribute("seed");
    if (c.has(2)) c.scalar(2);  // training_mode: whoever compiles a trainer asks for training anyway
  }
  if (ratio > 0) ++c.scope().dropouts;
  c.out(0, c.in(0));
}

void cast(Call& c, const char*) {
  int to = static_cast<int>(c.integer("to"));
  if (c.since >= 19) c.integer("saturate", 1);  // of 8-bit floats, which are refused
  const Tensor* t = c.known(0);
  if (t && !t->is_float) return fold_cast(c, to);
  if (is_float_type(to)) {
    c.scope().narrow(to, c.loc().name);
    if (t || c.any(0)->type.dtype == DType::f32) return c.out_same(0, 0);
    return c.out(0, c.value("cast", {c.any(0)}, {{"to", std::string("f32")}}));
  }
  if (to != onnx::TensorProto::INT64 && to != onnx::TensorProto::INT32)
    throw c.fail("a cast to {} is not supported", type_name(to));
  std::string type = to == onnx::TensorProto::INT64 ? "i64" : "i32";
  c.out(0, c.value("cast", {c.any(0)}, {{"to", type}}));
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

void shape(Call& c, const char*) {
  Dims d = c.shape(0);
  int64_t rank = static_cast<int64_t>(d.size()), start = 0, end = rank;
  if (c.since >= 15) {
    start = c.integer("start", 0);
    end = c.integer("end", rank);
  }
  start = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
  end = std::clamp<int64_t>(end < 0 ? end + rank : end, start, rank);
  c.out(0, integers({d.begin() + start, d.begin() + end}));
}

// ---- The table

const std::vector<OpRow>& table() {
  static const std::vector<OpRow> rows = {
      {"Abs", {6, 13}, unary, "abs"},
      {"Add", {7, 13, 14}, arithmetic, "add"},
      {"AveragePool", {7, 10, 11, 19, 22}, average_pool},
      {"BatchNormalization", {7, 9, 14, 15}, batch_norm},
      {"Cast", {6, 9, 13, 19, 21, 23}, cast},
      {"Celu", {12}, celu},
      {"Clip", {6, 11, 12, 13}, clip},
      {"Concat", {4, 11, 13}, concat},
      {"Constant", {1, 9, 11, 12, 13, 19, 21, 23}, constant},
      {"ConstantOfShape", {9, 20, 21, 23}, constant_of_shape},
      {"Conv", {1, 11, 22}, conv},
      {"ConvTranspose", {1, 11, 22}, conv_transpose},
      {"Div", {7, 13, 14}, arithmetic, "div"},
      {"Dropout", {7, 10, 12, 13, 22}, dropout},
      {"Elu", {6, 22}, elu},
      {"Erf", {9, 13}, unary, "erf"},
      {"Exp", {6, 13}, unary, "exp"},
      {"Flatten", {1, 9, 11, 13, 21, 23}, flatten},
      {"Gather", {1, 11, 13}, gather},
      {"Gelu", {20}, gelu},
      {"Gemm", {7, 9, 11, 13}, gemm},
      {"GlobalAveragePool", {1, 22}, global_average_pool},
      {"GlobalMaxPool", {1, 22}, global_max_pool},
      {"HardSigmoid", {6, 22}, hard_sigmoid},
      {"HardSwish", {14, 22}, unary, "hard_swish"},
      {"Identity", {1, 13, 14, 16, 19, 21, 23}, identity},
      {"LeakyRelu", {6, 16}, leaky_relu},
      {"Log", {6, 13}, unary, "log"},
      {"LogSoftmax", {1, 11, 13}, softmax, "log_softmax"},
      {"MatMul", {1, 9, 13}, matmul},
      {"Max", {6, 8, 12, 13}, chain, "maximum"},
      {"MaxPool", {1, 8, 10, 11, 12, 22}, max_pool},
      {"Min", {6, 8, 12, 13}, chain, "minimum"},
      {"Mish", {18, 22}, unary, "mish"},
      {"Mul", {7, 13, 14}, arithmetic, "mul"},
      {"Neg", {6, 13}, unary, "neg"},
      {"PRelu", {7, 9, 16}, prelu},
      {"Pad", {2, 11, 13, 18, 19, 21, 23}, pad},
      {"ReduceMax", {1, 11, 12, 13, 18, 20}, reduce_from_18, "reduce_max"},
      {"ReduceMean", {1, 11, 13, 18}, reduce_from_18, "reduce_mean"},
      {"ReduceSum", {1, 11, 13}, reduce_from_13, "reduce_sum"},
      {"Relu", {6, 13, 14}, unary, "relu"},
      {"Reshape", {5, 13, 14, 19, 21, 23}, reshape},
      {"Resize", {10, 11, 13, 18, 19}, resize},
      {"Selu", {6, 22}, selu},
      {"Shape", {1, 13, 15, 19, 21, 23}, shape},
      {"Sigmoid", {6, 13}, unary, "sigmoid"},
      {"Slice", {1, 10, 11, 13}, slice},
      {"Softmax", {1, 11, 13}, softmax, "softmax"},
      {"Softplus", {1, 22}, unary, "softplus"},
      {"Softsign", {1, 22}, unary, "softsign"},
      {"Sqrt", {6, 13}, unary, "sqrt"},
      {"Squeeze", {1, 11, 13, 21, 23}, squeeze},
      {"Sub", {7, 13, 14}, arithmetic, "sub"},
      {"Sum", {6, 8, 13}, chain, "add"},
      {"Tanh", {6, 13}, unary, "tanh"},
      {"Transpose", {1, 13, 21, 23}, transpose},
      {"Unsqueeze", {1, 11, 13, 21, 23}, unsqueeze},
      {"Upsample", {7, 9}, upsample},
  };
  return rows;
}

}  // namespace

const OpRow* find_row(std::string_view name) {
  for (const OpRow& row : table())
    if (name == row.name) return &row;
  return nullptr;
}

std::vector<std::string> known_operators() {
  std::vector<std::string> names;
  for (const OpRow& row : table()) names.push_back(row.name);
  return names;
}

int version_for(const OpRow& row, int64_t opset, const Loc& loc) {
  int since = 0;
  for (int v : row.since)
    if (v <= opset) since = v;
  if (!since)
    throw Error(loc, "opset {} is older than every version of {} that pock knows: {}", opset, row.name,
                to_string(Dims(row.since.begin(), row.since.end())));
  return since;
}

}  // namespace pock::onnx_frontend
