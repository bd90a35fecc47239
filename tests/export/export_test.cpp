// `pockc export` as a person uses it: compile, train, export, and compile what came out again.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "frontends/model.h"
#include "onnx/float_storage.h"

namespace pock::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using onnx::TensorProto;

std::vector<float> random_floats(size_t n, unsigned seed, float scale = 0.4f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> v(n);
  for (float& x : v) x = normal(random);
  return v;
}

// x [N,6] -> hidden [N,5] -> batch norm -> relu -> logits [N,6]; `w` serves both layers.
Model tied_net() {
  Model m(13);
  m.input("x", {-1, 6}).floats("w", {5, 6}, random_floats(30, 1)).floats("b", {6}, random_floats(6, 2));
  for (const char* name : {"scale", "variance"}) m.floats(name, {5}, {1, 1, 1, 1, 1});
  for (const char* name : {"shift", "mean"}) m.floats(name, {5}, {0, 0, 0, 0, 0});
  m.node("Gemm", {"x", "w"}, {"h"}, {{"transB", int64_t{1}}});
  m.node("BatchNormalization", {"h", "scale", "shift", "mean", "variance"}, {"n"});
  m.node("Relu", {"n"}, {"r"}).node("MatMul", {"r", "w"}, {"p"}).node("Add", {"p", "b"}, {"logits"});
  m.output("logits");
  for (auto& node : *m.proto.mutable_graph()->mutable_node()) node.set_name("/" + node.output(0));
  return m;
}

class Exported : public testing::Test {
 protected:
  Exported() {
    const std::vector<float> x = random_floats(40 * 6, 3, 1);
    std::vector<int32_t> y;
    for (int i = 0; i < 40; ++i)
      y.push_back(static_cast<int32_t>(std::max_element(&x[6 * i], &x[6 * i] + 6) - &x[6 * i]));
    dir_.write("x.npy", npy("<f4", "(40, 6)", bytes_of(x)));
    dir_.write("y.npy", npy("<i4", "(40,)", bytes_of(y)));
  }

  void compile(const std::string& model, const std::string& trainer, std::vector<std::string> more = {}) {
    std::vector<std::string> argv = {kPockc,          "compile",     dir_ / model, "-o",
                                     dir_ / trainer,  "--batch",     "8",          "--loss",
                                     "cross-entropy", "--optimizer", "sgd:lr=0.1"};
    argv.insert(argv.end(), more.begin(), more.end());
    Ran ran = run(argv);
    ASSERT_EQ(ran.status, 0) << ran.err;
  }

  // The evaluation losses before and after training.
  std::pair<double, double> train(const std::string& trainer, int steps, const std::string& checkpoint) {
    Ran ran = run({dir_ / trainer, "train", "--data", "x.npy", "--labels", "y.npy", "--eval-data", "x.npy",
                   "--eval-labels", "y.npy", "--steps", std::to_string(steps), "--log", "json",
                   "--checkpoint", checkpoint},
                  dir_.path);
    EXPECT_EQ(ran.status, 0) << ran.err;
    std::vector<double> losses;
    std::istringstream lines(ran.out);
    for (std::string line; std::getline(lines, line);)
      if (json object = json::parse(line); object.contains("eval")) losses.push_back(object["loss"]);
    EXPECT_GE(losses.size(), 2u) << ran.out;
    return losses.empty() ? std::pair{0.0, 0.0} : std::pair{losses.front(), losses.back()};
  }

  Ran run_export(const std::string& model, const std::string& checkpoint, const std::string& out) {
    return run({kPockc, "export", model, "--weights", checkpoint, "-o", out}, dir_.path);
  }

  std::vector<double> predict(const std::string& trainer, std::vector<std::string> more = {}) {
    std::vector<std::string> argv = {dir_ / trainer, "predict", "--data", "x.npy", "--output", "p.npy"};
    argv.insert(argv.end(), more.begin(), more.end());
    Ran ran = run(argv, dir_.path);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return read_npy(dir_ / "p.npy").numbers();
  }

