// What is frozen costs nothing: no gradient, no saved activation, no optimizer state.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "pock/frontends/import.h"
#include "train/net.h"

namespace pock::test {
namespace {

using Strings = std::vector<std::string>;

// Names of the layers in their order; their parameters are LAYER.weight and LAYER.bias.
Strings layers(const Net& net) {
  Strings names;
  std::unique_ptr<Graph> model = import_onnx(net.folder + "/model.onnx", {.batch = net.batch});
  for (const Value* p : model->params()) {
    if (p->kind != ValueKind::param) continue;
    std::string layer = p->name.substr(0, p->name.rfind('.'));
    if (names.empty() || names.back() != layer) names.push_back(layer);
  }
  return names;
}

struct Cost {
  int64_t arena = 0, state = 0, flop = 0, nodes = 0;
};
Cost cost(Net net, const Strings& flags) {
  net.optimizer = "sgd:momentum=0.9";
  TempDir dir;
  Strings more = {"--emit", "loops", "--report", dir / "report"};
  more.insert(more.end(), flags.begin(), flags.end());
  Ran ran = run(net.compile_command(dir / "loops", more));
  EXPECT_EQ(ran.status, 0) << ran.err;
  auto report = nlohmann::json::parse(read_file(dir / "report"));
  Cost c{report["arena_bytes"], report["optimizer_state_bytes"]};
  for (const auto& kernel : report["kernels"]) {
    const auto uses = static_cast<int64_t>(kernel["nodes"].size());
    c.nodes += uses;
    c.flop += uses * kernel["flop"].get<int64_t>();
  }
  return c;
}

class Freezing : public testing::TestWithParam<const char*> {};

TEST_P(Freezing, MoreFromTheFrontCostsLess) {
  Net net(GetParam());
  const Strings names = layers(net);
  ASSERT_GE(names.size(), 3u);
  const Cost all = cost(net, {});
  Cost before = all;
  Strings flags;
  for (size_t k = 0; k + 1 < names.size(); ++k) {
    SCOPED_TRACE("frozen to " + names[k]);
    flags.insert(flags.end(), {"--freeze", names[k] + ".*"});
    const Cost now = cost(net, flags);
    EXPECT_LE(now.arena, before.arena);
    EXPECT_LT(now.state, before.state);
    EXPECT_LT(now.flop, before.flop);
    EXPECT_LT(now.nodes, before.nodes);
    before = now;
  }
  EXPECT_LT(before.arena, all.arena);
}

INSTANTIATE_TEST_SUITE_P(Nets, Freezing, testing::Values("mlp", "lenet", "vgg11_bn", "squeezenet"),
                         [](const auto& info) { return std::string(info.param); });

// What the backward part reads of what the forward part left, as `pockc explain` lists it.
nlohmann::json saved(const Net& net, const Strings& flags) {
  Strings argv = net.compile_command("", flags);
  argv[1] = "explain";
  argv.erase(argv.begin() + 3, argv.begin() + 5);  // -o
  argv.push_back("--json");
  const Ran ran = run(argv);
  EXPECT_EQ(ran.status, 0) << ran.err;
  return nlohmann::json::parse(ran.out)["this"]["saved"];
}

TEST(Freezing, BiasesAloneNeedNoInputsOfTheirLayers) {
  for (const char* name : {"lenet", "squeezenet", "vgg11_bn"}) {
    SCOPED_TRACE(name);
    Net net(name);
    auto graph = [&](const Strings& flags) {
      Strings more = {"--emit", "graph"};
      more.insert(more.end(), flags.begin(), flags.end());
      return run(net.compile_command("-", more)).out;
    };
    EXPECT_NE(graph({}).find(" conv_weight_grad("), std::string::npos);
    const std::string biases = graph({"--train", "*.bias"});
    EXPECT_NE(biases.find("conv_input_grad("), std::string::npos);
    EXPECT_EQ(biases.find("conv_weight_grad("), std::string::npos);
    EXPECT_LE(cost(net, {"--train", "*.bias"}).arena, cost(net, {}).arena);
  }
  // Between convolutions, norms, relus and pools nothing else is kept.
  for (const auto& tensor : saved(Net("vgg11_bn"), {"--train", "*.bias"})) {
    const std::string type = tensor["type"];
    EXPECT_TRUE(type.starts_with("mask[") || type.starts_with("u8[") ||
                tensor["node"] == "/classifier/classifier.4/Gemm")
        << tensor;
  }
}

}  // namespace
}  // namespace pock::test
