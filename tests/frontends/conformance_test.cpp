// ONNX's own operator tests, all of them, sorted by what becomes of each: passed, not yet, out of scope or
// failed. None may fail. What passes gives the outputs that the case asks for, and where it is differentiable,
// the gradients that finite differences ask for.
//
// Floats are inputs of the running step where the operator allows it; integers, and what pock wants to know when
// it compiles, are constants. Integer results are read through a Cast.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>

#include "gradients.h"
#include "model.h"
#include "onnx/ops.h"
#include "onnx/reader.h"

namespace pock {
namespace {
namespace fs = std::filesystem;
using onnx::TensorProto;

struct Case {
  std::string name;
  onnx::ModelProto model;
  std::vector<TensorProto> inputs, outputs;

  std::set<std::string> operators() const {
    std::set<std::string> names;
    for (const auto& node : model.graph().node()) names.insert(node.op_type());
    return names;
  }
};

std::vector<double> numbers(const TensorProto& t) {
  onnx_frontend::Tensor data = onnx_frontend::read_tensor({}, t, {});
  if (!data.is_float) return {data.ints.begin(), data.ints.end()};
  std::vector<float> floats(data.floats->size() / sizeof(float));
  std::memcpy(floats.data(), data.floats->data(), data.floats->size());
  return {floats.begin(), floats.end()};
}

// ---- What is not compared, and why

bool any_value(const Case& c, bool (*holds)(const onnx::TypeProto&)) {
  for (const auto* infos : {&c.model.graph().input(), &c.model.graph().output()})
    for (const auto& info : *infos)
      if (holds(info.type())) return true;
  return false;
}

bool any_node(const Case& c, bool (*holds)(const onnx::NodeProto&)) {
  return std::any_of(c.model.graph().node().begin(), c.model.graph().node().end(), holds);
}

// Whether a dropout in training takes anything away.
bool drops(const Case& c) {
  for (const auto& node : c.model.graph().node())
    if (node.op_type() == "Dropout" && node.input_size() > 2)
      return std::none_of(c.inputs.begin(), c.inputs.end(), [&](const TensorProto& t) {
        return t.name() == node.input(1) && numbers(t)[0] == 0;
      });
  return false;
}

// A case is what the first row says that matches it: by one of its operators, or by `holds`.
struct Rule {
  const char* reason;
  std::set<std::string> operators;
  bool (*holds)(const Case&) = nullptr;

