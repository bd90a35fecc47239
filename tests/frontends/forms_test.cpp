// Spellings of operators, tensors and shapes that the files of tests/import do not have.
#include "forms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "onnx/ops.h"
#include "pock/ops/op.h"

namespace pock::test {
namespace {
using onnx::TensorProto;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

TEST(Reduce, AxesByVersion) {
  Model old(13);
  old.input("x", {2, 3})
      .node("ReduceMean", {"x"}, {"y"}, {{"axes", Ints{-1}}, {"keepdims", int64_t{0}}})
      .output("y");
  EXPECT_EQ(run(*old.import(), ramp(6)), (Numbers{1, 4}));
  old.proto.mutable_opset_import(0)->set_version(18);
  expect_has(old.problem(), "attribute 'axes' is not supported");

  Model now(18);
  now.input("x", {2, 3}).ints("axes", {0}).node("ReduceMean", {"x", "axes"}, {"y"}).output("y");
  EXPECT_EQ(run(*now.import(), ramp(6)), (Numbers{1.5, 2.5, 3.5}));
  EXPECT_EQ(now.import()->outputs()[0]->type.dims, (Dims{1, 3}));
  now.proto.mutable_opset_import(0)->set_version(13);
  expect_has(now.problem(), "input 1 ('axes') is one too many");
}

TEST(Reduce, WithoutAxes) {
  Model all(13), none(13);
  all.input("x", {2, 3}).node("ReduceSum", {"x"}, {"y"}).output("y");
  EXPECT_EQ(run(*all.import(), ramp(6)), (Numbers{15}));
  none.input("x", {2, 3}).node("ReduceSum", {"x"}, {"y"}, {{"noop_with_empty_axes", int64_t{1}}}).output("y");
  EXPECT_EQ(run(*none.import(), ramp(6)), ramp(6));
}

TEST(Shapes, SliceGatherConcat) {
  Model m;
  m.input("x", {2, 4}).ints("from", {1}).ints("to", {std::numeric_limits<int64_t>::max()}).ints("axis", {-1});
  m.ints("last", {-1}, true);
  m.node("Slice", {"x", "from", "to", "axis"}, {"s"});
  m.node("Gather", {"s", "last"}, {"g"}, {{"axis", int64_t{1}}});
  m.node("Unsqueeze", {"g", "axis"}, {"u"});
  m.node("Concat", {"u", "s"}, {"y"}, {{"axis", int64_t{-1}}}).output("y");
  EXPECT_EQ(run(*m.import(), ramp(8)), (Numbers{3, 1, 2, 3, 7, 5, 6, 7}));
}

// What exporters write for x.reshape(n * h, -1): all of it is gone after the import.
TEST(Shapes, Folding) {
  Model m;
  m.input("x", {2, 3, 4})
      .ints("zero", {0}, true)
      .ints("begin", {1})
      .ints("end", {2})
      .ints("minus", {-1})
      .ints("two", {2});
  m.node("Shape", {"x"}, {"shape"});
  m.node("Gather", {"shape", "zero"}, {"n"});
  m.node("Slice", {"shape", "begin", "end"}, {"h"});
  m.node("Mul", {"n", "h"}, {"rows"});
  m.node("Add", {"rows", "two"}, {"more"});
  m.node("Sub", {"more", "two"}, {"less"});
  m.node("Mul", {"less", "two"}, {"twice"});
  m.node("Div", {"twice", "two"}, {"once"});
  m.node("Cast", {"once"}, {"cast"}, {{"to", int64_t{TensorProto::INT64}}});
  m.node("Concat", {"cast", "minus"}, {"target"}, {{"axis", int64_t{0}}});
  m.node("Reshape", {"x", "target"}, {"y"}).output("y");
  auto g = m.import();
  EXPECT_EQ(g->outputs()[0]->type.dims, (Dims{6, 4}));
  EXPECT_EQ(g->node_count(), 1u);
  EXPECT_TRUE(g->params().empty());
}

// What PyTorch writes for a padding: last axis first, so it turns the list of pairs around.
TEST(Shapes, FoldingOfPads) {
  Model m;
  m.input("x", {1, 1, 1, 2}).output("y");
  m.ints("given", {1, 2})
      .ints("rest", {0, 0, 1, 0, 0, 0})
      .ints("pairs", {-1, 2})
      .ints("flat", {-1})
      .ints("zero", {0});
  m.ints("least", {std::numeric_limits<int64_t>::min() + 1});
  m.node("Concat", {"given", "rest"}, {"list"}, {{"axis", int64_t{0}}});
  m.node("Reshape", {"list", "pairs"}, {"matrix"});
  m.node("Slice", {"matrix", "flat", "least", "zero", "flat"}, {"turned"});
  m.node("Transpose", {"turned"}, {"columns"}, {{"perm", Ints{1, 0}}});
  m.node("Reshape", {"columns", "flat"}, {"pads"});
  m.node("Pad", {"x", "pads"}, {"y"});
  auto g = m.import();
  EXPECT_EQ(g->outputs()[0]->type.dims, (Dims{1, 2, 1, 5}));
  EXPECT_EQ(run(*g, {7, 8}), (Numbers{0, 0, 0, 0, 0, 0, 7, 8, 0, 0}));
}

TEST(Shapes, FoldingRefusesWhatHasNoResult) {
  Model m;
  m.input("x", {2})
      .ints("a", {std::numeric_limits<int64_t>::min()})
      .ints("b", {-1})
      .node("Div", {"a", "b"}, {"t"});
  m.node("Reshape", {"x", "t"}, {"y"}).output("y");
  expect_has(m.problem(), "has no int64 result");
}

TEST(Elementwise, ManyInputs) {
  Model m;
  m.input("x", {3}).floats("a", {3}, {1, 1, 1}).floats("b", {1}, {5});
  m.node("Max", {"x", "a"}, {"m"}).node("Sum", {"m", "a", "b"}, {"s"}).node("Min", {"s", "b", "x"}, {"n"});
  m.node("Sub", {"s", "n"}, {"y"}).output("y");
  EXPECT_EQ(run(*m.import(), {0, 1, 2}), (Numbers{7, 6, 6}));
}

TEST(Parameters, OnceEachAndScalarsAreConstants) {
  Model m;
  m.input("x", {3}).floats("w", {3}, {1, 2, 3}).floats("half", {}, {0.5f}).floats("unused", {3}, {0, 0, 0});
  m.node("Mul", {"x", "w"}, {"a"})
      .node("Add", {"a", "w"}, {"b"})
      .node("Mul", {"b", "half"}, {"y"})
      .output("y");
  auto g = m.import();
  ASSERT_EQ(g->params().size(), 1u);
  EXPECT_EQ(g->params()[0]->name, "w");
  EXPECT_EQ(g->params()[0]->users.size(), 2u);
  EXPECT_EQ(run(*g, {1, 1, 1}), (Numbers{1, 2, 3}));
}

TEST(Parameters, StatisticsAreEachNodesOwn) {
  Model m(15);
  m.input("x", {2, 2})
      .floats("s", {2}, {1, 1})
      .floats("b", {2}, {0, 0})
      .floats("m", {2}, {0, 0})
      .floats("v", {2}, {1, 1});
  m.node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"a"});
  m.node("BatchNormalization", {"a", "s", "b", "m", "v"}, {"y", "unread"}, {{"training_mode", int64_t{1}}})
      .output("y");
  CaptureStderr();
  auto g = m.import();
  expect_has(GetCapturedStderr(), "2 running statistics share an initializer");
  std::vector<std::string> names;
  for (Value* p : g->params()) names.push_back(std::string(to_string(p->kind)) + " " + p->name);
  EXPECT_EQ(names, (std::vector<std::string>{"param s", "param b", "statistic m", "statistic v",
                                             "statistic m:2", "statistic v:2"}));
  EXPECT_EQ(g->nodes()[0]->number("momentum"), 0.9);
  EXPECT_EQ(g->nodes()[0]->number("epsilon"), 1e-5);
}