  // What the trainer ended with is what a trainer made from its export starts with.
  void expect_round_trip(const std::string& model, const std::string& out, double tolerance = 0) {
    compile(model, "t");
    const auto [before, after] = train("t", 20, "c");
    EXPECT_LT(after, before - 0.1);
    Ran ran = run_export(model, "c", out);
    ASSERT_EQ(ran.status, 0) << ran.err;
    compile(out, "u");
    const std::vector<double> want = predict("t", {"--weights", "c"}), got = predict("u");
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_LE(std::abs(got[i] - want[i]), tolerance) << i;
    said_ = ran.err;
  }

  TempDir dir_;
  std::string said_;
};

TEST_F(Exported, TrainedWeightsOfATiedNet) {
  Model m = tied_net();
  dir_.write("m.onnx", m.proto.SerializeAsString());
  expect_round_trip("m.onnx", "tuned.onnx");
  EXPECT_NE(said_.find("wrote tuned.onnx: 6 tensors differ from m.onnx"), std::string::npos) << said_;
  // The same file but for the elements of six tensors, all of which the checkpoint has.
  onnx::ModelProto tuned;
  ASSERT_TRUE(tuned.ParseFromString(read_file(dir_ / "tuned.onnx")));
  const Safetensors checkpoint = read_safetensors(dir_ / "c");
  auto put = [&](onnx::ModelProto* model, const std::string& bytes, int i) {
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    model->mutable_graph()->mutable_initializer(i)->mutable_float_data()->Assign(values.begin(),
                                                                                 values.end());
  };
  ASSERT_EQ(m.proto.graph().initializer_size(), 6);
  for (int i = 0; i < 6; ++i)
    put(&m.proto, checkpoint.tensors.at(m.proto.graph().initializer(i).name()).bytes, i);
  EXPECT_EQ(read_file(dir_ / "tuned.onnx"), m.proto.SerializeAsString());
}

// Whatever uses it, and whatever is trained of it, one weight is one in the file: as many tensors, of which those that were
// trained differ, each as the checkpoint has it.
TEST_F(Exported, OneWeightOfSeveralPlaces) {
  Model siamese(13), both_ways(13);
  siamese.input("x", {-1, 6}).ints("image", {-1, 1, 2, 3}).floats("w", {1, 1, 2, 2}, random_floats(4, 1));
  siamese.node("Reshape", {"x", "image"}, {"left"}).node("Neg", {"left"}, {"right"});
  for (const std::string side : {"left", "right"})
    siamese.node("Conv", {side, "w"}, {side + ".c"}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}})
        .node("Relu", {side + ".c"}, {side + ".r"});
  siamese.node("Sub", {"left.r", "right.r"}, {"apart"}).node("Flatten", {"apart"}, {"flat"});
  siamese.floats("head", {12, 6}, random_floats(72, 2))
      .node("MatMul", {"flat", "head"}, {"logits"})
      .output("logits");
  both_ways.input("x", {-1, 6})
      .floats("w", {5, 6}, random_floats(30, 1))
      .floats("b", {5}, random_floats(5, 2));
  both_ways.node("Gemm", {"x", "w", "b"}, {"h"}, {{"transB", int64_t{1}}}).node("Relu", {"h"}, {"r"});
  both_ways.node("Gemm", {"r", "w"}, {"logits"}).output("logits");
  const std::string part = dir_.write("part.toml", "[[weights]]\nmatch = 'w'\nchannels = [0]\n");
  for (const auto& [m, flags] :
       {std::pair{&siamese, std::vector<std::string>{}}, {&both_ways, {"--sparse-scheme", part}}}) {
    dir_.write("m.onnx", m->proto.SerializeAsString());
    compile("m.onnx", "t", flags);
    train("t", 20, "c");
    const Ran ran = run_export("m.onnx", "c", "tuned.onnx");
    ASSERT_EQ(ran.status, 0) << ran.err;
    const Safetensors checkpoint = read_safetensors(dir_ / "c");
    EXPECT_EQ(checkpoint.tensors.count("w"), 1u);
    onnx::ModelProto tuned;
    ASSERT_TRUE(tuned.ParseFromString(read_file(dir_ / "tuned.onnx")));
    ASSERT_EQ(tuned.graph().initializer_size(), m->proto.graph().initializer_size());
    for (int i = 0; i < tuned.graph().initializer_size(); ++i) {
      const TensorProto &now = tuned.graph().initializer(i), &then = m->proto.graph().initializer(i);
      const auto found = checkpoint.tensors.find(now.name());
      if (found == checkpoint.tensors.end()) {
        EXPECT_EQ(now.SerializeAsString(), then.SerializeAsString());
        continue;
      }
      EXPECT_NE(now.SerializeAsString(), then.SerializeAsString());
      EXPECT_EQ(bytes_of(std::vector<float>(now.float_data().begin(), now.float_data().end())),
                found->second.bytes);
    }
  }
}

