// What a scheme's rules name: which layers count, which channels are chosen, and which of several rules holds.
#include "pock/passes/scheme.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "pock/ir/text.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

// Three layers, a norm behind each of the first two, and a table. Of a's five input channels 1 and 3 have the largest
// weights, and 0, 2 and 4 equal ones; all of b's four are equal; of c's three the second is no number.
std::unique_ptr<Graph> model() {
  auto g = parse_graph(
      "pock 1\ngraph @g {\ninput %x : f32[2,5]\ninput %ids : i64[2]\nparam %table : f32[6,5]\n"
      "param %a.weight : f32[5,4]\nparam %a.bias : f32[4]\nparam %n1.scale : f32[4]\nparam %n1.shift : "
      "f32[4]\n"
      "statistic %n1.mean : f32[4]\nstatistic %n1.variance : f32[4]\n"
      "param %b.weight : f32[3,4]\nparam %b.bias : f32[3]\nparam %n2.scale : f32[3]\nparam %n2.shift : "
      "f32[3]\n"
      "statistic %n2.mean : f32[3]\nstatistic %n2.variance : f32[3]\nparam %c.weight : f32[3,2]\n"
      "param %c.bias : f32[2]\n"
      "%t = gather(%table, %ids) {axis = 0} : f32[2,5]\n%s = add(%x, %t) : f32[2,5]\n"
      "%0 = matmul(%s, %a.weight) : f32[2,4] @ \"first\"\n%1 = add(%0, %a.bias) : f32[2,4]\n"
      "%2, %m2, %v2 = batch_norm(%1, %n1.scale, %n1.shift, %n1.mean, %n1.variance) {epsilon = 0.1, momentum "
      "= 0.9} : "
      "f32[2,4], f32[4], f32[4]\n"
      "%3 = matmul(%2, %b.weight) {transpose_b = 1} : f32[2,3] @ \"second\"\n%4 = add(%3, %b.bias) : "
      "f32[2,3]\n"
      "%5, %m5, %v5 = batch_norm(%4, %n2.scale, %n2.shift, %n2.mean, %n2.variance) {epsilon = 0.1, momentum "
      "= 0.9} : "
      "f32[2,3], f32[3], f32[3]\n"
      "%6 = matmul(%5, %c.weight) : f32[2,2] @ \"third\"\n%7 = add(%6, %c.bias) : f32[2,2]\n"
      "%8 = reduce_sum(%7) {axes = []} : f32[]\noutput %8 \"loss\"\n}\n",
      "t");
  auto fill = [&](const char* name, std::vector<float> elements) {
    for (Value* p : g->params())
      if (p->name == name) p->data = make_data(elements);
  };
  fill("a.weight", {1, 1, 1, 1, 2, 0, 0, -1, -1, 1, 1, -1, 3, 0, 0, 0, 1, -1, 1, 1});
  fill("b.weight", std::vector<float>(12, 0.5f));
  return g;
}

// "a.bias a.weight[0:1,3] c.weight(2)": what is trained, the axis and channels of a slice, the rank of an adapter.
std::string chosen(const std::string& toml) {
  const std::unique_ptr<Graph> g = model();
  const Selected selected =
      trained_by(parse_scheme(toml, "s.toml"), *g, differentiable_ancestors(*g, g->outputs()));
  std::vector<std::string> names;
  for (const auto& [param, slice] : selected.params)
    names.push_back(param->name +
                    (slice ? fmt::format("[{}:{}]", slice->axis, fmt::join(slice->index, ",")) : ""));
  for (const Adapter& a : selected.adapters)
    names.push_back(fmt::format("{}({})", a.layer.weight->name, a.rank));
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, " "));
}

std::string weights(const std::string& match, const std::string& more = "") {
  return "[[weights]]\nmatch = '" + match + "'\n" + more + "\n";
}

TEST(SchemeRules, ChooseTheLargestChannelsAndOfEqualsTheFirst) {
  EXPECT_EQ(chosen(weights("a.weight", "channels = 1")), "a.weight[0:3]");
  EXPECT_EQ(chosen(weights("a.weight", "channels = 2")), "a.weight[0:1,3]");
  EXPECT_EQ(chosen(weights("a.weight", "channels = 4")), "a.weight[0:0,1,2,3]");
  EXPECT_EQ(chosen(weights("b.weight", "channels = 2")), "b.weight[1:0,1]");
  EXPECT_EQ(chosen(weights("a.weight", "channels = 2\nselect = 'first'")), "a.weight[0:0,1]");
  EXPECT_EQ(chosen(weights("a.weight", "channels = [4, 0, 2]")), "a.weight[0:0,2,4]");
}

TEST(SchemeRules, RoundSharesDownButNotToNothing) {
  EXPECT_EQ(chosen(weights("a.weight", "channels = 0.59")), "a.weight[0:1,3]");
  EXPECT_EQ(chosen(weights("a.weight", "channels = 0.6")), "a.weight[0:0,1,3]");
  EXPECT_EQ(chosen(weights("a.weight", "channels = 1e-300")), "a.weight[0:3]");
  for (const char* all : {"1.0", "5", "[0, 1, 2, 3, 4]"})
    EXPECT_EQ(chosen(weights("a.weight", std::string("channels = ") + all)), "a.weight") << all;
}

