// Operators that move, make and count elements, in every spelling; and chains of constants that are gone after the
// import.
#include <cmath>
#include <limits>

#include "forms.h"
#include "pock/ops/op.h"

namespace pock::test {
namespace {
using onnx::TensorProto;

Floats counted(int64_t n) {
  Floats x(n);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(i);
  return x;
}

// A parameter x of counted elements, and one node.
Model of(const Dims& dims, const char* op, const std::vector<std::pair<std::string, Ints>>& lists = {},
         const std::vector<std::pair<std::string, Attribute>>& attributes = {}, int64_t opset = 13) {
  Model m(opset);
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  m.floats("x", dims, counted(n));
  Strings in = {"x"};
  for (const auto& [name, list] : lists) {
    if (!name.empty()) m.ints(name, list);
    in.push_back(name);
  }
  m.node(op, in, {"y"}, attributes).output("y");
  return m;
}

void check(const Model& m, const Dims& shape, const Numbers& want) {
  auto g = m.import();
  EXPECT_EQ(g->outputs()[0]->type.dims, shape);
  EXPECT_EQ(run(*g), want);
  expect_gradients(m, 1);
}

TEST(Split, ByVersion) {
  auto split = [](int64_t opset, int outputs,
                  const std::vector<std::pair<std::string, Attribute>>& attributes, const Ints& sizes = {}) {
    Model m(opset);
    m.floats("x", {2, 7}, counted(14));
    Strings in = {"x"}, out;
    if (!sizes.empty()) {
      m.ints("sizes", sizes);
      in.push_back("sizes");
    }
    for (int i = 0; i < outputs; ++i) out.push_back("y" + std::to_string(i));
    m.node("Split", in, out, attributes);
    for (const auto& name : out) m.output(name);
    return m;
  };
  auto lengths = [](const Model& m) {
    Ints list;
    auto g = m.import();
    for (const Value* v : g->outputs()) list.push_back(v->type.dims[1]);
    return list;
  };
  std::pair<std::string, Attribute> axis{"axis", int64_t{-1}};
  Model two = split(2, 2, {{"axis", int64_t{1}}, {"split", Ints{3, 4}}});
  EXPECT_EQ(lengths(two), (Ints{3, 4}));
  EXPECT_EQ(run(*two.import()), (Numbers{0, 1, 2, 7, 8, 9}));
  expect_gradients(two, 1);
  EXPECT_EQ(lengths(split(11, 7, {axis})), Ints(7, 1));
  EXPECT_EQ(lengths(split(13, 3, {axis}, {1, 4, 2})), (Ints{1, 4, 2}));
  EXPECT_EQ(lengths(split(18, 3, {axis, {"num_outputs", int64_t{3}}})), (Ints{3, 3, 1}))
      << "the last one is smaller";
  expect_gradients(split(18, 3, {axis, {"num_outputs", int64_t{3}}}), 1);
  expect_has(split(13, 0, {axis}).output("x").problem(), "makes nothing: it has no outputs");
  expect_has(split(13, 2, {axis}).problem(), "7 elements do not divide into 2 equal parts");
  expect_has(split(13, 2, {axis}, {1, 4, 2}).problem(), "there are 2 outputs for 3 parts");
  expect_has(split(13, 2, {axis}, {1, 4}).problem(), "make 5 elements, but axis 1 has 7");
  expect_has(split(18, 3, {axis, {"num_outputs", int64_t{4}}}).problem(), "there are 3 outputs for 4 parts");
  expect_has(split(18, 3, {axis}).problem(), "attribute 'num_outputs' is missing");
}

TEST(Slice, Forms) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  auto slice = [](Ints starts, Ints ends, Ints axes, Ints steps) {
    return of({2, 5}, "Slice", {{"starts", starts}, {"ends", ends}, {"axes", axes}, {"steps", steps}});
  };
  check(slice({1}, {4}, {1}, {1}), {2, 3}, {1, 2, 3, 6, 7, 8});
  check(slice({-3}, {kMost}, {-1}, {2}), {2, 2}, {2, 4, 7, 9});
  check(slice({-1}, {kLeast + 1}, {1}, {-1}), {2, 5}, {4, 3, 2, 1, 0, 9, 8, 7, 6, 5});
  check(slice({kMost}, {0}, {1}, {-3}), {2, 2}, {4, 1, 9, 6});
  check(slice({kLeast}, {100}, {0}, {1}), {2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  check(slice({1, -2}, {-100, -4}, {0, 1}, {-1, -1}), {2, 2}, {8, 7, 3, 2});
  check(of({2, 3}, "Slice", {{"starts", {1}}, {"ends", {2}}}), {1, 3}, {3, 4, 5});
  check(of({2, 3}, "Slice", {}, {{"starts", Ints{1}}, {"ends", Ints{9}}, {"axes", Ints{1}}}, 9), {2, 2},
        {1, 2, 4, 5});
  expect_has(slice({3}, {2}, {1}, {1}).problem(), "the slice [3,2) of axis 1 with length 5 is empty");
  expect_has(slice({0}, {2}, {1}, {0}).problem(), "a step of 0");
  expect_has(slice({0, 0}, {2, 2}, {1, -1}, {1, 1}).problem(), "name an axis twice");
  expect_has(slice({0, 0}, {2}, {1, 0}, {1, 1}).problem(), "2 starts, 1 ends");
  expect_has(slice({0}, {2}, {2}, {1}).problem(), "axis 2 is outside");
}

TEST(Pad, Forms) {
  auto pad = [](Ints pads, const char* mode, float fill = 0, Ints axes = {}) {
    Model m(19);
    m.floats("x", {2, 3}, counted(6)).ints("pads", pads).floats("fill", {}, {fill}).ints("axes", axes);
    Strings in = {"x", "pads", "fill"};
    if (!axes.empty()) in.push_back("axes");
    m.node("Pad", in, {"y"}, {{"mode", std::string(mode)}}).output("y");
    return m;
  };
  check(pad({0, 1, 0, 1}, "constant", 9), {2, 5}, {9, 0, 1, 2, 9, 9, 3, 4, 5, 9});
  check(pad({0, 2, 0, 1}, "edge"), {2, 6}, {0, 0, 0, 1, 2, 2, 3, 3, 3, 4, 5, 5});
  check(pad({0, 2, 0, 1}, "reflect"), {2, 6}, {2, 1, 0, 1, 2, 1, 5, 4, 3, 4, 5, 4});
  check(pad({0, 5, 0, 0}, "reflect"), {2, 8}, {1, 0, 1, 2, 1, 0, 1, 2, 4, 3, 4, 5, 4, 3, 4, 5});
  check(pad({0, 2, 0, 1}, "wrap"), {2, 6}, {1, 2, 0, 1, 2, 0, 4, 5, 3, 4, 5, 3});
  check(pad({1, 0, 0, 0}, "edge"), {3, 3}, {0, 1, 2, 0, 1, 2, 3, 4, 5});
  check(pad({0, -1, 0, 2}, "constant", 7), {2, 4}, {1, 2, 7, 7, 4, 5, 7, 7});
  check(pad({0, -1, 0, -1}, "constant"), {2, 1}, {1, 4});
  check(pad({0, -1, 0, 1}, "edge"), {2, 3}, {1, 2, 2, 4, 5, 5});
  check(pad({1, 1}, "constant", 0, {-1}), {2, 5}, {0, 0, 1, 2, 0, 0, 3, 4, 5, 0});
  check(of({2, 2}, "Pad", {}, {{"pads", Ints{0, 1, 0, 0}}, {"value", 4.0f}}, 2), {2, 3}, {4, 0, 1, 4, 2, 3});
  check(of({2, 2}, "Pad", {{"pads", {1, 0, 0, 0}}}), {3, 2}, {0, 0, 0, 1, 2, 3});
  expect_has(pad({0, -2, 0, -1}, "constant").problem(), "they leave none or too many");
  expect_has(pad({0, 1, 0}, "constant").problem(), "2 axes need 4 numbers");
  expect_has(pad({0, 1, 0, 1}, "mirror").problem(), "there are constant, edge, reflect and wrap");
}

TEST(Expand, BroadcastsBothWays) {
  check(of({2, 1}, "Expand", {{"shape", {3}}}), {2, 3}, {0, 0, 0, 1, 1, 1});
  check(of({2, 1}, "Expand", {{"shape", {2, 1, 1}}}), {2, 2, 1}, {0, 1, 0, 1});
  check(of({2}, "Expand", {{"shape", {1}}}), {2}, {0, 1});
  expect_has(of({2, 3}, "Expand", {{"shape", {2}}}).problem(), "f32[2,3] does not broadcast to [2]");
}

TEST(Tile, Repeats) {
  check(of({2, 2}, "Tile", {{"repeats", {1, 2}}}), {2, 4}, {0, 1, 0, 1, 2, 3, 2, 3});
  check(of({1, 2, 1}, "Tile", {{"repeats", {2, 1, 3}}}), {2, 2, 3}, {0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1});
  expect_has(of({2, 2}, "Tile", {{"repeats", {2}}}).problem(), "1 repeats for 2 axes");
}

TEST(Gather, DuplicatesAddUp) {
  Model m;
  m.floats("x", {3, 2}, counted(6));
  auto& t = m.tensor("index", {2, 2}, TensorProto::INT64);
  for (int64_t i : {1, 1, -1, 0}) t.add_int64_data(i);
  m.node("Gather", {"x", "index"}, {"y"}).output("y");
  check(m, {2, 2, 2}, {2, 3, 2, 3, 4, 5, 0, 1});
  m.proto.mutable_graph()->mutable_initializer(1)->set_int64_data(2, 3);
  expect_has(m.problem(), "axis 3 is outside a tensor of rank 3");

  check(of({2, 4}, "Gather", {{"index", {3, 0, 3}}}, {{"axis", int64_t{-1}}}), {2, 3}, {3, 0, 3, 7, 4, 7});
  Model scalar;
  scalar.floats("x", {2, 3}, counted(6))
      .ints("index", {-1}, true)
      .node("Gather", {"x", "index"}, {"y"})
      .output("y");
  check(scalar, {3}, {3, 4, 5});
}

TEST(Gather, Elements) {
  Model m;
  m.floats("x", {3, 3}, counted(9));
  auto& t = m.tensor("index", {2, 3}, TensorProto::INT64);
  for (int64_t i : {1, 2, 0, -1, 2, 0}) t.add_int64_data(i);
  m.node("GatherElements", {"x", "index"}, {"y"}).output("y");
  check(m, {2, 3}, {3, 7, 2, 6, 7, 2});
  m.proto.mutable_graph()->mutable_node(0)->add_attribute()->set_name("axis");
  m.proto.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_type(onnx::AttributeProto::INT);
  m.proto.mutable_graph()->mutable_node(0)->mutable_attribute(0)->set_i(1);
  check(m, {2, 3}, {1, 2, 0, 5, 5, 3});
}

TEST(Gather, RowsByPosition) {
  auto nd = [](const Dims& index, const Ints& numbers, int64_t batch) {
    Model m;
    m.floats("x", {2, 2, 3}, counted(12));
    auto& t = m.tensor("index", index, TensorProto::INT64);
    for (int64_t i : numbers) t.add_int64_data(i);
    m.node("GatherND", {"x", "index"}, {"y"}, {{"batch_dims", batch}}).output("y");
    return m;
  };
  check(nd({3, 2}, {0, 1, 1, 0, 0, 1}, 0), {3, 3}, {3, 4, 5, 6, 7, 8, 3, 4, 5});
  check(nd({2, 3}, {0, 1, -1, 1, 0, 0}, 0), {2}, {5, 6});
  check(nd({2, 1, 1}, {1, 0}, 1), {2, 1, 3}, {3, 4, 5, 6, 7, 8});
  expect_has(nd({2, 4}, {0, 0, 0, 0, 0, 0, 0, 0}, 0).problem(), "does not fit");
  expect_has(nd({2, 1}, {0, 7}, 0).problem(), "axis 7 is outside");
}

// ---- Constants

// The node's integers, as the shape of a reshape would take them.
Ints integers_of(Model m, const std::string& name, int64_t rank) {
  m.node("Cast", {name}, {"as_float"}, {{"to", int64_t{TensorProto::FLOAT}}}).output("as_float");
  auto g = m.import();
  EXPECT_EQ(g->node_count(), 0u);
  EXPECT_EQ(g->outputs()[0]->type.rank(), rank);
  Numbers numbers = run(*g, Numbers(g->inputs().empty() ? 0 : g->inputs()[0]->type.elements()));
  return {numbers.begin(), numbers.end()};
}

// What PyTorch writes for x.expand(-1, n, -1).
TEST(Constants, ChainOfAnExpand) {
  Model m;
  m.input("x", {2, 1, 3}).ints("minus", {-1}).ints("given", {-1, 4, -1}).ints("three", {3});
  m.node("ConstantOfShape", {"three"}, {"ones"});
  TensorProto one;
  one.set_data_type(TensorProto::INT64);
  one.add_dims(1);
  one.add_int64_data(1);
  auto& value = *m.proto.mutable_graph()->mutable_node(0)->add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  *value.mutable_t() = one;
  m.node("Mul", {"ones", "minus"}, {"all_minus"});
  m.node("Equal", {"given", "all_minus"}, {"free"});
  m.node("Where", {"free", "ones", "given"}, {"shape"});
  m.node("Expand", {"x", "shape"}, {"y"}).output("y");
  auto g = m.import();
  EXPECT_EQ(g->outputs()[0]->type.dims, (Dims{2, 4, 3}));
  EXPECT_EQ(g->node_count(), 1u);
  EXPECT_TRUE(g->constants().empty());
}

// What PyTorch writes for an interpolation to twice the size: floats on the way.
TEST(Constants, ChainThroughFloats) {
  Model m(14);
  m.input("x", {1, 3, 5, 7}).floats("scale", {}, {1.5f});
  m.node("Shape", {"x"}, {"size"}, {});
  m.ints("from", {2}).ints("to", {4}).node("Slice", {"size", "from", "to"}, {"image"});
  m.node("Cast", {"image"}, {"f"}, {{"to", int64_t{TensorProto::FLOAT}}});
  m.node("Mul", {"f", "scale"}, {"larger"}).node("Floor", {"larger"}, {"whole"});
  m.node("Cast", {"whole"}, {"i"}, {{"to", int64_t{TensorProto::INT64}}});
  EXPECT_EQ(integers_of(m, "i", 1), (Ints{7, 10}));
}

// Scales that are put together, or computed, of Constants that could be weights as well. None of them is trained.
TEST(Constants, OfFloatsThatCouldBeWeights) {
  Model m;
  m.random("x", {1, 2, 3, 5})
      .random("w", {2, 2, 1, 1})
      .floats("ones", {2}, {1, 1})
      .floats("image", {2}, {1, 1.5f});
  m.floats("twice", {2}, {2, 2}).node("Conv", {"x", "w"}, {"c"}).node("Mul", {"image", "twice"}, {"larger"});
  m.node("Concat", {"ones", "larger"}, {"scales"}, {{"axis", int64_t{0}}});
  m.node("Resize", {"c", "", "scales"}, {"y"}).output("y");
  EXPECT_EQ(m.import()->outputs()[0]->type.dims, (Dims{1, 2, 6, 15}));
  expect_gradients(m, 2);
  Model fed;
  fed.input("x", {1, 2, 3, 5}).input("s", {4}).node("Neg", {"s"}, {"scales"});
  fed.node("Resize", {"x", "", "scales"}, {"y"}).output("y");
  expect_has(fed.problem(), "input 'scales' must be a constant");
}

TEST(Constants, Counting) {
  Model m(18);
  m.input("x", {2, 3, 4}).ints("zero", {0}, true).ints("one", {1}, true).ints("minus", {-2}, true);
  m.node("Shape", {"x"}, {"shape"}, {{"start", int64_t{-2}}}).node("Size", {"x"}, {"size"});
  m.node("ReduceProd", {"shape"}, {"product"}, {{"keepdims", int64_t{0}}});
  m.node("Range", {"zero", "size", "product"}, {"range"}).node("Range", {"size", "one", "minus"}, {"down"});
  m.node("Gather", {"down", "zero"}, {"first"}).node("Mod", {"first", "minus"}, {"mod"});
  EXPECT_EQ(integers_of(m, "size", 0), (Ints{24}));
  EXPECT_EQ(integers_of(m, "product", 0), (Ints{12}));
  EXPECT_EQ(integers_of(m, "range", 1), (Ints{0, 12}));
  EXPECT_EQ(integers_of(m, "down", 1).size(), 12u);
  EXPECT_EQ(integers_of(m, "mod", 0), (Ints{0}));
}

TEST(Constants, MovedLikeFloats) {
  Model m;
  m.ints("a", {1, 2, 3, 4, 5, 6}).ints("two_three", {2, 3}).ints("axes", {0}).ints("pads", {1, 0, 0, 1});
  m.node("Reshape", {"a", "two_three"}, {"m"})
      .node("Transpose", {"m"}, {"t"})
      .node("Pad", {"m", "pads"}, {"p"});
  m.node("Tile", {"m", "two_three"}, {"tiled"}).node("ReduceMax", {"m"}, {"max"}, {{"axes", Ints{0}}});
  m.node("Slice", {"a", "axes", "axes"}, {"nothing"})
      .node("Concat", {"nothing", "a"}, {"again"}, {{"axis", int64_t{0}}});
  EXPECT_EQ(integers_of(m, "t", 2), (Ints{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(integers_of(m, "p", 2), (Ints{0, 0, 0, 0, 1, 2, 3, 0, 4, 5, 6, 0}));
  EXPECT_EQ(integers_of(m, "tiled", 2).size(), 36u);
  EXPECT_EQ(integers_of(m, "max", 2), (Ints{4, 5, 6}));
  EXPECT_EQ(integers_of(m, "again", 1), (Ints{1, 2, 3, 4, 5, 6}));
}

TEST(Constants, NarrowTypesWrap) {
  Model m(15);
  auto& a = m.tensor("a", {3}, TensorProto::UINT8);
  for (int i : {1, 200, 255}) a.add_int32_data(i);
  m.ints("like", {0}).node("Add", {"a", "a"}, {"twice"}).node("Neg", {"a"}, {"less"});
  m.node("CastLike", {"twice", "like"}, {"wide"})
      .node("Cast", {"a"}, {"signed"}, {{"to", int64_t{TensorProto::INT8}}});
  EXPECT_EQ(integers_of(m, "wide", 1), (Ints{2, 144, 254}));
  EXPECT_EQ(integers_of(m, "less", 1), (Ints{255, 56, 1}));
  EXPECT_EQ(integers_of(m, "signed", 1), (Ints{1, -56, -1}));
}

// Only what was computed of constants is one: a weight that is scaled is still trained.
TEST(Constants, WeightsAreNotFolded) {
  Model m;
  m.floats("w", {2}, {1, 2}).floats("half", {}, {0.5f}).floats("two", {}, {2});
  m.node("Mul", {"half", "two"}, {"one"}).node("Mul", {"w", "one"}, {"v"});
  m.input("x", {2}).node("Mul", {"x", "v"}, {"y"}).output("y");
  auto g = m.import();
  EXPECT_EQ(g->params().size(), 1u);
  EXPECT_EQ(g->node_count(), 2u);
  EXPECT_EQ(g->constants().size(), 1u) << "what was only read while folding is gone";
}

TEST(Constants, Refusals) {
  Model m;
  m.input("x", {2}).input("n", {1}, TensorProto::INT64).node("Expand", {"x", "n"}, {"y"}).output("y");
  expect_has(m.problem(), "input 'n' must be a constant: pock has to know it when it compiles");
  Model big;
  big.input("x", {2})
      .ints("shape", {1 << 20, 1 << 20, 1 << 20})
      .node("Expand", {"x", "shape"}, {"y"})
      .output("y");
  expect_has(big.problem(), "too large");
  Model overflow;
  overflow.ints("a", {std::numeric_limits<int64_t>::max()}).node("Add", {"a", "a"}, {"b"});
  overflow.input("x", {2}).node("Reshape", {"x", "b"}, {"y"}).output("y");
  expect_has(overflow.problem(), "has no int64 result");
  Model comparison;
  comparison.input("x", {2}).input("z", {2}).node("Greater", {"x", "z"}, {"b"});
  comparison.node("Where", {"b", "x", "z"}, {"y"}).output("y");
  EXPECT_EQ(comparison.problem(), "");
  Model condition;
  condition.input("b", {2}).input("x", {2}).node("Where", {"b", "x", "x"}, {"y"}).output("y");
  expect_has(condition.problem(), "node 'y' (Where): input 'b' must hold booleans, but is f32[2]");
}

TEST(Where, ByAConstantMask) {
  Model m(16);
  m.floats("x", {2, 3}, counted(6)).floats("z", {3}, {9, 8, 7});
  auto& mask = m.tensor("mask", {2, 1}, TensorProto::BOOL);
  mask.add_int32_data(1);
  mask.add_int32_data(0);
  m.node("Where", {"mask", "x", "z"}, {"y"}).output("y");
  EXPECT_EQ(run(*m.import()), (Numbers{0, 1, 2, 9, 8, 7}));
  expect_gradients(m, 2);
}

}  // namespace
}  // namespace pock::test
