// `trainer predict` and `trainer eval` of real models against the interpreter, bit for bit, with a last batch that
// is not full.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "frontends/model.h"
#include "pock/frontends/import.h"
#include "pock/ops/evaluate.h"
#include "pock/passes/passes.h"
#include "train/net.h"

namespace pock::test {
namespace {

// A model with one input, and data for it.
struct Case {
  std::string model;
  std::vector<std::string> losses;  // as --loss takes them
  int64_t batch = 0, samples = 0;
  Array x;
  std::map<std::string, Array>
      labels;  // by the graph's name of them: "labels", or "labels.OUTPUT" of several
  std::unique_ptr<Graph> infer;

  const Array& fed(const Value* v) const { return labels.count(v->name) ? labels.at(v->name) : x; }

  // Runs batch by batch and gives every output's rows, and last the losses of each sample.
  std::vector<std::vector<double>> expected() {
    PassOptions options;
    for (const std::string& loss : losses) options.losses.push_back(parse_loss(loss));
    options.inference = true;
    infer = import_onnx(model, {batch, {}});
    run_passes(*infer, inference_pipeline(), options);
    Memory memory = initial_memory(*infer);
    std::vector<std::vector<double>> all(infer->outputs().size());
    for (int64_t first = 0; first < samples; first += batch) {
      for (const Value* v : infer->inputs()) {
        const std::vector<double> from = fed(v).numbers();
        int64_t size = v->type.elements() / batch;
        std::vector<double> rows;
        for (int64_t i = 0; i < batch; ++i) {
          auto row = from.begin() + std::min(first + i, samples - 1) * size;
          rows.insert(rows.end(), row, row + size);
        }
        memory.set(v, rows);
      }
      evaluate(*infer, memory);
      int64_t rows = std::min(batch, samples - first);
      for (size_t i = 0; i < all.size(); ++i) {
        std::vector<double> got = memory.read(infer->outputs()[i]);
        all[i].insert(all[i].end(), got.begin(), got.begin() + got.size() / batch * rows);
      }
    }
    return all;
  }
};

// How many of the class ids have the largest score of their position; scores are [N,C,...].
double accuracy(const std::vector<double>& scores, const Dims& dims, const std::vector<double>& ids) {
  const size_t classes = dims[1], positions = ids.size() / dims[0];
  double right = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    auto at = [&](size_t c) { return scores[(i / positions * classes + c) * positions + i % positions]; };
    size_t best = 0;
    for (size_t c = 1; c < classes; ++c)
      if (at(c) > at(best)) best = c;
    right += static_cast<double>(best) == ids[i];
  }
  return right / static_cast<double>(ids.size());
}

// The arena is filled with NaN before each batch: what predict reads without labels must be written first.
void expect_like_interpreter(Case c) {
  TempDir dir;
  auto write = [&](const std::string& file, const Array& array) {
    std::string shape = "(";
    for (int64_t d : array.dims) shape += std::to_string(d) + ",";
    dir.write(file, npy(array.dtype, shape + ")", array.bytes));
  };
  const std::vector<std::vector<double>> want = c.expected();
  const size_t outputs = want.size() - c.losses.size();
  std::vector<std::string> compile = {
      kPockc, "compile", c.model, "-o", dir / "trainer", "--batch", std::to_string(c.batch)};
  for (const std::string& loss : c.losses) compile.insert(compile.end(), {"--loss", loss});
  Ran ran = run(compile);
  ASSERT_EQ(ran.status, 0) << ran.err;
  write("x.npy", c.x);
  std::vector<std::string> argv = {dir / "trainer", "predict", "--data",        dir / "x.npy",
                                   "--threads",     "2",       "--poison-arena"};
  for (size_t i = 0; i < outputs; ++i)
    argv.insert(argv.end(), {"--output", c.infer->output_name(i) + "=" + (dir / std::to_string(i))});
  ran = run(argv);
  ASSERT_EQ(ran.status, 0) << ran.err;
  argv = {dir / "trainer", "eval", "--data", dir / "x.npy", "--log", "json", "--poison-arena"};
  std::map<std::string, double> accuracies;
  for (size_t i = 0; i < outputs; ++i) {
    const std::string name = c.infer->output_name(i);
    Array got = read_npy(dir / std::to_string(i));
    Dims dims = c.infer->outputs()[i]->type.dims;
    dims[0] = c.samples;
    EXPECT_EQ(got.dims, dims);
    EXPECT_EQ(got.numbers(), want[i]) << name;
    const bool only = c.labels.count("labels");
    auto labels = c.labels.find(only ? "labels" : "labels." + name);
    if (labels == c.labels.end() || (only && i > 0)) continue;
    write(name + ".npy", labels->second);
    argv.insert(argv.end(), {"--labels", name + "=" + (dir / (name + ".npy"))});
    if (labels->second.dtype == "<f4") continue;
    accuracies[only ? "accuracy" : "accuracy." + name] = accuracy(want[i], dims, labels->second.numbers());
  }
  ran = run(argv);
  ASSERT_EQ(ran.status, 0) << ran.err;
  double loss = 0;
  for (size_t i = outputs; i < want.size(); ++i)
    loss += std::accumulate(want[i].begin(), want[i].end(), 0.0) / static_cast<double>(c.samples);
  auto score = nlohmann::json::parse(ran.out);
  EXPECT_EQ(score["loss"].get<float>(), static_cast<float>(loss));
  for (const auto& [key, value] : accuracies)
    EXPECT_EQ(score[key].get<float>(), static_cast<float>(value)) << key;
}

class Predict : public testing::TestWithParam<std::string> {};

TEST_P(Predict, GivesTheInterpretersBits) {
  Net net(GetParam());
  Array x = read_npy(net.data + "/data.npy"), y = read_npy(net.data + "/labels.npy");
  for (Array* all : {&x, &y}) {
    all->bytes.resize(all->bytes.size() / all->dims[0] * 10);
    all->dims[0] = 10;
  }
  expect_like_interpreter(
      {net.folder + "/model.onnx", {"cross-entropy"}, 4, 10, x, {{"labels", y}}, nullptr});
}
INSTANTIATE_TEST_SUITE_P(Nets, Predict, testing::ValuesIn(kNets),
                         [](const testing::TestParamInfo<std::string>& info) { return info.param; });

Array random_floats(const Dims& dims) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> all(Type{DType::f32, dims}.elements());
  for (float& v : all) v = normal(random);
  return {"<f4", dims, bytes_of(all)};
}

