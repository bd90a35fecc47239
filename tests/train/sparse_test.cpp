// Sparse schemes: what is trained gets the full gradient's bits and nothing else changes; what is not costs nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>

#include "pock/frontends/import.h"
#include "pock/ops/op.h"
#include "pock/passes/pass.h"
#include "train/net.h"

namespace pock::test {
namespace {

using Strings = std::vector<std::string>;
const std::string kSchemes = std::string(kSourceDir) + "/tests/train/schemes/";
const std::string kState = "optimizer/momentum_buffer/";

std::unique_ptr<Graph> import(const Net& net) {
  return import_onnx(net.folder + "/model.onnx", {.batch = net.batch, .dims = net.sizes});
}

struct Step {
  std::vector<double> losses;
  Safetensors gradients;
};

// One step that keeps its gradients.
Step one_step(const Net& net, const std::string& scheme) {
  Strings flags = {"--keep-gradients", "--sparse-scheme", scheme};
  const std::unique_ptr<Graph> model = import(net);
  const std::vector<Node*> nodes = model->nodes();
  if (std::any_of(nodes.begin(), nodes.end(), [](const Node* n) { return n->op->norm_scale >= 0; }))
    flags.insert(flags.end(), {"--bn", "frozen"});
  TempDir dir;
  compile(net, dir, flags);
  Step step{run_trainer(net, dir, 1, {"--threads", "1", "--gradients", dir / "gradients"}).losses, {}};
  if (!testing::Test::HasFailure()) step.gradients = read_safetensors(dir / "gradients");
  return step;
}

// "3-5,8" behind `name` and an axis in the scheme that the checkpoint names: "conv.weight[1:3-5,8]".
std::vector<int64_t> channels(const std::string& scheme, const std::string& name) {
  const size_t at = scheme.find(" " + name + "[");
  if (at == std::string::npos) return {};
  std::vector<int64_t> index;
  std::istringstream text(scheme.substr(scheme.find(':', at) + 1));
  for (char behind = ','; behind == ',' || behind == '-';) {
    int64_t n = 0;
    text >> n;
    for (int64_t i = behind == '-' ? index.back() + 1 : n; i <= n; ++i) index.push_back(i);
    text >> behind;
  }
  return index;
}

// The elements along the axis in which the shapes differ.
std::string restricted(const Array& all, const Array& some, const std::vector<int64_t>& index) {
  size_t axis = 0;
  while (axis < all.dims.size() && all.dims[axis] == some.dims[axis]) ++axis;
  if (axis == all.dims.size()) return all.bytes;
  size_t behind = 4;
  for (size_t i = axis + 1; i < all.dims.size(); ++i) behind *= static_cast<size_t>(all.dims[i]);
  const size_t row = behind * static_cast<size_t>(all.dims[axis]);
  std::string bytes;
  for (size_t start = 0; start < all.bytes.size(); start += row)
    for (int64_t i : index) bytes += all.bytes.substr(start + static_cast<size_t>(i) * behind, behind);
  return bytes;
}

const std::string kQuarter = kSchemes + "quarter.toml";
const char* kFirstHalf = "[[weights]]\nmatch = 'all'\nchannels = 0.5\nselect = 'first'\n";

struct Given {
  std::string net;
  Strings schemes;
};
void PrintTo(const Given& g, std::ostream* out) { *out << g.net; }

class Sparse : public testing::TestWithParam<Given> {};

TEST_P(Sparse, TakesTheFullGradientsBits) {
  const Net net(GetParam().net);
  const Step full = one_step(net, "full");
  TempDir dir;
  Strings schemes = GetParam().schemes;
  schemes.push_back(kQuarter);
  schemes.push_back(dir.write("half.toml", kFirstHalf));
  for (const std::string& scheme : schemes) {
    SCOPED_TRACE(scheme);
    const Step some = one_step(net, scheme);
    ASSERT_EQ(some.losses, full.losses);
    const auto slices = nlohmann::json::parse(some.gradients.metadata.at("slices"));
    int compared = 0;
    for (const auto& [name, gradient] : some.gradients.tensors) {
      const Array& all = full.gradients.tensors.at(name);
      const std::vector<int64_t> index =
          slices.contains(name) ? slices[name]["index"].get<std::vector<int64_t>>() : std::vector<int64_t>{};
      EXPECT_TRUE(gradient.bytes == restricted(all, gradient, index)) << name;
      EXPECT_EQ(gradient.bytes.size(),
                4 * static_cast<size_t>(std::accumulate(gradient.dims.begin(), gradient.dims.end(),
                                                        int64_t{1}, std::multiplies<>())))
          << name;
      ++compared;
    }
    EXPECT_GE(compared, 2);
  }
}

// Twenty steps with weight decay: no other element may move.
TEST_P(Sparse, LeavesTheRestAlone) {
  Net net(GetParam().net);
  net.optimizer = "sgd:lr=0.01,momentum=0.9,weight_decay=0.01";
  Strings schemes = GetParam().schemes;
  schemes.push_back(kQuarter);
  std::unique_ptr<Graph> model = import(net);
  for (const std::string& scheme : schemes) {
    SCOPED_TRACE(scheme);
    const Trained trained = train(net, 20, {"--sparse-scheme", scheme});
    int changed = 0;
    for (const auto& [name, array] : trained.checkpoint.tensors) {
      const Value* before = model->find(name);
      if (!before || before->kind != ValueKind::param) continue;
      const auto index = channels(trained.checkpoint.metadata.at("scheme"), name);
      const Array& state = trained.checkpoint.tensors.at(kState + name);
      const Array start = initial(*model, name);
      ASSERT_EQ(array.dims, start.dims);
      EXPECT_NE(array.bytes, start.bytes) << name;
      if (index.empty()) continue;
      // What differs lies in the slice: as many bytes as there are of it at most, and none where the slice is taken away.
      Array outside = array;
      std::vector<int64_t> others;
      size_t axis = 0;
      while (array.dims[axis] == state.dims[axis]) ++axis;
      for (int64_t i = 0; i < array.dims[axis]; ++i)
        if (!std::count(index.begin(), index.end(), i)) others.push_back(i);
      Array rest = state;
      EXPECT_TRUE(restricted(array, rest, others) == restricted(start, rest, others)) << name;
      ++changed;
    }
    if (scheme.ends_with("quarter.toml")) {
      EXPECT_GE(changed, 2);
    }
  }
}

std::string name_of(const testing::TestParamInfo<Given>& info) { return info.param.net; }
INSTANTIATE_TEST_SUITE_P(
    Nets, Sparse,
    testing::Values(Given{"lenet", {"head", "bias-only", "last:2", kSchemes + "lenet.toml"}},
                    Given{"bn_cnn", {"head", "last:2"}},
                    Given{"mobile", {"head", "last:4", "expand-convs:2", "expand-convs:1:0.5"}},
                    Given{"resnet18", {"bias-only", "last:4"}},
                    Given{"mobilenet_v2", {"bias-only", "last:4", "expand-convs:6"}},
                    Given{"mcunet", {"bias-only", "last:4", "expand-convs:6"}},
                    Given{"shufflenet_v2", {"last:4"}}, Given{"twice", {"last:2"}},
                    Given{"encoder", {"attention:1", "attention:2", "bias-only", "last:4"}},
                    Given{"decoder", {"last:3"}}, Given{"rotary", {"attention:1"}}),
    name_of);

class SparseBits : public testing::TestWithParam<const char*> {};

TEST_P(SparseBits, AreThoseWithoutPasses) {
  const Net net(GetParam());
  const Strings quarter = {"--sparse-scheme", kQuarter};
  const Trained want = train(net, 3, quarter, {"--threads", "4"});
  ASSERT_FALSE(want.bytes.empty());
  std::set<std::string> programs = {program_of(net, quarter)};
  for (const Pass& p : training_pipeline()) {
    if (!p.optional) continue;
    Strings flags = quarter;
    flags.push_back(std::string("--no-") + p.name);
    if (!programs.insert(program_of(net, flags)).second) continue;
    EXPECT_TRUE(train(net, 3, flags, {"--threads", "1"}).bytes == want.bytes) << p.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, SparseBits, testing::Values("shufflenet_v2", "squeezenet"),
                         [](const auto& info) { return std::string(info.param); });

// What is trained less takes no more memory.
TEST(SparseCost, FallsWithWhatIsTrained) {
  Net net("mobile");
  net.optimizer = "sgd:momentum=0.9";
  auto cost = [&](const std::string& scheme) {
    TempDir dir;
    Ran ran = run(net.compile_command(
        dir / "t", {"--emit", "loops", "--report", dir / "r", "--bn", "frozen", "--sparse-scheme", scheme}));
    EXPECT_EQ(ran.status, 0) << ran.err;
    auto report = nlohmann::json::parse(read_file(dir / "r"));
    return std::pair<int64_t, int64_t>(report["arena_lower_bound_bytes"], report["optimizer_state_bytes"]);
  };
  const auto full = cost("full"), last = cost("last:4"), head = cost("head"), quarter = cost(kQuarter);
  EXPECT_LE(head.first, last.first);
  EXPECT_LE(last.first, full.first);
  EXPECT_LT(head.second, last.second);
  EXPECT_LT(last.second, full.second);
  EXPECT_LT(quarter.second * 2, full.second);
}

}  // namespace
}  // namespace pock::test
