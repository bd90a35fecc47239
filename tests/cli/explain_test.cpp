// pockc explain: that its numbers hang together.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/support.h"

namespace pock::test {
namespace {

const std::string kNet = std::string(kSourceDir) + "/tests/train/squeezenet/model.onnx";

Ran explain(const std::vector<std::string>& more) {
  std::vector<std::string> argv = {kPockc,   "explain",       kNet,          "--batch",         "4",
                                   "--loss", "cross-entropy", "--optimizer", "sgd:momentum=0.9"};
  argv.insert(argv.end(), more.begin(), more.end());
  return run(argv);
}

TEST(Explain, JsonAddsUp) {
  Ran ran = explain({"--json", "--sparse-scheme", "bias-only"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const auto all = nlohmann::json::parse(ran.out);
  for (const char* which : {"this", "full"}) {
    const auto& step = all[which];
    int64_t weights = 0, state = 0, activations = 0, masks = 0, gradients = 0;
    for (const auto& p : step["parameters"]) {
      EXPECT_EQ(p["weight_bytes"], p["state_bytes"]);
      EXPECT_EQ(p["share"], 1);
      EXPECT_GT(p["gradient_flop"], 0);
      weights += p["weight_bytes"].get<int64_t>();
      state += p["state_bytes"].get<int64_t>();
      gradients += p["gradient_flop"].get<int64_t>();
    }
    for (const auto& s : step["saved"]) {
      (s["mask"] ? masks : activations) += s["bytes"].get<int64_t>();
      EXPECT_FALSE(s["for"].empty());
    }
    EXPECT_EQ(step["trained_weight_bytes"], weights);
    EXPECT_EQ(step["state_bytes"], state);
    EXPECT_EQ(step["saved_activation_bytes"], activations);
    EXPECT_EQ(step["saved_mask_bytes"], masks);
    EXPECT_LT(gradients, step["backward_flop"]);
    EXPECT_EQ(step["arena_lower_bound_bytes"], std::max(step["forward_peak_bytes"].get<int64_t>(),
                                                        step["backward_peak_bytes"].get<int64_t>()));
  }
  // A relu in front of a frozen layer leaves bits.
  EXPECT_GT(all["this"]["saved_mask_bytes"], 0);
  EXPECT_LT(all["this"]["saved_activation_bytes"].get<int64_t>() * 4, all["full"]["saved_activation_bytes"]);
  EXPECT_EQ(all["this"]["forward_flop"], all["full"]["forward_flop"]);
  EXPECT_LT(all["this"]["backward_flop"], all["full"]["backward_flop"]);
  for (const auto& rung : all["ladder"])
    if (rung["without"] == "--no-masks") {
      EXPECT_GT(rung["arena_bytes"], all["this"]["arena_bytes"]);
    }
}

// Gradients that are kept cost the memory that is said, and the same work.
TEST(Explain, CountsKeptGradients) {
  const Ran plain = explain({"--json"}), kept = explain({"--json", "--keep-gradients"});
  ASSERT_EQ(kept.status, 0) << kept.err;
  const auto without = nlohmann::json::parse(plain.out)["this"],
             with = nlohmann::json::parse(kept.out)["this"];
  EXPECT_EQ(with["parameters"], without["parameters"]);
  EXPECT_EQ(with["backward_flop"], without["backward_flop"]);
  EXPECT_GT(with["arena_lower_bound_bytes"], without["arena_lower_bound_bytes"]);
  EXPECT_GE(with["arena_lower_bound_bytes"], with["trained_weight_bytes"]);
  EXPECT_NE(kept.err.find("all gradients, " + std::to_string(with["trained_weight_bytes"].get<int64_t>()) +
                          " bytes, are kept to the end of the step"),
            std::string::npos)
      << kept.err;
}

// An adapter is a parameter like others; what it stands beside has no gradient to pay for.
TEST(Explain, CountsAdapters) {
  auto explained = [](const std::string& scheme) {
    Ran ran = explain({"--json", "--sparse-scheme", scheme});
    EXPECT_EQ(ran.status, 0) << ran.err;
    return nlohmann::json::parse(ran.out);
  };
  const auto all = explained("lora:2"), head = explained("head");
  int64_t factors = 0, weights = 0;
  for (const auto& p : all["this"]["parameters"]) {
    const std::string name = p["name"];
    EXPECT_EQ(p["share"], 1);
    EXPECT_EQ(p["state_bytes"], p["weight_bytes"]);
    EXPECT_GT(p["gradient_flop"], 0) << name;
    if (name.find("lora_") == std::string::npos) continue;
    ++factors;
    weights += p["weight_bytes"].get<int64_t>();
  }
  EXPECT_GE(factors, 20);
  EXPECT_EQ(all["this"]["trained_weight_bytes"],
            head["this"]["trained_weight_bytes"].get<int64_t>() + weights);
  EXPECT_EQ(all["full"], head["full"]);  // full update knows no adapters
  EXPECT_GT(all["this"]["forward_flop"], head["this"]["forward_flop"]);
  EXPECT_GT(all["this"]["saved_activation_bytes"], head["this"]["saved_activation_bytes"]);
  EXPECT_LT(all["this"]["backward_flop"], all["full"]["backward_flop"]);
  auto kib = [](const nlohmann::json& object, const char* what) {
    return object["analytic_extra_memory_kib"]["fp32"][what].get<double>();
  };
  EXPECT_NEAR(kib(all, "weights"), kib(head, "weights") + static_cast<double>(weights) / 1024, 1e-9);
  EXPECT_GT(kib(all, "activations"), kib(head, "activations"));
}

TEST(Explain, TextNamesWhatIsTrained) {
  Ran ran = explain({"--sparse-scheme", "head"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  for (const char* part : {"trained: 2 of", "gradient FLOP", "full update", "--no-recompute", "KiB in int8"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << ran.out;
  EXPECT_EQ(explain({"--sparse-scheme", "nowhere.toml"}).status, 1);
}

}  // namespace
}  // namespace pock::test
