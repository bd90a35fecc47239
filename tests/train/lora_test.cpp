// LoRA: whole runs against PyTorch with adapters written by hand, and what adapters leave alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "pock/frontends/import.h"
#include "pock/passes/passes.h"
#include "train/net.h"

namespace pock::test {
namespace {

using Strings = std::vector<std::string>;
const std::string kHere = std::string(kSourceDir) + "/tests/train/";
const std::string kPrefix = "base_model.model.";

std::string scheme_path(const std::string& scheme) {
  return scheme.ends_with(".toml") ? kHere + "schemes/" + scheme : scheme;
}

double largest(const std::vector<double>& v) {
  double most = 0;
  for (double x : v) most = std::max(most, std::abs(x));
  return most;
}

class LoraCurve : public testing::TestWithParam<const char*> {};

TEST_P(LoraCurve, AsInPyTorch) {
  const Net net(GetParam());
  const auto facts = nlohmann::json::parse(read_file(kHere + "lora/" + net.name + ".json"));
  const std::vector<double> loss64 = facts["loss64"], loss32 = facts["loss32"];
  const Strings zero = facts["zero_gradient"];
  const std::string scheme = scheme_path(facts["scheme"]);
  const Trained ours = train(net, net.steps, {"--sparse-scheme", scheme});
  ASSERT_EQ(ours.losses.size(), loss64.size());
  double worst = 0, torch = 0;
  auto distance = [&](double loss, size_t i) { return std::abs(loss - loss64[i]) / std::abs(loss64[i]); };
  for (size_t i = 0; i < loss64.size(); ++i) torch = std::max(torch, distance(loss32[i], i));
  for (size_t i = 0; i < loss64.size(); ++i) {
    worst = std::max(worst, distance(ours.losses[i], i));
    EXPECT_LE(distance(ours.losses[i], i), std::max(1e-4, 4 * torch)) << "step " << i + 1;
  }

  std::unique_ptr<Graph> g = import_onnx(net.folder + "/model.onnx", {.batch = net.batch, .dims = net.sizes});
  PassOptions options;
  options.scheme = load_scheme(scheme);
  options.losses = {parse_loss(net.loss)};
  attach_loss(*g, options);
  select(*g, options);
  auto start = [&](const std::string& name) {
    const Value* v = g->find(name);
    if (!v->data) return std::vector<double>(static_cast<size_t>(v->type.elements()), 0);
    return Array{"F32", v->type.dims,
                 std::string(reinterpret_cast<const char*>(v->data->data()), v->data->size())}
        .numbers();
  };
  Safetensors moved = read_safetensors(kHere + "lora/" + net.name + ".safetensors");
  double worst_tensor = 0, most_moved = 0;
  Strings names;
  for (const auto& [name, want] : moved.tensors)
    if (!name.starts_with("start/")) {
      names.push_back(name);
      most_moved = std::max(most_moved, largest(want.numbers()));
    }
  for (const std::string& name : names) {
    ASSERT_TRUE(ours.checkpoint.tensors.count(name)) << name << " is not in the checkpoint";
    const std::vector<double> right = moved.tensors.at(name).numbers(),
                              ended = ours.checkpoint.tensors.at(name).numbers(), begun = start(name);
    ASSERT_EQ(ended.size(), right.size()) << name;
    if (auto a = moved.tensors.find("start/" + name); a != moved.tensors.end()) {
      EXPECT_EQ(a->second.numbers(), begun) << name;  // to the bit
    }
    double away = 0;
    for (size_t i = 0; i < right.size(); ++i) away = std::max(away, std::abs(ended[i] - begun[i] - right[i]));
    if (std::count(zero.begin(), zero.end(), name)) {
      EXPECT_LE(away, 1e-6 * most_moved) << name;
      continue;
    }
    worst_tensor = std::max(worst_tensor, away / largest(right));
    EXPECT_LE(away / largest(right), std::max(1e-4, 4 * facts["tensor_distance32"][name].get<double>()))
        << name;
  }
  // What PyTorch has not trained is not in the checkpoint.
  for (const auto& [name, array] : ours.checkpoint.tensors)
    if (!name.starts_with("optimizer/")) {
      const Value* v = g->find(name);
      EXPECT_TRUE(std::count(names.begin(), names.end(), name) || v->kind == ValueKind::statistic) << name;
    }
  printf("%s: curve %.2g (PyTorch float32 %.2g), tensors %.2g\n", net.name.c_str(), worst, torch,
         worst_tensor);
}

INSTANTIATE_TEST_SUITE_P(Nets, LoraCurve, testing::Values("lenet", "bn_cnn", "encoder"),
                         [](const auto& info) { return std::string(info.param); });

Strings with(Strings flags, const Strings& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

class Lora : public testing::TestWithParam<const char*> {
 protected:
  Net net_{GetParam()};
  // Adapters with dropout on, in every net.
  std::string scheme() {
    return dir_.write("s.toml",
                      "biases = 'last:1'\n[[weights]]\nmatch = 'last:1'\n[[lora]]\nmatch = 'all'\nrank = 5\n"
                      "dropout = 0.2\n");
  }
  TempDir dir_;
};

// B is 0: the first loss is the one without adapters, and so is each as long as nothing moves.
TEST_P(Lora, StartsAsTheModel) {
  const Net net(GetParam());
  const Strings norms = {"--bn", "frozen"};
  const bool normed = net.name == "mobile";
  const Trained base = train(net, 1, normed ? norms : Strings{});
  const Trained adapted = train(net, 1, with({"--sparse-scheme", scheme()}, normed ? norms : Strings{}));
  EXPECT_EQ(adapted.losses, base.losses);
}

TEST_P(Lora, KeepsItsBitsUnderSwitchesAndThreads) {
  net_.optimizer = "sgd:lr=0.02,momentum=0.9,weight_decay=0.01";
  const Strings flags = {"--sparse-scheme", scheme()};
  compile(net_, dir_, flags);
  const Trained want = run_trainer(net_, dir_, 6, {"--threads", "1"});
  ASSERT_FALSE(want.bytes.empty());
  EXPECT_TRUE(run_trainer(net_, dir_, 6, {"--threads", "1"}).bytes == want.bytes);
  EXPECT_TRUE(run_trainer(net_, dir_, 6, {"--threads", "4"}).bytes == want.bytes);
  EXPECT_FALSE(run_trainer(net_, dir_, 6, {"--seed", "1"}).bytes == want.bytes);  // other elements drop
  EXPECT_FALSE(train(net_, 6, with(flags, {"--seed", "1"}), {"--seed", "0"}).bytes == want.bytes);  // other A
  Strings all = flags;
  for (const Pass& p : training_pipeline())
    if (p.optional) all.push_back(std::string("--no-") + p.name);
  EXPECT_TRUE(train(net_, 6, all).bytes == want.bytes);
}

// Weight decay reaches the factors and the head; the file of weights, base weights among them, keeps every byte.
TEST_P(Lora, LeavesTheModelAlone) {
  net_.optimizer = "adamw:lr=0.01,weight_decay=0.1";
  compile(net_, dir_, {"--sparse-scheme", "lora:2", "--weights-file"});
  const std::string file = dir_ / "trainer.safetensors", before = read_file(file);
  const Trained trained = run_trainer(net_, dir_, 20);
  EXPECT_TRUE(read_file(file) == before);
  std::unique_ptr<Graph> model =
      import_onnx(net_.folder + "/model.onnx", {.batch = net_.batch, .dims = net_.sizes});
  const Layers layers = find_layers(*model);
  int factors = 0;
  for (const auto& [name, array] : trained.checkpoint.tensors) {
    if (name.starts_with("optimizer/")) continue;
    factors += name.starts_with(kPrefix);
    const Value* v = model->find(name);
    const Layer& head = layers.layers.back();
    EXPECT_TRUE(name.starts_with(kPrefix) || v == head.weight ||
                std::count(head.biases.begin(), head.biases.end(), v) || v->kind == ValueKind::statistic)
        << name;
  }
  EXPECT_GE(factors, 2);
}

INSTANTIATE_TEST_SUITE_P(Nets, Lora, testing::Values("lenet", "mobile", "encoder"),
                         [](const auto& info) { return std::string(info.param); });

class LoraRefusal : public testing::Test {
 protected:
  LoraRefusal() {
    compile(net_, dir_, {"--sparse-scheme", "lora:3"});
    run_trainer(net_, dir_, 3);
  }
  Ran train_with(const Strings& more) {
    return run(net_.train_command(dir_ / "trainer", 5, dir_ / "d", more));
  }
  Net net_{"lenet"};
  TempDir dir_;
};

TEST_F(LoraRefusal, OfAnotherRankOrAlphaOrNone) {
  const std::string checkpoint = dir_ / "checkpoint";
  Ran same = train_with({"--resume", checkpoint});
  EXPECT_EQ(same.status, 0) << same.err;
  const std::string alpha = dir_.write(
      "s.toml",
      "biases = 'last:1'\n[[weights]]\nmatch = 'last:1'\n[[lora]]\nmatch = 'all'\nrank = 3\nalpha = 4\n");
  for (const std::string& scheme : {std::string("lora:2"), alpha, std::string("head"), std::string("full")}) {
    compile(net_, dir_, {"--sparse-scheme", scheme});
    for (const char* how : {"--resume", "--weights"}) {
      Ran ran = train_with({how, checkpoint});
      EXPECT_EQ(ran.status, 1) << scheme;
      for (const char* part : {"was made with adapters", "\\\"rank\\\":3", "pockc export it"})
        EXPECT_NE(ran.err.find(part), std::string::npos) << ran.err;
    }
  }
}

// What was trained without adapters may go on with them: they change nothing at first.
TEST(LoraStart, TakesWeightsOfATrainerWithoutAdapters) {
  const Net net("lenet");
  TempDir dir;
  compile(net, dir, {"--sparse-scheme", "head"});
  run_trainer(net, dir, 3);
  std::filesystem::rename(dir / "checkpoint", dir / "head");
  const Trained on = run_trainer(net, dir, 1, {"--weights", dir / "head"});
  compile(net, dir, {"--sparse-scheme", "lora:3"});
  EXPECT_EQ(run_trainer(net, dir, 1, {"--weights", dir / "head"}).losses, on.losses);
}

}  // namespace
}  // namespace pock::test
