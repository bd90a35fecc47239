// One net in all the ways in which a file can hold its weights, by every opset: what is trained does not depend on it.
#include <gtest/gtest.h>

#include "support/support.h"

namespace pock::test {
namespace {

namespace fs = std::filesystem;

struct Learned {
  std::string said, log;
  std::map<std::string, Array> tensors;
};

class Places : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<float> x;
    std::vector<uint8_t> y;
    for (int i = 0; i < 12; ++i) {
      y.push_back(static_cast<uint8_t>(i % 4));
      for (int k = 0; k < 6; ++k)
        x.push_back(static_cast<float>((i * 7 + k * 5) % 11) / 8 - 0.5f + (k == i % 4 ? 1.0f : 0.0f));
    }
    dir_.write("x", npy("<f4", "(12, 6)", bytes_of(x)));
    dir_.write("y", npy("|u1", "(12,)", bytes_of(y)));
  }
  Learned learn(const std::string& model) {
    Ran compiled = run({kPockc, "compile", std::string(kSourceDir) + "/tests/import/" + model + ".onnx", "-o",
                        dir_ / "t", "--batch", "3", "--loss", "cross-entropy", "--optimizer",
                        "sgd:lr=0.2,momentum=0.9"});
    EXPECT_EQ(compiled.status, 0) << compiled.err;
    Ran trained = run({dir_ / "t", "train", "--data", "x", "--labels", "y", "--steps", "40", "--log", "json",
                       "--checkpoint", model},
                      dir_.path);
    EXPECT_EQ(trained.status, 0) << trained.err;
    return {compiled.err, trained.out, read_safetensors(dir_ / model).tensors};
  }
  TempDir dir_;
};

TEST_F(Places, TheSameBitsFromEveryOne) {
  const Learned want = learn("mlp_opset13");
  const std::string parameters[] = {"fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"};
  for (const char* model :
       {"mlp_constants", "mlp_inputs_ir3", "mlp_some_inputs", "mlp_fixed_batch", "storage_float_data",
        "storage_unknown_field", "names_none", "names_domain", "mlp_opset7", "mlp_opset9", "mlp_opset11",
        "mlp_opset15", "mlp_opset17", "mlp_opset18", "mlp_opset21"}) {
    SCOPED_TRACE(model);
    const Learned got = learn(model);
    EXPECT_NE(got.said.find("trained: all 4 parameters"), std::string::npos) << got.said;
    EXPECT_EQ(got.log, want.log);
    for (const std::string& name : parameters) {
      ASSERT_TRUE(got.tensors.count(name)) << name;
      EXPECT_TRUE(got.tensors.at(name).bytes == want.tensors.at(name).bytes) << name;
    }
  }
  // And it learned something.
  const auto loss = [&](size_t at) { return std::stod(want.log.substr(want.log.find("\"loss\":", at) + 7)); };
  EXPECT_LT(loss(want.log.rfind("{\"step\"")), 0.5 * loss(0));
}

// Names of other kinds, and weights that the net reads transposed: still four parameters, and they learn the same.
TEST_F(Places, TransposedOnesLearnTheSame) {
  const Learned want = learn("mlp_opset13");
  for (const char* model : {"mlp_matmul", "mlp_transpose_node", "names"}) {
    SCOPED_TRACE(model);
    const Learned got = learn(model);
    EXPECT_NE(got.said.find("trained: all 4 parameters"), std::string::npos) << got.said;
    EXPECT_EQ(got.log, want.log);
  }
}

}  // namespace
}  // namespace pock::test
