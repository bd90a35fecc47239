// What trainers of token nets say besides the loss of a step, and what becomes of a head that shares its weight.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "train/net.h"

namespace pock::test {
namespace {

std::vector<std::string> fed(const Net& net, std::vector<std::string> argv) {
  const std::vector<std::string> flags = net.data_flags();
  argv.insert(argv.end(), flags.begin(), flags.end());
  return argv;
}

// Loss and accuracy of evaluation are those of the scores that predict gives: of each with the label after it.
TEST(Text, EvaluationIsOfNextTokens) {
  Net net("rotary");
  TempDir dir;
  compile(net, dir);
  Ran scored = run(fed(net, {dir / "trainer", "predict", "--output", dir / "scores.npy"}));
  ASSERT_EQ(scored.status, 0) << scored.err;
  Ran evaluated =
      run(fed(net, {dir / "trainer", "eval", "--labels", net.data + "/labels.npy", "--log", "json"}));
  ASSERT_EQ(evaluated.status, 0) << evaluated.err;
  const auto said = nlohmann::json::parse(evaluated.out);

  const Array scores = read_npy(dir / "scores.npy"), labels = read_npy(net.data + "/labels.npy");
  const std::vector<double> x = scores.numbers(), y = labels.numbers();
  const int64_t samples = scores.dims[0], steps = scores.dims[1], tokens = scores.dims[2];
  ASSERT_EQ(labels.dims, (std::vector<int64_t>{samples, steps}));
  double loss = 0;
  int64_t counted = 0, right = 0;
  for (int64_t n = 0; n < samples; ++n)
    for (int64_t t = 0; t + 1 < steps; ++t) {
      const auto label = static_cast<int64_t>(y[n * steps + t + 1]);
      if (label == -100) continue;
      const double* own = &x[(n * steps + t) * tokens];
      double sum = 0;
      for (int64_t c = 0; c < tokens; ++c) sum += std::exp(own[c]);
      loss += std::log(sum) - own[label];
      right += std::max_element(own, own + tokens) - own == label;
      ++counted;
    }
  ASSERT_GT(counted, 50);
  ASSERT_GT(right, 0);
  const double count = static_cast<double>(counted);
  EXPECT_NEAR(said["loss"].get<double>(), loss / count, 1e-5);
  EXPECT_NEAR(said["accuracy"].get<double>(), static_cast<double>(right) / count, 1e-6);
}

// The decoder's file has one initializer for its table and its head: one parameter, one state, one tensor in a checkpoint.
TEST(Text, ASharedWeightIsOneParameter) {
  Trained trained = train(Net("decoder"), 2);
  int tables = 0;
  for (const auto& [name, array] : trained.checkpoint.tensors)
    tables += array.dims == std::vector<int64_t>{53, 21} || array.dims == std::vector<int64_t>{21, 53};
  EXPECT_EQ(tables, 2) << "the table and its momentum";
  EXPECT_TRUE(trained.checkpoint.tensors.count("wte.weight"));
}

}  // namespace
}  // namespace pock::test
