// What the documents show must be true: commands run, and code stands in the file that it is said to stand
// in.
#include <gtest/gtest.h>

#include <sstream>

#include "support/support.h"

namespace pock::test {
namespace {

namespace fs = std::filesystem;
const fs::path kRoot = kSourceDir;

std::vector<fs::path> documents() {
  std::vector<fs::path> all = {kRoot / "README.md"};
  for (const auto& entry : fs::directory_iterator(kRoot / "docs"))
    if (entry.path().extension() == ".md") all.push_back(entry.path());
  return all;
}

// Commands are indented by four spaces.
std::vector<std::string> commands(const fs::path& document, const std::vector<std::string>& beginnings) {
  std::vector<std::string> found;
  std::istringstream text(read_file(document));
  for (std::string line; std::getline(text, line);)
    for (const std::string& start : beginnings)
      if (line.rfind("    " + start, 0) == 0) found.push_back(line.substr(4));
  return found;
}

TEST(Docs, CommandsRun) {
  TempDir dir;
  const fs::path net = kRoot / "tests/train/lenet";
  fs::copy_file(net / "model.onnx", dir / "model.onnx");
  fs::copy_file(net / "data.npy", dir / "images.npy");
  fs::copy_file(net / "labels.npy", dir / "labels.npy");
  std::vector<std::string> all = commands(kRoot / "README.md", {"pockc ", "./trainer "});
  for (const char* document :
       {"docs/models.md", "docs/trainer.md", "docs/export.md", "docs/library.md", "docs/performance.md"})
    for (const std::string& more : commands(kRoot / document, {"pockc ", "./trainer "})) all.push_back(more);
  ASSERT_EQ(all.size(), 16u);
  for (const std::string& command : all) {
    Ran ran = run({"/bin/sh", "-c", "PATH=" + fs::path(kPockc).parent_path().string() + ":$PATH; " + command},
                  dir.path);
    EXPECT_EQ(ran.status, 0) << command << "\n" << ran.err;
  }
  EXPECT_TRUE(fs::exists(dir / "tuned.safetensors"));
  EXPECT_TRUE(fs::exists(dir / "scores.npy"));
  EXPECT_TRUE(fs::exists(dir / "tuned.onnx"));
  EXPECT_TRUE(fs::exists(dir / "libnet.a"));
}

TEST(Docs, CommandsAboutMachinesRun) {
  TempDir dir;
  fs::copy_file(kRoot / "tests/train/lenet/model.onnx", dir / "model.onnx");
  const std::vector<std::string> all = commands(kRoot / "docs/machines.md", {"pockc "});
  fs::copy_file(kRoot / "tests/docs/my-board.toml", dir / "my-board.toml");
  ASSERT_EQ(all.size(), 5u);
  for (const std::string& command : all) {
    Ran ran = run({"/bin/sh", "-c", "PATH=" + fs::path(kPockc).parent_path().string() + ":$PATH; " + command},
                  dir.path);
    EXPECT_EQ(ran.status, 0) << command << "\n" << ran.err;
  }
  for (const char* file : {"pi-trainer", "firmware.elf", "firmware.bin", "mine.elf"})
    EXPECT_TRUE(fs::exists(dir / file)) << file;
}

// The list is the document's own; what goes by the clock is left out.
TEST(Docs, CommandsAboutRegressRun) {
  for (const char* emulator : {"qemu-aarch64", "qemu-x86_64", "qemu-system-arm"})
    if (!is_installed(emulator)) GTEST_SKIP() << emulator << " is not installed";
  TempDir dir;
  fs::copy_file(kRoot / "tests/train/lenet/model.onnx", dir / "model.onnx");
  const fs::path document = kRoot / "docs/regress.md";
  std::istringstream text(read_file(document));
  std::string list, line;
  while (std::getline(text, line) && line.rfind("    baseline", 0) != 0) continue;
  for (; line.rfind("    ", 0) == 0; std::getline(text, line))
    if (line.rfind("    time = true", 0) != 0) list += line.substr(4) + "\n";
  dir.write("kernels.toml", list);
  std::vector<std::string> all = commands(document, {"pockc "});
  ASSERT_EQ(all.size(), 3u);
  std::swap(all[0], all[1]);  // the first is for who has a baseline
  for (const std::string& command : all) {
    Ran ran = run({"/bin/sh", "-c", "PATH=" + fs::path(kPockc).parent_path().string() + ":$PATH; " + command},
                  dir.path);
    EXPECT_EQ(ran.status, 0) << command << "\n" << ran.err;
  }
  EXPECT_TRUE(fs::exists(dir / "kernels.json"));
}

TEST(Docs, CommandsAboutTrainingRun) {
  TempDir dir;
  for (const auto& file : fs::directory_iterator(kRoot / "tests/train/recipes"))
    fs::copy_file(file.path(), dir.path / file.path().filename());
  std::vector<std::string> all = commands(kRoot / "docs/training.md", {"pockc ", "./trainer "});
  ASSERT_EQ(all.size(), 8u);
  for (const std::string& command : all) {
    Ran ran = run({"/bin/sh", "-c", "PATH=" + fs::path(kPockc).parent_path().string() + ":$PATH; " + command},
                  dir.path);
    EXPECT_EQ(ran.status, 0) << command << "\n" << ran.err;
  }
}

TEST(Docs, CommandsAboutSchemesRun) {
  TempDir dir;
  fs::copy_file(kRoot / "tests/train/lenet/model.onnx", dir / "model.onnx");
  fs::copy_file(kRoot / "tests/train/schemes/lenet.toml", dir / "lenet.toml");
  fs::copy_file(kRoot / "tests/train/lenet/data.npy", dir / "images.npy");
  fs::copy_file(kRoot / "tests/train/lenet/labels.npy", dir / "labels.npy");
  const std::vector<std::string> all = commands(kRoot / "docs/sparse.md", {"pockc ", "./trainer "});
  ASSERT_EQ(all.size(), 7u);
  for (const std::string& command : all) {
    Ran ran = run({"/bin/sh", "-c", "PATH=" + fs::path(kPockc).parent_path().string() + ":$PATH; " + command},
                  dir.path);
    EXPECT_EQ(ran.status, 0) << command << "\n" << ran.err;
  }
}

TEST(Examples, TransferInAFewSteps) {
  TempDir dir;
  Ran ran = run({(kRoot / "examples/transfer/transfer.py").string(), kPockc, dir.path, "--seeds", "1",
                 "--steps", "2", "--scheme", "sparse.toml", "--task", "turned"});
  if (lacks_package(ran)) GTEST_SKIP() << ran.err;
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("scheme       turned %"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("\nsparse.toml "), std::string::npos) << ran.out;
  EXPECT_TRUE(fs::exists(dir / "table.txt"));
}

TEST(Examples, RaspberryPiInAFewSteps) {
  if (!is_installed("qemu-aarch64")) GTEST_SKIP() << "qemu-aarch64 is not installed";
  TempDir dir;
  Ran ran = run({(kRoot / "examples/raspberry-pi/train.sh").string(), kPockc, dir.path, "4", "32"});
  if (lacks_package(ran)) GTEST_SKIP() << ran.err;
  ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
  EXPECT_NE(ran.err.find("resumed from step "), std::string::npos) << ran.err;
  EXPECT_NE(ran.out.find("tuned.onnx predicts what the Pi does"), std::string::npos) << ran.out;
}

// The trainer and the firmware go the same way: their accuracies are equal.
TEST(Examples, CortexMInAFewEpochs) {
  for (const char* program : {"qemu-system-arm", "cmake", "clang-19", "ld.lld-19"})
    if (!is_installed(program)) GTEST_SKIP() << program << " is not installed";
  TempDir dir;
  Ran ran = run({(kRoot / "examples/cortex-m/train.sh").string(), kPockc, dir.path, "3"});
  if (lacks_package(ran)) GTEST_SKIP() << ran.err;
  ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
  const std::string text = ran.out + ran.err, firmware = "accuracy: ";
  auto last = [&](const std::string& key) { return text.substr(text.rfind(key) + key.size(), 5); };
  EXPECT_GT(std::stod(last(firmware)), 0.9) << text;
  EXPECT_EQ(last(firmware), last(", accuracy ")) << text;
}

TEST(Docs, ScriptsThatAreNamedExist) {
  int count = 0;
  for (const fs::path& document : documents())
    for (const std::string& command : commands(document, {"tests/", "examples/", "tools/"})) {
      fs::path script = kRoot / command.substr(0, command.find(' '));
      EXPECT_TRUE(fs::exists(script)) << document << ": " << command;
      EXPECT_NE(fs::status(script).permissions() & fs::perms::owner_exec, fs::perms::none) << script;
      ++count;
    }
  EXPECT_GE(count, 6);
}

TEST(Docs, CodeIsTheCodeOfTheProject) {
  int count = 0;
  for (const fs::path& document : documents()) {
    std::string text = read_file(document);
    for (size_t at = 0; (at = text.find("```", at)) != std::string::npos;) {
      size_t line = text.find('\n', at), end = text.find("```", line), name = text.find(' ', at) + 1;
      ASSERT_NE(end, std::string::npos) << document;
      ASSERT_LT(name, line) << document << ": code without the file that it is from";
      std::string file = text.substr(name, line - name), code = text.substr(line + 1, end - line - 1);
      EXPECT_NE(read_file(kRoot / file).find(code), std::string::npos)
          << document << ": not in " << file << ":\n"
          << code;
      at = end + 3;
      ++count;
    }
  }
  EXPECT_EQ(count, 8);
}

}  // namespace
}  // namespace pock::test
