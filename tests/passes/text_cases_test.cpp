// Runs every case under tests/passes/<pass>/: `# passes: a,b`, a graph, `# gives:`, the graph expected. Texts
// are compared as printed. POCK_RERECORD=1 in the environment writes what came out into the files instead.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "pock/ir/text.h"
#include "pock/passes/pass.h"
#include "support/support.h"

namespace pock {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string head;  // with all comments
  std::vector<Pass> passes;
  std::string given, expected;
};

Case read_case(const fs::path& path) {
  const std::string kPasses = "# passes:", kGives = "# gives:";
  std::string text = test::read_file(path);
  size_t passes = text.find(kPasses), start = text.find("pock 1"), gives = text.find(kGives);
  if (passes == std::string::npos || start == std::string::npos || gives == std::string::npos)
    throw error("{} is no case: it needs '{}', a graph and '{}'", path.string(), kPasses, kGives);
  Case c;
  c.head = text.substr(0, start);
  c.given = text.substr(start, gives - start);
  c.expected = text.substr(gives + kGives.size());
  std::stringstream line(
      text.substr(passes + kPasses.size(), text.find('\n', passes) - passes - kPasses.size()));
  std::string name;
  while (std::getline(line, name, ',')) {
    std::erase(name, ' ');
    c.passes.push_back(get_pass(name));
  }
  return c;
}

class TextCase : public testing::TestWithParam<fs::path> {};

TEST_P(TextCase, GivesWhatItSays) {
  Case c = read_case(GetParam());
  auto g = parse_graph(c.given, GetParam().filename());
  run_passes(*g, c.passes, PassOptions{});
  std::string result = print(*g);
  if (std::getenv("POCK_RERECORD")) {
    test::write_file(GetParam(), c.head + c.given + "# gives:\n" + result);
    return;
  }
  EXPECT_EQ(result, print(*parse_graph(c.expected, GetParam().filename())));
}

std::vector<fs::path> all_cases() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(test::kSourceDir) / "tests/passes"))
    if (entry.path().extension() == ".pock") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string case_name(const testing::TestParamInfo<fs::path>& info) {
  std::string name = info.param.parent_path().filename().string() + "_" + info.param.stem().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Passes, TextCase, testing::ValuesIn(all_cases()), case_name);

}  // namespace
}  // namespace pock
