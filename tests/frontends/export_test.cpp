// What goes back into a model file: the trained elements, and not one byte beside them.
#include "pock/frontends/export.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "frontends/model.h"
#include "onnx/float_storage.h"
#include "onnx/reader.h"

namespace pock::test {
namespace {

namespace fs = std::filesystem;
using onnx::AttributeProto;
using onnx::ModelProto;
using onnx::TensorProto;
using Floats = std::vector<float>;

// Trained tensors as a checkpoint gives them.
class Trained {
 public:
  Trained& add(const std::string& name, const Dims& dims, const Floats& values) {
    bytes_.push_back(std::make_unique<std::string>(bytes_of(values)));
    tensors[name] = {"F32", dims, *bytes_.back()};
    return *this;
  }
  std::map<std::string, StoredTensor> tensors;

 private:
  std::vector<std::unique_ptr<std::string>> bytes_;
};

TunedModel tune(const std::string& path, const Trained& trained, const std::string& out) {
  return export_onnx(path, onnx_frontend::read_model(path).hash, {trained.tensors}, out);
}

// The bytes of the tuned model, which has no external data.
std::string tuned(const std::string& bytes, const Trained& trained) {
  TempDir dir;
  TunedModel result = tune(dir.write("m.onnx", bytes), trained, dir / "t.onnx");
  EXPECT_EQ(result.files.size(), 1u);
  return std::string(result.files.back().bytes);
}

std::string problem(const std::string& path, const Trained& trained, const std::string& out) {
  try {
    tune(path, trained, out);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

struct Storage {
  int type;
  bool raw;
};

class Stored : public testing::TestWithParam<Storage> {
 public:
  // A tensor of 1.5, 0, -2 and then `last`.
  static void fill(TensorProto* t, float last) {
    const auto [type, raw] = GetParam();
    t->set_data_type(type);
    t->add_dims(4);
    const Floats values = {1.5f, 0, -2, last};
    std::string bytes(4 * 8, '\0');
    for (int i = 0; i < 4; ++i) onnx_frontend::store_float(type, values[i], bytes.data(), i);
    bytes.resize(4 * (type == TensorProto::DOUBLE ? 8 : type == TensorProto::FLOAT ? 4 : 2));
    if (raw) return t->set_raw_data(bytes);
    for (int i = 0; i < 4; ++i) {
      uint16_t narrow = 0;
      std::memcpy(&narrow, bytes.data() + 2 * i, 2);
      if (type == TensorProto::FLOAT)
        t->add_float_data(values[i]);
      else if (type == TensorProto::DOUBLE)
        t->add_double_data(values[i]);
      else
        t->add_int32_data(narrow);
    }
  }
};

// The expected file is made by protobuf itself, with the other element in its place.
TEST_P(Stored, OneElementChanges) {
  for (bool constant : {false, true}) {
    auto model = [&](float last) {
      Model m;
      m.input("x", {4}).node("Mul", {"x", "w"}, {"y"}).output("y").floats("before", {2}, {1, 2});
      if (constant) {
        auto* node = m.proto.mutable_graph()->add_node();
        node->set_op_type("Constant");
        node->add_output("w");
        AttributeProto* a = node->add_attribute();
        a->set_name("value");
        a->set_type(AttributeProto::TENSOR);
        fill(a->mutable_t(), last);
      } else {
        TensorProto& t = *m.proto.mutable_graph()->add_initializer();
        t.set_name("w");
        fill(&t, last);
      }
      m.floats("behind", {2}, {3, 4});
      return m.proto.SerializeAsString();
    };
    Trained trained;
    trained.add("w", {4}, {1.5f, 0, -2, 0.625f});
    const std::string before = model(0), after = tuned(before, trained);
    EXPECT_EQ(after, model(0.625f));
    EXPECT_NE(after, before);
    EXPECT_EQ(tuned(after, trained), after) << "nothing left to change";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Export, Stored,
    testing::Values(Storage{TensorProto::FLOAT, true}, Storage{TensorProto::FLOAT, false},
                    Storage{TensorProto::DOUBLE, true}, Storage{TensorProto::DOUBLE, false},
                    Storage{TensorProto::FLOAT16, true}, Storage{TensorProto::FLOAT16, false},
                    Storage{TensorProto::BFLOAT16, true}, Storage{TensorProto::BFLOAT16, false}),
    [](const auto& info) {
      return onnx_frontend::type_name(info.param.type) + (info.param.raw ? "_raw" : "_list");
    });

TEST(Export, FloatsOfAConstant) {
  auto model = [](float last) {
    Model m;
    m.input("x", {2}).node("Constant", {}, {"w"}).node("Mul", {"x", "w"}, {"y"}).output("y");
    AttributeProto* a = m.proto.mutable_graph()->mutable_node(0)->add_attribute();
    a->set_name("value_floats");
    a->set_type(AttributeProto::FLOATS);
    a->add_floats(3);
    a->add_floats(last);
    return m.proto.SerializeAsString();
  };
  Trained trained;
  trained.add("w", {2}, {3, 7});
  EXPECT_EQ(tuned(model(5), trained), model(7));
}

// Lengths that take more bytes than they need, lists element by element, fields that nobody knows, groups.
TEST(Export, OddFormsStay) {
  auto field = [](int number, const std::string& payload, bool long_length = false) {
    std::string out;
    for (int key = number << 3 | 2;; key >>= 7) {
      if (key < 128) {
        out += static_cast<char>(key);
        break;
      }
      out += static_cast<char>((key & 127) | 128);
    }
    EXPECT_LT(payload.size(), 128u);
    if (long_length)
      out += {static_cast<char>(payload.size() | 128), '\x80', '\0'};
    else
      out += static_cast<char>(payload.size());
    return out + payload;
  };
  auto model = [&](float last) {
    Model m;
    m.input("x", {2}).node("Mul", {"x", "w"}, {"y"}).output("y");
    std::string rest = m.proto.graph().SerializeAsString(), one = bytes_of(Floats{2}),
                two = bytes_of(Floats{last});
    std::string tensor =
        "\x25" + one + field(1000, "?") + field(8, "w") + "\x08\x02" + "\x10\x01" + "\x25" + two;
    std::string group = std::string("\xc3\x3e\x0a\x01!\xc4\x3e", 7);  // field 1000, with a field 1 inside
    std::string version = std::string("\x08\x87\x80\0", 4);           // 7
    return field(7, field(5, tensor, true), true) + group + field(999, "whatever") + field(7, rest) +
           version + field(8, "\x10\x0d");
  };
  Trained trained;
  trained.add("w", {2}, {2, 0.1f});
  EXPECT_EQ(tuned(model(9), trained), model(0.1f));
}

TEST(Export, WhatWasNotTrainedKeepsItsDigits) {
  Model m;
  TensorProto& w = m.tensor("w", {3}, TensorProto::DOUBLE);
  w.set_raw_data(bytes_of(std::vector<double>{0.1, 1e-320, 3}));
  m.floats("d", {2}, {1e-40f, 1}).input("x", {3});
  m.node("Mul", {"x", "w"}, {"y"}).output("y");
  Trained trained;
  trained.add("w", {3}, {0.1f, 0, 0.5f}).add("d", {2}, {0, 2});
  ModelProto after;
  ASSERT_TRUE(after.ParseFromString(tuned(m.proto.SerializeAsString(), trained)));
  EXPECT_EQ(after.graph().initializer(0).raw_data(), bytes_of(std::vector<double>{0.1, 1e-320, 0.5}));
  EXPECT_EQ(after.graph().initializer(1).float_data(0), 1e-40f);
  EXPECT_EQ(after.graph().initializer(1).float_data(1), 2);
}

uint16_t narrow(int type, float x) {
  uint16_t bits = 0;
  onnx_frontend::store_float(type, x, reinterpret_cast<char*>(&bits), 0);
  return bits;
}

TEST(Export, NarrowFloatsRoundToNearestEven) {
  for (int type : {TensorProto::FLOAT16, TensorProto::BFLOAT16}) {
    const uint32_t infinity = type == TensorProto::FLOAT16 ? 0x7C00 : 0x7F80;
    auto wide = [&](uint32_t bits) {
      auto narrow = static_cast<uint16_t>(bits);
      return onnx_frontend::load_float(type, reinterpret_cast<const char*>(&narrow), 0);
    };
    for (uint32_t sign : {0u, 0x8000u})
      for (uint32_t h = 0; h < infinity; ++h) {
        ASSERT_EQ(narrow(type, wide(sign | h)), sign | h);
        if (h + 1 == infinity) break;
        // Exact: a float has more digits than the two neighbours need.
        const float middle = static_cast<float>((double{wide(sign | h)} + double{wide(sign | (h + 1))}) / 2);
        const float a = std::nextafter(middle, 0.0f), b = std::nextafter(middle, middle * 2);
        ASSERT_EQ(narrow(type, middle), sign | (h + (h & 1))) << h;
        ASSERT_EQ(narrow(type, a), sign | h) << h;
        ASSERT_EQ(narrow(type, b), sign | (h + 1)) << h;
      }
    EXPECT_EQ(narrow(type, INFINITY), infinity);
    EXPECT_TRUE(std::isnan(wide(narrow(type, NAN))));
  }
  EXPECT_EQ(narrow(TensorProto::FLOAT16, 65519.99f), 0x7BFF);
  EXPECT_EQ(narrow(TensorProto::FLOAT16, 65520), 0x7C00);
}

TEST(Export, WhatATypeCannotHoldIsRefused) {
  Model m;
  m.tensor("w", {2}, TensorProto::FLOAT16).set_raw_data(std::string("\0\x3c\0\xc0", 4));
  m.floats("v", {1}, {1}).input("x", {2}).node("Mul", {"x", "w"}, {"y"}).output("y");
  TempDir dir;
  Trained trained;
  trained.add("w", {2}, {1, 65520}).add("v", {1}, {INFINITY});
  const std::string text = problem(dir.write("m.onnx", m.proto.SerializeAsString()), trained, dir / "t");
  expect_has(text, "m.onnx: tensor 'w': element 1 was trained to 65520, which float16 cannot hold");
  expect_has(text, "m.onnx: tensor 'v': element 0 was trained to inf, which float cannot hold");
}

TEST(Export, AllThatDoesNotFitIsNamed) {
  Model m;
  m.floats("w", {2, 3}, {1, 2, 3, 4, 5, 6}).ints("shape", {3, 2}).input("x", {2, 3});
  m.node("Mul", {"x", "w"}, {"a"}).node("Reshape", {"a", "shape"}, {"y"}).output("y");
  TempDir dir;
  Trained trained;
  trained.add("w", {3, 2}, Floats(6))
      .add("w2", {1}, {1})
      .add("shape", {2}, {1, 2})
      .add("a", {2, 3}, Floats(6));
  const std::string path = dir.write("m.onnx", m.proto.SerializeAsString());
  const std::string text = problem(path, trained, dir / "t");
  expect_has(text, "tensor 'w': was trained as F32[3,2], but has shape [2,3] in the model");
  for (const char* name : {"'w2'", "'shape'", "'a'"})
    expect_has(text, "tensor " + std::string(name) +
                         ": was trained, but the model has no weight or statistic of this name");
  expect_has(problem(path, Trained(), path), "would write over the model");
  try {
    export_onnx(path, "0123456789abcdef", {}, dir / "t");
    ADD_FAILURE() << "another model's weights";
  } catch (const Error& e) {
    expect_has(e.what(), "m.onnx: is not the model that was trained");
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path), {}), 1) << "something was written";
}

// Leaves of the graph that the importer makes of a file, with their elements.
std::map<std::string, Floats> leaves(const std::string& bytes) {
  TempDir dir;
  testing::internal::CaptureStderr();
  auto g = import_onnx(dir.write("m.onnx", bytes), {.batch = 2});
  testing::internal::GetCapturedStderr();
  std::map<std::string, Floats> all;
  for (const Value* v : g->params()) {
    Floats values(v->type.elements());
    std::memcpy(values.data(), v->data->data(), v->data->size());
    all[v->name] = values;
  }
  return all;
}

// Exporters write equal tensors once, and Identity nodes for the others.
TEST(Export, CopiesGoTheirOwnWays) {
  Model m;
  m.input("x", {-1, 3}).floats("w", {3}, {1, 2, 3});
  m.node("Identity", {"w"}, {"a"}).node("Identity", {"a"}, {"b"}).node("Identity", {"w"}, {"c"});
  m.node("Identity", {"w"}, {"unread"}).node("Identity", {"w"}, {"same"});
  m.node("Sum", {"x", "w", "a", "b", "c", "same"}, {"y"}).output("y");
  m.proto.mutable_graph()->mutable_node(1)->set_name("copy of a");
  const std::string before = m.proto.SerializeAsString();
  ASSERT_EQ(leaves(before).size(), 5u);
  // w and what is the same follow each other; a goes elsewhere, b and c stay where they were.
  Trained trained;
  trained.add("w", {3}, {1, 2, 4}).add("same", {3}, {1, 2, 4}).add("a", {3}, {0, 2, 3});
  const std::string after = tuned(before, trained);
  const std::map<std::string, Floats> want = {
      {"w", {1, 2, 4}}, {"same", {1, 2, 4}}, {"a", {0, 2, 3}}, {"b", {1, 2, 3}}, {"c", {1, 2, 3}}};
  EXPECT_EQ(leaves(after), want);
  ModelProto model;
  ASSERT_TRUE(model.ParseFromString(after));
  std::vector<std::string> ops;
  for (const auto& node : model.graph().node()) ops.push_back(node.op_type());
  EXPECT_EQ(ops, (Strings{"Constant", "Constant", "Constant", "Identity", "Identity", "Sum"}));
  EXPECT_EQ(model.graph().node(1).name(), "copy of a");
  // Copies that stay copies keep the file as it is.
  Trained together;
  for (const char* name : {"w", "a", "b", "c", "same"}) together.add(name, {3}, {1, 2, 4});
  Model expected = m;
  expected.proto.mutable_graph()->mutable_initializer(0)->set_float_data(2, 4);
  EXPECT_EQ(tuned(before, together), expected.proto.SerializeAsString());
}

// A tensor that is the scale of one norm, and the statistics of it and another one.
TEST(Export, SharedStatisticsPart) {
  Model m(15);
  m.input("x", {-1, 2}).floats("one", {2}, {1, 1}).floats("b", {2}, {0, 0}).floats("m", {2}, {0, 0});
  m.node("BatchNormalization", {"x", "one", "b", "m", "one"}, {"a"});
  m.node("BatchNormalization", {"a", "one", "b", "m", "one"}, {"y"}).output("y");
  const std::string before = m.proto.SerializeAsString();
  Trained trained;
  trained.add("one", {2}, {1, 3}).add("b", {2}, {0, 4});
  trained.add("one:2", {2}, {5, 1}).add("one:3", {2}, {1, 3}).add("m", {2}, {7, 8}).add("m:2", {2}, {0, 0});
  std::map<std::string, Floats> want;
  for (const auto& [name, t] : trained.tensors) {
    want[name].resize(2);
    std::memcpy(want[name].data(), t.bytes.data(), 8);
  }
  ASSERT_EQ(leaves(before).size(), want.size());
  const std::string after = tuned(before, trained);
  ModelProto model;
  ASSERT_TRUE(model.ParseFromString(after));
  const auto& nodes = model.graph().node();
  ASSERT_EQ(nodes.size(), 4) << "a Constant for one:2, and one for m:2";
  EXPECT_EQ(nodes[1].input(4), "one:2");
  EXPECT_EQ(nodes[1].input(3), "m");
  EXPECT_EQ(nodes[3].input(4), "one") << "equal again";
  EXPECT_EQ(nodes[3].input(3), "m:2");
  // The same numbers from there on, under names that a new import may choose otherwise.
  std::vector<Floats> numbers, wanted;
  for (const auto& [name, values] : leaves(after)) numbers.push_back(values);
  for (const auto& [name, values] : want) wanted.push_back(values);
  std::sort(numbers.begin(), numbers.end());
  std::sort(wanted.begin(), wanted.end());
  EXPECT_EQ(numbers, wanted);
}

// ---- External data

class External : public testing::Test {
 protected:
  void put(const std::string& name, const std::string& location, int offset, int length = -1,
           int type = TensorProto::FLOAT) {
    TensorProto& t = m_.tensor(name, {2}, type);
    t.set_data_location(TensorProto::EXTERNAL);
    auto entry = [&](const std::string& key, const std::string& value) {
      auto* e = t.add_external_data();
      e->set_key(key);
      e->set_value(value);
    };
    entry("location", location);
    if (offset) entry("offset", std::to_string(offset));
    if (length >= 0) entry("length", std::to_string(length));
    m_.node("Mul", {last_, name}, {name + "_out"});
    last_ = name + "_out";
  }
  std::string model() {
    fs::create_directories(dir_.path / "in");
    m_.output(last_);
    return dir_.write("in/m.onnx", bytes());
  }
  std::string bytes() const { return m_.proto.SerializeAsString(); }
  std::map<std::string, std::string> contents(const TunedModel& t) const {
    std::map<std::string, std::string> all;
    for (const TunedFile& f : t.files) all[fs::path(f.path).lexically_relative(dir_.path)] = f.bytes;
    return all;
  }

  TempDir dir_;
  Model m_;
  std::string last_ = "x";

  External() {
    m_.input("x", {2});
    fs::create_directories(dir_.path / "in/w");
    dir_.write("in/m.onnx.data", std::string(4096, '\7') + bytes_of(Floats{1, 2, 3, 4}) + "end");
    dir_.write("in/w/v", bytes_of(std::vector<double>{0.1, 0.2}));
  }
};

TEST_F(External, GoesBesideTheNewModel) {
  put("a", "m.onnx.data", 4096, 8);
  put("b", "./m.onnx.data", 4104, 8);
  put("v", "w/v", 0, -1, TensorProto::DOUBLE);
  const std::string path = model(), before = bytes();
  Trained trained;
  trained.add("b", {2}, {3, 7}).add("v", {2}, {0.1f, 9});
  EXPECT_EQ(contents(tune(path, trained, dir_ / "out/t.onnx")),
            (std::map<std::string, std::string>{
                {"out/t.onnx", before},
                {"out/m.onnx.data", std::string(4096, '\7') + bytes_of(Floats{1, 2, 3, 7}) + "end"},
                {"out/w/v", bytes_of(std::vector<double>{0.1, 9})}}));
  EXPECT_EQ(read_file(dir_ / "in/m.onnx.data"),
            std::string(4096, '\7') + bytes_of(Floats{1, 2, 3, 4}) + "end");
}

TEST_F(External, GetsANameOfItsOwnInTheSameFolder) {
  put("a", "m.onnx.data", 4096, 8);
  put("b", "./m.onnx.data", 4104, 8);
  put("v", "w/v", 0, -1, TensorProto::DOUBLE);
  m_.floats("inside", {1}, {1});
  const std::string path = model();
  Trained trained;
  trained.add("b", {2}, {3, 7}).add("inside", {1}, {2});
  std::map<std::string, std::string> files = contents(tune(path, trained, dir_ / "in/t.onnx"));
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files["in/t.onnx.data"], std::string(4096, '\7') + bytes_of(Floats{1, 2, 3, 7}) + "end");
  EXPECT_EQ(files["in/w/t.onnx.v"], bytes_of(std::vector<double>{0.1, 0.2}));
  m_.proto.mutable_graph()->mutable_initializer(3)->set_float_data(0, 2);
  for (int i : {0, 1, 2})
    m_.proto.mutable_graph()->mutable_initializer(i)->mutable_external_data(0)->set_value(
        i == 2 ? "w/t.onnx.v" : "t.onnx.data");
  EXPECT_EQ(files["in/t.onnx"], bytes());
}

TEST_F(External, SharedBytesMustAgree) {
  put("a", "m.onnx.data", 4096, 8);
  put("b", "m.onnx.data", 4100, 8);
  const std::string path = model();
  Trained first, both;
  first.add("a", {2}, {7, 2});
  both.add("a", {2}, {1, 7}).add("b", {2}, {7, 3});
  EXPECT_EQ(contents(tune(path, first, dir_ / "t.onnx"))["m.onnx.data"].substr(4096, 12),
            bytes_of(Floats{7, 2, 3}));
  EXPECT_EQ(contents(tune(path, both, dir_ / "t.onnx"))["m.onnx.data"].substr(4096, 12),
            bytes_of(Floats{1, 7, 3}));
  Trained apart;
  apart.add("a", {2}, {1, 7});
  expect_has(problem(path, apart, dir_ / "t.onnx"),
             "tensor 'b': shares bytes of 'm.onnx.data' with another tensor that has other values now");
}

TEST_F(External, NothingElseIsWrittenOver) {
  put("a", "m.onnx.data", 4096, 8);
  put("v", "w/v", 0, -1, TensorProto::DOUBLE);
  const std::string path = model();
  expect_has(problem(path, Trained(), "-"), "-o must be a file");
  expect_has(problem(path, Trained(), dir_ / "in/m.onnx.data"), "would write over the model's external data");
  fs::create_directories(dir_.path / "out/w");
  dir_.write("out/w/v", "a letter");
  expect_has(problem(path, Trained(), dir_ / "out/t.onnx"), "where something else is");
  dir_.write("out/w/v", std::string(16, 'x'));  // as long as an older export
  EXPECT_EQ(problem(path, Trained(), dir_ / "out/t.onnx"), "");
  fs::create_symlink(dir_ / "in/m.onnx.data", dir_.path / "out/m.onnx.data");
  EXPECT_EQ(contents(tune(path, Trained(), dir_ / "out/t.onnx")).count("out/t.onnx.data"), 1u);
}

TEST_F(External, AllMissingDataIsNamed) {
  put("a", "nowhere", 0);
  put("b", "../outside", 0);
  put("c", "m.onnx.data", 4, 1 << 20);
  const std::string text = problem(model(), Trained(), dir_ / "t.onnx");
  expect_has(text, "m.onnx: tensor 'a': its external data 'nowhere' is missing or no file");
  expect_has(text, "m.onnx: tensor 'b': its external data '../outside' lies outside the model's folder");
  expect_has(text, "m.onnx: tensor 'c': its external data reaches from byte 4 to");
}

// A function's batch norm has the file's own statistics, so the graph's own has a copy of its own.
TEST(Export, StatisticsThatAFunctionReadsFirst) {
  Model m(15);
  onnx::FunctionProto& f = *m.proto.add_functions();
  f.set_name("Norm");
  f.set_domain("local");
  for (const char* name : {"a", "s", "b", "m", "v"}) f.add_input(name);
  f.add_output("y");
  f.add_opset_import()->set_version(15);
  m.input("x", {2, 1, 3});
  for (const char* name : {"s", "b", "mean", "var"}) m.floats(name, {1}, {1});
  m.node("BatchNormalization", {"a", "s", "b", "m", "v"}, {"y"});
  *f.add_node() = m.proto.graph().node(0);
  m.proto.mutable_graph()->mutable_node()->RemoveLast();
  m.node("Norm", {"x", "s", "b", "mean", "var"}, {"h"});
  m.proto.mutable_graph()->mutable_node(0)->set_domain("local");
  m.node("BatchNormalization", {"h", "s", "b", "mean", "var"}, {"y"}).output("y");
  std::vector<std::string> names;
  testing::internal::CaptureStderr();
  std::unique_ptr<Graph> g = m.import();
  testing::internal::GetCapturedStderr();
  for (const Value* p : g->params()) names.push_back(p->name);
  EXPECT_EQ(names, (std::vector<std::string>{"s", "b", "mean", "var", "mean:2", "var:2"}));
  Trained trained;
  trained.add("mean", {1}, {2}).add("mean:2", {1}, {3}).add("s", {1}, {4});
  ModelProto after;
  ASSERT_TRUE(after.ParseFromString(tuned(m.proto.SerializeAsString(), trained)));
  ASSERT_EQ(after.graph().node_size(), 3);
  EXPECT_EQ(after.graph().node(1).output(0), "mean:2");
  EXPECT_EQ(after.graph().node(2).input(3), "mean:2");
  EXPECT_EQ(after.graph().node(0).input(3), "mean");
}

// What was trained of an embedding goes into the copies that its head reads as well.
TEST(Export, TiedCopies) {
  for (bool transposed : {true, false}) {
    auto model = [&](const Floats& table, const Floats& head) {
      Model m;
      m.input("ids", {-1}, TensorProto::INT64).floats("table", {3, 2}, table);
      m.floats("head", transposed ? Dims{2, 3} : Dims{3, 2}, head).node("Gather", {"table", "ids"}, {"x"});
      m.node("Gemm", {"x", "head"}, {"y"}, {{"transB", int64_t{!transposed}}}).output("y");
      return m.proto.SerializeAsString();
    };
    const Floats before = {1, 2, 3, 4, 5, 6}, after = {1, 2, 3, 4.5f, 5, -6};
    const Floats turned = {1, 3, 5, 2, 4, 6}, turned_after = {1, 3, 5, 2, 4.5f, -6};
    Trained trained;
    trained.add("table", {3, 2}, after);
    EXPECT_EQ(tuned(model(before, transposed ? turned : before), trained),
              model(after, transposed ? turned_after : after));
  }
}

}  // namespace
}  // namespace pock::test
