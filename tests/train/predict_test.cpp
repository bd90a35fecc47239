// `trainer predict` and `trainer eval` of real models against the interpreter, bit for bit, with a last batch that
// is not full.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "pock/frontends/import.h"
#include "pock/ops/evaluate.h"
#include "pock/passes/passes.h"
#include "train/net.h"

namespace pock::test {
namespace {

// A model with one input, and data for it.
struct Case {
  std::string model, loss;
  int64_t batch = 0, samples = 0;
  std::vector<double> x, y;  // y: by the sample, as the first output's labels
  std::unique_ptr<Graph> infer;

  // Runs batch by batch and gives every output's rows, and last the loss of each sample.
  std::vector<std::vector<double>> expected() {
    PassOptions options;
    options.losses = {parse_loss(loss)};
    options.inference = true;
    infer = import_onnx(model, {batch, {}});
    run_passes(*infer, inference_pipeline(), options);
    Memory memory = initial_memory(*infer);
    std::vector<std::vector<double>> all(infer->outputs().size());
    for (int64_t first = 0; first < samples; first += batch) {
      for (const Value* v : infer->inputs()) {
        const std::vector<double>& from = v->name == "labels" ? y : x;
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

void expect_like_interpreter(Case c, const TempDir& dir) {
  std::vector<std::vector<double>> want = c.expected();
  Ran ran = run({kPockc, "compile", c.model, "-o", dir / "trainer", "--batch", std::to_string(c.batch),
                 "--loss", c.loss});
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::vector<std::string> argv = {dir / "trainer", "predict", "--data", dir / "x.npy", "--threads", "2"};
  for (size_t i = 0; i + 1 < want.size(); ++i)
    argv.insert(argv.end(), {"--output", c.infer->output_name(i) + "=" + (dir / std::to_string(i))});
  ran = run(argv);
  ASSERT_EQ(ran.status, 0) << ran.err;
  for (size_t i = 0; i + 1 < want.size(); ++i) {
    Array got = read_npy(dir / std::to_string(i));
    Dims dims = c.infer->outputs()[i]->type.dims;
    dims[0] = c.samples;
    EXPECT_EQ(got.dims, dims);
    EXPECT_EQ(got.numbers(), want[i]) << c.infer->output_name(i);
  }
  ran = run({dir / "trainer", "eval", "--data", dir / "x.npy", "--labels", dir / "y.npy", "--log", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  double loss = 0;
  for (double sample : want.back()) loss += sample;
  auto score = nlohmann::json::parse(ran.out);
  EXPECT_EQ(score["loss"].get<float>(), static_cast<float>(loss / static_cast<double>(c.samples)));
  if (c.loss != "cross-entropy") return;
  int64_t right = 0, classes = static_cast<int64_t>(want[0].size()) / c.samples;
  for (int64_t i = 0; i < c.samples; ++i) {
    auto row = want[0].begin() + i * classes;
    right += std::max_element(row, row + classes) - row == static_cast<int64_t>(c.y[i]);
  }
  EXPECT_EQ(score["accuracy"].get<float>(),
            static_cast<float>(static_cast<double>(right) / static_cast<double>(c.samples)));
}

class Predict : public testing::TestWithParam<std::string> {};

TEST_P(Predict, GivesTheInterpretersBits) {
  Net net(GetParam());
  Array x = read_npy(net.data + "/data.npy"), y = read_npy(net.data + "/labels.npy");
  Case c{net.folder + "/model.onnx", "cross-entropy", 4, 10, x.numbers(), y.numbers(), nullptr};
  TempDir dir;
  for (const auto& [file, all] : {std::pair<const char*, const Array&>{"x.npy", x}, {"y.npy", y}}) {
    std::string shape = "(10,";
    for (size_t i = 1; i < all.dims.size(); ++i) shape += std::to_string(all.dims[i]) + ",";
    dir.write(file, npy(all.dtype, shape + ")", all.bytes.substr(0, all.bytes.size() / all.dims[0] * 10)));
  }
  expect_like_interpreter(std::move(c), dir);
}
INSTANTIATE_TEST_SUITE_P(Nets, Predict, testing::ValuesIn(kNets),
                         [](const testing::TestParamInfo<std::string>& info) { return info.param; });

TEST(PredictOutputs, AreAllTheModels) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(7 * 6), y(7 * 5);
  for (float& v : x) v = normal(random);
  for (float& v : y) v = normal(random);
  TempDir dir;
  dir.write("x.npy", npy("<f4", "(7, 6)", bytes_of(x)));
  dir.write("y.npy", npy("<f4", "(7, 5)", bytes_of(y)));
  expect_like_interpreter({std::string(kSourceDir) + "/tests/errors/two_outputs.onnx",
                           "mse",
                           3,
                           7,
                           {x.begin(), x.end()},
                           {y.begin(), y.end()},
                           nullptr},
                          dir);
}

}  // namespace
}  // namespace pock::test