TEST_F(Exported, WeightsInConstantNodes) {
  Model m = tied_net();
  onnx::GraphProto& g = *m.proto.mutable_graph();
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  for (const TensorProto& t : g.initializer()) {
    onnx::NodeProto* node = nodes.Add();
    node->set_op_type("Constant");
    node->add_output(t.name());
    onnx::AttributeProto* a = node->add_attribute();
    a->set_name("value");
    a->set_type(onnx::AttributeProto::TENSOR);
    *a->mutable_t() = t;
    a->mutable_t()->clear_name();
  }
  nodes.MergeFrom(g.node());
  g.mutable_node()->Swap(&nodes);
  g.clear_initializer();
  dir_.write("m.onnx", m.proto.SerializeAsString());
  expect_round_trip("m.onnx", "tuned.onnx");
  EXPECT_EQ(read_file(dir_ / "tuned.onnx").size(), read_file(dir_ / "m.onnx").size());
}

TEST_F(Exported, HalfPrecisionIsRoundedAndSaid) {
  Model m = tied_net();
  for (TensorProto& t : *m.proto.mutable_graph()->mutable_initializer()) {
    if (t.name() != "w" && t.name() != "b") continue;
    std::string bytes(t.float_data_size() * 2, '\0');
    for (int i = 0; i < t.float_data_size(); ++i)
      onnx_frontend::store_float(TensorProto::FLOAT16, t.float_data(i), bytes.data(), i);
    t.set_data_type(TensorProto::FLOAT16);
    t.clear_float_data();
    t.set_raw_data(bytes);
  }
  dir_.write("m.onnx", m.proto.SerializeAsString());
  expect_round_trip("m.onnx", "tuned.onnx", 5e-3);
  EXPECT_NE(said_.find("2 tensors are not float ('b' is float16): rounded to nearest"), std::string::npos)
      << said_;
}

