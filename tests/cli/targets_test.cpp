// `pockc targets`.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "support/support.h"

namespace pock::test {
namespace {

TEST(Targets, TableAndJsonNameTheSame) {
  const Ran table = run({kPockc, "targets"}), json = run({kPockc, "targets", "--json"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_EQ(json.status, 0) << json.err;
  std::set<std::string> names;
  for (const auto& t : nlohmann::json::parse(json.out)) {
    const auto name = t.at("name").get<std::string>();
    names.insert(name);
    EXPECT_NE(table.out.find("\n" + name + " "), std::string::npos) << name;
    for (const char* key : {"what", "core", "vector_unit", "memory", "runtime"})
      EXPECT_NE(t.at(key).get<std::string>(), "") << name << ": " << key;
    // Whatever is for another kind of machine than this is emulated.
    EXPECT_EQ(t.at("emulator").empty(), t.at("machine") == "x86-64") << name;
    EXPECT_EQ(t.at("board") == "", t.at("runtime") != "bare metal") << name;
  }
  for (const char* name : {"host", "x86-64", "aarch64-linux", "armv7-linux", "rpi2", "rpi3", "rpi-zero2",
                           "rpi4", "rpi5", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"})
    EXPECT_TRUE(names.count(name)) << name;
}

// A board of one's own is one like those that are known.
TEST(Targets, ABoardFileIsABoard) {
  TempDir dir;
  const std::string file = dir.write(
      "mine.toml", "name = 'mine'\ncore = 'cortex-m4'\nflash = '0x08000000+1M'\nram = '0x20000000+128K'\n");
  for (const auto& [board, out] : {std::pair{file, "mine.elf"}, {std::string("stm32f405"), "known.elf"}}) {
    const Ran ran = run({kPockc, "compile", std::string(kSourceDir) + "/tests/train/mlp/model.onnx",
                         "--batch", "4", "--loss", "cross-entropy", "--board", board, "-o", dir / out});
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.err.find(board == file ? "memory of mine:" : "memory of stm32f405:"), std::string::npos);
  }
  EXPECT_TRUE(read_file(dir / "mine.elf") == read_file(dir / "known.elf"));
  EXPECT_NE(run({kPockc, "targets"}).out.find("--board FILE.toml"), std::string::npos);
}

// What is said of a board's memory is what the image takes.
TEST(Targets, MemoryTableIsTheImages) {
  TempDir dir;
  const Ran ran = run({kPockc, "compile", std::string(kSourceDir) + "/tests/train/mlp/model.onnx", "--batch",
                       "4", "--loss", "cross-entropy", "--optimizer", "adam", "--board", "stm32f405", "-o",
                       dir / "net.elf", "--report", dir / "report"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::map<std::string, int64_t> rows;
  const std::regex row("\n  (\\S[^\n]*?) +(\\d+)( of \\d+)?(?=\n)");
  for (auto at = std::sregex_iterator(ran.err.begin(), ran.err.end(), row); at != std::sregex_iterator();
       ++at)
    rows[(*at)[1]] = std::stoll((*at)[2]);
  const auto report = nlohmann::json::parse(read_file(dir / "report"));
  EXPECT_EQ(rows["RAM: arena"], report["arena_bytes"]);
  EXPECT_EQ(rows["flash: weights"], report["weights_bytes"]);
  EXPECT_EQ(rows["flash in all"], rows["flash: weights"] + rows["flash: code and tables"]);
  EXPECT_EQ(rows["flash in all"], static_cast<int64_t>(std::filesystem::file_size(dir / "net.bin")));
  EXPECT_EQ(rows["RAM in all"], rows["RAM: stack, at its deepest"] + rows["RAM: static data"] +
                                    rows["RAM: arena"] + rows["RAM: trained parameters"] +
                                    rows["RAM: optimizer state"]);
  EXPECT_EQ(rows["left for data and files"], 128 * 1024 - rows["RAM in all"]);
}

}  // namespace
}  // namespace pock::test