  std::string match(const Case& c) const {
    for (const std::string& name : c.operators())
      if (operators.count(name)) return name;
    return holds && holds(c) ? reason : "";
  }
};

// What pock does not mean to do, at any opset.
const Rule kOutOfScope[] = {
    {"control flow", {"If", "Loop", "Scan"}},
    {"sequences and optional values",
     {"SequenceMap", "SequenceInsert", "OptionalHasElement"},
     [](const Case& c) { return any_value(c, [](const auto& t) { return !t.has_tensor_type(); }); }},
    {"strings",
     {"StringNormalizer", "TfIdfVectorizer"},
     [](const Case& c) {
       return any_value(c, [](const auto& t) { return t.tensor_type().elem_type() == TensorProto::STRING; });
     }},
    {"training operators: pock makes optimizers itself",
     {},
     [](const Case& c) {
       return any_node(c, [](const auto& n) { return n.domain() == "ai.onnx.preview.training"; });
     }},
    {"quantised arithmetic",
     {"ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearConv",
      "QLinearMatMul", "QuantizeLinear"}},
    {"detection", {"NonMaxSuppression", "RoiAlign", "MaxRoiPool"}},
    {"signal processing",
     {"BlackmanWindow", "DFT", "HammingWindow", "HannWindow", "MelWeightMatrix", "STFT"},
     [](const Case& c) { return c.name.find("window_") != std::string::npos; }},  // their pi is 3.1415
    {"results whose size depends on data", {"Compress", "NonZero", "Unique"}},
    {"random numbers of numpy's generator", {"Bernoulli", "RandomUniformLike"}, drops},
    {"tensors without elements",
     {},
     [](const Case& c) {
       auto is_empty = [](const auto& t) { return std::count(t.dims().begin(), t.dims().end(), 0) > 0; };
       return std::any_of(c.outputs.begin(), c.outputs.end(), is_empty);
     }},
    {"images of integers",
     {},
     [](const Case& c) {
       return any_node(c, [](const auto& n) { return n.op_type() == "MaxPool"; }) &&
              !onnx_frontend::is_float_type(c.inputs[0].data_type());
     }},
};

// What the importer refuses so far: operators that it does not know, and forms of those that it knows. A row that
// no case needs any more is an error.
const Rule kNotYet[] = {
    {"operator",
     {
         "Acos",
         "Acosh",
         "Asin",
         "Asinh",
         "Atan",
         "Atanh",
         "BitShift",
         "Cosh",
         "Det",
         "Einsum",
         "EyeLike",
         "GRU",
         "GridSample",
         "Hardmax",
         "IsInf",
         "LRN",
         "LSTM",
         "MaxUnpool",
         "MeanVarianceNormalization",
         "RNN",
         "ReverseSequence",
         "ScatterElements",
         "ScatterND",
         "Shrink",
         "Sinh",
         "Tan",
         "TopK",
     }},
    {"remainders of what a step computes",
     {},
     [](const Case& c) {
       return onnx_frontend::is_float_type(c.inputs[0].data_type()) &&
              any_node(c, [](const auto& n) { return n.op_type() == "Mod"; });
     }},
};

// Their gradient is 0, and so pock trains nothing behind them.
const std::set<std::string> kSteps = {"Ceil", "Floor", "Round", "Sign"};

// Inputs that pock has to know when it compiles.
bool is_constant_input(const std::string& op, int input) {
  static const std::map<std::string, std::set<int>> kConstant = {
      {"BatchNormalization", {3, 4}}, {"Dropout", {1, 2}}, {"OneHot", {1, 2}}, {"Pad", {2}},
      {"Range", {0, 1, 2}},           {"Resize", {1, 2}},  {"Upsample", {1}}};
  auto it = kConstant.find(op);
  return it != kConstant.end() && it->second.count(input);
}

// ---- Running a case

bool parse(const fs::path& path, google::protobuf::MessageLite* message) {
  std::ifstream in(path, std::ios::binary);
  return in && message->ParseFromIstream(&in);
}

Case read_case(const fs::path& folder) {
  Case c;
  c.name = folder.filename();
  if (!parse(folder / "model.onnx", &c.model)) throw error("{}: no model", c.name);
  auto read = [&](const char* what, const auto& infos, std::vector<TensorProto>* tensors) {
    for (int i = 0; i < infos.size(); ++i) {
      TensorProto& t = tensors->emplace_back();
      if (!infos[i].type().has_tensor_type()) continue;
      if (!parse(folder / "test_data_set_0" / fmt::format("{}_{}.pb", what, i), &t))
        throw error("{}: no {} {}", c.name, what, i);
      // These files store bfloat16 as uint16.
      t.set_data_type(infos[i].type().tensor_type().elem_type());
      t.set_name(infos[i].name());
    }
  };
  read("input", c.model.graph().input(), &c.inputs);
  read("output", c.model.graph().output(), &c.outputs);
  return c;
}

// The case as pock is to read it. With `weights`, floats that could be inputs are initializers: parameters.
std::unique_ptr<Graph> import_case(const Case& c, const test::TempDir& scratch, bool weights) {
  onnx::ModelProto model = c.model;
  onnx::GraphProto& graph = *model.mutable_graph();
  // Some files declare another shape than the data has.
  for (int i = 0; i < graph.input_size(); ++i) {
    auto* shape = graph.mutable_input(i)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->clear_dim();
    for (int64_t d : c.inputs[i].dims()) shape->add_dim()->set_dim_value(d);
  }
  // What is computed of integers is a constant.
  bool integers = !c.inputs.empty() && !onnx_frontend::is_float_type(c.inputs[0].data_type());
  std::set<std::string> constant;
  for (const auto& node : graph.node())
    for (int i = 0; i < node.input_size(); ++i)
      if (is_constant_input(node.op_type(), i)) constant.insert(node.input(i));
  for (const TensorProto& t : c.inputs)
    if (weights || integers || constant.count(t.name()) || !onnx_frontend::is_float_type(t.data_type()))
      *graph.add_initializer() = t;
  for (int i = 0; i < graph.output_size(); ++i) {
    if (onnx_frontend::is_float_type(c.outputs[i].data_type())) continue;
    onnx::ValueInfoProto& info = *graph.mutable_output(i);
    onnx::NodeProto& cast = *graph.add_node();
    cast.set_op_type("Cast");
    cast.add_input(info.name());
    info.set_name(info.name() + " as float");
    cast.add_output(info.name());
    onnx::AttributeProto& to = *cast.add_attribute();
    to.set_name("to");
    to.set_type(onnx::AttributeProto::INT);
    to.set_i(TensorProto::FLOAT);
    // A Cast has its present form since opset 6, and the older files hold nothing that changed by then.
    auto& opset = *model.mutable_opset_import(0);
    opset.set_version(std::max<int64_t>(opset.version(), 6));
  }
  return import_onnx(scratch.write("m.onnx", model.SerializeAsString()), {});
}

std::string show(double got, double want, size_t element) {
  return fmt::format("element {} is {}, not {}", element, got, want);
}

// What is wrong with the outputs, or nothing.
std::string compare_outputs(const Case& c, const Graph& g) {
  Memory m = initial_memory(g);
  for (const Value* in : g.inputs())
    for (const TensorProto& t : c.inputs)
      if (t.name() == in->name) m.set(in, numbers(t));
  evaluate(g, m);
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const TensorProto& t = c.outputs[i];
    if (Dims dims(t.dims().begin(), t.dims().end()); g.outputs()[i]->type.dims != dims)
      return fmt::format("output {} has shape {}, not {}", i, to_string(g.outputs()[i]->type.dims),
                         to_string(dims));
    double tolerance = t.data_type() == TensorProto::BFLOAT16  ? 0x1p-8
                       : t.data_type() == TensorProto::FLOAT16 ? 1e-3
                                                               : 1e-5;
    std::vector<double> got = m.read(g.outputs()[i]), want = numbers(t);
    for (size_t k = 0; k < got.size(); ++k)
      if (!(got[k] == want[k] || (std::isnan(got[k]) && std::isnan(want[k])) ||
            std::abs(got[k] - want[k]) <= tolerance * std::max(1.0, std::abs(want[k]))))
        return fmt::format("output {}: {}", i, show(got[k], want[k], k));
  }
  return "";
}

bool is_differentiable(const Case& c) {
  auto floats = [](const TensorProto& t) { return onnx_frontend::is_float_type(t.data_type()); };
  return !kSteps.count(*c.operators().begin()) && std::any_of(c.outputs.begin(), c.outputs.end(), floats) &&
         std::any_of(c.inputs.begin(), c.inputs.end(),
                     [&](const TensorProto& t) { return floats(t) && t.dims_size() > 0; });
}

// ---- The verdicts

struct Summary {
  int passed = 0, differentiated = 0;
  std::map<std::string, int> not_yet, out_of_scope;
  std::vector<std::string> failed;