// External data in one file and in one for each tensor, beside the model and in a folder of its own.
TEST_F(Exported, ExternalData) {
  for (bool one_file : {true, false}) {
    Model m = tied_net();
    std::string all(4096, '\0');
    fs::create_directories(dir_.path / "in/parts");
    fs::create_directories(dir_.path / "out");
    for (TensorProto& t : *m.proto.mutable_graph()->mutable_initializer()) {
      const std::string bytes = bytes_of(std::vector<float>(t.float_data().begin(), t.float_data().end()));
      t.clear_float_data();
      t.set_data_location(TensorProto::EXTERNAL);
      auto entry = [&](const std::string& key, const std::string& value) {
        auto* e = t.add_external_data();
        e->set_key(key);
        e->set_value(value);
      };
      entry("location", one_file ? "m.onnx.data" : "parts/" + t.name());
      entry("offset", std::to_string(one_file ? all.size() : 0));
      entry("length", std::to_string(bytes.size()));
      all += bytes;
      if (!one_file) dir_.write("in/parts/" + t.name(), bytes);
    }
    if (one_file) dir_.write("in/m.onnx.data", all);
    dir_.write("in/m.onnx", m.proto.SerializeAsString());
    for (const char* out : {"out/tuned.onnx", "in/tuned.onnx"}) {
      SCOPED_TRACE(out);
      expect_round_trip("in/m.onnx", out);
    }
    EXPECT_EQ(read_file(dir_ / "out/tuned.onnx"), read_file(dir_ / "in/m.onnx"));
    // What cannot be written in full is not written at all, its folders neither.
    fs::create_directory(dir_.path / "empty");
    Ran full = run({"/bin/bash", "-c", "exec prlimit --fsize=100 \"$@\"", "-", kPockc, "export", "in/m.onnx",
                    "--weights", "c", "-o", "empty/t.onnx"},
                   dir_.path);
    EXPECT_EQ(full.status, 1);
    EXPECT_TRUE(fs::is_empty(dir_.path / "empty")) << full.err;
    if (one_file) {
      EXPECT_EQ(read_file(dir_ / "in/m.onnx.data"), all);
      EXPECT_NE(read_file(dir_ / "out/m.onnx.data"), all);
      EXPECT_EQ(read_file(dir_ / "in/tuned.onnx.data"), read_file(dir_ / "out/m.onnx.data"));
    } else {
      EXPECT_EQ(read_file(dir_ / "in/parts/tuned.onnx.w"), read_file(dir_ / "out/parts/w"));
    }
    fs::remove_all(dir_.path / "in");
    fs::remove_all(dir_.path / "out");
  }
}

// What is frozen stays, to the byte: a folded batch norm and all that was folded into.
TEST_F(Exported, FrozenAndFoldedStay) {
  Model m(13);
  m.input("x", {-1, 6}).ints("image", {-1, 6, 1, 1}).ints("flat", {-1, 5});
  m.floats("conv", {5, 6, 1, 1}, random_floats(30, 1)).floats("head", {5, 6}, random_floats(30, 2));
  for (const char* name : {"scale", "variance"}) m.floats(name, {5}, {1, 2, 3, 4, 5});
  for (const char* name : {"shift", "mean"}) m.floats(name, {5}, {0, 1, 0, 1, 0});
  m.node("Reshape", {"x", "image"}, {"i"}).node("Conv", {"i", "conv"}, {"c"});
  m.node("BatchNormalization", {"c", "scale", "shift", "mean", "variance"}, {"n"}).node("Relu", {"n"}, {"r"});
  m.node("Reshape", {"r", "flat"}, {"f"}).node("MatMul", {"f", "head"}, {"logits"}).output("logits");
  dir_.write("m.onnx", m.proto.SerializeAsString());
  compile("m.onnx", "t", {"--train", "head"});
  train("t", 10, "c");
  Ran ran = run_export("m.onnx", "c", "tuned.onnx");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.err.find("1 tensor differs"), std::string::npos) << ran.err;
  onnx::ModelProto tuned;
  ASSERT_TRUE(tuned.ParseFromString(read_file(dir_ / "tuned.onnx")));
  auto* head = m.proto.mutable_graph()->mutable_initializer(3);
  ASSERT_EQ(head->name(), "head");
  EXPECT_NE(tuned.graph().initializer(3).float_data(0), head->float_data(0));
  *head->mutable_float_data() = tuned.graph().initializer(3).float_data();
  EXPECT_EQ(read_file(dir_ / "tuned.onnx"), m.proto.SerializeAsString());
}

// ---- What is refused

class Refused : public Exported {
 protected:
  void SetUp() override {
    dir_.write("m.onnx", tied_net().proto.SerializeAsString());
    compile("m.onnx", "t");
    train("t", 2, "c");
    fs::create_directory(dir_.path / "empty");
  }
  // In a folder that stays empty.
  void expect_refused(const std::string& model, const std::string& weights, const std::string& says) {
    Ran ran = run_export(model, weights, "empty/tuned.onnx");
    EXPECT_EQ(ran.status, 1) << ran.err;
    EXPECT_EQ(ran.err.find("error: "), 0u) << ran.err;
    EXPECT_NE(ran.err.find(says), std::string::npos) << ran.err;
    EXPECT_TRUE(fs::is_empty(dir_.path / "empty")) << says;
  }
};

