// slices: what is taken of a gradient keeps its bits when only that is made.
#include <gtest/gtest.h>

#include <cmath>

#include "pock/ir/text.h"
#include "pock/ops/evaluate.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

std::vector<double> evaluated(const Graph& g) {
  Memory m = initial_memory(g, loop::Precision::f32);
  for (const Value* v : g.inputs()) {
    std::vector<double> numbers(static_cast<size_t>(v->type.elements()));
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = std::sin(static_cast<double>(i * i + v->name.size()));
    m.set(v, numbers);
  }
  evaluate(g, m);
  return m.read(g.outputs()[1]);
}

TEST(Slices, KeepEveryBit) {
  const std::string window =
      "{stride = [1,1], pad = [1,1,1,1], dilation = [1,1], groups = GROUPS, kernel = [3,3]}";
  auto conv = [&](int groups, const std::string& of_group) {
    std::string attrs = window;
    attrs.replace(attrs.find("GROUPS"), 6, std::to_string(groups));
    return "%0 = conv_weight_grad(%dy, %x) " + attrs + " : f32[6," + of_group + ",3,3]\n";
  };
  auto taken = [](const std::string& axis, const std::string& type) {
    return "%1 = gather(%0, %some) {axis = " + axis + "} : f32" + type + "\n";
  };
  const std::string matrices =
      "%2 = reshape(%x) {shape = [30,10]} : f32[30,10]\n%3 = reshape(%dy) {shape = [30,10]} : f32[30,10]\n";
  for (const std::string& body :
       {conv(1, "6") + taken("1", "[6,2,3,3]"), conv(1, "6") + taken("0", "[2,6,3,3]"),
        conv(2, "3") + taken("1", "[6,2,3,3]"), conv(6, "1") + taken("0", "[2,1,3,3]"),
        matrices + "%0 = matmul(%2, %3) {transpose_a = 1} : f32[10,10]\n" + taken("0", "[2,10]"),
        matrices + "%0 = matmul(%2, %3) {transpose_a = 1} : f32[10,10]\n" + taken("1", "[10,2]"),
        matrices + "%0 = matmul(%2, %3) {transpose_b = 1} : f32[30,30]\n" + taken("1", "[30,2]")}) {
    SCOPED_TRACE(body);
    auto g = parse_graph(
        "pock 1\ngraph @g {\ninput %x : f32[2,6,5,5]\ninput %dy : f32[2,6,5,5]\n"
        "const %some : i64[2] = [0, 2]\n" +
            body + "%4 = reduce_sum(%x) {axes = []} : f32[]\noutput %4 \"loss\"\noutput %1\n}\n",
        "t");
    const std::vector<double> whole = evaluated(*g);
    EXPECT_GT(slices(*g, {}), 0);
    EXPECT_EQ(evaluated(*g), whole);
  }
}

// Of groups of several filters, or of several channels, no smaller convolution makes some filters.
TEST(Slices, LeaveGroupsWhole) {
  for (const char* of_group : {"1", "2"}) {
    const std::string channels = std::to_string(3 * std::stoi(of_group));
    auto g =
        parse_graph("pock 1\ngraph @g {\ninput %x : f32[2," + channels +
                        ",5,5]\ninput %dy : f32[2,6,5,5]\nconst %some : i64[2] = [0, 3]\n"
                        "%0 = conv_weight_grad(%dy, %x) {stride = [1,1], pad = [1,1,1,1], dilation = [1,1], "
                        "groups = 3, kernel = [3,3]} : f32[6," +
                        of_group + ",3,3]\n%1 = gather(%0, %some) {axis = 0} : f32[2," + of_group +
                        ",3,3]\n%2 = reduce_sum(%x) {axes = []} : f32[]\noutput %2 \"loss\"\noutput %1\n}\n",
                    "t");
    const std::vector<double> whole = evaluated(*g);
    EXPECT_EQ(slices(*g, {}), 0);
    EXPECT_EQ(evaluated(*g), whole);
  }
}

}  // namespace
}  // namespace pock