// Before opset 12 a Dropout has no mode and is there for training; from then on an input says, and nothing said is off.
TEST(Dropout, ModesByVersion) {
  auto imported = [](int64_t opset, const Strings& more, Attributes attributes) {
    Model m(opset);
    m.input("x", {4}).floats("ratio", {}, {0.2f});
    for (int on : {0, 1}) {
      auto& t = m.tensor(on ? "yes" : "no", {}, TensorProto::BOOL);
      t.add_int32_data(on);
    }
    Strings in = {"x"};
    in.insert(in.end(), more.begin(), more.end());
    m.node("Dropout", {"x"}, {"first"}).node("Dropout", in, {"y"}, attributes).output("y").output("first");
    auto g = m.import();
    const Node* n = g->outputs()[0]->node;
    EXPECT_EQ(n->integer("id"), 1);
    EXPECT_EQ(run(*g, {1, 2, 3, 4}), (Numbers{1, 2, 3, 4}));
    return std::pair(n->number("ratio"), n->integer("active"));
  };
  using Mode = std::pair<double, int64_t>;
  for (int64_t opset : {7, 10}) {
    EXPECT_EQ(imported(opset, {}, {}), Mode(0.5, 1));
    EXPECT_EQ(imported(opset, {}, {{"ratio", 0.3f}}), Mode(0.3, 1));
  }
  for (int64_t opset : {12, 13, 22}) {
    EXPECT_EQ(imported(opset, {}, {}), Mode(0.5, 0));
    EXPECT_EQ(imported(opset, {"ratio"}, {{"seed", int64_t{5}}}), Mode(0.2, 0));
    EXPECT_EQ(imported(opset, {"ratio", "no"}, {}), Mode(0.2, 0));
    EXPECT_EQ(imported(opset, {"ratio", "yes"}, {}), Mode(0.2, 1));
    EXPECT_EQ(imported(opset, {"", "yes"}, {}), Mode(0.5, 1));
  }
}