TEST_F(Refused, DamagedCheckpoints) {
  const std::string whole = read_file(dir_ / "c");
  for (size_t size : {size_t{0}, size_t{7}, size_t{8}, size_t{100}, whole.size() - 300, whole.size() - 1}) {
    dir_.write("bad", whole.substr(0, size));
    expect_refused("m.onnx", "bad", size ? "is cut short" : "the file is empty");
  }
  dir_.write("bad", whole + "x");
  expect_refused("m.onnx", "bad", "bytes that belong to no tensor");
  std::string flipped = whole;
  flipped.back() ^= 1;
  dir_.write("bad", flipped);
  expect_refused("m.onnx", "bad", "its data does not match its checksum");
  flipped = whole;
  flipped[flipped.find("\"step\":\"2\"") + 8] = '3';
  dir_.write("bad", flipped);
  expect_refused("m.onnx", "bad", "its header does not match its checksum");
  // Of two tensors with one shape, names that were damaged into each other's.
  flipped = whole;
  flipped.replace(flipped.find("\"shift\""), 7, "\"scale\"");
  dir_.write("bad", flipped);
  expect_refused("m.onnx", "bad", "two entries 'scale'");
}

// Any single byte may be wrong: the file is refused, or what was exported is the same. That can only be where the
// header says the same in other words, or in what export does not use.
TEST_F(Refused, NoByteIsWrongUnseen) {
  ASSERT_EQ(run_export("m.onnx", "c", "good.onnx").status, 0);
  const std::string whole = read_file(dir_ / "c"), good = read_file(dir_ / "good.onnx");
  std::mt19937 random(5);
  int refused = 0;
  for (int i = 0; i < 80; ++i) {
    std::string bad = whole;
    bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    dir_.write("bad", bad);
    Ran ran = run_export("m.onnx", "bad", "empty/tuned.onnx");
    ASSERT_LE(ran.status, 1) << ran.err;
    if (ran.status == 0) {
      EXPECT_EQ(read_file(dir_ / "empty/tuned.onnx"), good);
      fs::remove(dir_ / "empty/tuned.onnx");
    } else {
      ++refused;
    }
    ASSERT_TRUE(fs::is_empty(dir_.path / "empty"));
  }
  EXPECT_GT(refused, 60);
}

