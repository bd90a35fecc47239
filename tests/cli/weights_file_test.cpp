// Weights in a file beside the program: when pockc writes one, what it is, and where the program looks for it.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/support.h"

namespace pock::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kFolder = std::string(kSourceDir) + "/tests/train/bn_cnn/";
constexpr int64_t kLine = 64;

Ran compile(const TempDir& dir, std::vector<std::string> more) {
  more.insert(more.begin(), {kPockc, "compile", kFolder + "model.onnx", "--batch", "4", "--loss",
                             "cross-entropy", "--freeze", "conv1.*", "--weights-file"});
  return run(more, dir.path);
}

Ran evaluate(const std::string& program, const fs::path& folder, std::vector<std::string> more = {}) {
  more.insert(more.begin(),
              {program, "eval", "--data", kFolder + "data.npy", "--labels", kFolder + "labels.npy"});
  return run(more, folder);
}

int64_t files_in(const fs::path& folder) { return std::distance(fs::directory_iterator(folder), {}); }

TEST(WeightsFile, IsSafetensorsWithEveryTensorOnALineOfItsOwn) {
  TempDir dir;
  Ran ran = compile(dir, {"-o", "net", "--report", "report"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.err.find("in 'net.safetensors', which belongs beside the program\n"), std::string::npos)
      << ran.err;
  EXPECT_NE(ran.err.find("wrote net and net.safetensors"), std::string::npos) << ran.err;
  const std::string file = read_file(dir / "net.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  EXPECT_EQ((8 + length) % kLine, 0u);
  const json header = json::parse(file.substr(8, length));
  int64_t end = 0, tensors = 0;
  std::map<int64_t, int64_t> ranges;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    ranges[entry["data_offsets"][0]] = entry["data_offsets"][1];
    if (name.starts_with("padding")) continue;
    EXPECT_EQ(entry["data_offsets"][0].get<int64_t>() % kLine, 0) << name;
    ++tensors;
  }
  for (const auto& [from, to] : ranges) {
    EXPECT_EQ(from, end);
    end = to;
  }
  EXPECT_GE(tensors, 18);
  EXPECT_TRUE(header.contains("conv1.weight"));  // frozen
  EXPECT_TRUE(header.contains("bn1.running_mean"));
  EXPECT_EQ(header["__metadata__"]["format"], "pock-weights-1");
  EXPECT_EQ(header["__metadata__"]["model"], "model.onnx");
  const json info = json::parse(run({dir / "net", "info", "--json"}).out),
             report = json::parse(read_file(dir / "report"));
  EXPECT_EQ(info["weights_file"], "net.safetensors");
  EXPECT_EQ(info["weights_bytes"], end);
  EXPECT_EQ(report["weights_file"], "net.safetensors");
  EXPECT_EQ(report["weights_bytes"], end);
  EXPECT_EQ(8 + length + static_cast<uint64_t>(end), file.size());
  EXPECT_NE(run({dir / "net", "info"}).out.find("in 'net.safetensors' beside the program"),
            std::string::npos);
}

TEST(WeightsFile, StandsBesideTheProgramWhereverThatIsRunFrom) {
  TempDir dir;
  fs::create_directories(dir / "far");
  fs::create_symlink("far/net", dir / "link");
  Ran ran = compile(dir, {"-o", "link"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_TRUE(fs::is_regular_file(dir / "far/net.safetensors"));
  const std::string wanted = evaluate("./far/net", dir.path).out;
  EXPECT_NE(wanted.find("accuracy"), std::string::npos);
  EXPECT_EQ(evaluate("./link", dir.path).out, wanted);
  EXPECT_EQ(evaluate("./net", dir.path / "far").out, wanted);
  EXPECT_EQ(evaluate(dir / "link", "/").out, wanted);
  // The program may have another name, and the file another place.
  fs::rename(dir / "far/net", dir / "far/renamed");
  EXPECT_EQ(evaluate("./far/renamed", dir.path).out, wanted);
  fs::rename(dir / "far/net.safetensors", dir / "elsewhere");
  EXPECT_EQ(evaluate("./far/renamed", dir.path).status, 1);
  EXPECT_EQ(evaluate("./far/renamed", dir.path, {"--weights-file", "elsewhere"}).out, wanted);
  fs::create_symlink("../elsewhere", dir / "far/net.safetensors");
  EXPECT_EQ(evaluate("./far/renamed", dir.path).out, wanted);
}

// One file does for all programs whose weights are the same, laid out alike.
TEST(WeightsFile, OtherNumbersOfTheOptimizerKeepIt) {
  TempDir dir;
  ASSERT_EQ(compile(dir, {"-o", "a"}).status, 0);
  ASSERT_EQ(compile(dir, {"-o", "b", "--optimizer", "adam:lr=0.1", "--threads", "1"}).status, 0);
  EXPECT_EQ(read_file(dir / "a.safetensors"), read_file(dir / "b.safetensors"));
}

TEST(WeightsFile, ComesWithItsProgramOrNotAtAll) {
  // The disk is full: after the weights, and before.
  for (const char* room : {"50000", "9000"}) {
    TempDir dir;
    ASSERT_EQ(compile(dir, {"-o", "net"}).status, 0);
    const std::string program = read_file(dir / "net"), weights = read_file(dir / "net.safetensors");
    Ran ran = run({"/bin/bash", "-c", std::string("exec prlimit --fsize=") + room + " \"$@\"", "-", kPockc,
                   "compile", kFolder + "model.onnx", "--batch", "2", "--loss", "cross-entropy",
                   "--weights-file", "-o", dir / "net"});
    EXPECT_EQ(ran.status, 1) << ran.err;
    EXPECT_NE(ran.err.find("cannot write"), std::string::npos) << ran.err;
    EXPECT_EQ(read_file(dir / "net"), program);
    EXPECT_EQ(read_file(dir / "net.safetensors"), weights);
    EXPECT_EQ(files_in(dir.path), 2);
  }
  // A folder has the name of one of them.
  for (const char* taken : {"net", "net.safetensors"}) {
    TempDir dir;
    fs::create_directory(dir / taken);
    EXPECT_EQ(compile(dir, {"-o", "net"}).status, 1);
    EXPECT_EQ(files_in(dir.path), 1);
  }
  // The next program takes the place of both.
  TempDir dir;
  ASSERT_EQ(compile(dir, {"-o", "net"}).status, 0);
  const std::string before = read_file(dir / "net.safetensors");
  ASSERT_EQ(compile(dir, {"-o", "net", "--freeze", "fc.*"}).status, 0);
  EXPECT_NE(read_file(dir / "net.safetensors"), before);
  EXPECT_EQ(evaluate("./net", dir.path).status, 0);
  EXPECT_EQ(files_in(dir.path), 2);
}

// 256 MiB of weights and a few more, nearly all of them a hole in a file.
class LargeWeights : public testing::Test {
 protected:
  static constexpr int64_t kRows = 8200, kColumns = 8192;

  void SetUp() override {
    fs::copy_file(std::string(kSourceDir) + "/tests/cli/large.onnx", dir_ / "large.onnx");
    // The last row is 0.5.
    const std::vector<float> row(kColumns, 0.5f);
    std::ofstream file(dir_ / "large.data", std::ios::binary);
    file.seekp((kRows - 1) * kColumns * 4);
    file << bytes_of(row);
  }
  Ran compile(const std::vector<std::string>& more) {
    std::vector<std::string> argv = {kPockc,   "compile", "large.onnx", "--batch", "2",
                                     "--loss", "mse",     "--freeze",   "large"};
    argv.insert(argv.end(), more.begin(), more.end());
    return run(argv, dir_.path);
  }
  TempDir dir_;
};

TEST_F(LargeWeights, GoToAFileByThemselves) {
  Ran refused = compile({"-o", "-"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find(
                "the weights take 256.3 MiB, for which a program has a file beside it: -o '-' is no file"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(refused.out, "");
  Ran ran = compile({"-o", "net"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.err.find("belongs beside the program: they are more than 256.0 MiB"), std::string::npos)
      << ran.err;
  EXPECT_LT(fs::file_size(dir_ / "net"), 200 << 10);
  EXPECT_GT(fs::file_size(dir_ / "net.safetensors"), 256 << 20);
  std::vector<float> x(2 * kRows, 1);
  x[kRows - 1] = 3;
  x[2 * kRows - 1] = -8;
  dir_.write("x", npy("<f4", "(2, 8200)", bytes_of(x)));
  Ran predicted = run({dir_ / "net", "predict", "--data", "x", "--output", "y"}, dir_.path);
  ASSERT_EQ(predicted.status, 0) << predicted.err;
  EXPECT_EQ(read_npy(dir_ / "y").numbers(), (std::vector<double>{1.5, -3, 4.5, -4, 8, -12}));
}

}  // namespace
}  // namespace pock::test