TEST(Dropout, Refusals) {
  Model ratio(11), computed(13);
  ratio.input("x", {4}).node("Dropout", {"x"}, {"y"}, {{"ratio", 1.5f}}).output("y");
  expect_has(ratio.problem(), "the ratio is 1.5, want 0 to 1");
  computed.input("x", {4}).input("r", {}).node("Dropout", {"x", "r"}, {"y"}).output("y");
  expect_has(computed.problem(), "input 'r' must be a constant");
}

TEST(Tensors, OtherFloatTypes) {
  struct Case {
    int type;
    std::string raw;
  };
  for (const Case& c :
       {Case{TensorProto::FLOAT16, std::string("\0\x3c\0\xc0\1\0", 6)},            // 1, -2, 2^-24
        Case{TensorProto::BFLOAT16, std::string("\x80\x3f\0\xc0\x80\x33", 6)}}) {  // 1, -2, 2^-24
    Model m;
    m.tensor("w", {3}, c.type).set_raw_data(c.raw);
    m.input("x", {3}).node("Mul", {"x", "w"}, {"y"}).output("y");
    CaptureStderr();
    auto g = m.import();
    expect_has(GetCapturedStderr(), "'w' is " + onnx_frontend::type_name(c.type));
    EXPECT_EQ(run(*g, {1, 1, 1}), (Numbers{1, -2, std::ldexp(1, -24)}));
  }
  Model m;
  auto& t = m.tensor("w", {2}, TensorProto::DOUBLE);
  t.add_double_data(0.1);
  t.add_double_data(1e-40);  // a denormal of f32 is zero
  m.input("x", {2}).node("Mul", {"x", "w"}, {"y"}).output("y");
  CaptureStderr();
  EXPECT_EQ(run(*m.import(), {1, 1}), (Numbers{0.1f, 0}));
  GetCapturedStderr();
}

