// How a net is trained, against PyTorch in float64 (record_recipes.py): the loss at every step, as in curve_test.cpp,
// and what evaluation says of all samples before the first and after the last.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/support.h"

namespace pock::test {
namespace {

using Args = std::vector<std::string>;
constexpr double kTolerance = 1e-5;

const std::string kFolder = std::string(kSourceDir) + "/tests/train/recipes/";

nlohmann::json recorded() { return nlohmann::json::parse(read_file(kFolder + "curves.json")); }

struct Recipe {
  explicit Recipe(const std::string& name) {
    auto all = recorded();
    nlohmann::json r = all["recipes"][name];
    model = r["model"];
    batch = all["batch"];
    steps = all["steps"];
    compile = r["compile"].get<Args>();
    train = r["train"].get<Args>();
    for (const auto& label : r["labels"]) {
      std::string output = label;
      data.insert(data.end(), {"--labels", output + "=" + kFolder + output + ".npy"});
    }
    rates = r["rates"].get<std::vector<double>>();
    loss64 = r["loss64"].get<std::vector<double>>();
    loss32 = r["loss32"].get<std::vector<double>>();
    loss_before = r["before"]["loss"];
    accuracy_before = r["before"]["accuracy"];
    after64 = r["after64"];
    after32 = r["after32"];
  }

  std::string trainer_in(const TempDir& dir) const {
    Args argv = {kPockc, "compile", kFolder + model, "-o", dir / "t", "--batch", std::to_string(batch)};
    argv.insert(argv.end(), compile.begin(), compile.end());
    Ran ran = run(argv, kFolder);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return dir / "t";
  }

  std::string model;
  int batch, steps;
  Args compile, train, data = {"--data", kFolder + "data.npy"};
  std::vector<double> rates, loss64, loss32;
  double loss_before, accuracy_before, after64, after32;
};

double apart(double x, double right) { return std::abs(x - right) / std::abs(right); }

class Recipes : public testing::TestWithParam<std::string> {};

TEST_P(Recipes, AsInPyTorch) {
  Recipe recipe(GetParam());
  TempDir dir;
  Args argv = {recipe.trainer_in(dir),
               "train",
               "--steps",
               std::to_string(recipe.steps),
               "--no-shuffle",
               "--log",
               "json",
               "--checkpoint",
               dir / "c"};
  for (const Args& more : {recipe.data, recipe.train}) argv.insert(argv.end(), more.begin(), more.end());
  Ran ran = run(argv, kFolder);
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::vector<double> ours;
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);) {
    auto step = nlohmann::json::parse(line);
    const double rate = recipe.rates[ours.size()];
    EXPECT_NEAR(step["lr"], rate, 1.2e-7 * rate + 1e-12) << line;
    ours.push_back(step["loss"]);
  }
  ASSERT_EQ(ours.size(), recipe.loss64.size());
  double torch = 0, worst = 0;
  for (size_t i = 0; i < ours.size(); ++i) torch = std::max(torch, apart(recipe.loss32[i], recipe.loss64[i]));
  for (size_t i = 0; i < ours.size(); ++i) {
    double distance = apart(ours[i], recipe.loss64[i]);
    worst = std::max(worst, distance);
    EXPECT_LE(distance, std::max(kTolerance, 4 * torch)) << "step " << i + 1;
  }
  printf("%s: curve %.2g (PyTorch float32 %.2g)\n", GetParam().c_str(), worst, torch);

  // Of all samples, with running statistics.
  Args eval = {dir / "t", "eval", "--log", "json", "--weights", dir / "c"};
  eval.insert(eval.end(), recipe.data.begin(), recipe.data.end());
  ran = run(eval, kFolder);
  ASSERT_EQ(ran.status, 0) << ran.err;
  const double after = apart(nlohmann::json::parse(ran.out)["loss"], recipe.after64);
  EXPECT_LE(after, std::max(kTolerance, 4 * apart(recipe.after32, recipe.after64)));
}

// 84 samples in batches of 8: the last one is not full.
class Evaluation : public testing::TestWithParam<std::string> {};

TEST_P(Evaluation, IsTheMeanOverAllSamples) {
  Recipe recipe(GetParam());
  TempDir dir;
  Args argv = {recipe.trainer_in(dir), "eval", "--log", "json"};
  argv.insert(argv.end(), recipe.data.begin(), recipe.data.end());
  Ran ran = run(argv, kFolder);
  ASSERT_EQ(ran.status, 0) << ran.err;
  auto score = nlohmann::json::parse(ran.out);
  EXPECT_NEAR(score["loss"], recipe.loss_before, 2e-6 * recipe.loss_before);
  EXPECT_NEAR(score["accuracy"], recipe.accuracy_before, 1e-6);
}

Args names() {
  Args names;
  nlohmann::json all = recorded();
  for (const auto& [name, recipe] : all["recipes"].items()) names.push_back(name);
  return names;
}
std::string identifier(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Recorded, Recipes, testing::ValuesIn(names()), identifier);
INSTANTIATE_TEST_SUITE_P(Recorded, Evaluation,
                         testing::Values("three losses", "accumulated", "accumulated behind a batch norm"),
                         identifier);

}  // namespace
}  // namespace pock::test
