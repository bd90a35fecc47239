// A weight that is trained in part: every optimizer steps those elements as it would all of them, and leaves the rest alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "pock/ir/text.h"
#include "pock/ir/verify.h"
#include "pock/ops/evaluate.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

using Numbers = std::map<std::string, std::vector<double>>;

// What is stored after a few steps of a loss whose gradient no element changes, so that each goes its own way.
Numbers stepped(const std::string& scheme, const std::string& optimizer, bool accumulate) {
  auto g = parse_graph(
      "pock 1\ngraph @g {\ninput %x : f32[2,4]\nparam %l.weight : f32[3,4]\n"
      "%0 = matmul(%x, %l.weight) {transpose_b = 1} : f32[2,3]\n%1 = reduce_sum(%0) {axes = []} : f32[]\n"
      "output %1 \"loss\"\n}\n",
      "t");
  PassOptions options;
  options.scheme = parse_scheme("[[weights]]\nmatch = 'l.weight'\n" + scheme, "s.toml");
  options.recipe.optimizer = parse_optimizer(optimizer);
  options.recipe.accumulate = accumulate ? 1 : 0;
  select(*g, options);
  autodiff(*g, {});
  update(*g, options);
  verify(*g, "update");
  Memory m = initial_memory(*g, loop::Precision::f32);
  auto wave = [&](const Value* v) {
    std::vector<double> numbers(static_cast<size_t>(v->type.elements()));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<double>(i * i + 1));
    m.set(v, numbers);
  };
  wave(g->find("x"));
  wave(g->find("l.weight"));
  for (const Value* v : g->scalars()) m.set(v, std::vector<double>{0.25 + 0.01 * v->name.size()});
  for (int step = 0; step < 3; ++step) evaluate(*g, m);
  Numbers found;
  for (const Value* v : g->params()) found[v->name] = m.read(v);
  return found;
}

class SlicedUpdate : public testing::TestWithParam<std::string> {};

TEST_P(SlicedUpdate, IsTheWholeOnesPart) {
  for (bool accumulate : {false, true}) {
    const Numbers whole = stepped("", GetParam(), accumulate),
                  some = stepped("channels = [1, 3]\n", GetParam(), accumulate);
    ASSERT_EQ(whole.size(), some.size());
    std::vector<double> start(12);
    for (size_t i = 0; i < start.size(); ++i)
      start[i] = static_cast<float>(std::sin(static_cast<double>(i * i + 1)));
    for (const auto& [name, numbers] : some) {
      const bool weight = name == "l.weight";
      ASSERT_EQ(whole.at(name).size(), 12u) << name;
      ASSERT_EQ(numbers.size(), weight ? 12u : 6u) << name;
      for (size_t row = 0; row < 3; ++row)
        for (size_t channel : {0, 1, 2, 3}) {
          const size_t at = 4 * row + channel;
          if (channel % 2) {
            EXPECT_EQ(numbers[weight ? at : 2 * row + channel / 2], whole.at(name)[at]) << name;
          } else if (weight) {
            EXPECT_EQ(numbers[at], start[at]);
            EXPECT_NE(whole.at(name)[at], start[at]);
          }
        }
    }
  }
}

std::vector<std::string> forms() {
  std::vector<std::string> all = {"sgd:momentum=0.9", "sgd:momentum=0.9,nesterov=1", "rmsprop:momentum=0.5",
                                  "rmsprop:centered=1", "rmsprop:centered=1,momentum=0.5"};
  for (const OptimizerDef* d : all_optimizers()) all.push_back(d->choice.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Optimizers, SlicedUpdate, testing::ValuesIn(forms()), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
  return name;
});

}  // namespace
}  // namespace pock
