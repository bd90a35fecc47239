// The model files of tests/import compute what numpy says, and those of tests/errors give their recorded
// messages.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
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

const fs::path kTests = fs::path(test::kSourceDir) / "tests";

json read_json(const fs::path& path) { return json::parse(std::ifstream(path)); }

std::vector<json> entries(const char* file) { return read_json(kTests / file).get<std::vector<json>>(); }

std::string test_name(const testing::TestParamInfo<json>& info) {
  return fs::path(info.param["file"].get<std::string>()).stem().string();
}

class GoodFile : public testing::TestWithParam<json> {};

TEST_P(GoodFile, ComputesTheExpected) {
  const json& entry = GetParam();
  const json& inputs = entry["inputs"];
  int64_t batch = inputs.begin().value()["shape"][0];
  fs::path path = kTests / "import" / entry["file"].get<std::string>();
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

INSTANTIATE_TEST_SUITE_P(Import, GoodFile, testing::ValuesIn(entries("import/expect.json")), test_name);

// A file without a recorded message must be read: what is wrong with it shows later, or nothing is.
class BadFile : public testing::TestWithParam<json> {};

TEST_P(BadFile, GivesItsMessage) {
  const json& entry = GetParam();
  fs::path path = kTests / "errors" / entry["file"].get<std::string>(),
           recorded = fs::path(path).replace_extension(".txt");
  ImportOptions options;
  auto args = entry["args"].get<std::vector<std::string>>();
  for (size_t i = 0; i + 1 < args.size(); ++i)
    if (args[i] == "--batch") options.batch = std::stoll(args[i + 1]);
  std::string message;
  testing::internal::CaptureStderr();
  try {
    verify(*import_onnx(path, options), "import");
  } catch (const Error& e) {
    message = std::string(e.what()) + "\n";
    std::string folder = path.parent_path().string() + "/";
    for (size_t at; (at = message.find(folder)) != std::string::npos;) message.erase(at, folder.size());
  }
  std::string said = testing::internal::GetCapturedStderr();
  if (std::getenv("POCK_RERECORD")) {
    fs::remove(recorded);
    if (!message.empty()) std::ofstream(recorded) << message;
  }
  EXPECT_EQ(message, fs::exists(recorded) ? test::read_file(recorded) : "");
  EXPECT_FALSE(entry.value("good", false) && !message.empty());
  if (message.empty() && said.empty()) return;
  for (const auto& word : entry["mentions"].get<std::vector<std::string>>())
    EXPECT_NE((message + said).find(word), std::string::npos) << word << "\n" << message << said;
}

INSTANTIATE_TEST_SUITE_P(Errors, BadFile, testing::ValuesIn(entries("errors/manifest.json")), test_name);

}  // namespace
}  // namespace pock