TEST_F(Refused, WhatDoesNotBelongTogether) {
  Model other = tied_net();
  other.proto.mutable_graph()->mutable_initializer(0)->set_float_data(0, 7);
  dir_.write("other.onnx", other.proto.SerializeAsString());
  expect_refused("other.onnx", "c", "other.onnx: is not the model that was trained");
  expect_refused("m.onnx", "m.onnx", "m.onnx: is cut short inside its header, or no safetensors file");
  expect_refused("m.onnx", "nowhere", "cannot open 'nowhere': No such file or directory");
  expect_refused("m.onnx", "empty", "it is a folder");
  expect_refused("nowhere.onnx", "c", "nowhere.onnx: no such file");
  expect_refused("c", "c", "is not an ONNX file");
  dir_.write("plain", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  expect_refused("m.onnx", "plain", "plain: is not a checkpoint of a pock trainer");
}

TEST_F(Refused, PlacesThatCannotBeWritten) {
  const std::string model = read_file(dir_ / "m.onnx"), checkpoint = read_file(dir_ / "c");
  const std::map<std::string, std::string> places = {{"m.onnx", "would write over the model"},
                                                     {"c", "would write over the checkpoint"},
                                                     {"empty", "it is a folder"},
                                                     {"nowhere/t.onnx", "No such file or directory"}};
  for (const auto& [out, says] : places) {
    Ran ran = run_export("m.onnx", "c", out);
    EXPECT_EQ(ran.status, 1) << out;
    EXPECT_NE(ran.err.find(says), std::string::npos) << ran.err;
  }
  fs::create_symlink("m.onnx", dir_.path / "link");
  EXPECT_EQ(run_export("m.onnx", "c", "link").status, 1);
  EXPECT_EQ(read_file(dir_ / "m.onnx"), model);
  EXPECT_EQ(read_file(dir_ / "c"), checkpoint);
  EXPECT_TRUE(fs::is_empty(dir_.path / "empty"));
  // A disk that is full after some bytes.
  Ran full = run({"/bin/bash", "-c", "exec prlimit --fsize=300 \"$@\"", "-", kPockc, "export", "m.onnx",
                  "--weights", "c", "-o", "empty/t.onnx"},
                 dir_.path);
  EXPECT_EQ(full.status, 1);
  EXPECT_NE(full.err.find("cannot write 'empty/t.onnx': File too large"), std::string::npos) << full.err;
  EXPECT_TRUE(fs::is_empty(dir_.path / "empty"));
  Ran printed = run_export("m.onnx", "c", "-");
  EXPECT_EQ(printed.status, 0) << printed.err;
  EXPECT_EQ(printed.out.size(), model.size());
}

// x [N,6] as a picture -> convolution -> product by MatMul -> square product by Gemm -> square product by MatMul -> head. The
// second square weight is stored in double.
Model adapted_net() {
  Model m(13);
  m.input("x", {-1, 6}).ints("picture", {-1, 1, 2, 3}).ints("row", {-1, 24});
  m.floats("conv.weight", {2, 1, 2, 2}, random_floats(8, 1)).floats("conv.bias", {2}, random_floats(2, 2));
  m.floats("up.weight", {24, 6}, random_floats(144, 3)).floats("mix.weight", {6, 6}, random_floats(36, 4));
  TensorProto& square = m.tensor("square", {6, 6}, TensorProto::DOUBLE);
  for (float x : random_floats(36, 5)) square.add_double_data(x);
  m.floats("head.weight", {6, 6}, random_floats(36, 6)).floats("head.bias", {6}, random_floats(6, 7));
  m.node("Reshape", {"x", "picture"}, {"p"});
  m.node("Conv", {"p", "conv.weight", "conv.bias"}, {"c"}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  m.node("Tanh", {"c"}, {"ct"}).node("Reshape", {"ct", "row"}, {"r"});
  m.node("MatMul", {"r", "up.weight"}, {"u"}).node("Tanh", {"u"}, {"ut"});
  m.node("Gemm", {"ut", "mix.weight"}, {"g"}, {{"transB", int64_t{1}}, {"alpha", 0.5f}})
      .node("Tanh", {"g"}, {"gt"});
  m.node("MatMul", {"gt", "square"}, {"q"}).node("Tanh", {"q"}, {"qt"});
  m.node("Gemm", {"qt", "head.weight", "head.bias"}, {"logits"}, {{"transB", int64_t{1}}}).output("logits");
  return m;
}

class ExportedAdapters : public Exported {
 protected:
  void SetUp() override {
    dir_.write("m.onnx", adapted_net().proto.SerializeAsString());
    dir_.write("s.toml",
               "biases = 'last:1'\n[[weights]]\nmatch = 'last:1'\n[[lora]]\nmatch = 'all'\nrank = 3\n"
               "alpha = 5\n[[lora]]\nmatch = 'mix.weight'\nrank = 2\nalpha = 7\n");
    compile("m.onnx", "t", {"--sparse-scheme", dir_ / "s.toml"});
    const auto [before, after] = train("t", 60, "c");
    EXPECT_LT(after, before - 0.1);
  }
};

TEST_F(ExportedAdapters, AreMergedIntoWeights) {
  Ran ran = run_export("m.onnx", "c", "merged.onnx");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.err.find("6 tensors differ from m.onnx, 4 of them by an adapter that was merged"),
            std::string::npos)
      << ran.err;
  compile("merged.onnx", "u");
  const std::vector<double> want = predict("t", {"--weights", "c"}), got = predict("u"), old = predict("t");
  ASSERT_EQ(got.size(), want.size());
  double moved = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-5) << i;
    moved = std::max(moved, std::abs(want[i] - old[i]));
  }
  EXPECT_GT(moved, 0.3);
}

