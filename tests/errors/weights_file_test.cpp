// Programs whose weights are in a file beside them, and files that are not that one.
#include <cstring>

#include "wrong.h"

namespace pock::test {
namespace {

namespace fs = std::filesystem;

std::string changed(std::string bytes, size_t at) {
  bytes[at] = static_cast<char>(bytes[at] ^ 4);
  return bytes;
}

// The folder has the program net, its weights net.safetensors, samples x and labels y.
class WeightsFile : public testing::Test {
 protected:
  void SetUp() override {
    write_file(dir_ / "x", npy("<f4", "(8, 3, 19, 17)", std::string(8 * 3 * 19 * 17 * 4, '\0')));
    write_file(dir_ / "y", npy("|u1", "(8,)", std::string(8, '\1')));
    good_ = compile("bn_cnn", "net");
    ASSERT_GT(good_.size(), 1000u);
  }

  // The bytes of the weights file.
  std::string compile(const std::string& net, const std::string& out,
                      const std::vector<std::string>& more = {}) {
    std::vector<std::string> argv = {kPockc, "compile",
                                     std::string(kSourceDir) + "/tests/train/" + net + "/model.onnx"};
    argv.insert(argv.end(), {"--batch", "8", "--loss", "cross-entropy", "--weights-file", "-o", out});
    argv.insert(argv.end(), more.begin(), more.end());
    Ran ran = run(argv, dir_.path);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return read_file(dir_ / (out + ".safetensors"));
  }

  std::vector<std::string> train(const std::string& checkpoint) {
    return {"./net", "train", "--data", "x", "--labels", "y", "--checkpoint", checkpoint};
  }
  std::vector<std::string> predict(const std::string& output) {
    return {"./net", "predict", "--data", "x", "--output", output};
  }
  // Every command that reads the file, with more options, is refused.
  void expect_all_refused(const std::vector<std::string>& more, int status,
                          const std::vector<std::string>& says,
                          const std::map<std::string, std::string>& files = {}) {
    for (std::vector<std::string> argv :
         {train("new"), predict("new"), {"./net", "eval", "--data", "x", "--labels", "y"}}) {
      argv.insert(argv.end(), more.begin(), more.end());
      SCOPED_TRACE(testing::PrintToString(argv));
      expect_refused({argv, status, says, files}, dir_.path);
    }
  }

  TempDir dir_;
  std::string good_;
};

TEST_F(WeightsFile, OfOtherBytesIsRefused) {
  uint16_t length;
  std::memcpy(&length, good_.data(), sizeof length);
  const size_t head = 8 + size_t{length}, size = good_.size();
  ASSERT_EQ(run(train("c"), dir_.path).status, 0);
  std::vector<std::pair<std::string, std::string>> kinds = {
      {"", "truncated inside the header, or not a safetensors file"},
      {good_.substr(0, 7), "truncated inside the header"},
      {good_.substr(0, 80), "truncated inside the header"},
      {good_.substr(0, 200), "truncated inside the header"},
      {good_.substr(0, head), "truncated;"},
      {good_.substr(0, size - 1), "truncated;"},
      {good_ + "x", "damaged: the data does not"},
      {read_file(dir_ / "x"), "truncated inside the header, or not a safetensors file"},
      {read_file(dir_ / "c"), "is a checkpoint, which --weights takes"},
      {compile("mlp", "other"), "belongs to another model;"},
      {compile("bn_cnn", "frozen", {"--freeze", "conv1.*"}), "belongs to another program of this model;"},
      {changed(good_, 0), "damaged: the header does not"},
      {changed(good_, 7), "truncated inside the header"},
      {changed(good_, 20), "is no weights file"},
  };
  for (size_t at : {size_t{41}, size_t{48}, size_t{70}, size_t{200}, head - 1})
    kinds.emplace_back(changed(good_, at), "damaged: the header does not");
  for (size_t at : {head, head + 1000, size - 1})
    kinds.emplace_back(changed(good_, at), "damaged: the data does not");
  for (const auto& [bytes, says] : kinds)
    expect_all_refused(
        {}, 1, {"weights file '", "/net.safetensors' " + says, "the one that pockc wrote with this program"},
        {{"net.safetensors", bytes}});
}

TEST_F(WeightsFile, AtNoGoodPlaceIsRefused) {
  expect_all_refused({"--weights-file", "."}, 1, {"weights file '.' cannot be opened: it is a directory"});
  expect_all_refused({"--weights-file", "x"}, 1,
                     {"weights file 'x' truncated inside the header, or not a safetensors file"});
  expect_all_refused({"--weights-file", ""}, 2, {"--weights-file: the file name is empty"});
  expect_all_refused({"--weights-file", "x", "--weights-file", "x"}, 2, {"--weights-file was given twice"});
  // Neither kind of file is taken for the other, nor written over.
  expect_all_refused({"--weights", "net.safetensors"}, 1, {"weights 'net.safetensors' is not a checkpoint"});
  expect_refused({train("net.safetensors"), 1, {"a file of this name that is no checkpoint"}}, dir_.path);
  expect_refused({predict("net.safetensors"), 1, {"would write over a file that is read"}}, dir_.path);
  const std::string model = std::string(kSourceDir) + "/tests/train/bn_cnn/model.onnx";
  expect_refused(
      {{kPockc, "export", model, "--weights", "net.safetensors", "-o", "tuned"}, 1, {"is not a checkpoint"}},
      dir_.path);
  fs::remove(dir_ / "net.safetensors");
  expect_all_refused({}, 1, {"/net.safetensors' cannot be opened: no such file", "or at --weights-file"});
  // What needs no weights does not look for them, and knows no such option; nor does a program that has them inside.
  EXPECT_EQ(run({"./net", "info"}, dir_.path).status, 0);
  expect_refused({{"./net", "info", "--weights-file", "x"}, 2, {"unknown option '--weights-file'"}},
                 dir_.path);
  const std::string inside = std::string(kBuildDir) + "/tests/errors/bn_cnn";
  expect_refused({{inside, "predict", "--weights-file", "x"}, 2, {"unknown option '--weights-file'"}},
                 dir_.path);
}

}  // namespace
}  // namespace pock::test
