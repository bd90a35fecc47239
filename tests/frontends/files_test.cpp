// The model files of tests/import compute what numpy says.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "pock/frontends/import.h"
#include "pock/ir/text.h"
#include "pock/ir/verify.h"
#include "pock/ops/evaluate.h"
#include "support/support.h"

namespace pock {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kModels = fs::path(test::kSourceDir) / "tests/import";

std::vector<json> entries() {
  return json::parse(std::ifstream(kModels / "expect.json")).get<std::vector<json>>();
}

std::string test_name(const testing::TestParamInfo<json>& info) {
  return fs::path(info.param["file"].get<std::string>()).stem().string();
}

class GoodFile : public testing::TestWithParam<json> {};

TEST_P(GoodFile, ComputesTheExpected) {
  const json& entry = GetParam();
  const json& inputs = entry["inputs"];
  int64_t batch = inputs.begin().value()["shape"][0];
  fs::path path = kModels / entry["file"].get<std::string>();
  if (path.stem() == "storage_unsorted") {
    EXPECT_THROW(import_onnx(path, {.batch = batch}), Error);
    return;
  }
  std::unique_ptr<Graph> g = import_onnx(path, {.batch = batch});
  verify(*g, "import");
  EXPECT_EQ(print(*parse_graph(print(*g))), print(*g));
  Memory m = initial_memory(*g);
  ASSERT_EQ(g->inputs().size(), inputs.size());
  for (Value* in : g->inputs()) {
    EXPECT_EQ(in->type.dims, inputs[in->name]["shape"].get<Dims>());
    m.set(in, inputs[in->name]["data"].get<std::vector<double>>());
  }
  evaluate(*g, m);
  ASSERT_EQ(g->outputs().size(), entry["outputs"].size());
  for (size_t i = 0; i < g->outputs().size(); ++i) {
    const json& expected = entry["outputs"][g->output_name(i)];
    EXPECT_EQ(g->outputs()[i]->type.dims, expected["shape"].get<Dims>());
    std::vector<double> got = m.read(g->outputs()[i]), want = expected["data"].get<std::vector<double>>();
    ASSERT_EQ(got.size(), want.size());
    for (size_t j = 0; j < got.size(); ++j)
      EXPECT_NEAR(got[j], want[j], 2e-6 * std::max(1.0, std::abs(want[j]))) << j;
  }
}

INSTANTIATE_TEST_SUITE_P(Import, GoodFile, testing::ValuesIn(entries()), test_name);

}  // namespace
}  // namespace pock