// In double, and rounded once.
TEST_F(ExportedAdapters, AreMergedToTheBit) {
  Ran ran = run_export("m.onnx", "c", "merged.onnx");
  ASSERT_EQ(ran.status, 0) << ran.err;
  onnx::ModelProto merged;
  ASSERT_TRUE(merged.ParseFromString(read_file(dir_ / "merged.onnx")));
  const Model before = adapted_net();
  const Safetensors checkpoint = read_safetensors(dir_ / "c");
  struct Given {
    std::string name;
    size_t rank, in, out;
    double alpha;
    bool inputs_first;
  };
  for (const Given& w :
       {Given{"conv", 3, 4, 2, 5, false}, Given{"up", 3, 24, 6, 5, true}, Given{"mix", 2, 6, 6, 7, false}}) {
    auto weight = [&](const onnx::ModelProto& model) {
      for (const TensorProto& t : model.graph().initializer())
        if (t.name() == w.name + ".weight") return t.float_data();
      return TensorProto().float_data();
    };
    auto factor = [&](const char* which) {
      return checkpoint.tensors.at("base_model.model." + w.name + ".lora_" + which + ".weight").numbers();
    };
    const auto old = weight(before.proto), now = weight(merged);
    const std::vector<double> a = factor("A"), b = factor("B");
    ASSERT_EQ(static_cast<size_t>(now.size()), w.in * w.out) << w.name;
    for (size_t o = 0; o < w.out; ++o)
      for (size_t i = 0; i < w.in; ++i) {
        double sum = 0;
        for (size_t r = 0; r < w.rank; ++r) sum += b[o * w.rank + r] * a[r * w.in + i];
        const int at = static_cast<int>(w.inputs_first ? i * w.out + o : o * w.in + i);
        EXPECT_EQ(now[at], static_cast<float>(old[at] + w.alpha / static_cast<double>(w.rank) * sum))
            << w.name;
      }
  }
}

// What A starts from is in no model file: the checkpoint has it, and a program that would start from another takes it.
TEST_F(ExportedAdapters, OfWhichOneFactorIsTrained) {
  std::vector<std::string> flags = {"--sparse-scheme", dir_ / "s.toml", "--freeze", "*.lora_A*"};
  compile("m.onnx", "t", flags);
  train("t", 20, "c");
  Ran ran = run_export("m.onnx", "c", "merged.onnx");
  ASSERT_EQ(ran.status, 0) << ran.err;
  compile("merged.onnx", "u");
  flags.insert(flags.end(), {"--seed", "7"});
  compile("m.onnx", "other", flags);
  const std::vector<double> want = predict("t", {"--weights", "c"}), merged = predict("u"),
                            old = predict("t");
  double moved = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(merged[i], want[i], 1e-5) << i;
    moved = std::max(moved, std::abs(want[i] - old[i]));
  }
  EXPECT_GT(moved, 0.1);
  EXPECT_EQ(predict("other", {"--weights", "c"}), want);
  // Which factors are trained is part of the scheme.
  compile("m.onnx", "both", {"--sparse-scheme", dir_ / "s.toml"});
  ran = run({dir_ / "both", "train", "--data", "x.npy", "--labels", "y.npy", "--resume", "c"}, dir_.path);
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.err.find("was made with training of"), std::string::npos) << ran.err;
}

