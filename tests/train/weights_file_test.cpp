// Weights in a file beside the program: what a trainer does with them does not depend on where they are.
#include <gtest/gtest.h>

#include <ostream>

#include "train/net.h"

namespace pock::test {
namespace {

using Strings = std::vector<std::string>;

struct Case {
  std::string name, net;
  Strings flags;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class WeightsFile : public testing::TestWithParam<Case> {};

std::string must_run(const Strings& argv, const TempDir& dir) {
  Ran ran = run(argv, dir.path);
  EXPECT_EQ(ran.status, 0) << testing::PrintToString(argv) << "\n" << ran.err;
  return ran.out;
}

// All that a trainer writes: logs, checkpoints, predictions, the tuned model.
std::vector<std::string> everything(const Net& net, const TempDir& dir) {
  const std::string program = dir / "trainer";
  auto more = [](Strings argv, const Strings& rest) {
    argv.insert(argv.end(), rest.begin(), rest.end());
    return argv;
  };
  auto command = [&](const char* name, const Strings& rest) {
    return more({program, name, "--data", net.data + "/data.npy"}, rest);
  };
  const Strings labels = {"--labels", net.data + "/labels.npy", "--log", "json"};
  std::vector<std::string> results;
  results.push_back(must_run(command("eval", labels), dir));
  results.push_back(must_run(net.train_command(program, 3, "half"), dir));
  results.push_back(
      must_run(net.train_command(program, 5, "whole", {"--resume", "half", "--threads", "2"}), dir));
  results.push_back(must_run(command("eval", more(labels, {"--weights", "whole"})), dir));
  must_run(command("predict", {"--weights", "whole", "--output", "scores"}), dir);
  must_run({kPockc, "export", net.folder + "/model.onnx", "--weights", "whole", "-o", "tuned"}, dir);
  for (const char* file : {"half", "whole", "scores", "tuned"}) results.push_back(read_file(dir / file));
  return results;
}

TEST_P(WeightsFile, GivesTheBitsOfTheSection) {
  const Net net(GetParam().net);
  TempDir inside, beside;
  compile(net, inside, GetParam().flags);
  Strings flags = GetParam().flags;
  flags.push_back("--weights-file");
  compile(net, beside, flags);
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_FALSE(std::filesystem::exists(inside / "trainer.safetensors"));
  const auto wanted = everything(net, inside), got = everything(net, beside);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(got[i] == wanted[i]) << "result " << i;
}

// Under the model's names, as they are at the start: what a checkpoint of no change has.
TEST_P(WeightsFile, HoldsTheModelsTensors) {
  const Net net(GetParam().net);
  TempDir dir;
  Strings flags = GetParam().flags;
  flags.insert(flags.end(), {"--weights-file", "--no-layout"});  // else filters stand as kernels read them
  compile(net, dir, flags);
  ASSERT_FALSE(HasFatalFailure());
  must_run(net.train_command(dir / "trainer", 1, "still", {"--lr", "0", "--opt", "weight_decay=0"}), dir);
  const Safetensors file = read_safetensors(dir / "trainer.safetensors"),
                    still = read_safetensors(dir / "still");
  EXPECT_EQ(file.metadata.at("model_hash"), still.metadata.at("model_hash"));
  int compared = 0;
  for (const auto& [name, array] : still.tensors) {
    if (name.starts_with("optimizer/") || name.find("running_") != std::string::npos) continue;
    ASSERT_TRUE(file.tensors.count(name)) << name;
    EXPECT_EQ(file.tensors.at(name).dims, array.dims) << name;
    EXPECT_TRUE(file.tensors.at(name).bytes == array.bytes) << name;
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Nets, WeightsFile,
    testing::Values(Case{"mlp", "mlp", {}}, Case{"mobile", "mobile", {}}, Case{"tied", "twice", {}},
                    Case{"dropped", "dropped", {}}, Case{"bn_cnn", "bn_cnn", {}},
                    Case{"frozen_norms", "bn_cnn", {"--bn", "frozen", "--freeze", "conv1.*"}},
                    Case{"folded_norms", "bn_cnn", {"--train", "fc.*", "--bn", "/bn2/*=frozen"}}),
    [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

}  // namespace
}  // namespace pock::test
