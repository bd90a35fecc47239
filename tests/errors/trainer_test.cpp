// Trainers used in wrong ways and given wrong files, as pockc makes them. tests/runtime goes into every detail of each
// refusal; here each kind has its row.
#include <cmath>

#include "wrong.h"

namespace pock::test {
namespace {

namespace fs = std::filesystem;

std::string trainer(const char* net) { return std::string(kBuildDir) + "/tests/errors/" + net; }

// The folder has samples x, labels y, a checkpoint c of two steps and one of another model.
std::vector<std::string> command(const char* name, const std::vector<std::string>& more) {
  std::vector<std::string> argv = {trainer("bn_cnn"), name};
  argv.insert(argv.end(), more.begin(), more.end());
  return argv;
}
std::vector<std::string> train(std::vector<std::string> more) {
  more.insert(more.begin(), {"--data", "x", "--labels", "y"});
  return command("train", more);
}
std::vector<std::string> predict(std::vector<std::string> more) {
  more.insert(more.begin(), {"--data", "x"});
  return command("predict", more);
}

constexpr int kSamples = 16;
const std::vector<float> kPixels(kSamples * 3 * 19 * 17, 0.5f);
const std::vector<int64_t> kClasses(kSamples, 6);

std::string samples(const std::string& shape = "(16, 3, 19, 17)") {
  return npy("<f4", shape, bytes_of(kPixels));
}
std::string labels() { return npy("<i8", "(16,)", bytes_of(kClasses)); }
std::string changed(std::string bytes, size_t at, char to) {
  bytes[at] = to;
  return bytes;
}
std::string label_of_7() {
  std::vector<int64_t> classes = kClasses;
  classes[5] = 7;
  return npy("<i8", "(16,)", bytes_of(classes));
}
std::string with_nan() {
  std::vector<float> pixels = kPixels;
  pixels[100] = NAN;
  return npy("<f4", "(16, 3, 19, 17)", bytes_of(pixels));
}

// Files that are wrong, in the place of the good ones.
Wrong data(const std::string& bytes, const std::string& says) {
  return {train({"--checkpoint", "new"}), 1, {"the data cannot be used", "--data 'x'", says}, {{"x", bytes}}};
}
Wrong classes(const std::string& bytes, const std::string& says) {
  return {train({"--checkpoint", "new"}), 1, {"--labels 'y'", says}, {{"y", bytes}}};
}
Wrong use(const std::vector<std::string>& more, const std::string& says) {
  std::vector<std::string> argv = train(more);
  argv.insert(argv.end(), {"--checkpoint", "new"});
  return {argv, 2, {says}};
}

std::vector<Wrong> wrong_data() {
  const std::string all = bytes_of(kPixels);
  return {
      data("", "the file is empty"),
      data("hello, world", "neither a .npy nor an IDX"),
      data(changed(samples(), 0, 'N'), "neither a .npy nor an IDX"),
      data("\x1f\x8b\x08 and so on", "decompress it first"),
      data("PK\3\4 and so on", ".npz"),
      data(samples().substr(0, samples().size() - 1), "truncated"),
      data(samples().substr(0, 30), "truncated inside the .npy header"),
      data(samples() + "more", "too long"),
      data(npy("<f4", "(16, 3, 19, 17)", all, 1, "True"), "Fortran order"),
      data(npy("|O", "(16, 3, 19, 17)", all), "'|O' is not read"),
      data(npy(">f4", "(16, 3, 19, 17)", all), "big-endian"),
      data(npy("<i4", "(16, 3, 19, 17)", all), "has int32 elements, 'x' takes float32"),
      data(npy("|u1", "(16, 3, 19, 17)", all.substr(0, all.size() / 4)), "--input-scale"),
      data(samples("(16, 3, 17, 19)"), "has shape [16,3,17,19], 'x' needs [N,3,19,17]"),
      data(samples("(16, 19, 17, 3)"), "are its channels last?"),
      data(npy("<f4", "(4294967296, 3, 19, 17)", all), "promises"),
      data(npy("<f4", "(99999999999, 99999999999, 3)", all), "more elements than memory"),
      {train({"--checkpoint", "new"}),
       1,
       {"'x' holds no samples"},
       {{"x", npy("<f4", "(0, 3, 19, 17)", "")}, {"y", npy("<i8", "(0,)", "")}}},
      {train({"--checkpoint", "new"}),
       1,
       {"fewer than one batch of 8"},
       {{"x", npy("<f4", "(4, 3, 19, 17)", all.substr(0, all.size() / 4))},
        {"y", npy("<i8", "(4,)", bytes_of(kClasses).substr(0, 32))}}},
      classes(label_of_7(), "element 5 (sample 5) is 7, outside [0,6]"),
      classes(npy("<i8", "(15,)", bytes_of(kClasses).substr(8)), "has 15 samples, 'x' has 16"),
      classes(npy("<f4", "(16,)", std::string(64, '\0')), "takes class ids"),
      classes(npy("<f4", "(16, 7)", std::string(448, '\0')), "one-hot"),
      classes(npy("<i8", "(16, 1, 2)", bytes_of(kClasses) + bytes_of(kClasses)), "needs [N]"),
      {command("train", {"--data", ".", "--labels", "nowhere"}), 1, {"it is a directory", "no such file"}},
      // All that is wrong is said at once.
      {train({"--checkpoint", "new"}),
       1,
       {"the file is empty", "outside [0,6]"},
       {{"x", ""}, {"y", label_of_7()}}},
      // Numbers that training cannot go on with.
      {train({"--checkpoint", "new"}), 1, {"the loss of step 2 is not finite"}, {{"x", with_nan()}}},
      {train({"--checkpoint", "new", "--lr", "1e30", "--epochs", "9"}), 1, {"is not finite"}},
  };
}

std::vector<Wrong> wrong_use() {
  return {
      {{trainer("bn_cnn")}, 2, {"usage: trainer train"}},
      {{trainer("bn_cnn"), "fly"}, 2, {"unknown command 'fly'", "usage"}},
      {command("train", {}), 2, {"no file for 'x'; give --data", "no file for 'logits'; give --labels"}},
      {command("eval", {"--data", "x", "--labels", "y", "--lr", "1"}), 2, {"unknown option '--lr'"}},
      {predict({}), 2, {"give --output"}},
      use({"--frobnicate"}, "unknown option '--frobnicate'; see trainer train --help"),
      use({"extra"}, "unknown option 'extra'"),
      {train({"--steps"}), 2, {"--steps needs a value"}},
      use({"--steps", "0"}, "at least 1"),
      use({"--steps", "1.5"}, "needs a whole number, not '1.5'"),
      use({"--steps", "99999999999999999999"}, "needs a whole number"),
      use({"--steps", "1", "--epochs", "1"}, "not both"),
      use({"--steps", "1", "--steps", "2"}, "given twice"),
      use({"--lr", "nan"}, "'lr' needs a number, not 'nan'"),
      use({"--lr", "inf"}, "'lr' needs a number, not 'inf'"),
      use({"--lr", "-1"}, "'lr' must lie in"),
      use({"--lr", ""}, "'lr' needs a number"),
      use({"--lr", "1", "--opt", "lr=1"}, "'lr' was given twice"),
      use({"--opt", "beta1=0.9"}, "optimizer 'sgd' was compiled without 'beta1'; there are: lr"),
      use({"--opt", "weight_decay=nan"}, "'weight_decay' needs a number, not 'nan'"),
      use({"--time-limit", "nan"}, "needs a time such as"),
      use({"--time-limit", "5 parsecs"}, "needs a time such as"),
      use({"--threads", "3"}, "compile it with --threads for more than 2"),
      use({"--log", "xml"}, "--log knows json, not 'xml'"),
      use({"--data", "y"}, "'x' was given twice"),
      use({"--labels", ""}, "the file name is empty"),
      use({"--patience", "2"}, "--patience needs --eval-data"),
      use({"--resume", "c", "--weights", "c"}, "not both"),
      {train({"--checkpoint-every", "2"}), 2, {"needs --checkpoint"}},
      {train({"--checkpoint", ""}), 2, {"the file name is empty"}},
      {train({"--gradients", ""}), 2, {"the file name is empty"}},
  };
}

std::vector<Wrong> wrong_places() {
  return {
      {train({"--checkpoint", "."}), 1, {"cannot be written"}},
      {train({"--checkpoint", "nowhere/new"}),
       1,
       {"'nowhere/new' cannot be written: no such file or directory"}},
      {train({"--checkpoint", "/proc/new"}), 1, {"cannot be written"}},
      {train({"--checkpoint", "/dev/full"}), 1, {"cannot be written"}},
      {train({"--checkpoint", "x"}),
       1,
       {"'x' cannot be written: there is a file of this name that is no checkpoint"}},
      {with("exec prlimit --fsize=900 \"$@\"", train({"--checkpoint", "new"})),
       1,
       {"'new' cannot be written: file too large"}},
      {train({"--gradients", "."}), 1, {"gradients '.' cannot be written: it is a directory"}},
      {train({"--gradients", "nowhere/new"}), 1, {"gradients 'nowhere/new' cannot be written: no such file"}},
      {train({"--gradients", "x"}), 1, {"there is a file of this name that holds no gradients"}},
      {train({"--gradients", "c"}), 1, {"there is a file of this name that holds no gradients"}},
      {train({"--checkpoint", "new", "--gradients", "./new"}),
       1,
       {"gradients './new' cannot be written: that is the checkpoint"}},
      {with("exec prlimit --fsize=200 \"$@\"", train({"--gradients", "new"})),
       1,
       {"gradients 'new' cannot be written: file too large"}},
      {predict({"--output", "."}), 1, {"'.' cannot be written: it is a directory"}},
      {predict({"--output", "nowhere/p"}), 1, {"no such file or directory"}},
      {predict({"--output", "/dev/full"}), 1, {"not a regular file"}},
      {predict({"--output", "x"}), 1, {"'x' would write over a file that is read"}},
      {predict({"--output", "c", "--weights", "c"}), 1, {"'c' would write over a file that is read"}},
      {with("exec prlimit --fsize=200 \"$@\"", predict({"--output", "p"})), 1, {"'p' cannot be written: "}},
      // Standard output is full, or not there at all; so is standard error, which nobody can be told.
      {with("\"$@\" >/dev/full", train({"--log", "json"})), 1, {"the log cannot be written: no space"}},
      {with("\"$@\" >&-", train({"--log", "json"})), 1, {"the log cannot be written"}},
      {with("\"$@\" >&-", command("eval", {"--data", "x", "--labels", "y"})),
       1,
       {"the result cannot be written"}},
      {with("\"$@\" >/dev/full", command("info", {})), 1, {"the result cannot be written: no space"}},
      {with("\"$@\" >/dev/full", command("train", {"--help"})), 1, {"the help cannot be written: no space"}},
      {with("\"$@\" >/dev/full", {trainer("bn_cnn"), "--version"}),
       1,
       {"the version cannot be written: no space"}},
      {with("exec prlimit --as=1000000 \"$@\"", train({"--checkpoint", "new"})), 1, {"out of memory"}},
  };
}

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    write_file(dir_ / "x", samples());
    write_file(dir_ / "y", labels());
    Ran ran = run(train({"--steps", "2", "--checkpoint", "c"}), dir_.path);
    ASSERT_EQ(ran.status, 0) << ran.err;
  }
  TempDir dir_;
};

