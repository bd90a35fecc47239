// pockc used in wrong ways. What is wrong with model files stands in models_test.cpp, full disks and devices in tests/cli,
// and of `pockc export` in tests/export.
#include "wrong.h"

namespace pock::test {
namespace {

namespace fs = std::filesystem;
const std::string kNet = std::string(kSourceDir) + "/tests/train/bn_cnn/model.onnx";

std::vector<std::string> compile(const std::vector<std::string>& more) {
  std::vector<std::string> argv = {kPockc, "compile", kNet, "--batch", "4", "--loss", "cross-entropy"};
  argv.insert(argv.end(), more.begin(), more.end());
  return argv;
}

std::vector<std::string> compile_small(const std::string& name, const std::vector<std::string>& more) {
  std::vector<std::string> argv = {kPockc, "compile",
                                   std::string(kSourceDir) + "/tests/cli/" + name + ".onnx"};
  argv.insert(argv.end(), more.begin(), more.end());
  return argv;
}

class WrongUse : public testing::TestWithParam<Wrong> {};

TEST_P(WrongUse, IsSaidAndLeavesNothing) {
  TempDir dir;
  expect_refused(GetParam(), dir.path);
}

INSTANTIATE_TEST_SUITE_P(
    Commands, WrongUse,
    testing::Values(
        Wrong{{kPockc}, 2, {"subcommand"}}, Wrong{{kPockc, "compile"}, 2, {"MODEL"}},
        Wrong{compile({"-o", "out", "--frobnicate"}), 2, {"--frobnicate"}},
        Wrong{compile({"-o", "out", "--batch", "0"}), 2, {"--batch"}},
        Wrong{compile({"-o", "out", "--emit", "elf"}), 2, {"llvm-ir"}}, Wrong{compile({}), 1, {"-o FILE"}},
        Wrong{{kPockc, "compile", "nothing.onnx", "-o", "out"}, 1, {"nothing.onnx"}},
        Wrong{{kPockc, "compile", "/", "-o", "out"}, 1, {"/"}},
        Wrong{{kPockc, "compile", kNet, "-o", "out", "--loss", "cross-entropy"}, 1, {"--batch"}},
        Wrong{{kPockc, "compile", kNet, "-o", "out", "--batch", "4"}, 1, {"--loss cross-entropy"}},
        Wrong{{kPockc, "compile", kNet, "-o", "out", "--batch", "4", "--loss", "hinge"},
              1,
              {"there is no such loss"}},
        Wrong{{kPockc, "compile", kNet, "-o", "out", "--batch", "4", "--loss", "nowhere=mse"},
              1,
              {"no output of this name; it has\n  logits"}},
        Wrong{{kPockc, "compile", kNet, "-o", "out", "--batch", "4", "--loss", "mse", "--loss", "logits=l1"},
              1,
              {"output 'logits' has two losses"}},
        Wrong{compile({"-o", "out", "--schedule", "cosine:steps=-1"}), 1, {"steps must lie in [0, "}},
        Wrong{compile({"-o", "out", "--schedule", "cosine:steps=50,warmup=100"}),
              1,
              {"warmup=100 leaves nothing of steps=50"}},
        Wrong{compile({"-o", "out", "--schedule", "step"}), 1, {"--schedule step: it needs step_size=N"}},
        Wrong{compile({"-o", "out", "--schedule", "poly"}), 1, {"there is no such schedule", "cosine"}},
        Wrong{compile({"-o", "net", "--emit", "lib", "--schedule", "cosine"}),
              1,
              {"a library does not know how many steps there will be; give steps=N"}},
        Wrong{compile({"-o", "out", "--accumulate", "0"}), 2, {"--accumulate", "from 1 to 1048576"}},
        Wrong{compile({"-o", "out", "--clip-norm", "nan"}), 2, {"--clip-norm", "want a positive number"}},
        Wrong{compile({"-o", "out", "--clip-value", "0"}), 2, {"--clip-value", "want a positive number"}},
        Wrong{compile({"-o", "out", "--loss", "huber:delta=0"}), 1, {"delta must lie in [1e-06, 1000000]"}},
        Wrong{compile({"-o", "out", "--loss", "bce:delta=1"}),
              1,
              {"'delta=1' is not key=value with one of weight"}},
        Wrong{compile({"-o", "out", "--loss", "cross-entropy:ignore_index=1.5"}),
              1,
              {"must be a whole number"}},
        Wrong{compile({"-o", "out", "--loss", "=mse"}), 1, {"the name of the output is empty"}},
        Wrong{compile({"-o", "out", "--loss", "cross-entropy:class_weights=nowhere"}),
              1,
              {"'nowhere' cannot be read"}},
        Wrong{compile({"-o", "out", "--loss", "cross-entropy:class_weights=/dev/zero"}),
              1,
              {"number 1 of '/dev/zero' is not one"}},
        Wrong{compile({"-o", "out", "--optimizer", "adamax"}), 1, {"adamw"}},
        Wrong{compile({"-o", "out", "--optimizer", "sgd:lr=fast,momentum=-1,beta=2"}),
              1,
              {"momentum must lie in"}},
        Wrong{compile({"-o", "out", "--optimizer", "sgd:lr=fast,momentum=-1,beta=2"}),
              1,
              {"lr is not a number"}},
        Wrong{compile({"-o", "out", "--optimizer", "sgd:nesterov=1"}), 1, {"needs momentum > 0"}},
        Wrong{compile({"-o", "out", "--train", "nothing*"}), 1, {"'nothing*' matches no parameter"}},
        Wrong{compile({"-o", "out", "--freeze", "*"}), 1, {"nothing to train"}},
        Wrong{compile({"-o", "out", "--bn", "half"}), 1, {"train, frozen, fold"}},
        Wrong{compile({"-o", "out", "--bn", "nowhere=frozen"}), 1, {"matches no batch norm"}},
        Wrong{compile({"-o", "out", "--bn", "fold"}), 1, {"cannot be folded"}},
        Wrong{compile({"-o", "out", "--dim", "H"}), 1, {"NAME=N"}},
        Wrong{compile({"-o", "out", "--dim", "nosuch=3"}), 1, {"nosuch"}},
        Wrong{compile({"-o", "out", "--target", "toaster"}), 1, {"host"}},
        Wrong{compile({"-o", "out", "--cpu", "z80"}), 1, {"z80"}},
        Wrong{compile({"-o", "out", "--target", "aarch64-linux", "--cpu", "znver4"}),
              1,
              {"unknown cpu 'znver4' for target aarch64-linux", "cortex-a72"}},
        Wrong{compile({"-o", "net", "--emit", "lib", "--target", "aarch64-linux"}),
              1,
              {"--emit lib: there are no libraries for aarch64-linux yet; there are exe, obj"}},
        Wrong{compile({"-o", "out", "--cpu", "nehalem"}), 1, {"AVX2"}},
        Wrong{compile({"-o", "out", "--threads", "0"}), 1, {"--threads"}},
        Wrong{compile({"-o", "out", "--print-after", "tea"}), 1, {"autodiff"}},
        Wrong{compile({"-o", "out", "--input-mean", "1,2"}), 1, {"wants 1 number or 3"}},
        Wrong{compile({"-o", "/nowhere/trainer"}), 1, {"/nowhere/trainer"}},
        Wrong{compile({"-o", "/dev/full/x"}), 1, {"/dev/full/x"}},
        Wrong{compile({"-o", "out", "--report", "/nowhere/report.json"}), 1, {"/nowhere/report.json"}},
        Wrong{compile({"-o", "out", "--emit", "graph", "--report", "out"}), 1, {"--emit graph ends before"}},
        Wrong{compile({"-o", "out", "--report", "out"}), 1, {"are both"}},
        Wrong{compile({"-o", "out", "--report", kNet}), 1, {"write over the model"}},
        Wrong{compile({"-o", kNet}), 1, {"write over the model"}},
        Wrong{{kPockc, "compile", "/dev/zero", "-o", "out"}, 1, {"cannot read '/dev/zero': File too large"}},
        Wrong{compile({"-o", "."}), 1, {"it is a folder"}},
        Wrong{compile({"--emit", "graph", "-o", "/nowhere/graph"}), 1, {"/nowhere/graph"}},
        Wrong{compile({"-o", "-", "--weights-file"}), 1, {"--weights-file: -o '-' is no file"}},
        Wrong{compile({"-o", "/dev/null", "--weights-file"}), 1, {"-o '/dev/null' is no file"}},
        Wrong{compile({"-o", "net", "--emit", "lib", "--weights-file"}),
              1,
              {"--emit lib has no such file", "holds its weights itself"}},
        Wrong{compile({"--emit", "loops", "--weights-file"}), 1, {"--emit loops has no such file"}},
        Wrong{compile({"-o", "out", "--weights-file", "--report", "out.safetensors"}),
              1,
              {"'out.safetensors' would be the model or the report"}},
        Wrong{compile({"-o", "out", "--weights-file"}),
              1,
              {"there is a 'out.safetensors' that is no weights file of pock; give -o another name"},
              {{"out.safetensors", "mine"}}},
        Wrong{compile({"-o", "out", "--weights-file=w"}), 2, {"--weights-file"}},
        Wrong{compile({"-o", "out", "--seed", "-1"}), 2, {"from 0 to 18446744073709551615"}},
        Wrong{compile({"-o", "out", "--seed", "18446744073709551616"}), 2, {"--seed"}},
        Wrong{compile({"-o", "out", "--seed", ""}), 2, {"--seed"}},
        Wrong{{kPockc, "compile", kNet, "-o", "out", "--batch", "9223372036854775808"}, 2, {"--batch"}},
        Wrong{{kPockc, "compile", kNet, "-o", "out", "--batch", "4x"}, 2, {"want a whole number"}},
        Wrong{compile({"-o", "out", "--dim", "N=99999999999999999999"}), 1, {"NAME=N"}},
        Wrong{compile({"-o", "out", "--dim", "N=4", "--dim", "N=5"}), 1, {"bound twice"}},
        Wrong{compile({"-o", "out", "--input-scale", "nan"}), 2, {"want a number"}},
        Wrong{compile({"-o", "out", "--input-scale", "1e39"}), 1, {"--input-scale"}},
        Wrong{compile({"-o", "out", "--input-scale", "0"}), 1, {"--input-scale"}},
        Wrong{compile({"-o", "out", "--input-mean", "1,inf,1"}), 2, {"--input-mean"}},
        Wrong{compile({"-o", "out", "--input-mean", ""}), 2, {"--input-mean"}},
        Wrong{compile({"-o", "out", "--input-std", "1,0,1"}), 1, {"--input-std"}},
        Wrong{compile({"-o", "out", "--input-std", "1e-45"}), 1, {"--input-std"}},
        Wrong{{kPockc, "compile", "", "-o", "out"}, 1, {"name of the model is empty"}},
        Wrong{compile_small("labels_parameter", {"-o", "out", "--batch", "4", "--loss", "mse"}),
              1,
              {"rename it"}},
        Wrong{
            compile_small("labels_input", {"-o", "out", "--batch", "4", "--loss", "mse"}), 1, {"rename it"}},
        Wrong{compile_small("labels_input", {"-o", "out", "--batch", "4", "--loss", "cross-entropy"}),
              1,
              {"rename it"}},
        Wrong{compile_small("scalar_input", {"-o", "out", "--batch", "4", "--loss", "mse"}),
              1,
              {"no axis for the samples"}},
        Wrong{compile_small("unbatched_input", {"-o", "out", "--batch", "4", "--loss", "mse"}),
              1,
              {"holds 1 samples"}},
        Wrong{compile_small("optimizer_names", {"-o", "out", "--batch", "4294967300", "--loss", "mse"}),
              1,
              {"at most"}},
        Wrong{{kPockc, "opt", "/"}, 1, {"folder"}},
        Wrong{{kPockc, "opt", "nothing.pock", "--passes=dce"}, 1, {"nothing.pock"}},
        // Standard output is full, or not there.
        Wrong{with("\"$@\" >/dev/full", {kPockc, "--version"}), 1, {"cannot write standard output"}},
        Wrong{with("\"$@\" >/dev/full", {kPockc, "compile", "--help"}), 1, {"cannot write standard output"}},
        Wrong{with("\"$@\" >&-", {kPockc, "compile", "--help"}), 1, {"cannot write standard output"}},
        Wrong{with("\"$@\" >&-", compile({"--emit", "graph"})), 1, {"cannot write standard output"}},
        Wrong{compile({"-o"}), 2, {"--output"}},
        Wrong{compile({"-o", "out", "--optimizer", "sgd:lr=nan"}), 1, {"lr"}},
        Wrong{compile({"-o", "out", "--optimizer", "sgd:lr=1,lr=2"}), 1, {"lr"}},
        Wrong{compile({"-o", "out", "--loss", "huber:delta=nan"}), 1, {"delta"}},
        Wrong{compile({"-o", "out", "--train", "*", "--freeze", "*"}), 1, {"nothing to train"}},
        Wrong{compile({"-o", "out", "-o", "other"}), 2, {"--output"}},
        Wrong{compile({"-o", "out", "--dropout", "nan"}), 1, {"--dropout"}},
        Wrong{compile({"-o", "out", "--assume-opset", "0"}), 2, {"--assume-opset"}}));

}  // namespace
}  // namespace pock::test
