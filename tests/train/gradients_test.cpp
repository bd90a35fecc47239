// Gradients as a result (--keep-gradients): what the trainer writes is what the optimizer saw, whatever is trained and
// however a step is made; and training keeps its bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "train/net.h"

namespace pock::test {
namespace {

using Strings = std::vector<std::string>;
const std::string kState = "optimizer/momentum_buffer/";
const std::string kSchemes = std::string(kSourceDir) + "/tests/train/schemes/";

Strings operator+(Strings a, const Strings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Kept {
  Trained trained;
  Safetensors gradients;
  std::string said;  // by pockc
};

// `steps` steps of a net that was compiled with `flags`.
Kept keep(const Net& net, int steps, const Strings& flags, const Strings& train_flags = {}) {
  TempDir dir;
  Kept kept;
  const Ran ran = run(net.compile_command(dir / "trainer", flags + Strings{"--keep-gradients"}));
  EXPECT_EQ(ran.status, 0) << ran.err;
  kept.said = ran.err;
  kept.trained =
      run_trainer(net, dir, steps, Strings{"--threads", "1", "--gradients", dir / "gradients"} + train_flags);
  if (testing::Test::HasFailure()) return kept;
  kept.gradients = read_safetensors(dir / "gradients");
  EXPECT_FALSE(std::filesystem::exists(dir / "gradients.tmp"));
  return kept;
}

// From zero, the first step leaves the gradient in the momentum.
Net with_momentum(const std::string& name) {
  Net net(name);
  net.optimizer = "sgd:lr=0.01,momentum=0.9";
  return net;
}

size_t expect_momentum(const Kept& kept) {
  size_t tensors = 0, bytes = 0;
  for (const auto& [name, state] : kept.trained.checkpoint.tensors) {
    if (!name.starts_with(kState)) continue;
    ++tensors;
    const auto found = kept.gradients.tensors.find(name.substr(kState.size()));
    if (found == kept.gradients.tensors.end()) {
      ADD_FAILURE() << name << " has no gradient";
      continue;
    }
    EXPECT_EQ(found->second.dtype, "F32");
    EXPECT_EQ(found->second.dims, state.dims) << name;
    EXPECT_TRUE(found->second.bytes == state.bytes) << name;
    // B of an adapter starts at 0, and with it the gradient of A.
    EXPECT_EQ(state.bytes == std::string(state.bytes.size(), '\0'), name.ends_with(".lora_A.weight")) << name;
    bytes += state.bytes.size();
  }
  EXPECT_EQ(kept.gradients.tensors.size(), tensors);
  EXPECT_GT(tensors, 0u);
  return bytes;
}

struct Given {
  std::string name, net;
  Strings flags;
  std::string says;  // of the cost, with N for the bytes of all gradients
};
void PrintTo(const Given& g, std::ostream* out) { *out << g.name; }

class Gradients : public testing::TestWithParam<Given> {};

const std::string kEnd = "all gradients, N bytes, are kept to the end of the step\n";
const std::string kSums = "gradients are added up over batches in N bytes of their own\n";
const std::string kTwice =
    "gradients are added up over batches in N bytes of their own, and kept as they are clipped in as many "
    "again\n";

TEST_P(Gradients, AreWhatTheOptimizerSaw) {
  const Net net = with_momentum(GetParam().net);
  const Kept kept = keep(net, 1, GetParam().flags);
  const size_t bytes = expect_momentum(kept);
  std::string says = GetParam().says;
  says.replace(says.find('N'), 1, std::to_string(bytes));
  EXPECT_NE(kept.said.find(says), std::string::npos) << kept.said;
  EXPECT_EQ(kept.said.find("gradients"), kept.said.rfind("gradients")) << "said twice:\n" << kept.said;
  const std::map<std::string, std::string>& facts = kept.gradients.metadata;
  EXPECT_EQ(facts.at("format"), "pock-gradients-1");
  EXPECT_EQ(facts.at("step"), "1");
  for (const char* same : {"model", "model_hash", "scheme", "adapters"})
    EXPECT_EQ(facts.at(same), kept.trained.checkpoint.metadata.at(same));

  // Which part of a parameter a tensor is.
  const auto slices = nlohmann::json::parse(facts.at("slices"));
  EXPECT_EQ(slices.empty(), GetParam().name != "slices");
  for (const auto& [name, slice] : slices.items())
    EXPECT_EQ(kept.gradients.tensors.at(name).dims[slice["axis"]], std::ssize(slice["index"])) << name;
  if (!slices.empty()) {
    EXPECT_EQ(slices.at("fc2.weight"), (nlohmann::json{{"axis", 1}, {"index", {0, 3, 7, 29}}}));
  }

  const Trained plain = train(net, 1, GetParam().flags, {"--threads", "1"});
  EXPECT_EQ(kept.trained.losses, plain.losses);
  EXPECT_TRUE(kept.trained.bytes == plain.bytes) << "keeping gradients changed the training";
}

INSTANTIATE_TEST_SUITE_P(
    Nets, Gradients,
    testing::Values(Given{"convolutions", "bn_cnn", {}, kEnd},
                    Given{"slices", "lenet", {"--sparse-scheme", kSchemes + "lenet.toml"}, kEnd},
                    Given{"adapters", "mlp", {"--sparse-scheme", "lora:3"}, kEnd},
                    Given{"clipped", "mlp", {"--clip-value", "0.01", "--clip-norm", "0.1"}, kEnd},
                    Given{"sums", "mlp", {"--accumulate", "2"}, kSums}, Given{"tied", "twice", {}, kEnd},
                    Given{"tied_sums", "twice", {"--accumulate", "3"}, kSums},
                    Given{"part", "bn_cnn", {"--sparse-scheme", "last:2", "--freeze", "*.bias"}, kEnd},
                    Given{"clipped_sums", "mlp", {"--accumulate", "2", "--clip-norm", "0.1"}, kTwice}),
    [](const auto& info) { return info.param.name; });

// Of the last step, though an evaluation comes behind it and takes the arena; of a resumed run as well.
TEST(Gradients, AreThoseOfTheLastStep) {
  const Net net = with_momentum("mlp");
  TempDir dir;
  compile(net, dir, {"--keep-gradients"});
  auto gradients_of = [&](int steps, Strings more = {}) {
    std::filesystem::remove(dir / "gradients");
    run_trainer(net, dir, steps, more + Strings{"--gradients", dir / "gradients"});
    const Safetensors file = read_safetensors(dir / "gradients");
    EXPECT_EQ(file.metadata.at("step"), std::to_string(steps));
    std::string all;
    for (const auto& [name, array] : file.tensors) all += array.bytes;
    return all;
  };
  // The last of an epoch: there an evaluation follows.
  const int epoch = static_cast<int>(read_npy(net.data + "/data.npy").dims[0]) / net.batch;
  const std::string last = gradients_of(epoch);
  EXPECT_FALSE(gradients_of(epoch - 1) == last);
  EXPECT_TRUE(gradients_of(epoch, {"--resume", dir / "checkpoint"}) == last);
  EXPECT_TRUE(gradients_of(epoch, {"--eval-data", net.data + "/data.npy", "--eval-labels",
                                   net.data + "/labels.npy"}) == last);
  // A file of gradients may be written over. Where no step is done there are none.
  run_trainer(net, dir, epoch + 4, {"--gradients", dir / "gradients"});
  EXPECT_EQ(read_safetensors(dir / "gradients").metadata.at("step"), std::to_string(epoch + 4));
  const Ran none = run(net.train_command(dir / "trainer", epoch + 4, dir / "checkpoint",
                                         {"--resume", dir / "checkpoint", "--gradients", dir / "none"}));
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("no gradients for '" + (dir / "none") + "': no step was done"), std::string::npos)
      << none.err;
  EXPECT_FALSE(std::filesystem::exists(dir / "none"));
}

TEST(Gradients, ASkippedStepHasNone) {
  const Net net("mlp");
  TempDir dir;
  compile(net, dir, {"--keep-gradients", "--skip-nonfinite"});
  const Array data = read_npy(net.data + "/data.npy");
  const size_t rows = 2 * net.batch, row = data.bytes.size() / static_cast<size_t>(data.dims[0]);
  std::string x = data.bytes.substr(0, rows * row);
  x.replace(rows * row - 4, 4, "\xff\xff\xff\x7f");  // NaN, in the second step
  std::string shape = "(" + std::to_string(rows);
  for (size_t i = 1; i < data.dims.size(); ++i) shape += ", " + std::to_string(data.dims[i]);
  dir.write("x", npy("<f4", shape + ")", x));
  dir.write("y", npy("|u1", "(" + std::to_string(rows) + ",)", std::string(rows, '\1')));
  const Ran ran = run(
      {dir / "trainer", "train", "--data", "x", "--labels", "y", "--no-shuffle", "--gradients", "gradients"},
      dir.path);
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.err.find("no gradients for 'gradients': the last step was skipped"), std::string::npos)
      << ran.err;
  EXPECT_FALSE(std::filesystem::exists(dir / "gradients"));
}

TEST(Gradients, AreNoOptionWhereTheyAreNotKept) {
  const Net net("mlp");
  TempDir dir;
  compile(net, dir);
  const Ran ran = run(net.train_command(dir / "trainer", 1, dir / "c", {"--gradients", dir / "g"}));
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.err.find("unknown option '--gradients'"), std::string::npos) << ran.err;
  EXPECT_EQ(run({dir / "trainer", "train", "--help"}).out.find("--gradients"), std::string::npos);
  compile(net, dir, {"--keep-gradients"});
  EXPECT_NE(run({dir / "trainer", "train", "--help"}).out.find("--gradients FILE"), std::string::npos);
  const auto info = nlohmann::json::parse(run({dir / "trainer", "info", "--json"}).out);
  EXPECT_EQ(info["gradient_bytes"], info["trained_bytes"]);
}

}  // namespace
}  // namespace pock::test