  std::string table() const {
    auto count = [](const std::map<std::string, int>& rows) {
      int n = 0;
      for (const auto& [reason, cases] : rows) n += cases;
      return n;
    };
    std::string text = fmt::format("{:5} passed, {} with gradients\n", passed, differentiated);
    text += fmt::format("{:5} not yet\n", count(not_yet));
    for (const auto& [reason, cases] : not_yet) text += fmt::format("      {:5} {}\n", cases, reason);
    text += fmt::format("{:5} out of scope\n", count(out_of_scope));
    for (const auto& [reason, cases] : out_of_scope) text += fmt::format("      {:5} {}\n", cases, reason);
    return text + fmt::format("{:5} failed\n", failed.size());
  }
};

void judge(const Case& c, const test::TempDir& scratch, Summary* summary) {
  for (const Rule& rule : kOutOfScope)
    if (!rule.match(c).empty()) {
      ++summary->out_of_scope[rule.reason];
      return;
    }
  std::unique_ptr<Graph> as_inputs, as_weights;
  try {
    as_inputs = import_case(c, scratch, false);
    if (is_differentiable(c)) as_weights = import_case(c, scratch, true);
  } catch (const Error& e) {
    for (const Rule& rule : kNotYet)
      if (std::string what = rule.match(c); !what.empty()) {
        ++summary->not_yet[what];
        return;
      }
    summary->failed.push_back(fmt::format("{}: {}", c.name, e.what()));
    return;
  }
  try {
    std::string problem = compare_outputs(c, *as_inputs);
    if (problem.empty() && as_weights) {
      test::Gradients gradients = test::check_gradients(std::move(as_weights));
      problem = gradients.problem;
      if (problem.empty() && !gradients.checked) problem = "no input has a gradient";
      ++summary->differentiated;
    }
    if (problem.empty())
      ++summary->passed;
    else
      summary->failed.push_back(fmt::format("{}: {}", c.name, problem));
  } catch (const Error& e) {
    summary->failed.push_back(fmt::format("{}: {}", c.name, e.what()));
  }
}

TEST(Conformance, OperatorTestsOfOnnx) {
  fs::path root = fs::path(POCK_ONNX_TESTDATA) / "data" / "node";
  if (!fs::exists(root)) GTEST_SKIP() << "ONNX's operator tests are not installed (Debian: libonnx-testdata)";
  test::TempDir scratch;
  Summary summary;
  std::vector<fs::path> folders(fs::directory_iterator(root), {});
  std::sort(folders.begin(), folders.end());
  testing::internal::CaptureStderr();
  for (const fs::path& folder : folders) judge(read_case(folder), scratch, &summary);
  testing::internal::GetCapturedStderr();
  fmt::print("{}", summary.table());
  EXPECT_TRUE(summary.failed.empty()) << fmt::format("{}", fmt::join(summary.failed, "\n"));
  for (const Rule& rule : kNotYet) {
    for (const std::string& name : rule.operators) {
      EXPECT_EQ(summary.not_yet.count(name), 1u) << name << ": no case needs this in kNotYet";
    }
    if (rule.holds) {
      EXPECT_EQ(summary.not_yet.count(rule.reason), 1u) << rule.reason << ": no case needs this in kNotYet";
    }
  }
}

// ---- Samples stay apart where a file is read with another batch

struct Apart {
  std::set<std::string> seen, kept;  // operators: with samples along some axis; of these, some form was read
  int read = 0, refused = 0;
  std::vector<std::string> failed;
};

// The case with its samples along `axis` of its first input, and of those that have the same shape.
onnx::ModelProto along_axis(const Case& c, int axis) {
  onnx::ModelProto model = c.model;
  onnx::GraphProto& graph = *model.mutable_graph();
  const int count = graph.node_size();
  const std::vector<int64_t> dims(c.inputs[0].dims().begin(), c.inputs[0].dims().end());
  graph.clear_input();
  std::set<std::string> batched;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const TensorProto& t = c.inputs[i];
    bool same = std::equal(t.dims().begin(), t.dims().end(), dims.begin(), dims.end());
    if (!same || !onnx_frontend::is_float_type(t.data_type()) ||
        is_constant_input(graph.node(0).op_type(), static_cast<int>(i))) {
      if (!t.name().empty()) *graph.add_initializer() = t;
      continue;
    }
    Dims front = dims;
    std::rotate(front.begin(), front.begin() + axis, front.begin() + axis + 1);
    test::Model::value_info(graph.add_input(), t.name() + "/rows", front, TensorProto::FLOAT);
    onnx::NodeProto& move = *graph.add_node();
    move.set_op_type("Transpose");
    move.add_input(t.name() + "/rows");
    move.add_output(t.name());
    onnx::AttributeProto& order = *move.add_attribute();
    order.set_name("perm");
    order.set_type(onnx::AttributeProto::INTS);
    for (int i = 0; i < std::ssize(dims); ++i) order.add_ints(i == axis ? 0 : i + (i < axis));
  }
  std::rotate(graph.mutable_node()->begin(), graph.mutable_node()->begin() + count,
              graph.mutable_node()->end());
  for (auto& info : *graph.mutable_output()) info.mutable_type()->mutable_tensor_type()->clear_shape();
  return model;
}

