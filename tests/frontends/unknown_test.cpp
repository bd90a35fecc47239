// Operators that pock does not have, anywhere in a model: one report names each, with its node and domain, and nothing
// else; what reads their results is not to blame.
#include <random>

#include "forms.h"

namespace pock::test {
namespace {

struct Unknown {
  const char *domain, *op;
};
const Unknown kUnknown[] = {{"com.microsoft", "FusedMatMul"},
                            {"com.microsoft", "SkipLayerNormalization"},
                            {"ai.onnx.contrib", "Inverse"},
                            {"org.example", "Sparkle"},
                            {"", "Reluu"},
                            {"", "SimplifiedLayerNormalization"},
                            {"", "NonMaxSuppression"},
                            {"ai.onnx.ml", "TreeEnsembleRegressor"}};

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

TEST(Operators, EveryUnknownOneIsNamedOnce) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Model m;
    m.input("x", {4, 4}).random("w", {4, 4});
    std::vector<std::string> values = {"x"}, lines;
    bool optimised = false;
    for (const Unknown& u : kUnknown)
      if (*u.domain) {
        auto* opset = m.proto.add_opset_import();
        opset->set_domain(u.domain);
        opset->set_version(1);
      }
    for (int i = 0; i < 14; ++i) {
      const std::string name = "value" + std::to_string(i), from = values[random() % values.size()];
      if (random() % 3 == 0) {
        const Unknown& u = kUnknown[random() % std::size(kUnknown)];
        m.node(u.op, {from, values[random() % values.size()]}, {name}, {{"odd", int64_t{1}}});
        m.proto.mutable_graph()->mutable_node(i)->set_domain(u.domain);
        lines.push_back(fmt::format("node 'node {}' ({}): operator {}", i, u.op, u.op));
        optimised |=
            u.domain == std::string("com.microsoft") || u.op == std::string("SimplifiedLayerNormalization");
        if (*u.domain) lines.back() += fmt::format(" of domain {}", u.domain);
      } else if (random() % 2 == 0) {
        m.node("Add", {from, values[random() % values.size()]}, {name});
      } else {
        m.node("MatMul", {from, "w"}, {name});
      }
      m.proto.mutable_graph()->mutable_node(i)->set_name("node " + std::to_string(i));
      values.push_back(name);
    }
    m.node("Sum", Strings(values), {"y"}).output("y");  // reads them all
    const std::string problem = m.problem();
    for (const std::string& line : lines) EXPECT_EQ(count(problem, line), 1) << line << "\n" << problem;
    EXPECT_EQ(count(problem, "node '"), std::ssize(lines)) << problem;
    EXPECT_EQ(count(problem, "export the model again without it"), optimised) << problem;
  }
}

}  // namespace
}  // namespace pock::test
