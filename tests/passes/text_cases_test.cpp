// Runs every case under tests/passes/<pass>/ through `pockc opt`: `# passes: a,b`, perhaps `# options: ...` as on its command
// line, a graph, `# gives:`, the graph expected. Texts are compared as printed. POCK_RERECORD=1 in the environment writes
// what came out into the files instead.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "pock/ir/text.h"
#include "support/support.h"

namespace pock {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string head;  // with all comments
  std::vector<std::string> args;
  std::string given, expected;
};

// What stands behind `key` on its line; empty where there is no such line.
std::string line_of(const std::string& text, const std::string& key) {
  const size_t at = text.find(key);
  return at == std::string::npos ? "" : text.substr(at + key.size(), text.find('\n', at) - at - key.size());
}

Case read_case(const fs::path& path) {
  const std::string kGives = "# gives:", text = test::read_file(path);
  size_t start = text.find("pock 1"), gives = text.find(kGives);
  Case c;
  c.head = text.substr(0, start);
  std::string passes = line_of(c.head, "# passes:");
  if (passes.empty() || start == std::string::npos || gives == std::string::npos)
    throw error("{} is no case: it needs '# passes:', a graph and '{}'", path.string(), kGives);
  std::erase(passes, ' ');
  c.args = {"--passes", passes};
  std::stringstream options(line_of(c.head, "# options:"));
  for (std::string word; options >> word;) c.args.push_back(word);
  c.given = text.substr(start, gives - start);
  c.expected = text.substr(gives + kGives.size());
  return c;
}

class TextCase : public testing::TestWithParam<fs::path> {};

TEST_P(TextCase, GivesWhatItSays) {
  Case c = read_case(GetParam());
  test::TempDir folder;
  std::vector<std::string> argv = {test::kPockc, "opt", folder.write("given.pock", c.given)};
  argv.insert(argv.end(), c.args.begin(), c.args.end());
  test::Ran ran = test::run(argv);
  ASSERT_EQ(ran.status, 0) << ran.err;
  if (std::getenv("POCK_RERECORD")) {
    test::write_file(GetParam(), c.head + c.given + "# gives:\n" + ran.out);
    return;
  }
  EXPECT_EQ(ran.out, print(*parse_graph(c.expected, GetParam().filename())));
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
