// Which dropouts drop: what the file says, and what --dropout makes of it.
#include <gtest/gtest.h>

#include <map>

#include "pock/ir/builder.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

// a and b are active in the file, c is not; d has a ratio of 0.
std::unique_ptr<Graph> model() {
  auto g = std::make_unique<Graph>();
  Value* x = g->add_input("x", {DType::f32, {5}});
  int64_t id = 0;
  for (auto [name, ratio, active] : {std::tuple("a", 0.25, 1), {"b", 0.5, 1}, {"c", 0.5, 0}, {"d", 0.0, 1}}) {
    Builder b(*g, {"m.onnx", name, "Dropout"});
    x = b.value("dropout", {x}, {{"ratio", ratio}, {"id", id++}, {"active", int64_t{active}}});
  }
  g->add_output(x);
  return g;
}

// The ratio of each node that drops, by name, and what was said.
std::map<std::string, double> dropping(const std::vector<std::string>& rules, std::string* said = nullptr,
                                       bool inference = false) {
  auto g = model();
  PassOptions options;
  options.inference = inference;
  for (const std::string& rule : rules) options.dropouts.push_back(parse_dropout_rule(rule));
  CaptureStderr();
  dropout(*g, options);
  std::string text = GetCapturedStderr();
  if (said) *said = text;
  std::map<std::string, double> ratios;
  for (const Node* n : g->nodes()) {
    EXPECT_NE(n->op->name.text, std::string("dropout"));
    if (n->op->name.text == std::string("dropout_train")) ratios[n->loc.name] = n->number("ratio");
  }
  return ratios;
}

using Ratios = std::map<std::string, double>;

TEST(Dropout, AsTheFileSays) {
  std::string said;
  EXPECT_EQ(dropping({}, &said), (Ratios{{"a", 0.25}, {"b", 0.5}}));
  EXPECT_EQ(
      said,
      "dropout: 2 on (ratio 0.25 to 0.5), 2 off; the file is for inference, --dropout on turns it on all the "
      "same\n");
}

TEST(Dropout, AsAskedFor) {
  std::string said;
  EXPECT_EQ(dropping({"on"}, &said), (Ratios{{"a", 0.25}, {"b", 0.5}, {"c", 0.5}}));
  EXPECT_EQ(said, "dropout: 3 on (ratio 0.25 to 0.5), 1 off\n");
  EXPECT_EQ(dropping({"off"}, &said), Ratios{});
  EXPECT_EQ(said, "dropout: 4 off\n");
  EXPECT_EQ(dropping({"0.1"}), (Ratios{{"a", 0.1}, {"b", 0.1}, {"c", 0.1}, {"d", 0.1}}));
  EXPECT_EQ(dropping({"off", "b=on", "d=1"}), (Ratios{{"b", 0.5}, {"d", 1}})) << "the last match wins";
  EXPECT_EQ(dropping({"0"}), Ratios{});
}

TEST(Dropout, NeverInInference) {
  std::string said;
  EXPECT_EQ(dropping({"on"}, &said, true), Ratios{});
  EXPECT_EQ(said, "");
}

TEST(Dropout, WordsAreSharedAndNodesKeepTheirNumber) {
  auto g = model();
  CaptureStderr();
  dropout(*g, {});
  GetCapturedStderr();
  std::vector<std::string> names;
  for (const Value* s : g->scalars()) names.push_back(s->name + " " + to_string(s->type));
  EXPECT_EQ(names, (std::vector<std::string>{"seed_low i32[]", "seed_high i32[]", "micro_step i32[]"}));
  std::vector<int64_t> ids;
  for (const Node* n : g->nodes())
    if (n->op->name.text == std::string("dropout_train")) ids.push_back(n->integer("id"));
  EXPECT_EQ(ids, (std::vector<int64_t>{0, 1}));
}

TEST(Dropout, RulesThatSayNothing) {
  for (const char* rule : {"", "maybe", "1.5", "-0.1", "nan", "0.5x", "a="}) {
    try {
      parse_dropout_rule(rule);
      ADD_FAILURE() << rule;
    } catch (const Error& e) {
      EXPECT_EQ(e.what(), fmt::format("--dropout '{}': want on, off or a ratio from 0 to 1", rule));
    }
  }
  try {
    dropping({"nothing=off", "z*=on", "a=on"});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()),
              "--dropout 'nothing': the model has no dropout of this name\n--dropout 'z*': the model has no "
              "dropout of "
              "this name");
  }
  GetCapturedStderr();
}

}  // namespace
}  // namespace pock
