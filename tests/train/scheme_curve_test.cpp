// Sparse schemes against PyTorch training the same tensors, with the same batch norms on running statistics: the loss at every
// step, which tensors are trained, and how far each of them moved. A distance passes if it is small, or at most four times what
// PyTorch in float32 (or with layers disturbed by as much) is away itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "pock/frontends/import.h"
#include "train/net.h"

namespace pock::test {
namespace {

const std::string kState = "optimizer/momentum_buffer/";
// How far one value that rounding puts on the other side of a relu's kink was seen to turn a tensor of these narrow nets
// (MobileNetV2's from the eighth step on; before it both are off float64 by the same bits).
constexpr double kFlip = 5e-3;

struct Given {
  std::string net, scheme;
};
void PrintTo(const Given& g, std::ostream* out) { *out << g.net << " " << g.scheme; }

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(squares);
}

class SchemeCurve : public testing::TestWithParam<Given> {};

TEST_P(SchemeCurve, AsInPyTorch) {
  const Net net(GetParam().net);
  const auto curve = nlohmann::json::parse(read_file(net.folder + "/schemes.json")).at(GetParam().scheme);
  const std::string scheme = GetParam().scheme == "quarter"
                                 ? std::string(kSourceDir) + "/tests/train/schemes/quarter.toml"
                                 : GetParam().scheme;
  const Trained ours = train(net, net.steps, {"--sparse-scheme", scheme});

  const auto loss64 = curve["loss64"].get<std::vector<double>>(),
             loss32 = curve["loss32"].get<std::vector<double>>();
  ASSERT_EQ(ours.losses.size(), loss64.size());
  double most = 0;
  for (size_t i = 0; i < loss64.size(); ++i) most = std::max(most, std::abs(loss32[i] - loss64[i]));
  for (size_t i = 0; i < loss64.size(); ++i)
    EXPECT_NEAR(ours.losses[i], loss64[i], std::max(1e-4 * loss64[i], 4 * most)) << "step " << i + 1;

  std::vector<std::string> trained;
  for (const auto& [name, array] : ours.checkpoint.tensors)
    if (name.starts_with(kState)) trained.push_back(name.substr(kState.size()));
  std::sort(trained.begin(), trained.end());
  EXPECT_EQ(trained, curve["trained"].get<std::vector<std::string>>());

  const std::unique_ptr<Graph> model =
      import_onnx(net.folder + "/model.onnx", {.batch = net.batch, .dims = net.sizes});
  const auto want_moved = curve["moved"].get<std::map<std::string, double>>();
  ASSERT_FALSE(want_moved.empty());
  for (const auto& [name, want] : want_moved) {
    ASSERT_TRUE(ours.checkpoint.tensors.count(name)) << name;
    const double got = distance(ours.checkpoint.tensors.at(name).numbers(), initial(*model, name).numbers());
    EXPECT_NEAR(got, want, std::max(kFlip * want, 4 * curve["moved_off"][name].get<double>())) << name;
  }
}

std::vector<Given> recorded() {
  std::vector<Given> all;
  for (const auto* nets : {&kZoo, &kText})
    for (const std::string& net : *nets) {
      const std::string file = std::string(kSourceDir) + "/tests/train/" + net + "/schemes.json";
      if (!std::filesystem::exists(file)) continue;
      const auto curves = nlohmann::json::parse(read_file(file));
      for (const auto& [scheme, curve] : curves.items()) all.push_back({net, scheme});
    }
  return all;
}

std::string name_of(const testing::TestParamInfo<Given>& info) {
  std::string name = info.param.net + "_" + info.param.scheme;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == '-'; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Nets, SchemeCurve, testing::ValuesIn(recorded()), name_of);

}  // namespace
}  // namespace pock::test