// Every output, where sample `other` of all inputs is another one; -1: none is.
std::vector<std::vector<double>> outputs(const Graph& g, int64_t other) {
  Memory m = initial_memory(g);
  for (const Value* in : g.inputs()) {
    const int64_t row = in->type.elements() / in->type.dim(0);
    std::vector<double> x(in->type.elements());
    for (int64_t i = 0; i < std::ssize(x); ++i)
      x[i] = 0.25 + 0.015625 * static_cast<double>((i * 37 + (i / row == other ? 11 : 0)) % 64);
    m.set(in, x);
  }
  evaluate(g, m);
  std::vector<std::vector<double>> all;
  for (const Value* v : g.outputs()) all.push_back(m.read(v));
  return all;
}

// Whether sample `other` changes anything but its own part of the axis that grows with the batch. Empty: it does not.
std::string leak(const Graph& small, const Graph& large, int64_t other) {
  const int64_t batch = large.inputs()[0]->type.dim(0);
  const auto plain = outputs(large, -1), changed = outputs(large, other);
  for (size_t o = 0; o < plain.size(); ++o) {
    const Dims &from = small.outputs()[o]->type.dims, &to = large.outputs()[o]->type.dims;
    size_t axis = 0;
    int64_t inner = 1;
    while (axis < to.size() && to[axis] == from[axis]) ++axis;
    if (axis == to.size()) continue;  // a loss, or nothing of the samples
    for (size_t i = axis + 1; i < to.size(); ++i) inner *= to[i];
    inner *= to[axis] / batch;
    for (int64_t i = 0; i < std::ssize(plain[o]); ++i) {
      bool same = plain[o][i] == changed[o][i] || (std::isnan(plain[o][i]) && std::isnan(changed[o][i]));
      if (!same && i / inner % batch != other)
        return fmt::format("sample {} of {} changes element {} of output {}", other, batch, i, o);
    }
  }
  return "";
}

