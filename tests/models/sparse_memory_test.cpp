// What a scheme saves on whole nets: the memory of a step never falls as more is trained, comes close to the bound that no
// plan can beat, and where gradients outweigh activations hardly grows with the weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "support/support.h"

namespace pock::test {
namespace {

using Strings = std::vector<std::string>;

struct Model {
  const char* name;
  const char* script;  // makes it, given a folder and a net, or a file
  const char* net;     // null: the script makes one file
  bool has_norms;
};
void PrintTo(const Model& m, std::ostream* out) { *out << m.name; }

const Model kModels[] = {{"resnet18", "models/resnet18.py", nullptr, true},
                         {"mobilenetv2", "bench/nets.py", "mobilenetv2-0.35@128", true},
                         {"mcunet", "models/mcunet.py", nullptr, false},
                         {"encoder", "bench/nets.py", "encoder@16", false}};
const Model kMlp = {"mlp", "bench/nets.py", "mlp", false};

class SparseMemory : public testing::TestWithParam<Model> {
 protected:
  // Skips the test where what the script needs is not installed.
  void make(const Model& m) {
    file_ = m.net ? dir_ / m.net + "/model.onnx" : dir_ / "model.onnx";
    Strings argv = {"/usr/bin/python3", "-B", std::string(kSourceDir) + "/tests/" + m.script};
    argv.push_back(m.net ? dir_.path.string() : file_);
    if (m.net) argv.emplace_back(m.net);
    if (m.has_norms) flags_ = {"--bn", "frozen"};
    const Ran made = run(argv);
    if (lacks_package(made)) GTEST_SKIP() << m.script << " needs PyTorch or python3-onnx:\n" << made.err;
    ASSERT_EQ(made.status, 0) << made.err;
  }

  nlohmann::json report(const Strings& more) {
    Strings argv = {kPockc,
                    "compile",
                    file_,
                    "-o",
                    dir_ / "loops",
                    "--emit",
                    "loops",
                    "--batch",
                    "1",
                    "--loss",
                    "cross-entropy",
                    "--optimizer",
                    "sgd:lr=0.01,momentum=0.9",
                    "--report",
                    dir_ / "report.json"};
    argv.insert(argv.end(), flags_.begin(), flags_.end());
    argv.insert(argv.end(), more.begin(), more.end());
    const Ran ran = run(argv);
    EXPECT_EQ(ran.status, 0) << ran.err;
    const auto report = nlohmann::json::parse(read_file(dir_ / "report.json"));
    const double arena = report["arena_bytes"], bound = report["arena_lower_bound_bytes"];
    EXPECT_LE(arena, 1.02 * bound) << testing::PrintToString(more);
    printf("%s %s: arena %.0f bytes, bound %.0f, peak at %s\n", file_.c_str(),
           testing::PrintToString(more).c_str(), arena, bound,
           report["arena_peak_node"].get<std::string>().c_str());
    return report;
  }
  int64_t bound(const std::string& scheme) {
    return report({"--sparse-scheme", scheme})["arena_lower_bound_bytes"];
  }

  TempDir dir_;
  std::string file_;
  Strings flags_;
};

TEST_P(SparseMemory, GrowsWithWhatIsTrained) {
  make(GetParam());
  if (IsSkipped() || HasFatalFailure()) return;
  const int64_t full = bound("full"), last = bound("last:4"), biases = bound("bias-only"),
                head = bound("head");
  EXPECT_LE(head, last);
  EXPECT_LE(last, full);
  EXPECT_LE(head, biases);
  EXPECT_LE(biases, full);
}

INSTANTIATE_TEST_SUITE_P(Nets, SparseMemory, testing::ValuesIn(kModels),
                         [](const auto& info) { return std::string(info.param.name); });

// A gradient is applied where it is made, that of a table of embeddings too.
class UpdatesAtOnce : public SparseMemory {};
TEST_P(UpdatesAtOnce, NeedNoGradients) {
  make(GetParam());
  if (IsSkipped() || HasFatalFailure()) return;
  const int64_t with = report({})["arena_bytes"],
                without = report({"--no-immediate-update", "--no-fused-update"})["arena_bytes"];
  EXPECT_GE(without, with * (GetParam().name == kMlp.name ? 10 : 4));
}

INSTANTIATE_TEST_SUITE_P(Nets, UpdatesAtOnce, testing::Values(kMlp, kModels[3]),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace pock::test
