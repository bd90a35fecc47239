// Every model of this folder through `pockc compile`: it gets its recorded message, or compiles where there is none.
// make.py writes the models and says what is wrong with each; POCK_RERECORD=1 in the environment records messages.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "wrong.h"

namespace pock::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kModels = fs::path(kSourceDir) / "tests/errors";

std::vector<json> models() {
  return json::parse(read_file(kModels / "manifest.json")).get<std::vector<json>>();
}

class Model : public testing::TestWithParam<json> {};

TEST_P(Model, GetsItsMessageOrCompiles) {
  const json& entry = GetParam();
  const std::string file = entry["file"];
  const fs::path recorded = (kModels / file).replace_extension(".txt");
  TempDir dir;
  std::vector<std::string> argv = {kPockc, "compile", file, "-o", dir / "trainer"};
  for (const std::string more : entry["args"]) argv.push_back(more);
  Ran ran = run(argv, kModels);
  const size_t at = ran.err.find("error: ");
  const std::string message = at == std::string::npos ? "" : ran.err.substr(at + 7);
  if (std::getenv("POCK_RERECORD")) {
    fs::remove(recorded);
    if (!message.empty()) write_file(recorded, message);
  }
  EXPECT_EQ(message, fs::exists(recorded) ? read_file(recorded) : "");
  EXPECT_FALSE(entry.value("good", false) && !message.empty());
  EXPECT_EQ(ran.status, message.empty() ? 0 : 1) << ran.err;
  EXPECT_EQ(fs::is_empty(dir.path), !message.empty());
  for (const std::string word : entry["mentions"])
    EXPECT_NE(ran.err.find(word), std::string::npos) << word << "\n" << ran.err;
}

INSTANTIATE_TEST_SUITE_P(Errors, Model, testing::ValuesIn(models()), [](const auto& info) {
  return fs::path(info.param["file"].template get<std::string>()).stem().string();
});

}  // namespace
}  // namespace pock::test
