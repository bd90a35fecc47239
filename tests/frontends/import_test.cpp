// Whole models: functions of their own, weights in odd places, tied weights, a batch that was fixed when they were
// exported, batch norm that is gone.
#include <algorithm>
#include <filesystem>

#include "forms.h"

namespace pock {
namespace {
using onnx::AttributeProto;
using onnx::FunctionProto;
using onnx::NodeProto;
using onnx::TensorProto;
using test::expect_gradients;
using test::expect_has;
using test::Floats;
using test::Ints;
using test::Model;
using test::Numbers;
using test::run;
using test::Strings;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

std::vector<std::string> params_of(const Graph& g) {
  std::vector<std::string> names;
  for (const Value* p : g.params()) names.push_back(p->name);
  return names;
}

// It stands for "none is ignored".
TEST(ClassIds, TheLowestNumberIsNoIgnoreIndex) {
  for (int64_t ignored : {INT64_MIN, INT64_MIN + 1}) {
    Model m;
    m.input("x", {1, 3}).input("ids", {1}, onnx::TensorProto::INT64);
    m.node("SoftmaxCrossEntropyLoss", {"x", "ids"}, {"loss"}, {{"ignore_index", ignored}}).output("loss");
    if (ignored == INT64_MIN)
      expect_has(m.problem(), "ignore_index is -9223372036854775808");
    else
      m.import();
  }
}

// ---- Functions

FunctionProto& function(Model& m, const std::string& name, const Strings& in, const Strings& out,
                        int64_t opset = 13) {
  FunctionProto& f = *m.proto.add_functions();
  f.set_name(name);
  f.set_domain("local");
  for (const auto& i : in) f.add_input(i);
  for (const auto& o : out) f.add_output(o);
  f.add_opset_import()->set_version(opset);
  return f;
}

NodeProto& node(FunctionProto& f, const std::string& op, const Strings& in, const Strings& out) {
  NodeProto& n = *f.add_node();
  n.set_op_type(op);
  for (const auto& i : in) n.add_input(i);
  for (const auto& o : out) n.add_output(o);
  return n;
}

AttributeProto& reference(NodeProto& n, const std::string& name, const std::string& to,
                          AttributeProto::AttributeType type) {
  AttributeProto& a = *n.add_attribute();
  a.set_name(name);
  a.set_ref_attr_name(to);
  a.set_type(type);
  return a;
}

NodeProto& call(Model& m, const std::string& name, const Strings& in, const Strings& out,
                const std::vector<std::pair<std::string, test::Attribute>>& attributes = {}) {
  m.node(name, in, out, attributes);
  NodeProto& n = *m.proto.mutable_graph()->mutable_node(m.proto.graph().node_size() - 1);
  n.set_domain("local");
  return n;
}

TEST(Functions, AreInlined) {
  Model m;
  m.input("x", {1, 2}).floats("w", {2, 2}, {1, 2, 3, 4}).floats("v", {2, 2}, {1, 0, 0, -1});
  FunctionProto& leaky = function(m, "Leaky", {"a"}, {"b"});
  leaky.add_attribute("slope");
  reference(node(leaky, "LeakyRelu", {"a"}, {"b"}), "alpha", "slope", AttributeProto::FLOAT);
  // Calls a function, and gives a name that the graph has, too.
  FunctionProto& layer = function(m, "Layer", {"in", "weight"}, {"out"});
  layer.add_attribute("slope");
  node(layer, "MatMul", {"in", "weight"}, {"x"});
  NodeProto& inner = node(layer, "Leaky", {"x"}, {"out"});
  inner.set_domain("local");
  reference(inner, "slope", "slope", AttributeProto::FLOAT);
  call(m, "Layer", {"x", "w"}, {"h"}, {{"slope", 0.5f}}).set_name("first");
  call(m, "Layer", {"h", "v"}, {"y"}, {{"slope", 0.25f}});
  m.output("y");
  auto g = m.import();
  EXPECT_EQ(params_of(*g), (Strings{"w", "v"}));
  EXPECT_EQ(run(*g, {1, -1}),
            (Numbers{-0.25, 1}));  // (-2, -2), halved; then (-1, 1), of which -1 is quartered
  Strings names;
  for (const Node* n : g->nodes()) names.push_back(n->loc.name);
  EXPECT_EQ(names, (Strings{"first/MatMul", "first/Leaky/LeakyRelu", "y/MatMul", "y/Leaky/LeakyRelu"}));
}

TEST(Functions, AttributesThatAreNotGiven) {
  Model m;
  m.input("x", {2});
  FunctionProto& f = function(m, "Leaky", {"a"}, {"b"});
  f.add_attribute("slope");
  reference(node(f, "LeakyRelu", {"a"}, {"b"}), "alpha", "slope", AttributeProto::FLOAT);
  call(m, "Leaky", {"x"}, {"y"});
  m.output("y");
  EXPECT_EQ(run(*m.import(), {1, -1}), (Numbers{1, -0.01f})) << "the operator's own default";
  // Defaults of functions are younger than these headers: field 11 of a function.
  AttributeProto slope;
  slope.set_name("slope");
  slope.set_type(AttributeProto::FLOAT);
  slope.set_f(0.5f);
  f.GetReflection()->MutableUnknownFields(&f)->AddLengthDelimited(11, slope.SerializeAsString());
  f.clear_attribute();
  EXPECT_EQ(run(*m.import(), {1, -1}), (Numbers{1, -0.5}));
}

TEST(Functions, InputsAndOutputsLeftOut) {
  Model m;
  m.input("x", {3});
  FunctionProto& f = function(m, "Bounded", {"a", "low"}, {"b", "c", "a"});
  node(f, "Clip", {"a", "low"}, {"b"});
  node(f, "Neg", {"b"}, {"c"});
  call(m, "Bounded", {"x"}, {"y", "", "same"});
  m.node("Sub", {"y", "same"}, {"z"}).output("z");
  EXPECT_EQ(run(*m.import(), {1, -1, 2}), (Numbers{0, 0, 0}));
}

// The functions of a file may be of another opset than its graph.
TEST(Functions, HaveAnOpsetOfTheirOwn) {
  Model m(13);
  m.input("x", {1, 2, 2});
  node(function(m, "Old", {"a"}, {"b"}, 11), "Softmax", {"a"}, {"b"});
  call(m, "Old", {"x"}, {"y"});
  m.output("y");
  test::expect_near(run(*m.import(), {0, 0, 0, 0}), {0.25, 0.25, 0.25, 0.25});
}

// Code, not weights: training one of two calls would change the other.
TEST(Functions, ConstantsInsideAreNotTrained) {
  Model m;
  m.floats("w", {2}, {1, 2});
  FunctionProto& f = function(m, "Scaled", {"a"}, {"b"});
  NodeProto& constant = node(f, "Constant", {}, {"factors"});
  AttributeProto& value = *constant.add_attribute();
  value.set_name("value_floats");
  value.set_type(AttributeProto::FLOATS);
  for (float v : {3.0f, 4.0f}) value.add_floats(v);
  node(f, "Mul", {"a", "factors"}, {"b"});
  call(m, "Scaled", {"w"}, {"h"});
  call(m, "Scaled", {"h"}, {"y"});
  m.output("y");
  auto g = m.import();
  EXPECT_EQ(params_of(*g), (Strings{"w"}));
  EXPECT_EQ(run(*g), (Numbers{9, 32}));
}

TEST(Functions, Refusals) {
  Model circle;
  circle.input("x", {2});
  node(function(circle, "A", {"a"}, {"b"}), "B", {"a"}, {"b"}).set_domain("local");
  node(function(circle, "B", {"a"}, {"b"}), "A", {"a"}, {"b"}).set_domain("local");
  call(circle, "A", {"x"}, {"y"}).set_name("start");
  circle.output("y");
  expect_has(circle.problem(), "node 'start' (A): calls the function A, which calls itself");

  Model many;
  many.input("x", {2});
  function(many, "A", {"a"}, {"a"});
  call(many, "A", {"x", "x"}, {"y"});
  many.output("y");
  expect_has(many.problem(),
             "calls the function A, which takes 1 and makes 1, but is given 2 inputs for 1 outputs");
  many.proto.mutable_graph()->mutable_node(0)->mutable_input()->RemoveLast();
  EXPECT_EQ(run(*many.import(), {3, 4}), (Numbers{3, 4}));
  function(many, "A", {"a"}, {"a"});
  expect_has(many.problem(), "calls the function A, which is defined twice");
  many.proto.mutable_functions()->RemoveLast();
  reference(*many.proto.mutable_graph()->mutable_node(0), "size", "", AttributeProto::INT);
  expect_has(many.problem(), "calls the function A, which has no attribute 'size'");

  Model inside;
  inside.input("x", {2});
  node(function(inside, "A", {"a"}, {"b"}), "Sparkle", {"a"}, {"b"});
  call(inside, "A", {"x"}, {"y"}).set_name("outer");
  inside.output("y");
  expect_has(inside.problem(), "node 'outer/Sparkle' (Sparkle): operator Sparkle is not supported");
}

// A chain of functions, each calling the next one so often.
Model chain(int length, int times) {
  Model m;
  m.input("x", {2});
  for (int i = 0; i < length; ++i) {
    FunctionProto& f = function(m, "F" + std::to_string(i), {"a0"}, {"a" + std::to_string(times)});
    for (int k = 0; k < times; ++k) {
      NodeProto& n = node(f, i + 1 < length ? "F" + std::to_string(i + 1) : "Relu", {"a" + std::to_string(k)},
                          {"a" + std::to_string(k + 1)});
      if (i + 1 < length) n.set_domain("local");
    }
  }
  call(m, "F0", {"x"}, {"y"});
  return m.output("y");
}

// Short files, whose bodies would fill any memory or the stack.
TEST(Functions, LimitsAreKnownBeforeAnythingIsCopied) {
  EXPECT_EQ(run(*chain(100, 1).import(), {1, -1}), (Numbers{1, 0}));
  EXPECT_EQ(run(*chain(6, 3).import(), {1, -1}), (Numbers{1, 0})) << "729 nodes";
  for (int length : {101, 30000})
    expect_has(
        chain(length, 1).problem(),
        "node 'y' (F0): calls the function F0, which belongs to calls that are nested more than 100 deep");
  expect_has(chain(40, 2).problem(), "calls the function F0, which unfolds to more than 100000 nodes");
  expect_has(chain(2, 100000).problem(), "calls the function F0, which unfolds to more than 100000 nodes");

  Model often = chain(9, 3);
  for (int i = 0; i < 4; ++i) call(often, "F0", {"x"}, {"again" + std::to_string(i)});
  EXPECT_EQ(often.problem(), "m.onnx: its calls of functions unfold to 147615 nodes, and 100000 is the most");

  Model large;
  large.input("x", {2});
  FunctionProto& f = function(large, "A", {"a"}, {"b"});
  NodeProto& constant = node(f, "Constant", {}, {"c"});
  AttributeProto& value = *constant.add_attribute();
  value.set_name("value_string");
  value.set_type(AttributeProto::STRING);
  value.set_s(std::string(1 << 20, '?'));
  node(f, "Relu", {"a"}, {"b"});
  for (int i = 0; i < 65; ++i) call(large, "A", {"x"}, {"y" + std::to_string(i)});
  expect_has(large.output("y0").problem(), "its calls of functions unfold to more than 64 MiB");
}

TEST(Functions, AllThatIsWrongIsSaidAtOnce) {
  Model m;
  m.input("x", {2});
  node(function(m, "Newer", {"a"}, {"b"}, 99), "Relu", {"a"}, {"b"});
  NodeProto& relu = node(function(m, "Odd", {"a"}, {"b"}), "Relu", {"c"}, {"b"});
  call(m, "Newer", {"x"}, {"y"});
  call(m, "Odd", {"x"}, {"z"});
  m.node("LeakyRelu", {"x"}, {"q"});
  reference(*m.proto.mutable_graph()->mutable_node(2), "alpha", "slope", AttributeProto::FLOAT);
  m.node("Sparkle", {"x"}, {"r"}).output("y").output("z").output("q").output("r");
  std::string problem = m.problem();
  expect_has(problem,
             "(Newer): calls the function Newer, which uses opset 99, and the newest that pock knows is");
  expect_has(problem, "node 'z/Relu' (Relu): reads 'z/c', which nothing in the file makes");
  expect_has(
      problem,
      "node 'q' (LeakyRelu): attribute 'alpha' is to be 'slope' of a function, but the node is in none");
  expect_has(problem, "node 'r' (Sparkle)");
  relu.set_input(0, "a");
  problem = m.problem({.assume_opset = 13});
  EXPECT_EQ(problem.find("Newer"), std::string::npos) << problem;
}

// Weights keep the names that the file has for them, so that what was trained finds its way back.
TEST(Functions, WeightsAndStatisticsBelongToTheFile) {
  Model m(15);
  m.input("x", {2, 2, 3}).floats("s", {2}, {1, 2}).floats("b", {2}, {3, 4});
  for (const char* name : {"mean1", "mean2"}) m.floats(name, {2}, {0, 0});
  for (const char* name : {"var1", "var2"}) m.floats(name, {2}, {1, 1});
  FunctionProto& f = function(m, "Norm", {"a", "s", "b", "mean", "var"}, {"y"}, 15);
  node(f, "Identity", {"s"}, {"scale"});
  node(f, "BatchNormalization", {"a", "scale", "b", "mean", "var"}, {"y"});
  call(m, "Norm", {"x", "s", "b", "mean1", "var1"}, {"h"});
  call(m, "Norm", {"h", "s", "b", "mean2", "var2"}, {"y"});
  m.output("y");
  auto g = m.import();
  EXPECT_EQ(params_of(*g), (Strings{"s", "b", "mean1", "mean2", "var1", "var2"}));
  m.proto.mutable_graph()->mutable_node(1)->set_input(3, "mean1");
  expect_has(
      m.problem(),
      "node 'y/BatchNormalization' (BatchNormalization): running statistic 'mean1' has other readers, and a "
      "node of a function cannot be given one of its own");
}

// ---- Domains

TEST(Domains, CountOnlyWhereTheyAreUsed) {
  Model m;
  m.input("x", {2}).node("Relu", {"x"}, {"y"}).output("y");
  auto* vendor = m.proto.add_opset_import();
  vendor->set_domain("com.microsoft");
  vendor->set_version(1);
  EXPECT_EQ(run(*m.import(), {1, -1}), (Numbers{1, 0}));
  m.node("FusedMatMul", {"x", "x"}, {"z"}).output("z");
  m.proto.mutable_graph()->mutable_node(1)->set_domain("com.microsoft");
  m.node("Magic", {"x"}, {"q"}).output("q");
  m.proto.mutable_graph()->mutable_node(2)->set_domain("org.example");
  std::string problem = m.problem();
  expect_has(problem, "node 'z' (FusedMatMul): operator FusedMatMul of domain com.microsoft is unknown");
  expect_has(problem, "node 'q' (Magic): operator Magic of domain org.example is unknown");
  expect_has(problem, "come from graph optimisation: export the model again without it");
}

// ---- Weights

TEST(Weights, ShapeDataAndUnreadTensorsAreNone) {
  Model m;
  m.input("x", {2, 3}).floats("w", {3, 3}, Floats(9, 1)).ints("shape", {3, 2});
  m.floats("unread", {4}, {1, 2, 3, 4}).floats("measured", {2, 3}, Floats(6, 1));
  m.node("MatMul", {"x", "w"}, {"h"}).node("Shape", {"measured"}, {"size"});
  m.node("Reshape", {"h", "size"}, {"again"}).node("Reshape", {"again", "shape"}, {"y"}).output("y");
  EXPECT_EQ(params_of(*m.import()), (Strings{"w"}));
}

TEST(Weights, TiedOnesAreOneParameter) {
  Model words;  // an embedding whose transpose is the output layer
  words.floats("table", {3, 2}, {1, 2, 3, 4, 5, 6}).ints("ids", {2, 0, 2});
  words.node("Gather", {"table", "ids"}, {"rows"}).node("Transpose", {"table"}, {"columns"});
  words.node("MatMul", {"rows", "columns"}, {"y"}).output("y");
  expect_gradients(words, 1);
  Model siamese;
  Floats w(2 * 2 * 9), x(2 * 25);
  for (size_t i = 0; i < w.size(); ++i) w[i] = 0.1f * static_cast<float>(i % 7) - 0.3f;
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.05f * static_cast<float>(i % 11);
  siamese.floats("w", {2, 2, 3, 3}, w)
      .floats("a", {1, 2, 5, 5}, x)
      .floats("b", {1, 2, 5, 5}, Floats(50, 0.5f));
  siamese.node("Conv", {"a", "w"}, {"left"}).node("Conv", {"b", "w"}, {"right"});
  siamese.node("Mul", {"left", "right"}, {"y"}).output("y");
  expect_gradients(siamese, 3);
}

TEST(Weights, ExternalFiles) {
  for (bool apart : {false, true}) {
    Model m;
    test::TempDir folder;
    std::filesystem::create_directory(folder.path / "data");
    std::string all(4096, '?');
    for (const char* name : {"a", "b"}) {
      std::string bytes = test::bytes_of(Floats{1, 2, name[0] == 'a' ? 3.0f : 4.0f});
      TensorProto& t = m.tensor(name, {3}, TensorProto::FLOAT);
      t.set_data_location(TensorProto::EXTERNAL);
      auto put = [&](const char* key, const std::string& value) {
        auto* entry = t.add_external_data();
        entry->set_key(key);
        entry->set_value(value);
      };
      put("location", apart ? fmt::format("data/{}.bin", name) : "data/all.bin");
      if (apart) {
        folder.write(fmt::format("data/{}.bin", name), bytes);
        continue;
      }
      put("offset", std::to_string(all.size()));
      put("length", std::to_string(bytes.size()));
      all += bytes + std::string(4096 - bytes.size(), '?');
    }
    if (!apart) folder.write("data/all.bin", all);
    m.node("Mul", {"a", "b"}, {"y"}).output("y");
    auto g = import_onnx(folder.write("m.onnx", m.proto.SerializeAsString()), {});
    EXPECT_EQ(run(*g), (Numbers{1, 4, 12}));
  }
}

// ---- A batch that was fixed when the model was exported

Model exported_for_one(const Dims& image, const Ints& target, const Dims& weight) {
  Model m;
  int64_t n = 1;
  for (int64_t d : weight) n *= d;
  m.input("x", image).ints("shape", target).floats("w", weight, Floats(n, 0.25f));
  m.node("Relu", {"x"}, {"r"}).node("Reshape", {"r", "shape"}, {"flat"}).node("MatMul", {"flat", "w"}, {"y"});
  return m.output("y");
}

TEST(Rebatch, ReshapesKeepTheSamplesApart) {
  Numbers one = {1, -2, 3, 4, 5, 6, -7, 8}, four;
  for (int i = 0; i < 4; ++i)
    for (double v : one) four.push_back(v + i);
  for (const Ints& target : {Ints{1, 8}, Ints{1, -1}, Ints{-1, 8}, Ints{0, 8}, Ints{0, -1}}) {
    Model m = exported_for_one({1, 2, 2, 2}, target, {8, 3});
    CaptureStderr();
    auto g = m.import({.batch = 4});
    expect_has(GetCapturedStderr(), "was exported for a batch of 1 and is read with 4");
    EXPECT_EQ(g->outputs()[0]->type.dims, (Dims{4, 3}));
    Numbers y = run(*g, four), first = run(*m.import(), one);
    EXPECT_EQ(Numbers(y.begin(), y.begin() + 3), first);
  }
  Model tokens = exported_for_one({1, 2, 2, 2}, {1, 4, 2}, {2, 3});
  CaptureStderr();
  EXPECT_EQ(tokens.import({.batch = 4})->outputs()[0]->type.dims, (Dims{4, 4, 3}));
  EXPECT_EQ(exported_for_one({2, 4}, {2, 2, 2}, {2, 3}).import({.batch = 6})->outputs()[0]->type.dims,
            (Dims{6, 2, 3}));
  // The samples need not be the first axis.
  Model sequence;
  sequence.input("x", {1, 5, 6}).ints("shape", {5, 1, 2, 3});
  sequence.node("Transpose", {"x"}, {"t"}, {{"perm", Ints{1, 0, 2}}})
      .node("Reshape", {"t", "shape"}, {"y"})
      .output("y");
  EXPECT_EQ(sequence.import({.batch = 3})->outputs()[0]->type.dims, (Dims{5, 3, 2, 3}));
  GetCapturedStderr();
}

// A target that the model computes from a shape has the new batch in it already.
TEST(Rebatch, ComputedShapesFollow) {
  Model m;
  m.input("x", {1, 2, 3}).ints("zero", {0}).ints("rest", {6}).random("w", {6, 2});
  m.node("Shape", {"x"}, {"size"}).node("Gather", {"size", "zero"}, {"n"});
  m.node("Concat", {"n", "rest"}, {"target"}, {{"axis", int64_t{0}}})
      .node("Reshape", {"x", "target"}, {"flat"});
  m.node("MatMul", {"flat", "w"}, {"y"}).output("y");
  CaptureStderr();
  EXPECT_EQ(m.import({.batch = 5})->outputs()[0]->type.dims, (Dims{5, 2}));
  GetCapturedStderr();
}

TEST(Rebatch, SizesOfAResizeKeepTheBatch) {
  Model m;
  m.input("x", {1, 2, 3, 3}).ints("sizes", {1, 2, 6, 6});
  m.node("Resize", {"x", "", "", "sizes"}, {"y"}).output("y");
  CaptureStderr();
  EXPECT_EQ(m.import({.batch = 4})->outputs()[0]->type.dims, (Dims{4, 2, 6, 6}));
  GetCapturedStderr();
}

TEST(Rebatch, ALossIsAScalarOfAnyBatch) {
  Model m;
  m.input("x", {2, 3}).node("ReduceMean", {"x"}, {"y"}, {{"keepdims", int64_t{0}}}).output("y");
  CaptureStderr();
  EXPECT_EQ(run(*m.import({.batch = 3}), {1, 2, 3, 4, 5, 6, 7, 8, 9}), (Numbers{5}));
  GetCapturedStderr();
}

TEST(Rebatch, WhatTheFileHasWrongIsSaidOnce) {
  Model m = exported_for_one({1, 2, 2, 2}, {4, 2}, {2, 3});
  m.node("Sparkle", {"x"}, {"z"}).output("z");
  EXPECT_EQ(
      m.problem({.batch = 4}),
      "m.onnx: node 'z' (Sparkle): operator Sparkle is not supported (opset 13)\n"
      "m.onnx: node 'flat' (Reshape): the target shape [4,2] is fixed to the batch of 1 that the file was "
      "exported with, and the batch is to be 4: export the model with a symbolic batch axis\n"
      "  node 'r' (Relu): is f32[4,2,2,2]\n  initializer 'shape': is int64[2]");
}

TEST(Rebatch, BlockingNodesAreNamed) {
  // Two axes into one, one of them the samples'; the samples' axis dropped; samples beside other things.
  for (const Ints& target : {Ints{4, 2}, Ints{8}, Ints{2, 1, 4}, Ints{4, -1}}) {
    std::string problem = exported_for_one({1, 2, 2, 2}, target, {target.back() < 0 ? 2 : target.back(), 3})
                              .problem({.batch = 4});
    expect_has(problem, "node 'flat' (Reshape): the target shape " + to_string(target) +
                            " is fixed to the batch of 1 that the file was exported with");
  }
  Model expand;
  expand.input("x", {1, 2, 3}).floats("token", {1, 1, 3}, {1, 2, 3}).ints("shape", {1, 1, 3});
  expand.node("Expand", {"token", "shape"}, {"t"})
      .node("Concat", {"t", "x"}, {"y"}, {{"axis", int64_t{1}}})
      .output("y");
  expect_has(expand.problem({.batch = 4}), "node 'y' (Concat)");
  // One sample of shape [1] has no axis more than another; four have.
  Model squeeze;
  squeeze.input("x", {1, 3, 1}).node("Squeeze", {"x"}, {"y"}).output("y");
  expect_has(
      squeeze.problem({.batch = 4}),
      "node 'y' (Squeeze): its result has shape [3] for the batch of 1 that the file was exported with, but "
      "[4,3] for 4");
  // Where the samples are is a guess here.
  expect_has(exported_for_one({1, 8}, {2, 1, 1, 4}, {4, 3}).problem({.batch = 4}), "node 'flat' (Reshape)");
  // One sample of a batch.
  Model first;
  first.input("x", {1, 2}).ints("zero", {0}, true).node("Gather", {"x", "zero"}, {"y"}).output("y");
  expect_has(first.problem({.batch = 4}), "node 'y' (Gather): works along axis 0 of 'x', which is the batch");
}

// The shapes grow as they should, and the samples mix all the same.
TEST(Rebatch, WorkAlongTheBatchIsNamed) {
  auto expect_named = [](Model& m, const char* node) {
    expect_has(m.problem({.batch = 4}), std::string("node 'y' (") + node + "): works along axis 0 of 'x'");
  };
  for (const char* op : {"Softmax", "LogSoftmax"})
    for (int64_t axis : {0, -2}) {
      Model m;
      m.input("x", {1, 3}).node(op, {"x"}, {"y"}, {{"axis", axis}}).output("y");
      expect_named(m, op);
    }
  Model before_13(11);
  before_13.input("x", {1, 3}).node("Softmax", {"x"}, {"y"}, {{"axis", int64_t{0}}}).output("y");
  expect_named(before_13, "Softmax");
  Model concat;
  concat.input("x", {1, 3}).node("Concat", {"x", "x"}, {"y"}, {{"axis", int64_t{0}}}).output("y");
  expect_named(concat, "Concat");
  Model flip;
  flip.input("x", {1, 3}).ints("start", {-1}).ints("end", {INT64_MIN}).ints("axis", {0}).ints("step", {-1});
  flip.node("Slice", {"x", "start", "end", "axis", "step"}, {"y"}).output("y");
  expect_named(flip, "Slice");
  // The axis beside is not the batch.
  Model good;
  good.input("x", {1, 3}).node("Softmax", {"x"}, {"s"}, {{"axis", int64_t{1}}});
  good.node("Concat", {"s", "x"}, {"y"}, {{"axis", int64_t{1}}}).output("y");
  CaptureStderr();
  EXPECT_EQ(good.import({.batch = 4})->outputs()[0]->type.dims, (Dims{4, 6}));
  GetCapturedStderr();
}

// A scalar that is made of all samples may be a loss, or part of one, but must not come back to them.
TEST(Rebatch, ScalarsOfTheBatchStayAwayFromSamples) {
  const test::Attributes scalar = {{"keepdims", int64_t{0}}};
  auto scores = [&](const char* reduce) {
    Model m;
    m.input("x", {1, 6}).random("w", {4, 6}).node("Gemm", {"x", "w"}, {"c"}, {{"transB", int64_t{1}}});
    m.node(reduce, {"c"}, {"m"}, scalar);
    return m;
  };
  auto expect_named = [](const Model& m, const std::string& node, const std::string& scalar) {
    expect_has(m.problem({.batch = 4}),
               "node '" + node + ": reads '" + scalar +
                   "', which is made of all samples of the batch, for results of single samples, so it mixes "
                   "them: a batch of 1 cannot become one of 4");
  };
  for (const char* reduce : {"ReduceMax", "ReduceMean", "ReduceSum", "ReduceL2"})
    for (const char* op : {"Div", "Mul", "Sub", "Max"})
      for (const Strings& in : {Strings{"c", "m"}, Strings{"m", "c"}}) {
        Model m = scores(reduce);
        m.node(op, in, {"y"}).output("y");
        expect_named(m, std::string("y' (") + op + ")", "m");
      }
  Model clip = scores("ReduceMean");
  clip.node("Clip", {"c", "", "m"}, {"y"}).output("y");
  expect_named(clip, "y' (Clip)", "m");
  // On a way round, with an axis of its own, and to samples that are not made of the same batch.
  Model around = scores("ReduceMax");
  around.ints("axis", {0}).random("b", {4});
  around.node("Sqrt", {"m"}, {"r"}).node("Unsqueeze", {"r", "axis"}, {"u"}).node("Add", {"u", "b"}, {"v"});
  around.node("Mul", {"c", "v"}, {"y"}).output("y");
  expect_named(around, "y' (Mul)", "v");
  Model expanded = scores("ReduceMax");
  expanded.node("Shape", {"x"}, {"size"}).node("Expand", {"m", "size"}, {"y"}).output("y");
  expect_named(expanded, "y' (Expand)", "m");
  // In front of a model's own loss.
  Model loss = scores("ReduceMax");
  loss.input("t", {1}, onnx::TensorProto::INT64);
  loss.node("Div", {"c", "m"}, {"z"}).node("SoftmaxCrossEntropyLoss", {"z", "t"}, {"loss"}).output("loss");
  expect_named(loss, "z' (Div)", "m");
  // All of them are said at once.
  Model two = scores("ReduceMax");
  two.node("Div", {"c", "m"}, {"y"}).node("Mul", {"c", "m"}, {"z"}).output("y").output("z");
  expect_named(two, "y' (Div)", "m");
  expect_named(two, "z' (Mul)", "m");
}

// What a loss is made of: parts, weights and penalties, all of them scalars.
TEST(Rebatch, ALossMayHaveParts) {
  const test::Attributes scalar = {{"keepdims", int64_t{0}}};
  Model m;
  m.input("x", {1, 2}).floats("w", {2}, {3, 4}).floats("half", {}, {0.5f});
  m.node("ReduceMean", {"x"}, {"a"}, scalar).node("ReduceMax", {"x"}, {"b"}, scalar);
  m.node("Mul", {"w", "w"}, {"q"}).node("ReduceSum", {"q"}, {"p"}, scalar);
  m.node("Div", {"a", "b"}, {"c"})
      .node("Mul", {"p", "half"}, {"d"})
      .node("Add", {"c", "d"}, {"y"})
      .output("y");
  CaptureStderr();
  EXPECT_EQ(run(*m.import({.batch = 3}), {1, 2, 3, 4, 6, 8}), (Numbers{13}));
  GetCapturedStderr();
}

// What nothing reads is not made, whatever grows.
TEST(Rebatch, UnreadResultsAreNone) {
  Model m;
  m.input("x", {1, 2, 4, 4})
      .node("MaxPool", {"x"}, {"y", "unread"}, {{"kernel_shape", Ints{2, 2}}})
      .output("y");
  CaptureStderr();
  EXPECT_EQ(m.import({.batch = 3})->outputs()[0]->type.dims, (Dims{3, 2, 3, 3}));
  GetCapturedStderr();
}

// Axes of four beside a batch of four.
TEST(Outputs, HoldSamplesWhereTheyGrowWithTheBatch) {
  auto net = [](const Dims& dims) {
    Model m;
    m.input("x", dims).random("w", {6, 4}).random("v", {4, 5}).ints("other", {4, 4});
    m.node("MatMul", {"x", "w"}, {"y"}).node("Transpose", {"y"}, {"turned"}).node("Relu", {"v"}, {"fixed"});
    m.node("ReduceMean", {"y"}, {"loss"}, {{"keepdims", int64_t{0}}})
        .node("Add", {"y", "turned"}, {"square"});
    m.node("Reshape", {"y", "other"}, {"shaped"});
    for (const char* name : {"y", "turned", "fixed", "loss", "square", "shaped"}) m.output(name);
    return m;
  };
  auto whole = [](const Graph& g) {
    std::string names;
    for (size_t i = 0; i < g.outputs().size(); ++i)
      if (g.is_whole(i)) names += g.output_name(i) + " ";
    return names;
  };
  // With another batch two of them cannot be made: the length decides.
  EXPECT_EQ(whole(*net({-1, 6}).import({.batch = 4})), "turned fixed ");
  EXPECT_EQ(whole(*net({-1, 6}).import({.dims = {{"N", 4}}})), "turned fixed ");
  EXPECT_EQ(whole(*net({4, 6}).import()), "turned fixed ");
  EXPECT_EQ(whole(*net({4, 6}).import({.batch = 4})), "turned fixed ");

  Model two;
  two.input("x", {2, 6})
      .random("w", {6, 4})
      .node("MatMul", {"x", "w"}, {"y"})
      .node("Transpose", {"y"}, {"t"});
  two.output("t").output("y");
  CaptureStderr();
  EXPECT_EQ(whole(*two.import({.batch = 4})), "t ");
  EXPECT_EQ(whole(*two.import({.batch = 5})), "");
  GetCapturedStderr();
}

TEST(Weights, NumbersWithoutAxesAreConstants) {
  Model m;
  m.input("x", {2, 3}).floats("g", {}, {0.5f}).floats("w", {1}, {0.25f});
  m.node("Mul", {"x", "g"}, {"s"}).node("Mul", {"s", "w"}, {"y"}).output("y");
  CaptureStderr();
  auto g = m.import();
  expect_has(GetCapturedStderr(), "1 initializer is a number without an axis ('g'): constant, not trained");
  EXPECT_EQ(g->find("g"), nullptr);
  EXPECT_EQ(g->find("w")->kind, ValueKind::param);
}

// ---- Batch norm that is gone

// A convolution with batch norm, or with that folded in as PyTorch does it.
Model net(bool folded, const Floats& x = {}) {
  Model m(15);
  Floats w(2 * 1 * 9), scale = {2, 0.5f}, shift = {0.5f, -1}, mean = {0.25f, -0.5f}, variance = {4, 0.25f};
  for (size_t i = 0; i < w.size(); ++i) w[i] = 0.125f * static_cast<float>(i % 5) - 0.25f;
  if (x.empty())
    m.input("x", {2, 1, 4, 4});
  else
    m.floats("x", {2, 1, 4, 4}, x);
  if (folded) {
    Floats b(2);
    for (int c = 0; c < 2; ++c) {
      float factor = scale[c] / std::sqrt(variance[c]);
      for (int i = 0; i < 9; ++i) w[9 * c + i] *= factor;
      b[c] = shift[c] - mean[c] * factor;
    }
    m.floats("onnx::Conv_21", {2, 1, 3, 3}, w).floats("onnx::Conv_22", {2}, b);
    m.node("Conv", {"x", "onnx::Conv_21", "onnx::Conv_22"}, {"y"});
  } else {
    m.floats("conv.weight", {2, 1, 3, 3}, w).floats("bn.weight", {2}, scale).floats("bn.bias", {2}, shift);
    m.floats("bn.running_mean", {2}, mean).floats("bn.running_var", {2}, variance);
    m.node("Conv", {"x", "conv.weight"}, {"c"});
    m.node("BatchNormalization", {"c", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"}, {"y"},
           {{"epsilon", 0.0f}});
  }
  return m.output("y");
}

TEST(FoldedNorms, AreTold) {
  Numbers x(32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.25 * static_cast<double>(i % 9);
  CaptureStderr();
  auto plain = net(false).import(), folded = net(true).import();
  std::string said = GetCapturedStderr();
  test::expect_near(run(*plain, x), run(*folded, x));
  expect_has(
      said,
      "there is no batch norm, but it seems to have been folded into 1 node (the weight of 'y' is called "
      "'onnx::Conv_21')");
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_EQ(params_of(*folded), (Strings{"onnx::Conv_21", "onnx::Conv_22"}));
  CaptureStderr();
  expect_gradients(net(true, {x.begin(), x.end()}), 3);
  expect_gradients(net(false, {x.begin(), x.end()}), 4);
  GetCapturedStderr();

  Model keras;  // names that a converter leaves behind
  keras.input("x", {1, 2}).floats("w", {2}, {1, 2}).node("Add", {"x", "w"}, {"model/bn1/FusedBatchNormV3:0"});
  keras.output("model/bn1/FusedBatchNormV3:0");
  CaptureStderr();
  keras.import();
  expect_has(GetCapturedStderr(), "'model/bn1/FusedBatchNormV3:0' is Add");
}

}  // namespace
}  // namespace pock
