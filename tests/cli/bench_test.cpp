// pockc bench: what it says, not how fast anything is.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "support/support.h"

namespace pock::test {
namespace {

const std::string kNet = std::string(kSourceDir) + "/tests/train/bn_cnn/model.onnx";
const std::vector<std::string> kHow = {"--batch",       "4",           "--loss",
                                       "cross-entropy", "--optimizer", "sgd:momentum=0.9,weight_decay=0.01"};

Ran pockc(std::vector<std::string> argv, const std::vector<std::string>& more = {}) {
  argv.insert(argv.begin(), kPockc);
  argv.insert(argv.end(), kHow.begin(), kHow.end());
  argv.insert(argv.end(), more.begin(), more.end());
  return run(argv);
}

TEST(Bench, JsonHoldsEveryKernelOfTheStep) {
  Ran ran = pockc({"bench", kNet, "--json", "--rounds", "3"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto all = nlohmann::json::parse(ran.out);
  EXPECT_EQ(all["batch"], 4);
  EXPECT_EQ(all["rounds"], 3);
  EXPECT_GT(all["peak_flops"], 1e9);
  EXPECT_GT(all["triad_bytes_per_second"], 1e8);
  EXPECT_GT(all["seconds"], 0);
  EXPECT_GE(all["median_seconds"], all["seconds"]);
  int64_t flop = 0, bytes = 0;
  double last = INFINITY;
  std::multiset<std::string> nodes;
  for (const auto& k : all["kernels"]) {
    flop += k["flop"].get<int64_t>();
    bytes += k["bytes"].get<int64_t>();
    EXPECT_LE(k["seconds"], last) << "the slowest first";
    last = k["seconds"];
    double seconds = 0;
    for (const auto& node : k["nodes"]) {
      for (const auto& name : node["names"]) nodes.insert(name.get<std::string>());
      seconds += node["seconds"].get<double>();
    }
    EXPECT_EQ(k["calls"], k["nodes"].size());
    EXPECT_DOUBLE_EQ(k["seconds"], seconds);
  }
  EXPECT_EQ(all["flop"], flop);
  EXPECT_EQ(all["bytes"], bytes);
  // A multiply and an add for each tap: forward, and for the weights' gradient again.
  EXPECT_GT(flop, 2 * 2 * 4 * (12 * 3 * 9) * 10 * 10);
  for (const char* node : {"/conv1/Conv", "/conv3/Conv", "/fc/Gemm", "fc.weight"})
    EXPECT_GE(nodes.count(node), 1u) << node << " is not in\n" << ran.out;
}

TEST(Bench, TableNamesKernelsAsTheAssemblyDoes) {
  Ran table = pockc({"bench", kNet, "--rounds", "1"});
  ASSERT_EQ(table.status, 0) << table.err;
  const std::string assembly = pockc({"compile", kNet, "--emit", "asm"}).out;
  std::istringstream lines(table.out);
  int rows = 0;
  for (std::string line; std::getline(lines, line) && line.find("% triad") == std::string::npos;) continue;
  for (std::string line; std::getline(lines, line);) {
    const size_t name = line.find("  k") + 2;
    const std::string kernel = line.substr(name, line.find(' ', name) - name);
    EXPECT_NE(assembly.find(kernel), std::string::npos) << kernel;
    ++rows;
  }
  EXPECT_GT(rows, 20) << table.out;
  EXPECT_NE(table.out.find("a step of 4 samples: "), std::string::npos) << table.out;
}

TEST(Bench, TakesWhatCompileTakes) {
  Ran frozen = pockc({"bench", kNet, "--rounds", "1", "--json"}, {"--train", "fc*", "--no-layout"});
  ASSERT_EQ(frozen.status, 0) << frozen.err;
  EXPECT_EQ(frozen.out.find("conv_weight_grad"), std::string::npos);
  Ran portable = pockc({"bench", kNet, "--rounds", "1", "--json"}, {"--cpu", "x86-64-v3"});
  ASSERT_EQ(portable.status, 0) << portable.err;
  EXPECT_EQ(nlohmann::json::parse(portable.out)["vector_bits"], 256);
}

TEST(Bench, PrintsNothingWhereSomethingIsWrong) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{"bench", "no.onnx"}, "no.onnx"},
      {{"bench", ""}, "the name of the model is empty"},
      {{"bench", kNet, "--rounds", "0"}, "--rounds: want a whole number from 1"},
      {{"bench", kNet, "--target", "toaster"}, "unknown target 'toaster'"},
      {{"bench", kNet, "--train", "nothing*"}, "nothing*"}};
  for (const auto& [argv, why] : cases) {
    Ran ran = pockc(argv);
    EXPECT_NE(ran.status, 0);
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err.find(why), std::string::npos) << ran.err;
  }
}

}  // namespace
}  // namespace pock::test