TEST_F(ExportedAdapters, StandInAFileOfTheirOwn) {
  Ran ran = run({kPockc, "export", "m.onnx", "--weights", "c", "--adapters", "a.safetensors"}, dir_.path);
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Safetensors file = read_safetensors(dir_ / "a.safetensors"),
                    checkpoint = read_safetensors(dir_ / "c");
  const std::map<std::string, Dims> want = {{"conv.lora_A.weight", {3, 1, 2, 2}},
                                            {"conv.lora_B.weight", {2, 3, 1, 1}},
                                            {"up.lora_A.weight", {3, 24}},
                                            {"up.lora_B.weight", {6, 3}},
                                            {"mix.lora_A.weight", {2, 6}},
                                            {"mix.lora_B.weight", {6, 2}},
                                            {"square.lora_A.weight", {3, 6}},
                                            {"square.lora_B.weight", {6, 3}},
                                            {"head.weight", {6, 6}},
                                            {"head.bias", {6}}};
  EXPECT_EQ(file.tensors.size(), want.size());
  for (const auto& [name, dims] : want) {
    ASSERT_TRUE(file.tensors.count("base_model.model." + name)) << name;
    const Array& array = file.tensors.at("base_model.model." + name);
    EXPECT_EQ(array.dims, dims) << name;
    const std::string there = (name.find("lora") == std::string::npos ? "" : "base_model.model.") + name;
    EXPECT_EQ(array.bytes, checkpoint.tensors.at(there).bytes) << name;
  }
  EXPECT_EQ(file.metadata.at("format"), "pt");
  EXPECT_EQ(json::parse(file.metadata.at("adapters"))["mix.weight"],
            (json{{"rank", 2}, {"alpha", 7.0}, {"inputs_first", false}}));
  // Both at once, and the same.
  ran =
      run({kPockc, "export", "m.onnx", "--weights", "c", "--adapters", "b", "-o", "merged.onnx"}, dir_.path);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(read_file(dir_ / "b"), read_file(dir_ / "a.safetensors"));
}

TEST_F(ExportedAdapters, OrAreRefused) {
  auto refuses = [&](std::vector<std::string> more, const std::string& says) {
    more.insert(more.begin(), {kPockc, "export", "m.onnx", "--weights"});
    Ran ran = run(more, dir_.path);
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.err.find(says), std::string::npos) << ran.err;
    EXPECT_FALSE(fs::exists(dir_.path / "a"));
  };
  const std::string model = read_file(dir_ / "m.onnx"), checkpoint = read_file(dir_ / "c");
  refuses({"c"}, "give -o for a model with what was trained in it, or --adapters");
  refuses({"c", "-o", "a", "--adapters", "./a"}, "-o and --adapters are both");
  refuses({"c", "--adapters", "m.onnx"}, "would write over the model");
  refuses({"c", "--adapters", "c"}, "would write over the checkpoint");
  refuses({"c", "--adapters", "nowhere/a", "-o", "a"}, "No such file or directory");
  EXPECT_EQ(read_file(dir_ / "m.onnx"), model);
  EXPECT_EQ(read_file(dir_ / "c"), checkpoint);
  Model other = adapted_net();
  other.proto.mutable_graph()->mutable_initializer(2)->set_float_data(0, 7);
  dir_.write("m.onnx", other.proto.SerializeAsString());
  refuses({"c", "--adapters", "a"}, "m.onnx: is not the model that was trained");
  dir_.write("m.onnx", model);
  compile("m.onnx", "t", {"--sparse-scheme", "head"});
  train("t", 2, "plain");
  refuses({"plain", "--adapters", "a"}, "the checkpoint has none; they are made where a scheme has [[lora]]");
  // A model's data are the model, too.
  Model apart = adapted_net();
  for (TensorProto& t : *apart.proto.mutable_graph()->mutable_initializer()) {
    if (t.name() != "mix.weight") continue;
    t.clear_float_data();
    t.set_data_location(TensorProto::EXTERNAL);
    auto* place = t.add_external_data();
    place->set_key("location");
    place->set_value("mix.data");
  }
  dir_.write("m.onnx", apart.proto.SerializeAsString());
  dir_.write("mix.data", bytes_of(random_floats(36, 4)));
  compile("m.onnx", "t", {"--sparse-scheme", "lora:2"});
  train("t", 2, "apart");
  refuses({"apart", "--adapters", "./mix.data"}, "--adapters ./mix.data would write over the model");
  EXPECT_EQ(read_file(dir_ / "mix.data"), bytes_of(random_floats(36, 4)));
}

}  // namespace
}  // namespace pock::test
