// Loss at every step, and every updated tensor after the last, against PyTorch in float64. A distance passes
// if it is at most the tolerance, or at most four times what PyTorch in float32 is away itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "pock/frontends/import.h"
#include "train/net.h"

namespace pock::test {
namespace {

double largest(const std::vector<double>& v) {
  double most = 0;
  for (double x : v) most = std::max(most, std::abs(x));
  return most;
}

std::vector<double> difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  std::vector<double> d(std::min(a.size(), b.size()));
  for (size_t i = 0; i < d.size(); ++i) d[i] = a[i] - b[i];
  return d;
}

class Curve : public testing::TestWithParam<std::string> {};

TEST_P(Curve, AsInPyTorch) {
  Net net(GetParam());
  Trained ours = train(net, net.steps);
  ASSERT_EQ(ours.losses.size(), net.loss64.size());
  double worst = 0, torch = 0;
  for (size_t i = 0; i < net.loss64.size(); ++i)
    torch = std::max(torch, std::abs(net.loss32[i] - net.loss64[i]) / std::abs(net.loss64[i]));
  for (size_t i = 0; i < net.loss64.size(); ++i) {
    double distance = std::abs(ours.losses[i] - net.loss64[i]) / std::abs(net.loss64[i]);
    worst = std::max(worst, distance);
    EXPECT_LE(distance, std::max(net.tolerance, 4 * torch)) << "step " << i + 1;
  }
  RecordProperty("curve_distance", std::to_string(worst));

  std::unique_ptr<Graph> model =
      import_onnx(net.folder + "/model.onnx", {.batch = net.batch, .dims = net.sizes});
  Safetensors moved = read_safetensors(net.folder + "/change.safetensors");  // from the start, in float64
  double worst_tensor = 0, most_moved = 0;
  for (const auto& [name, want] : moved.tensors) most_moved = std::max(most_moved, largest(want.numbers()));
  for (const auto& [name, want] : moved.tensors) {
    ASSERT_TRUE(ours.checkpoint.tensors.count(name)) << name << " is not in the checkpoint";
    std::vector<double> right = want.numbers();
    std::vector<double> got =
        difference(ours.checkpoint.tensors.at(name).numbers(), initial(*model, name).numbers());
    double away = largest(difference(got, right));
    if (std::count(net.zero_gradient.begin(), net.zero_gradient.end(), name)) {
      // Rounding alone moves it, besides weight decay.
      EXPECT_LE(away, 1e-6 * most_moved) << name;
      continue;
    }
    double change = largest(right);
    ASSERT_GT(change, 0) << name;
    double distance = away / change;
    worst_tensor = std::max(worst_tensor, distance);
    EXPECT_LE(distance, std::max(net.tolerance, 4 * net.distance32.at(name))) << name;
  }
  for (const auto& [name, array] : ours.checkpoint.tensors)
    if (name.rfind("optimizer/", 0) != 0) {
      EXPECT_TRUE(moved.tensors.count(name)) << name << " is not in PyTorch's result";
    }
  RecordProperty("tensor_distance", std::to_string(worst_tensor));
  printf("%s: curve %.2g (PyTorch float32 %.2g), tensors %.2g\n", net.name.c_str(), worst, torch,
         worst_tensor);
}

std::string name_of(const testing::TestParamInfo<std::string>& info) { return info.param; }
INSTANTIATE_TEST_SUITE_P(Nets, Curve, testing::ValuesIn(kNets), name_of);
INSTANTIATE_TEST_SUITE_P(Zoo, Curve, testing::ValuesIn(kZoo), name_of);
INSTANTIATE_TEST_SUITE_P(FewerProducts, Curve, testing::Values("wide"), name_of);
INSTANTIATE_TEST_SUITE_P(Text, Curve, testing::ValuesIn(kText), name_of);

}  // namespace
}  // namespace pock::test
