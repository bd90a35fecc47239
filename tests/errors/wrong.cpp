#include "wrong.h"

namespace pock::test {
namespace {

namespace fs = std::filesystem;

// Every file below, with its bytes.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    all[entry.path().string()] = entry.is_regular_file() ? read_file(entry.path()) : "";
  return all;
}

}  // namespace

void PrintTo(const Wrong& w, std::ostream* out) {
  for (const std::string& a : w.argv) *out << a << ' ';
}

std::string expect_refused(const Wrong& w, const fs::path& folder) {
  for (const auto& [name, bytes] : w.files) write_file(folder / name, bytes);
  const auto before = contents(folder);
  Ran ran = run(w.argv, folder);
  EXPECT_EQ(ran.status, w.status) << ran.err;
  EXPECT_EQ(ran.out, "");
  for (const std::string& part : w.says)
    EXPECT_NE(ran.err.find(part), std::string::npos) << "wanted: " << part << "\ngot: " << ran.err;
  for (const char* word : {"pock has a bug", "Sanitizer", "runtime error"})
    EXPECT_EQ(ran.err.find(word), std::string::npos) << ran.err;
  const auto after = contents(folder);
  for (const auto& [name, bytes] : after) EXPECT_TRUE(before.count(name)) << name << " was left behind";
  for (const auto& [name, bytes] : before)
    EXPECT_TRUE(after.count(name) && after.at(name) == bytes) << name << " was changed";
  return ran.err;
}

std::vector<std::string> with(const std::string& setup, const std::vector<std::string>& argv) {
  std::vector<std::string> all = {"/bin/bash", "-c", setup, "-"};
  all.insert(all.end(), argv.begin(), argv.end());
  return all;
}

}  // namespace pock::test