class WrongTrainer : public Folder, public testing::WithParamInterface<Wrong> {};

TEST_P(WrongTrainer, IsSaidAndLeavesNothing) { expect_refused(GetParam(), dir_.path); }

INSTANTIATE_TEST_SUITE_P(Data, WrongTrainer, testing::ValuesIn(wrong_data()));
INSTANTIATE_TEST_SUITE_P(Use, WrongTrainer, testing::ValuesIn(wrong_use()));
INSTANTIATE_TEST_SUITE_P(Places, WrongTrainer, testing::ValuesIn(wrong_places()));

// Files that are no checkpoint of this model, for every command that reads one. `pockc export` is in tests/export.
TEST_F(Folder, WrongCheckpointsAreRefused) {
  const std::string good = read_file(dir_ / "c");
  auto flipped = [&](size_t at) { return changed(good, at, static_cast<char>(good[at] ^ 4)); };
  write_file(dir_ / "d", npy("<f4", "(8, 20)", std::string(640, '\0')));
  write_file(dir_ / "l", npy("|u1", "(8,)", std::string(8, '\1')));
  Ran other =
      run({trainer("mlp"), "train", "--data", "d", "--labels", "l", "--checkpoint", "other"}, dir_.path);
  ASSERT_EQ(other.status, 0) << other.err;
  const std::pair<std::string, std::string> kinds[] = {
      {"", "the file is empty"},
      {good.substr(0, 7), "truncated"},
      {good.substr(0, good.size() / 2), "truncated"},
      {good.substr(0, good.size() - 1), "truncated"},
      {good + "x", "damaged"},
      {flipped(good.size() - 5), "damaged"},
      {flipped(100), "damaged"},
      {samples(), "not a safetensors file"},
      {"#!/bin/sh", "not a safetensors file"},
      {read_file(dir_ / "other"), "belongs to another model"},
  };
  for (const auto& [bytes, says] : kinds)
    for (const std::vector<std::string>& argv :
         {train({"--resume", "bad", "--checkpoint", "new"}),
          train({"--weights", "bad", "--checkpoint", "new"}),
          command("eval", {"--data", "x", "--labels", "y", "--weights", "bad"}),
          predict({"--weights", "bad", "--output", "new"})}) {
      SCOPED_TRACE(testing::PrintToString(argv));
      expect_refused({argv, 1, {"'bad'", says}, {{"bad", bytes}}}, dir_.path);
    }
  expect_refused({train({"--resume", "nowhere"}), 1, {"'nowhere' cannot be opened: no such file"}},
                 dir_.path);
  expect_refused({train({"--weights", "."}), 1, {"'.' cannot be opened: it is a directory"}}, dir_.path);
  expect_refused({train({"--resume", "c", "--seed", "3"}), 1, {"'c' was trained with --seed 0"}}, dir_.path);
}