TEST(Tensors, ExternalData) {
  Model m;
  auto& t = m.tensor("w", {2}, TensorProto::FLOAT);
  t.set_data_location(TensorProto::EXTERNAL);
  for (auto [key, value] : {std::pair("location", "w.bin"), {"offset", "4"}, {"length", "8"}}) {
    auto* entry = t.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  m.input("x", {2}).node("Mul", {"x", "w"}, {"y"}).output("y");
  TempDir folder;
  std::string path = folder.write("m.onnx", m.proto.SerializeAsString());
  auto bytes = [](std::vector<float> v) { return bytes_of(v); };
  folder.write("w.bin", bytes({9, 2, 3}));
  auto g = import_onnx(path, {});
  EXPECT_EQ(run(*g, {1, 1}), (Numbers{2, 3}));
  EXPECT_EQ(g->model_file, "m.onnx");
  EXPECT_EQ(g->model_hash.size(), 16u);
  folder.write("w.bin", bytes({8, 2, 3}));
  EXPECT_EQ(import_onnx(path, {})->model_hash, g->model_hash) << "bytes outside the tensor do not count";
  folder.write("w.bin", bytes({9, 2, 4}));
  EXPECT_NE(import_onnx(path, {})->model_hash, g->model_hash);

  TempDir outside;
  outside.write("w.bin", bytes({9, 2, 3}));
  std::filesystem::remove(folder.path / "w.bin");
  std::filesystem::create_symlink(outside.path / "w.bin", folder.path / "w.bin");
  EXPECT_THROW(import_onnx(path, {}), Error);
}

TEST(Dimensions, BindByName) {
  Model m;
  m.input("x", {-1, 3, -2}).node("Relu", {"x"}, {"y"}).output("y");
  expect_has(m.problem(), "has shape [N,3,?], whose sizes must be fixed: give --batch SIZE --dim x:2=SIZE");
  EXPECT_EQ(m.import({.batch = 2, .dims = {{"x:2", 5}}})->inputs()[0]->type.dims, (Dims{2, 3, 5}));
  EXPECT_EQ(m.import({.dims = {{"N", 2}, {"x:2", 5}}})->inputs()[0]->type.dims, (Dims{2, 3, 5}));
  expect_has(m.problem({.batch = 4, .dims = {{"N", 2}, {"x:2", 5}}}), "--batch 4 and --dim N=2 disagree");
  expect_has(m.problem({.batch = 4, .dims = {{"Q", 2}, {"x:2", 5}}}),
             "no input has a symbolic axis of this name; there are N, x:2");
  expect_has(m.problem({.batch = 0, .dims = {{"x:2", 5}}}), "--batch 0");
}

// As PaddlePaddle writes sizes that only a run knows: -1, and one "?" for axes that may differ.
TEST(Dims, UnknownAsPaddleWritesIt) {
  Model m;
  m.input("x", {1, 3, -1, -1}).node("Relu", {"x"}, {"y"}).output("y");
  auto* shape =
      m.proto.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->mutable_dim(0)->set_dim_value(-1);
  for (int axis : {2, 3}) shape->mutable_dim(axis)->set_dim_param("?");
  EXPECT_EQ(m.import({.batch = 2, .dims = {{"x:2", 5}, {"x:3", 7}}})->inputs()[0]->type.dims,
            (Dims{2, 3, 5, 7}));
  expect_has(m.problem(),
             "has shape [?,3,?,?], whose sizes must be fixed: give --batch SIZE --dim x:2=SIZE "
             "--dim x:3=SIZE");
}

TEST(Dimensions, FixedBatchIsReplaced) {
  Model m;
  m.input("x", {1, 2, 2})
      .node("Flatten", {"x"}, {"f"})
      .floats("w", {4, 1}, {1, 1, 1, 1})
      .node("MatMul", {"f", "w"}, {"y"});
  Model::value_info(m.proto.mutable_graph()->add_output(), "y", {1, 1}, TensorProto::FLOAT);
  EXPECT_EQ(run(*m.import({.batch = 2}), ramp(8)), (Numbers{6, 22}));
  EXPECT_EQ(run(*m.import(), ramp(4)), (Numbers{6}));
  // Rows that mix samples cannot go unnoticed: the output keeps its batch of 1.
  Model mixed;
  mixed.input("x", {1, 2}).ints("axes", {0}).node("ReduceSum", {"x", "axes"}, {"y"});
  Model::value_info(mixed.proto.mutable_graph()->add_output(), "y", {1, 2}, TensorProto::FLOAT);
  expect_has(mixed.problem({.batch = 2}), "comes out as f32[1,2] with a batch of 2 instead of 1");
}

TEST(Files, WhatTheyCannotHave) {
  Model s;
  s.input("x", {2}).node("Mul", {"x", "w"}, {"y"}).output("y");
  s.proto.mutable_graph()->add_sparse_initializer()->mutable_values()->set_name("w");
  EXPECT_EQ(s.problem(), "m.onnx: initializer 'w': is stored as a sparse tensor, which is not supported");

  TempDir folder;
  EXPECT_THROW(import_onnx(folder.path.string(), {}), Error);
  EXPECT_THROW(import_onnx(folder / "nothing.onnx", {}), Error);
}

TEST(Files, EveryProblemInOneReport) {
  Model m;
  m.input("x", {2, 3}).floats("w", {4, 3}, std::vector<float>(12)).floats("bad", {2}, {1});
  m.node("MatMul", {"x", "w"}, {"a"})
      .node("Relu", {"a"}, {"b"})
      .node("Sparkle", {"x"}, {"c"})
      .node("Add", {"b", "bad"}, {"d"});
  m.node("Mul", {"x", "bad"}, {"e"}).node("Neg", {"e"}, {"y"}).output("y");
  std::string text = m.problem();
  expect_has(text, "node 'a' (MatMul)");
  expect_has(text, "operator Sparkle is not supported");
  expect_has(text, "initializer 'bad': is float[2], which has 2 elements, but the file holds 1");
  for (const char* silent : {"node 'b'", "node 'd'", "node 'y'"})
    EXPECT_EQ(text.find(silent), std::string::npos) << text;
}

TEST(Opsets, OldAndNew) {
  Model m(5);
  m.input("x", {2}).node("Relu", {"x"}, {"y"}).output("y");
  expect_has(m.problem(), "opset 5 is older than every version of Relu that pock knows: [6,13,14]");
  m.proto.mutable_opset_import(0)->set_version(onnx_frontend::kNewestOpset + 1);
  expect_has(m.problem(), fmt::format("uses opset {}, and the newest that pock knows is {}",
                                      onnx_frontend::kNewestOpset + 1, onnx_frontend::kNewestOpset));
  EXPECT_EQ(run(*m.import({.assume_opset = 13}), {-1, 2}), (Numbers{0, 2}));
}

TEST(Opsets, TheNewestVersionThatIsNotNewerHolds) {
  onnx_frontend::OpRow row{"Thing", {9, 11}, nullptr};
  EXPECT_EQ(onnx_frontend::version_for(row, 9, {}), 9);
  EXPECT_EQ(onnx_frontend::version_for(row, 10, {}), 9);
  EXPECT_EQ(onnx_frontend::version_for(row, 23, {}), 11);
  try {
    onnx_frontend::version_for(row, 8, {});
    FAIL();
  } catch (const Error& e) {
    expect_has(e.what(), "opset 8 is older than every version of Thing that pock knows: [9,11]");
  }
}

TEST(Opsets, RowsAreSorted) {
  std::vector<std::string> names = onnx_frontend::known_operators();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const std::string& name : names) {
    const auto& since = onnx_frontend::find_row(name)->since;
    EXPECT_TRUE(std::is_sorted(since.begin(), since.end())) << name;
    EXPECT_LE(since.back(), onnx_frontend::kNewestOpset) << name;
  }
}

}  // namespace
}  // namespace pock::test