Array random_ids(const Dims& dims, int64_t classes) {
  std::mt19937 random(2);
  std::vector<int64_t> all(Type{DType::f32, dims}.elements());
  for (int64_t& v : all) v = static_cast<int64_t>(random() % classes);
  return {"<i8", dims, bytes_of(all)};
}

const std::string kTwoOutputs = std::string(kSourceDir) + "/tests/errors/two_outputs.onnx";

TEST(PredictOutputs, AreAllTheModels) {
  expect_like_interpreter(
      {kTwoOutputs, {"mse"}, 3, 7, random_floats({7, 6}), {{"labels", random_floats({7, 5})}}, nullptr});
}

TEST(PredictOutputs, OfSeveralLossesOfClassIds) {
  expect_like_interpreter({kTwoOutputs,
                           {"a=cross-entropy", "b=cross-entropy"},
                           3,
                           7,
                           random_floats({7, 6}),
                           {{"labels.a", random_ids({7}, 5)}, {"labels.b", random_ids({7}, 3)}},
                           nullptr});
}

// An axis as long as the batch is not one of samples: there is no loss of each of them, and no row.
TEST(PredictOutputs, AsLongAsTheBatchAreNotOfSamples) {
  TempDir dir;
  Model m;
  m.input("x", {-1, 6}).random("w", {6, 4}).node("MatMul", {"x", "w"}, {"y"});
  m.node("Transpose", {"y"}, {"turned"}).output("y").output("turned");
  const std::string model = dir.write("m.onnx", m.proto.SerializeAsString());
  std::vector<std::string> compile = {kPockc,          "compile", model, "-o",
                                      dir / "trainer", "--batch", "4",   "--loss"};
  compile.push_back("turned=mse");
  Ran ran = run(compile);
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.err.find(
                "output 'turned' is f32[4,4]: its first axis is as long as the batch but is not that of the "
                "samples"),
            std::string::npos)
      << ran.err;
  compile.back() = "y=mse";
  ran = run(compile);
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Array x = random_floats({8, 6});
  dir.write("x.npy", npy(x.dtype, "(8,6)", x.bytes));
  ran = run({dir / "trainer", "predict", "--data", dir / "x.npy", "--output", "y=" + (dir / "y.npy"),
             "--output", "turned=" + (dir / "turned.npy")});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Array y = read_npy(dir / "y.npy"), turned = read_npy(dir / "turned.npy");
  EXPECT_EQ(y.dims, (Dims{8, 4}));
  ASSERT_EQ(turned.dims, (Dims{2, 4, 4}));
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t k = 0; k < 4; ++k)
        EXPECT_EQ(turned.numbers()[(b * 4 + k) * 4 + i], y.numbers()[(b * 4 + i) * 4 + k]);
}

TEST(PredictOutputs, OfAClassForEachPixel) {
  expect_like_interpreter({Net("unet").folder + "/model.onnx",
                           {"cross-entropy"},
                           4,
                           6,
                           random_floats({6, 3, 18, 14}),
                           {{"labels", random_ids({6, 18, 14}, 3)}},
                           nullptr});
}

}  // namespace
}  // namespace pock::test
