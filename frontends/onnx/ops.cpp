#include "ops.h"

#include "along.h"
#include "attention.h"
#include "elementwise.h"
#include "indices.h"
#include "losses.h"
#include "norms.h"
#include "pock/ops/op.h"
#include "resize.h"
#include "shapes.h"
#include "windows.h"

namespace pock::onnx_frontend {
namespace {

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
  // A weight that is turned round first is read the other way.
  const bool turned = b->type.rank() == 2 && b->node && std::string_view(b->node->op->name) == "transpose";
  Value* y = turned ? c.value("matmul", {c.reshape(a, left), b->node->in(0)}, {{"transpose_b", int64_t{1}}})
                    : c.value("matmul", {c.reshape(a, left), c.reshape(b, right)});
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
  // Before version 14, more than one output makes it one in training. Which mode a step has is not the file's to say.
  int64_t training = c.since >= 14 ? c.flag("training_mode", false) : c.wants(1);
  float epsilon = c.number("epsilon", 1e-5f), momentum = c.number("momentum", 0.9f);
  Dims channels{x->type.rank() < 2 ? 1 : x->type.dims[1]};
  for (int i = 1; i <= 4; ++i)
    if (c.shape(i) != channels)
      throw c.fail("input {} has shape {}, but the input has {} channels", i, to_string(c.shape(i)),
                   channels[0]);
  Value *scale = c.in(1), *shift = c.in(2), *mean = c.statistic(3);
  Node* y = c.make("batch_norm", {x, scale, shift, mean, c.statistic(4)},
                   {{"epsilon", decimal(epsilon)},
                    {"momentum", decimal(momentum)},
                    {"training", training},
                    {"population", int64_t{c.reads(2)}}});
  for (int i : {0, 1, 2}) c.out(i, y->out(i));
}

void dropout(Call& c, const char*) {
  bool old = c.since < 12;  // without a mode: for training, as is the model
  Value* x = c.in(0);
  float ratio = old ? c.number("ratio", 0.5f) : c.has(1) ? c.scalar(1) : 0.5f;
  int64_t active = old || (c.has(2) && c.scalar(2) != 0);
  if (!old) c.attribute("seed");  // all seeds come from the trainer's own
  if (!(ratio >= 0 && ratio <= 1)) throw c.fail("the ratio is {}, want 0 to 1", ratio);
  Attrs attrs = {{"ratio", decimal(ratio)}, {"id", c.scope().random_nodes++}, {"active", active}};
  c.out(0, c.value("dropout", {x}, attrs));
  if (!c.reads(1)) return;
  // The mask is what is left of ones: where the id is the same, the same elements are dropped.
  Value* ones = c.value("broadcast_to", {c.number_value(1)}, {{"shape", x->type.dims}});
  c.out(1, c.value("sign", {c.make("dropout", {ones}, attrs)->out()}));
}

// ---- The table

const std::vector<OpRow>& table() {
  static const std::vector<OpRow> rows = {
      {"Abs", {6, 13}, apart, unary, "abs"},
      {"Add", {7, 13, 14}, apart, arithmetic, "add"},
      {"And", {7}, apart, logic, "and"},
      {"ArgMax", {1, 11, 12, 13}, by_axis, arg_max, "greatest"},
      {"ArgMin", {1, 11, 12, 13}, by_axis, arg_max, "least"},
      {"Attention", {23, 24}, by_sequence, attention},
      {"AveragePool", {7, 10, 11, 19, 22}, by_window, average_pool},
      {"BatchNormalization", {7, 9, 14, 15}, apart, batch_norm},
      {"Cast", {6, 9, 13, 19, 21, 23, 24, 25}, apart, cast},
      {"CastLike", {15, 19, 21, 23, 24, 25}, apart, cast_like},
      {"Ceil", {6, 13}, apart, unary, "ceil"},
      {"Celu", {12}, apart, celu},
      {"Clip", {6, 11, 12, 13}, apart, clip},
      {"Concat", {4, 11, 13}, by_axis, concat},
      {"Constant", {1, 9, 11, 12, 13, 19, 21, 23, 24, 25}, apart, constant},
      {"ConstantOfShape", {9, 20, 21, 23, 24, 25}, apart, constant_of_shape},
      {"Conv", {1, 11, 22}, by_window, conv},
      {"ConvTranspose", {1, 11, 22}, by_window, conv_transpose},
      {"Cos", {7, 22}, apart, unary, "cos"},
      {"CumSum", {11, 14}, by_sum, cumulative_sum},
      {"DepthToSpace", {1, 11, 13}, by_sequence, depth_to_space},
      {"Div", {7, 13, 14}, apart, arithmetic, "div"},
      {"Dropout", {7, 10, 12, 13, 22}, apart, dropout},
      {"Einsum", {12}, apart, einsum},
      {"Elu", {6, 22}, apart, elu},
      {"Equal", {7, 11, 13, 19}, apart, compare, "equal"},
      {"Erf", {9, 13}, apart, unary, "erf"},
      {"Exp", {6, 13}, apart, unary, "exp"},
      {"Expand", {8, 13}, apart, expand},
      {"Flatten", {1, 9, 11, 13, 21, 23, 24, 25}, merged, flatten},
      {"Floor", {6, 13}, apart, unary, "floor"},
      {"Gather", {1, 11, 13}, by_axis, gather},
      {"GatherElements", {11, 13}, by_axis, gather_elements},
      {"GatherND", {11, 12, 13}, by_indices, gather_nd},
      {"Gelu", {20}, apart, gelu},
      {"Gemm", {7, 9, 11, 13}, apart, gemm},
      {"GlobalAveragePool", {1, 22}, by_window, global_average_pool},
      {"GlobalMaxPool", {1, 22}, by_window, global_max_pool},
      {"Greater", {7, 9, 13}, apart, compare, "greater"},
      {"GreaterOrEqual", {12, 16}, apart, compare, "greater_or_equal"},
      {"GroupNormalization", {18, 21}, by_sequence, group_norm},
      {"HardSigmoid", {6, 22}, apart, hard_sigmoid},
      {"HardSwish", {14, 22}, apart, unary, "hard_swish"},
      {"Identity", {1, 13, 14, 16, 19, 21, 23, 24, 25}, apart, identity},
      {"InstanceNormalization", {6, 22}, by_window, instance_norm},
      {"IsNaN", {9, 13, 20}, apart, is_nan},
      {"LayerNormalization", {17}, by_rows, layer_norm},
      {"LeakyRelu", {6, 16}, apart, leaky_relu},
      {"Less", {7, 9, 13}, apart, compare, "less"},
      {"LessOrEqual", {12, 16}, apart, compare, "less_or_equal"},
      {"Log", {6, 13}, apart, unary, "log"},
      {"LogSoftmax", {1, 11, 13}, by_classes, softmax, "log_softmax"},
      {"LpNormalization", {1, 22}, by_last, lp_norm},
      {"MatMul", {1, 9, 13}, apart, matmul},
      {"Max", {6, 8, 12, 13}, apart, chain, "maximum"},
      {"MaxPool", {1, 8, 10, 11, 12, 22}, by_window, max_pool},
      {"Mean", {6, 8, 13}, apart, mean},
      {"Min", {6, 8, 12, 13}, apart, chain, "minimum"},
      {"Mish", {18, 22}, apart, unary, "mish"},
      {"Mod", {10, 13}, apart, mod},
      {"Mul", {7, 13, 14}, apart, arithmetic, "mul"},
      {"Neg", {6, 13}, apart, negate},
      {"NegativeLogLikelihoodLoss", {12, 13, 22}, by_scores, loss, "negative_log_likelihood"},
      {"Not", {1}, apart, logical_not},
      {"OneHot", {9, 11}, apart, one_hot},
      {"Or", {7}, apart, logic, "or"},
      {"PRelu", {7, 9, 16}, apart, prelu},
      {"Pad", {2, 11, 13, 18, 19, 21, 23, 24, 25}, by_pads, pad},
      {"Pow", {7, 12, 13, 15}, apart, pow},
      {"RMSNormalization", {23}, by_rows, rms_norm},
      {"Range", {11}, apart, range},
      {"Reciprocal", {6, 13}, apart, unary, "reciprocal"},
      {"ReduceL1", {1, 11, 13, 18}, apart, reduce_from_18, "reduce_l1"},
      {"ReduceL2", {1, 11, 13, 18}, apart, reduce_from_18, "reduce_l2"},
      {"ReduceLogSum", {1, 11, 13, 18}, apart, reduce_from_18, "reduce_log_sum"},
      {"ReduceLogSumExp", {1, 11, 13, 18}, apart, reduce_from_18, "reduce_log_sum_exp"},
      {"ReduceMax", {1, 11, 12, 13, 18, 20}, apart, reduce_from_18, "reduce_max"},
      {"ReduceMean", {1, 11, 13, 18}, apart, reduce_from_18, "reduce_mean"},
      {"ReduceMin", {1, 11, 12, 13, 18, 20}, apart, reduce_from_18, "reduce_min"},
      {"ReduceProd", {1, 11, 13, 18}, apart, reduce_from_18, "reduce_prod"},
      {"ReduceSum", {1, 11, 13}, apart, reduce_from_13, "reduce_sum"},
      {"ReduceSumSquare", {1, 11, 13, 18}, apart, reduce_from_18, "reduce_sum_square"},
      {"Relu", {6, 13, 14}, apart, unary, "relu"},
      {"Reshape", {5, 13, 14, 19, 21, 23, 24, 25}, apart, reshape},
      {"Resize", {10, 11, 13, 18, 19}, by_length, resize},
      {"RotaryEmbedding", {23}, by_sequence, rotary_embedding},
      {"Round", {11, 22}, apart, unary, "round"},
      {"Scatter", {9}, by_axis, scatter_elements},
      {"ScatterElements", {11, 13, 16, 18}, by_axis, scatter_elements},
      {"ScatterND", {11, 13, 16, 18}, by_indices, scatter_nd},
      {"Selu", {6, 22}, apart, selu},
      {"Shape", {1, 13, 15, 19, 21, 23, 24, 25}, apart, shape},
      {"Sigmoid", {6, 13}, apart, unary, "sigmoid"},
      {"Sign", {9, 13}, apart, unary, "sign"},
      {"Sin", {7, 22}, apart, unary, "sin"},
      {"Size", {1, 13, 19, 21, 23, 24, 25}, apart, size},
      {"Slice", {1, 10, 11, 13}, by_steps, slice},
      {"Softmax", {1, 11, 13}, by_classes, softmax, "softmax"},
      {"SoftmaxCrossEntropyLoss", {12, 13}, by_scores, loss, "softmax_cross_entropy"},
      {"Softplus", {1, 22}, apart, unary, "softplus"},
      {"Softsign", {1, 22}, apart, unary, "softsign"},
      {"SpaceToDepth", {1, 13}, by_sequence, space_to_depth},
      {"Split", {2, 11, 13, 18}, by_axis, split},
      {"Sqrt", {6, 13}, apart, unary, "sqrt"},
      {"Squeeze", {1, 11, 13, 21, 23, 24, 25}, apart, squeeze},
      {"Sub", {7, 13, 14}, apart, arithmetic, "sub"},
      {"Sum", {6, 8, 13}, apart, chain, "add"},
      {"Swish", {24}, apart, swish},
      {"Tanh", {6, 13}, apart, unary, "tanh"},
      {"ThresholdedRelu", {10, 22}, apart, thresholded_relu},
      {"Tile", {6, 13}, by_length, tile},
      {"Transpose", {1, 13, 21, 23, 24, 25}, apart, transpose},
      {"Trilu", {14}, by_triangle, trilu},
      {"Unsqueeze", {1, 11, 13, 21, 23, 24, 25}, apart, unsqueeze},
      {"Upsample", {7, 9}, by_length, upsample},
      {"Where", {9, 16}, apart, where},
      {"Xor", {7}, apart, logic, "xor"},
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
