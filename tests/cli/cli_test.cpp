// pockc as a person types it: what it writes, what it says, and what it leaves behind when something is
// wrong.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/support.h"

namespace pock::test {
namespace {

namespace fs = std::filesystem;
const std::string kNet = std::string(kSourceDir) + "/tests/train/bn_cnn/model.onnx";

std::vector<std::string> compile(std::vector<std::string> more) {
  std::vector<std::string> argv = {kPockc, "compile", kNet, "--batch", "4", "--loss", "cross-entropy"};
  argv.insert(argv.end(), more.begin(), more.end());
  return argv;
}

std::vector<std::string> compile_small(const std::string& name, std::vector<std::string> more) {
  std::vector<std::string> argv = {kPockc, "compile",
                                   std::string(kSourceDir) + "/tests/cli/" + name + ".onnx"};
  argv.insert(argv.end(), more.begin(), more.end());
  return argv;
}

TEST(Cli, EmitsEveryStage) {
  TempDir dir;
  const std::map<std::string, std::string> begins = {
      {"exe",
       "\x7f"
       "ELF"},
      {"obj",
       "\x7f"
       "ELF"},
      {"llvm-ir", ";"},
      {"asm", "\t."},
      {"graph", "pock 1\n"},
      {"plan", "# train\n      offset        bytes  first   last  what\n"},
      {"loops", "# schedule: "}};
  for (const auto& [kind, start] : begins) {
    Ran ran = run(compile({"--emit", kind, "-o", dir / kind}));
    ASSERT_EQ(ran.status, 0) << kind << ran.err;
    EXPECT_EQ(read_file(dir / kind).substr(0, start.size()), start) << kind;
    EXPECT_EQ((fs::status(dir / kind).permissions() & fs::perms::owner_exec) != fs::perms::none,
              kind == "exe");
  }
  EXPECT_NE(read_file(dir / "plan").find("\n# infer\n      offset "), std::string::npos);
  // The graph reads back, and running no pass changes nothing.
  Ran again = run({kPockc, "opt", dir / "graph"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.out, read_file(dir / "graph"));
}

TEST(Cli, ReportHoldsTheNumbers) {
  TempDir dir;
  ASSERT_EQ(run(compile({"-o", dir / "t", "--report", dir / "r", "--optimizer", "sgd:momentum=0.9"})).status,
            0);
  auto report = nlohmann::json::parse(read_file(dir / "r"));
  EXPECT_GE(report["arena_bytes"], report["arena_lower_bound_bytes"]);
  EXPECT_GT(report["code_bytes"], 0);
  EXPECT_FALSE(report["arena_peak_node"].get<std::string>().empty());
  EXPECT_EQ(report["trained_parameter_bytes"], report["parameter_bytes"]);
  EXPECT_EQ(report["optimizer_state_bytes"], report["trained_parameter_bytes"]);
  ASSERT_FALSE(report["kernels"].empty());
  for (const auto& kernel : report["kernels"]) {
    EXPECT_FALSE(kernel["nodes"].empty());
    EXPECT_GT(kernel["bytes"], 0);
  }
  EXPECT_GT(report["passes"].size(), 10u);
  // JSON is text, and the name of a file need not be.
  fs::copy(kNet, dir / "\xff.onnx");
  Ran odd = run({kPockc, "compile", dir / "\xff.onnx", "--batch", "4", "--loss", "cross-entropy", "-o",
                 dir / "t", "--report", dir / "r"});
  ASSERT_EQ(odd.status, 0) << odd.err;
  EXPECT_EQ(nlohmann::json::parse(read_file(dir / "r"))["model"], dir / "\xef\xbf\xbd.onnx");
}

TEST(Cli, FrozenParametersHaveNoStateAndAreNotSaved) {
  TempDir dir;
  Ran ran = run(
      compile({"-o", dir / "t", "--report", dir / "r", "--train", "fc*", "--optimizer", "sgd:momentum=0.9"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  auto report = nlohmann::json::parse(read_file(dir / "r"));
  EXPECT_LT(report["trained_parameter_bytes"], report["parameter_bytes"]);
  EXPECT_EQ(report["optimizer_state_bytes"], report["trained_parameter_bytes"]);
  EXPECT_NE(ran.err.find("0 train, 1 frozen, 2 folded"), std::string::npos) << ran.err;
}

TEST(Cli, FoldedNormsTrainTheRest) {
  TempDir dir;
  Ran ran = run(compile({"-o", dir / "t", "--train", "fc*", "--bn", "fold", "--bn", "/bn2/*=frozen"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.err.find("1 frozen, 2 folded"), std::string::npos) << ran.err;
  std::string data = std::string(kSourceDir) + "/tests/train/bn_cnn/";
  auto losses = [&](const std::string& trainer) {
    return run({trainer, "train", "--data", data + "data.npy", "--labels", data + "labels.npy", "--steps",
                "5", "--no-shuffle", "--log", "json"})
        .out;
  };
  ASSERT_EQ(run(compile({"-o", dir / "u", "--train", "fc*", "--bn", "frozen"})).status, 0);
  std::istringstream folded(losses(dir / "t")), frozen(losses(dir / "u"));
  int steps = 0;
  for (std::string a, b; std::getline(folded, a) && std::getline(frozen, b); ++steps) {
    double x = nlohmann::json::parse(a)["loss"], y = nlohmann::json::parse(b)["loss"];
    EXPECT_NEAR(x, y, 1e-4 * y);
  }
  EXPECT_EQ(steps, 5);
}

// A disk that is full after a given number of bytes, for one program: what it writes beyond that fails.
Ran run_with_room(int bytes, std::vector<std::string> argv) {
  argv.insert(argv.begin(),
              {"/bin/bash", "-c", "exec prlimit --fsize=" + std::to_string(bytes) + " \"$@\"", "-"});
  return run(argv);
}

TEST(Cli, FullDiskLeavesWhatWasThere) {
  TempDir dir;
  ASSERT_EQ(run(compile({"--emit", "graph", "-o", dir / "whole"})).status, 0);
  for (const char* emit : {"graph", "loops", "exe"}) {
    TempDir full;
    write_file(full / "out", "old");
    write_file(full / "out.safetensors", "old data");
    Ran ran = run_with_room(9000, compile({"--emit", emit, "-o", full / "out"}));
    EXPECT_EQ(ran.status, 1) << emit << ran.err;
    EXPECT_NE(ran.err.find("cannot write"), std::string::npos) << ran.err;
    EXPECT_EQ(read_file(full / "out"), "old");
    EXPECT_EQ(read_file(full / "out.safetensors"), "old data");
    EXPECT_EQ(std::distance(fs::directory_iterator(full.path), {}), 2) << emit;
  }
  TempDir full;
  EXPECT_EQ(run_with_room(9000, {kPockc, "opt", dir / "whole", "-o", full / "out"}).status, 1);
  EXPECT_TRUE(fs::is_empty(full.path));
}

TEST(Cli, LinksAreFollowedAndDevicesWritten) {
  TempDir dir;
  fs::create_directory(dir / "far");
  fs::create_symlink("far/out", dir / "link");
  ASSERT_EQ(run(compile({"--emit", "loops", "-o", dir / "link"})).status, 0);
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_TRUE(fs::is_regular_file(dir / "far/out"));
  // Through a link, so that nothing can happen to the device itself.
  fs::create_symlink("/dev/full", dir / "full");
  Ran ran = run(compile({"--emit", "loops", "-o", dir / "full"}));
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.err.find("No space left"), std::string::npos) << ran.err;
  EXPECT_TRUE(fs::is_symlink(dir / "full"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  ASSERT_EQ(run(compile({"--emit", "graph", "-o", dir / "graph"})).status, 0);
  Ran whole = run({"/bin/bash", "-c", "\"$@\" >/dev/full", "-", kPockc, "opt", dir / "graph"});
  EXPECT_EQ(whole.status, 1);
  EXPECT_NE(whole.err.find("standard output"), std::string::npos) << whole.err;
}

// Every size of output: what outlasts the inference graph depends on how its memory happens to be laid out.
TEST(Cli, MeanSquaredErrorCompiles) {
  TempDir dir;
  std::string data = std::string(kSourceDir) + "/tests/errors/";
  for (const char* net : {"two_outputs", "double_matmul", "odd_names"})
    for (const char* batch : {"1", "2", "3", "17"}) {
      Ran ran =
          run({kPockc, "compile", data + net + ".onnx", "--batch", batch, "--loss", "mse", "-o", dir / "t"});
      EXPECT_EQ(ran.status, 0) << net << " " << batch << ran.err;
    }
}

// A loss that is a node of the model: its class weights are no parameter, and its class ids are checked.
TEST(Cli, ModelsMayComputeCrossEntropyThemselves) {
  TempDir dir;
  Ran ran = run(compile_small("own_loss", {"--batch", "2", "-o", dir / "t"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.err.find("trained: 1 of 2 parameters: w"), std::string::npos) << ran.err;
  std::vector<float> x = {1, 0, 0, 0, 0, 0, 1, 0, 0, 0};
  dir.write("x", npy("<f4", "(2, 5)", bytes_of(x)));
  auto train = [&](const std::vector<int64_t>& target) {
    dir.write("target", npy("<i8", "(2,)", bytes_of(target)));
    return run({dir / "t", "train", "--data", "x=x", "--data", "target=target", "--steps", "60", "--lr", "1",
                "--no-shuffle", "--log", "json"},
               dir.path);
  };
  auto loss = [](const std::string& out, size_t from) {
    return nlohmann::json::parse(out.substr(from, out.find('\n', from) - from))["loss"].get<double>();
  };
  Ran good = train({2, 9});
  ASSERT_EQ(good.status, 0) << good.err;
  EXPECT_GT(loss(good.out, 0), 0.5);
  EXPECT_LT(loss(good.out, good.out.rfind("{")), 0.05);
  Ran none = train({9, 9});
  EXPECT_EQ(none.status, 0) << none.err;
  EXPECT_EQ(loss(none.out, 0), 0);
  Ran lowest = train({2, INT64_MIN});
  EXPECT_EQ(lowest.status, 1);
  EXPECT_NE(lowest.err.find("element 1 (sample 1) is -9223372036854775808, outside [0,2]"), std::string::npos)
      << lowest.err;
  Ran bad = train({2, 3});
  EXPECT_EQ(bad.status, 1);
  EXPECT_NE(bad.err.find("element 1 (sample 1) is 3, outside [0,2] and not 9, which is ignored"),
            std::string::npos)
      << bad.err;
}

// Parameters that are called as pock calls its own values are trained like any other.
TEST(Cli, ParametersMayHaveTheOptimizersNames) {
  TempDir dir;
  for (const char* optimizer : {"sgd:momentum=0.9", "adamw"}) {
    Ran ran = run(compile_small(
        "optimizer_names", {"--batch", "4", "--loss", "mse", "--optimizer", optimizer, "-o", dir / "t"}));
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.err.find("all 3 parameters"), std::string::npos) << ran.err;
  }
}

// Outputs of whole numbers are what the file says; indices of max pooling are those of the batch.
TEST(Cli, PredictionsHaveTheTypesOfTheFile) {
  TempDir dir;
  Ran ran = run(compile_small("types", {"--batch", "2", "--loss", "y=mse", "-o", dir / "t"}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.err.find("types.onnx: output 'kept' is bool: predictions hold it as u8, 0 and 1"),
            std::string::npos)
      << ran.err;
  EXPECT_NE(
      ran.err.find("types.onnx: the indices of node 'pool' (MaxPool) count through a whole batch of 2, as "
                   "ONNX says, so in predictions they begin anew with every batch"),
      std::string::npos)
      << ran.err;
  dir.write("x", npy("<f4", "(3, 1, 4)", bytes_of<float>({1, 2, 4, 3, 8, 7, 5, 6, 0, 1, 1, 0})));
  ran = run(
      {dir / "t", "predict", "--data", "x", "--output", "y=y", "--output", "at=at", "--output", "kept=kept"},
      dir.path);
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Array y = read_npy(dir / "y"), at = read_npy(dir / "at"), kept = read_npy(dir / "kept");
  EXPECT_EQ(y.dtype, "<f4");
  EXPECT_EQ(y.numbers(), (std::vector<double>{2, 4, 8, 6, 1, 1}));
  EXPECT_EQ(at.dtype, "<i8");
  EXPECT_EQ(at.numbers(), (std::vector<double>{1, 2, 4, 7, 1, 2}));
  EXPECT_EQ(kept.dtype, "|u1");
  EXPECT_EQ(kept.numbers(), std::vector<double>(12, 1));
}

// Options of a step are the same for a pass by hand, wrong ones too.
TEST(Cli, PassesTakeTheOptionsOfAStep) {
  TempDir dir;
  const std::string graph = dir.write("g.pock",
                                      "pock 1\ngraph @g {\n  input %x : f32[2,3]\n  param %w : f32[3]\n"
                                      "  %0 = mul(%x, %w) : f32[2,3]\n  output %0 \"y\"\n}\n");
  auto opt = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {kPockc, "opt", graph, "--passes=loss,select,autodiff,update"});
    return run(more);
  };
  Ran ran = opt({"--loss", "mse", "--optimizer", "sgd:momentum=0.5"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("optimizer %w.momentum_buffer"), std::string::npos) << ran.out;
  EXPECT_EQ(opt({"--loss", "mse"}).out.find("momentum_buffer"), std::string::npos);
  EXPECT_NE(opt({"--loss", "mse", "--freeze", "w"}).err.find("nothing to train"), std::string::npos);
  EXPECT_NE(opt({"--loss", "rmse"}).err.find("rmse"), std::string::npos);
  EXPECT_EQ(opt({"--loss", "mse", "--clip-norm", "0"}).status, 2);
  for (const char* wrong : {"--seed", "--threads"})
    EXPECT_EQ(opt({wrong, "1"}).status, 2) << "nothing that passes know of";
}

// Graphs that a pass cannot work on: said as the person's mistake, not as one of pock's.
TEST(Cli, PassesRefuseWholeSteps) {
  TempDir dir;
  ASSERT_EQ(run(compile({"--emit", "graph", "-o", dir / "step"})).status, 0);
  for (const char* pass : {"autodiff", "update"}) {
    Ran ran = run({kPockc, "opt", dir / "step", "--passes", pass});
    EXPECT_EQ(ran.status, 1) << pass;
    EXPECT_NE(ran.err.find("has its update already"), std::string::npos) << ran.err;
    EXPECT_TRUE(ran.out.empty());
  }
  write_file(dir / "h",
             "pock 1\ngraph @g {\n  input %x : f32[2]\n  %0 = relu(%x) : f32[2]\n  %1 = relu(%0) : f32[2]\n"
             "  %2 = reduce_sum(%1) {axes = [0]} : f32[]\n  output %2\n}\n");
  for (const char* pass : {"inplace", "fuse"}) {
    Ran late = run({kPockc, "opt", dir / "h", "--passes", pass + std::string(",autodiff")});
    EXPECT_EQ(late.status, 1) << late.err;
    EXPECT_NE(late.err.find("derive before `" + std::string(pass) + "`"), std::string::npos) << late.err;
  }
  write_file(dir / "laid",
             "pock 1\ngraph @g {\n  input %x : f32[2,3]{1,0}\n  %0 = relu(%x) : f32[2,3]{1,0}\n"
             "  %1 = reduce_sum(%0) {axes = [0, 1]} : f32[]\n  output %1\n}\n");
  Ran laid = run({kPockc, "opt", dir / "laid", "--passes", "autodiff"});
  EXPECT_EQ(laid.status, 1) << laid.err;
  EXPECT_NE(laid.err.find("f32[2,3]{1,0}, which is in an order of its own: derive before `layout`"),
            std::string::npos)
      << laid.err;
  write_file(dir / "g",
             "pock 1\ngraph @g {\n  param %w : f32[2] trained\n  param %v : f32[3]\n  update %w = %v\n}\n");
  Ran ran = run({kPockc, "opt", dir / "g"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.err.find("the new value (input 1) must be f32[2], it is f32[3]"), std::string::npos)
      << ran.err;
  EXPECT_EQ(ran.err.find("bug"), std::string::npos) << ran.err;
}

TEST(Cli, ANewerOpsetIsReadWhereOneSaysAsWhich) {
  TempDir dir;
  std::vector<std::string> argv = {kPockc,
                                   "compile",
                                   std::string(kSourceDir) + "/tests/errors/future_opset.onnx",
                                   "--loss",
                                   "cross-entropy",
                                   "--batch",
                                   "4",
                                   "-o",
                                   dir / "t"};
  Ran refused = run(argv);
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("--assume-opset 26 reads it"), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(dir / "t"));
  argv.insert(argv.end(), {"--assume-opset", "26"});
  EXPECT_EQ(run(argv).status, 0);
  argv.back() = "27";
  EXPECT_NE(run(argv).err.find("uses opset 27"), std::string::npos);
}

TEST(Cli, HelpNamesEverySwitch) {
  Ran ran = run({kPockc, "compile", "--help"});
  EXPECT_EQ(ran.status, 0);
  for (const char* word : {"--optimizer", "--bn", "--dim", "--report", "--no-immediate-update",
                           "--no-schedule", "--emit", "adamw (lr=0.001, beta1=0.9"})
    EXPECT_NE(ran.out.find(word), std::string::npos) << word;
}

}  // namespace
}  // namespace pock::test