// Without standard streams a program does its work, and what it would have said goes into no file of it.
TEST_F(Folder, ClosedStreamsTakeNothingFromFiles) {
  const std::string closed = "exec \"$@\" <&- >&- 2>&-";
  EXPECT_EQ(run(with(closed, train({"--steps", "2", "--checkpoint", "same"})), dir_.path).status, 0);
  EXPECT_EQ(read_file(dir_ / "same"), read_file(dir_ / "c"));
  EXPECT_EQ(run(with(closed, predict({"--output", "p"})), dir_.path).status, 0);
  EXPECT_EQ(read_npy(dir_ / "p").dims, (std::vector<int64_t>{kSamples, 7}));
  EXPECT_EQ(run(with(closed, train({"--steps", "2", "--log", "json"})), dir_.path).status, 1);
  const std::vector<std::string> compile = {kPockc,
                                            "compile",
                                            std::string(kSourceDir) + "/tests/train/mlp/model.onnx",
                                            "--batch",
                                            "8",
                                            "--loss",
                                            "cross-entropy",
                                            "--threads",
                                            "2",
                                            "-o"};
  for (const std::string& streams : {closed, std::string("exec \"$@\" 2>/dev/full")}) {
    std::vector<std::string> good = compile, bad = compile;
    good.push_back("compiled");
    bad.push_back("/nowhere/compiled");
    EXPECT_EQ(run(with(streams, good), dir_.path).status, 0);
    EXPECT_EQ(read_file(dir_ / "compiled"), read_file(trainer("mlp")));
    EXPECT_EQ(run(with(streams, bad), dir_.path).status, 1);
  }
}

}  // namespace
}  // namespace pock::test
