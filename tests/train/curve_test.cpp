// Loss at every step, and every updated tensor after the last, against PyTorch in float64. A distance passes
// if it is at most the tolerance, or at most four times what PyTorch in float32 is away itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "pock/frontends/import.h"
#include "train/net.h"

namespace pock::test {
namespace {

constexpr double kTolerance = 1e-4;

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

std::vector<double> initial(const Graph& g, const std::string& name) {
  const Value* v = g.find(name);
  if (!v || !v->data) throw std::runtime_error("the model has no tensor " + name);
  Array array{"F32", v->type.dims,
              std::string(reinterpret_cast<const char*>(v->data->data()), v->data->size())};
  return array.numbers();
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
    EXPECT_LE(distance, std::max(kTolerance, 4 * torch)) << "step " << i + 1;
  }
  RecordProperty("curve_distance", std::to_string(worst));

  std::unique_ptr<Graph> model = import_onnx(net.folder + "/model.onnx", {net.batch, {}});
  Safetensors final64 = read_safetensors(net.folder + "/final64.safetensors");
  Safetensors final32 = read_safetensors(net.folder + "/final32.safetensors");
  double worst_tensor = 0;
  for (const auto& [name, want] : final64.tensors) {
    ASSERT_TRUE(ours.checkpoint.tensors.count(name)) << name << " is not in the checkpoint";
    std::vector<double> start = initial(*model, name), right = want.numbers();
    double change = largest_difference(right, start);
    ASSERT_GT(change, 0) << name;
    double distance = largest_difference(ours.checkpoint.tensors.at(name).numbers(), right) / change;
    double torch_distance = largest_difference(final32.tensors.at(name).numbers(), right) / change;
    bool zero = std::count(net.zero_gradient.begin(), net.zero_gradient.end(), name) > 0;
    if (zero) {
      // Only rounding moves it, besides weight decay: it may differ by no more than it moved at all.
      EXPECT_LE(distance, 1) << name;
      continue;
    }
    worst_tensor = std::max(worst_tensor, distance);
    EXPECT_LE(distance, std::max(kTolerance, 4 * torch_distance)) << name;
  }
  for (const auto& [name, array] : ours.checkpoint.tensors)
    if (name.rfind("optimizer/", 0) != 0) {
      EXPECT_TRUE(final64.tensors.count(name)) << name << " is not in PyTorch's result";
    }
  RecordProperty("tensor_distance", std::to_string(worst_tensor));
  printf("%s: curve %.2g (PyTorch float32 %.2g), tensors %.2g\n", net.name.c_str(), worst, torch,
         worst_tensor);
}

INSTANTIATE_TEST_SUITE_P(Nets, Curve, testing::ValuesIn(kNets), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace pock::test
