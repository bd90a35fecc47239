// A shape rule refuses what does not fit, and says what, where, and both sides.
#include <gtest/gtest.h>

#include "ops/cases/op_case.h"
#include "pock/ops/op.h"

namespace pock::test {
namespace {

struct Bad {
  const char* op;
  std::vector<Type> inputs;
  Attrs attrs;
  const char* message;
};

Type f(Dims dims) { return {DType::f32, std::move(dims)}; }
const Type kLabels{DType::i32, {2}};

const std::vector<Bad> kBad = {
    {"add", {f({2, 3}), f({2})}, {}, "shapes do not broadcast: [2] of input 1 meets [2,3] at axis -1"},
    {"add", {f({2}), kLabels}, {}, "inputs are of different element types, f32[2] and i32[2]"},
    {"div", {f({2}), kLabels}, {}, "input 1 must be f32, it is i32"},
    {"where_positive", {kLabels, f({2}), f({2})}, {}, "input 0 must be f32, it is i32"},
    {"where_positive",
     {f({2}), f({2}), kLabels},
     {},
     "a is f32[2], b is i32[2]: they must hold the same kind of numbers"},
    {"arg_max", {f({2, 3})}, {{"axis", int64_t{2}}}, "axis 2 is outside of the 2 axes there are"},
    {"cumulative_sum", {f({2, 3})}, {{"axis", int64_t{-3}}}, "axis -3 is outside of the 2 axes there are"},
    {"relu", {kLabels}, {}, "input 0 must be f32"},
    {"clip", {f({2})}, {{"low", 1.0}, {"high", 0.0}}, "clip's low is 1, its high is 0"},
    {"cast", {f({2})}, {{"to", std::string("f16")}}, "cannot cast to 'f16'"},
    {"reduce_sum", {f({2, 3})}, {{"axes", Dims{2}}}, "axis 2 is outside of the 2 axes"},
    {"reduce_sum", {f({2, 3})}, {{"axes", Dims{1, -1}}}, "name an axis twice"},
    {"reduce_max", {f({2, 0})}, {{"axes", Dims{1}}}, "axis 1 to reduce has no elements"},
    {"softmax", {f({})}, {}, "needs a last axis"},
    {"winograd_filter", {f({4, 3, 5, 3})}, {}, "the filter is f32[4,3,5,3], not 3x3"},
    {"winograd_conv",
     {f({1, 3, 4, 4}), f({16, 2, 5})},
     {{"pad", Dims{1, 1}}, {"size", Dims{4, 4}}, {"bytes", int64_t{1}}},
     "the filter f32[16,2,5] is not 16 matrices for x f32[1,3,4,4]"},
    {"winograd_conv",
     {f({1, 3, 4, 4}), f({16, 3, 5})},
     {{"pad", Dims{1, 3}}, {"size", Dims{4, 4}}, {"bytes", int64_t{1}}},
     "pad 3 is more than a filter reads"},
    {"matmul", {f({2, 3}), f({4, 5})}, {}, "sums over 3 elements of f32[2,3] but 4 of f32[4,5]"},
    {"matmul", {f({2, 3}), f({3})}, {}, "input 1 must have 2 axes or more, it has 1"},
    {"matmul",
     {f({2, 2, 3}), f({3, 3, 4})},
     {},
     "shapes do not broadcast: [3] of input 1 meets [2] at axis -1"},
    {"conv",
     {f({1, 16, 8, 8}), f({64, 32, 3, 3})},
     {},
     "expects 32 input channels in 1 group, x f32[1,16,8,8] has 16"},
    {"conv",
     {f({1, 3, 8, 8}), f({64, 9, 3, 3})},
     {{"groups", int64_t{1} << 20}},
     "expects 9437184 input channels in 1048576 groups"},
    {"conv",
     {f({1, 4, 8, 8}), f({3, 2, 3, 3})},
     {{"groups", int64_t{2}}},
     "3 output channels do not divide into 2"},
    {"conv", {f({1, 4, 8, 8}), f({3, 4, 9, 3})}, {}, "spans 9 does not fit into height 8"},
    {"conv",
     {f({1, 4, 8, 8}), f({3, 4, 3, 3})},
     {{"stride", Dims{0, 1}}},
     "'stride' is [0,1], none may be below 1"},
    {"conv", {f({1, 4, 8, 8}), f({3, 4, 3, 3})}, {{"pad", Dims{1, 1}}}, "'pad' needs 4 numbers"},
    {"conv", {f({1, 4, 8, 8}), f({3, 4, 3, 3})}, {{"groups", int64_t{0}}}, "groups is 0"},
    {"conv", {f({1, 4}), f({3, 4})}, {}, "input 0 must have 3 to 5 axes, it has 2"},
    {"conv", {f({1, 4, 8}), f({3, 4, 3})}, {{"pad", Dims{-1, 2}}}, "'pad' is [-1,2], which starts inside"},
    {"conv", {f({1, 4, 8}), f({3, 4, 3, 3})}, {}, "input 1 must have 3 axes, it has 4"},
    {"conv_input_grad",
     {f({1, 3, 5, 6}), f({3, 4, 3, 3})},
     {{"size", Dims{8, 8}}},
     "must be f32[1,3,6,6], it is f32[1,3,5,6]"},
    {"conv_weight_grad",
     {f({1, 3, 5, 6}), f({1, 4, 8, 8})},
     {{"kernel", Dims{3, 3}}},
     "must be f32[1,3,6,6]"},
    {"max_pool", {f({1, 1, 2, 2})}, {{"kernel", Dims{3, 3}}}, "spans 3 does not fit into height 2"},
    {"max_pool",
     {f({1, 1, 4, 4})},
     {{"kernel", Dims{2, 2}}, {"pad", Dims{2, 0, 0, 0}}},
     "holds whole windows"},
    {"max_pool_grad",
     {f({1, 1, 2, 2}), {DType::i32, {1, 1, 2, 2}}},
     {{"kernel", Dims{2, 2}}, {"size", Dims{3, 3}}},
     "must be u8[1,1,2,2]"},
    {"max_pool",
     {f({1, 1, 2})},
     {{"kernel", Dims{2}}, {"pad", Dims{1, 1}}, {"dilation", Dims{3}}},
     "holds whole windows"},
    {"avg_pool",
     {f({1, 1, 4, 4})},
     {{"kernel", Dims{2, 2}}, {"dilation", Dims{2}}},
     "'dilation' needs 2 numbers"},
    {"resize",
     {f({2, 3})},
     {{"axis", int64_t{1}},
      {"size", int64_t{4}},
      {"mode", std::string("area")},
      {"coordinates", std::string("asymmetric")}},
     "'mode' is 'area'; there are nearest, linear, cubic"},
    {"resize",
     {f({2, 3})},
     {{"axis", int64_t{1}},
      {"size", int64_t{0}},
      {"mode", std::string("linear")},
      {"coordinates", std::string("asymmetric")}},
     "axis 1 cannot be resized from 3 to 0 elements"},
    {"resize_grad",
     {f({2, 3})},
     {{"axis", int64_t{1}},
      {"size", int64_t{4}},
      {"length", int64_t{2}},
      {"mode", std::string("linear")},
      {"coordinates", std::string("asymmetric")}},
     "must be f32[2,4], it is f32[2,3]"},
    {"resample",
     {f({2, 3}), {DType::i32, {4}}, {DType::i32, {4}}, f({4, 2})},
     {},
     "input 0 must have 3 axes"},
    {"batch_norm",
     {f({2, 3}), f({3}), f({4}), f({3}), f({3})},
     {{"epsilon", 0.1}, {"momentum", 0.9}},
     "shift (input 2) must be f32[3], it is f32[4]"},
    {"batch_norm_train", {f({1, 3}), f({3}), f({3})}, {{"epsilon", 0.1}}, "more than one value a channel"},
    {"normalize",
     {f({2, 3, 4}), f({3}), f({3, 1}), f({3, 1}), f({3, 1})},
     {{"epsilon", 0.1}},
     "mean (input 1) must be f32[3,1], it is f32[3]"},
    {"moments", {f({3})}, {}, "needs a batch and a channel axis"},
    {"reshape", {f({2, 3})}, {{"shape", Dims{4}}}, "shape [4] has 4 elements, the input f32[2,3] has 6"},
    {"reshape", {f({2, 3})}, {{"shape", Dims{-2, -3}}}, "negative"},
    {"transpose", {f({2, 3})}, {{"permutation", Dims{0, 0}}}, "[0,0] is not an order of the 2 axes"},
    {"broadcast_to", {f({2, 3})}, {{"shape", Dims{3, 2}}}, "f32[2,3] does not broadcast to [3,2]"},
    {"concat", {f({2, 3}), f({3, 3})}, {{"axis", int64_t{1}}}, "does not continue f32[2,3] along axis 1"},
    {"slice",
     {f({2, 3})},
     {{"axis", int64_t{1}}, {"start", int64_t{1}}, {"end", int64_t{4}}},
     "elements 1 to 4 are not within the 3"},
    {"pad", {f({2})}, {{"axis", int64_t{0}}, {"before", int64_t{-1}}}, "cannot be negative"},
    {"softmax_cross_entropy", {f({2, 3}), {DType::i32, {3}}}, {}, "must be i32[2], it is i32[3]"},
    {"softmax_cross_entropy", {f({2, 3}), f({2})}, {}, "class ids are i32 or i64, input 1 is f32[2]"},
    {"softmax_cross_entropy",
     {f({2, 3}), {DType::i32, {2}}, f({2})},
     {},
     "the weight of each class (input 2) must be f32[3], it is f32[2]"},
    {"sgd_step", {f({2}), f({3}), f({}), f({})}, {}, "must be f32[2], it is f32[3]"},
};

TEST(ShapeRules, RefuseWithBothSides) {
  for (const Bad& bad : kBad) {
    SCOPED_TRACE(fmt::format("{}: {}", bad.op, bad.message));
    Graph g;
    std::vector<Value*> inputs;
    for (size_t i = 0; i < bad.inputs.size(); ++i)
      inputs.push_back(g.add_input(fmt::format("x{}", i), bad.inputs[i]));
    Loc loc;
    loc.name = "node_7";
    try {
      g.add_node(get_op(bad.op), inputs, bad.attrs, loc);
      ADD_FAILURE() << "accepted";
    } catch (const Error& e) {
      std::string text = e.what();
      EXPECT_NE(text.find(bad.message), std::string::npos) << text;
      EXPECT_EQ(text.rfind("node 'node_7': ", 0), 0u) << text;
      EXPECT_NE(text.find(fmt::format("input 'x0': input 0 is {}", to_string(bad.inputs[0]))),
                std::string::npos)
          << text;
    }
  }
}

}  // namespace
}  // namespace pock::test
