// What is trained: by itself, under every preset and scheme, the float tensors of the model that reach the loss through
// differentiable operators, and nothing else that a file calls a weight.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "frontends/model.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock::test {
namespace {

using Names = std::set<std::string>;
using Ints = std::vector<int64_t>;

// Two inverted residual blocks and a head. Beside what is a weight there is whatever else a file keeps in floats: shapes,
// sizes, bounds, indices, and layers that lead elsewhere.
Model net() {
  Model m(13);
  const auto pointwise = [&](const std::string& name, const std::string& x, int64_t in, int64_t out) {
    m.random(name + ".weight", {out, in, 1, 1}).random(name + ".bias", {out});
    m.node("Conv", {x, name + ".weight", name + ".bias"}, {name});
  };
  m.input("x", {-1, 4, 6, 6});
  pointwise("stem", "x", 4, 4);
  std::string x = "stem";
  for (const std::string block : {"one", "two"}) {
    pointwise(block + ".expand", x, 4, 8);
    m.node("Relu", {block + ".expand"}, {block + ".r"});
    m.random(block + ".deep.weight", {8, 1, 3, 3});
    m.node("Conv", {block + ".r", block + ".deep.weight"}, {block + ".deep"},
           {{"group", int64_t{8}}, {"pads", Ints{1, 1, 1, 1}}});
    for (const char* part : {"scale", "shift", "mean"}) m.random(block + ".norm." + part, {8});
    m.floats(block + ".norm.variance", {8}, std::vector<float>(8, 1));
    m.node("BatchNormalization",
           {block + ".deep", block + ".norm.scale", block + ".norm.shift", block + ".norm.mean",
            block + ".norm.variance"},
           {block + ".n"});
    pointwise(block + ".project", block + ".n", 8, 4);
    m.node("Add", {x, block + ".project"}, {block + ".sum"});
    x = block + ".sum";
  }

  // Where no gradient flows.
  m.random("measured", {4, 3}).node("Shape", {"measured"}, {"four_three"});
  m.random("doubled.weight", {4, 36});  // read as a shape alone, too
  m.node("Shape", {"doubled.weight"}, {"four_many"}).node("Slice", {"four_many", "nil", "one"}, {"four"});
  m.ints("nil", {0}).ints("one", {1}).ints("rest", {36, 1});
  m.node("Concat", {"four", "rest"}, {"columns"}, {{"axis", int64_t{0}}});
  m.floats("sizes", {4}, {1, 1, 2, 2});
  m.node("Resize", {x, "", "sizes"}, {"large"}, {{"mode", std::string("nearest")}});
  m.node("MaxPool", {"large"}, {"small"}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  m.random("floored", {4, 1, 1})
      .node("Floor", {"floored"}, {"whole"})
      .node("Add", {"small", "whole"}, {"lifted"});
  m.random("bound", {4, 1, 1}).node("Greater", {"lifted", "bound"}, {"above"});
  m.node("Cast", {"above"}, {"gate"}, {{"to", int64_t{1}}}).node("Mul", {"lifted", "gate"}, {"gated"});
  m.floats("places", {4}, {3, 1, 0, 2}).node("Cast", {"places"}, {"order"}, {{"to", int64_t{7}}});
  m.node("Gather", {"gated", "order"}, {"turned"}, {{"axis", int64_t{1}}});
  m.random("votes", {4, 1, 1})
      .node("ArgMax", {"votes"}, {"winner"}, {{"axis", int64_t{0}}, {"keepdims", int64_t{0}}});
  m.node("Cast", {"winner"}, {"won"}, {{"to", int64_t{1}}}).node("Add", {"turned", "won"}, {"moved"});
  m.tensor("count", {1}, onnx::TensorProto::INT32).add_int32_data(3);
  m.node("Cast", {"count"}, {"counted"}, {{"to", int64_t{1}}}).node("Mul", {"moved", "counted"}, {"many"});
  m.random("unread", {5});

  // Where it does: half precision, a constant of a node, what is both a shape and a factor.
  auto& half = m.tensor("half", {4, 1, 1}, onnx::TensorProto::FLOAT16);
  for (int bits : {0x3c00, 0x3800, 0x4000, 0x3400}) half.add_int32_data(bits);
  m.node("Cast", {"half"}, {"full"}, {{"to", int64_t{1}}}).node("Mul", {"many", "full"}, {"halved"});
  m.node("Flatten", {"halved"}, {"flat"}).ints("back", {-1, 4, 36});
  m.node("Reshape", {"flat", "back"}, {"wide"}).node("Mul", {"wide", "doubled.weight"}, {"weighed"});
  m.node("ReduceSum", {"weighed", "last"}, {"features"}, {{"keepdims", int64_t{0}}}).ints("last", {2});
  m.random("head.weight", {4, 3}).random("head.bias", {3});
  m.node("Gemm", {"features", "head.weight", "head.bias"}, {"logits"});

  // Behind the head, to another output and to nothing.
  m.random("aux.weight", {4, 3})
      .random("aux.bias", {3})
      .node("Gemm", {"features", "aux.weight", "aux.bias"}, {"aux"});
  m.random("dead.weight", {3, 3}).node("MatMul", {"aux", "dead.weight"}, {"dead"});
  for (auto& node : *m.proto.mutable_graph()->mutable_node()) node.set_name(node.output(0));
  return m.output("logits").output("aux");
}

Names all_trained() {
  Names names = {"stem.weight", "stem.bias", "half", "doubled.weight", "head.weight", "head.bias"};
  for (const std::string block : {"one", "two"}) {
    for (const char* layer : {".expand", ".project"})
      for (const char* part : {".weight", ".bias"}) names.insert(block + layer + part);
    for (const char* part : {".deep.weight", ".norm.scale", ".norm.shift"}) names.insert(block + part);
  }
  return names;
}

Names trained(const Model& m, const PassOptions& given) {
  PassOptions options = given;
  options.losses = {parse_loss("logits=cross-entropy")};
  const std::unique_ptr<Graph> model = m.import({.batch = 3});
  const ProgramGraphs graphs = program_graphs(*model, options);
  Names names, updated;
  for (const Value* p : graphs.train->params()) {
    if (p->trained) names.insert(p->name);
    for (const Node* n : p->users)
      if (p->kind == ValueKind::param && n->op->has_effect() && n->in(0) == p) updated.insert(p->name);
  }
  EXPECT_EQ(updated, names);
  return names;
}

Names trained_by(const Scheme& scheme) {
  PassOptions options;
  options.scheme = scheme;
  return trained(net(), options);
}

Names operator+(Names a, const Names& b) {
  a.insert(b.begin(), b.end());
  return a;
}

TEST(Selected, ByItselfAndByGlobs) {
  EXPECT_EQ(trained(net(), {}), all_trained());
  PassOptions everything, some;
  everything.train = {"*"};
  EXPECT_EQ(trained(net(), everything), all_trained());
  some.train = {"*.bias", "bound", "votes", "places", "dead.*"};
  some.freeze = {"one.*"};
  EXPECT_EQ(trained(net(), some), (Names{"stem.bias", "two.expand.bias", "two.project.bias", "head.bias"}));
}

TEST(Selected, ByPresets) {
  const Names head = {"head.weight", "head.bias"},
              biases = {"stem.bias",       "one.expand.bias",  "one.project.bias",
                        "two.expand.bias", "two.project.bias", "head.bias"};
  EXPECT_EQ(trained_by(load_scheme("full")), all_trained());
  EXPECT_EQ(trained_by(load_scheme("head")), head);
  EXPECT_EQ(trained_by(load_scheme("bias-only")), biases + Names{"head.weight"});
  EXPECT_EQ(trained_by(load_scheme("last:2")), head + Names({"two.project.weight", "two.project.bias"}));
  EXPECT_EQ(trained_by(load_scheme("last:3")),
            head + Names({"two.project.weight", "two.project.bias", "two.deep.weight"}));
  EXPECT_EQ(trained_by(load_scheme("expand-convs:1")),
            head + Names({"two.expand.weight", "two.norm.shift", "two.project.bias"}));
  // There are eight layers: nothing else counts as one.
  Names layers = all_trained();
  for (const char* other :
       {"half", "doubled.weight", "one.norm.scale", "one.norm.shift", "two.norm.scale", "two.norm.shift"})
    layers.erase(other);
  EXPECT_EQ(trained_by(load_scheme("last:8")), layers);
  EXPECT_THROW(trained_by(load_scheme("last:9")), Error);
}

TEST(Selected, ByFiles) {
  auto file = [](const std::string& text) { return trained_by(parse_scheme(text, "s.toml")); };
  EXPECT_EQ(file("biases = 'all'\nnorms = 'all'\n[[weights]]\nmatch = 'all'\n"), all_trained());
  Names sliced = all_trained();  // where there are channels
  for (const char* other : {"half", "doubled.weight"}) sliced.erase(other);
  EXPECT_EQ(file("biases = ['*']\nnorms = ['*']\n[[weights]]\nmatch = '*'\nchannels = 0.5\n"), sliced);
  EXPECT_EQ(file("norms = 'last:4'\n[[weights]]\nmatch = 'floored'\n[[weights]]\nmatch = 'head.weight'\n"),
            (Names{"two.norm.scale", "two.norm.shift", "head.weight"}));
}

// Adapters stand beside layers that reach the loss.
TEST(Selected, ByAdapters) {
  Names want = {"head.weight", "head.bias"};
  for (const char* layer : {"stem", "one.expand", "one.project", "two.expand", "two.project"})
    for (const char* factor : {"A", "B"})
      want.insert(std::string("base_model.model.") + layer + ".lora_" + factor + ".weight");
  EXPECT_EQ(trained_by(load_scheme("lora:2")), want);
}

}  // namespace
}  // namespace pock::test