void judge_apart(const Case& c, const test::TempDir& scratch, Apart* summary) {
  if (c.inputs.empty() || !onnx_frontend::is_float_type(c.inputs[0].data_type())) return;
  for (int axis = 0; axis < c.inputs[0].dims_size(); ++axis) {
    const int64_t batch = c.inputs[0].dims(axis), more = 2 * batch;
    std::unique_ptr<Graph> small, large;
    const std::string file = scratch.write("m.onnx", along_axis(c, axis).SerializeAsString());
    try {
      small = import_onnx(file, {});
    } catch (const Error&) {  // not yet
      return;
    }
    for (const std::string& op : c.operators()) summary->seen.insert(op);
    try {
      large = import_onnx(file, {.batch = more});
    } catch (const Error&) {
      ++summary->refused;
      continue;
    }
    ++summary->read;
    for (const std::string& op : c.operators()) summary->kept.insert(op);
    for (int64_t other : {int64_t{0}, more - 1})
      if (std::string problem = leak(*small, *large, other); !problem.empty())
        summary->failed.push_back(fmt::format("{} along axis {}: {}", c.name, axis, problem));
  }
}

// Every operator of the table, with samples along every axis of what it reads: the importer reads it for another batch
// only where they stay apart.
TEST(Conformance, SamplesStayApartInAnotherBatch) {
  fs::path root = fs::path(POCK_ONNX_TESTDATA) / "data" / "node";
  if (!fs::exists(root)) GTEST_SKIP() << "ONNX's operator tests are not installed (Debian: libonnx-testdata)";
  test::TempDir scratch;
  Apart summary;
  testing::internal::CaptureStderr();
  for (const auto& folder : fs::directory_iterator(root)) {
    const Case c = read_case(folder.path());
    // Batch statistics are of the batch, by their nature.
    bool left_out = any_node(c, [](const auto& n) {
      return std::any_of(n.attribute().begin(), n.attribute().end(),
                         [](const auto& a) { return a.name() == "training_mode" && a.i(); });
    });
    for (const Rule& rule : kOutOfScope) left_out |= !rule.match(c).empty();
    if (!left_out) judge_apart(c, scratch, &summary);
  }
  testing::internal::GetCapturedStderr();
  fmt::print("{} read with another batch, {} refused\n", summary.read, summary.refused);
  EXPECT_TRUE(summary.failed.empty()) << fmt::format("{}", fmt::join(summary.failed, "\n"));
  std::vector<std::string> unseen, never;
  for (const std::string& op : onnx_frontend::known_operators()) {
    if (!summary.seen.count(op)) unseen.push_back(op);
    if (summary.seen.count(op) && !summary.kept.count(op)) never.push_back(op);
  }
  // No case of theirs computes on floats: they work element for element, or on integers alone.
  EXPECT_EQ(unseen, (std::vector<std::string>{"And", "Attention", "Gelu", "GroupNormalization",
                                              "LpNormalization", "Mish", "Mod", "Not", "RMSNormalization",
                                              "Range", "RotaryEmbedding", "Swish", "Trilu", "Xor"}));
  // These are in tests/frontends/attention_test.cpp.
  const std::set<std::string> elsewhere = {"Attention",        "GroupNormalization", "LpNormalization",
                                           "RMSNormalization", "RotaryEmbedding",    "Trilu"};
  for (const std::string& op : unseen)
    EXPECT_TRUE(elsewhere.count(op) || onnx_frontend::find_row(op)->along == onnx_frontend::apart) << op;
  // Integers of a fixed shape stand beside the samples in every case.
  EXPECT_EQ(never, (std::vector<std::string>{"GatherElements", "NegativeLogLikelihoodLoss", "ScatterND",
                                             "SoftmaxCrossEntropyLoss", "Tile", "Where"}));
  EXPECT_GT(summary.read, 400);
}

}  // namespace
}  // namespace pock