TEST(SchemeRules, GoByTheLastThatNamesAWeight) {
  const std::string some = weights("*.weight", "channels = 1\nselect = 'first'"), all = weights("b.*");
  EXPECT_EQ(chosen(some + all), "a.weight[0:0] b.weight c.weight[0:0]");
  EXPECT_EQ(chosen(all + some), "a.weight[0:0] b.weight[1:0] c.weight[0:0]");
  const std::string adapters = "[[lora]]\nmatch = 'all'\nrank = 2\n",
                    one = "[[lora]]\nmatch = 'second'\nrank = 1\n";
  EXPECT_EQ(chosen(adapters + one), "a.weight(2) b.weight(1) c.weight(2)");
  EXPECT_EQ(chosen(one + adapters), "a.weight(2) b.weight(2) c.weight(2)");
  EXPECT_EQ(chosen(adapters + weights("last:1")), "a.weight(2) b.weight(2) c.weight");
}

TEST(SchemeRules, CountLayersFromTheEnd) {
  EXPECT_EQ(chosen("biases = 'last:2'"), "b.bias c.bias");
  EXPECT_EQ(chosen(weights("last:2")), "b.weight c.weight");
  EXPECT_EQ(chosen("[[lora]]\nmatch = 'last:2'\nrank = 3"), "b.weight(3) c.weight(3)");
  // Norms are those behind the first of these layers.
  EXPECT_EQ(chosen("norms = 'last:1'"), "");
  EXPECT_EQ(chosen("norms = 'last:2'"), "n2.scale n2.shift");
  EXPECT_EQ(chosen("norms = 'last:3'"), "n1.scale n1.shift n2.scale n2.shift");
}

TEST(SchemeRules, KnowParametersByTheirNodesToo) {
  EXPECT_EQ(chosen("biases = ['first', 'th?rd']"), "a.bias c.bias");
  EXPECT_EQ(chosen(weights("sec*")), "b.weight");
}

// Nor has a weight under another shape input channels of its own, and the product of two factors is no part of it.
TEST(SchemeRules, RefuseWeightsUnderAnotherShape) {
  const auto g = parse_graph(
      "pock 1\ngraph @g {\ninput %x : f32[2,3]\nparam %w : f32[4,3]\n%0 = reshape(%w) {shape = [3,4]} : "
      "f32[3,4]\n"
      "%1 = matmul(%x, %0) : f32[2,4]\n%2 = reduce_sum(%1) {axes = []} : f32[]\noutput %2 \"loss\"\n}\n",
      "t");
  for (const char* rule : {"[[lora]]\nmatch = 'w'\nrank = 1\n", "[[weights]]\nmatch = 'w'\nchannels = 1\n"})
    EXPECT_THROW(trained_by(parse_scheme(rule, "s.toml"), *g, differentiable_ancestors(*g, g->outputs())),
                 Error)
        << rule;
}

// A norm that is written out is one however many samples there are.
TEST(SchemeRules, KnowNormsOfAnyBatch) {
  for (int batch : {1, 2}) {
    const std::string n = std::to_string(batch), x = "f32[" + n + ",4]", one = "f32[" + n + ",1]";
    const auto g = parse_graph("pock 1\ngraph @g {\ninput %x : " + x +
                                   "\nparam %a.weight : f32[4,4]\nparam %scale : f32[4]\nparam %shift : "
                                   "f32[4]\n%0 = matmul(%x, %a.weight) : " +
                                   x + "\n%1 = mul(%0, %0) : " + x +
                                   "\n%2 = reduce_mean(%1) {axes = [-1], keep = 1} : " + one +
                                   "\n%3 = sqrt(%2) : " + one + "\n%4 = div(%0, %3) : " + x +
                                   "\n%5 = mul(%4, %scale) : " + x + "\n%6 = add(%5, %shift) : " + x +
                                   "\n%7 = reduce_sum(%6) {axes = []} : f32[]\noutput %7 \"loss\"\n}\n",
                               "t");
    const Selected selected =
        trained_by(parse_scheme("norms = 'all'", "s.toml"), *g, differentiable_ancestors(*g, g->outputs()));
    EXPECT_EQ(selected.params.size(), 2u) << batch;
    EXPECT_TRUE(selected.params.count(g->find("scale")) && selected.params.count(g->find("shift"))) << batch;
  }
}

// Of what has no input channels a rule that names weights that have some means nothing.
TEST(SchemeRules, TakeChannelsOfWeightsThatHaveSome) {
  EXPECT_EQ(chosen(weights("all", "channels = [0]")), "a.weight[0:0] b.weight[1:0] c.weight[0:0]");
  EXPECT_EQ(chosen(weights("all")), "a.weight b.weight c.weight table");
  EXPECT_THROW(chosen(weights("table", "channels = [0]")), Error);
}

}  // namespace
}  // namespace pock
