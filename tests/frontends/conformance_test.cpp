// ONNX's own operator tests: whatever of them is read gives the outputs they ask for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "model.h"
#include "onnx/reader.h"

namespace pock {
namespace {
namespace fs = std::filesystem;

bool parse(const fs::path& path, google::protobuf::MessageLite* message) {
  std::ifstream in(path, std::ios::binary);
  return in && message->ParseFromIstream(&in);
}

std::vector<double> numbers(const onnx::TensorProto& t) {
  onnx_frontend::Tensor data = onnx_frontend::read_tensor({}, t, {});
  if (!data.is_float) return {data.ints.begin(), data.ints.end()};
  std::vector<float> floats(data.floats->size() / sizeof(float));
  std::memcpy(floats.data(), data.floats->data(), data.floats->size());
  return {floats.begin(), floats.end()};
}

// Every input but the first becomes an initializer: pock wants shapes, bounds and running statistics to be
// constant. False where the model is refused.
bool agrees(const fs::path& folder, const test::TempDir& scratch) {
  onnx::ModelProto model;
  EXPECT_TRUE(parse(folder / "model.onnx", &model));
  std::vector<double> first;
  for (int i = 0; i < model.graph().input_size(); ++i) {
    onnx::TensorProto t;
    if (!parse(folder / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb"), &t)) return false;
    t.set_name(model.graph().input(i).name());
    if (i > 0) *model.mutable_graph()->add_initializer() = t;
    if (i == 0) {
      try {
        first = numbers(t);
      } catch (const Error&) {
        return false;
      }
    }
  }
  std::unique_ptr<Graph> g;
  try {
    g = import_onnx(scratch.write("m.onnx", model.SerializeAsString()), {});
  } catch (const Error&) {
    return false;
  }
  Memory m = initial_memory(*g);
  if (!g->inputs().empty()) m.set(g->inputs()[0], first);
  evaluate(*g, m);
  for (size_t i = 0; i < g->outputs().size(); ++i) {
    onnx::TensorProto t;
    EXPECT_TRUE(parse(folder / "test_data_set_0" / ("output_" + std::to_string(i) + ".pb"), &t));
    EXPECT_EQ(g->outputs()[i]->type.dims, Dims(t.dims().begin(), t.dims().end()));
    std::vector<double> got = m.read(g->outputs()[i]), want = numbers(t);
    if (got.size() != want.size()) return true;
    double tolerance = t.data_type() == onnx::TensorProto::FLOAT16 ? 1e-3 : 1e-5;
    for (size_t j = 0; j < got.size(); ++j)
      EXPECT_NEAR(got[j], want[j], tolerance * std::max(1.0, std::abs(want[j]))) << j;
  }
  return true;
}

TEST(Conformance, OperatorTestsOfOnnx) {
  fs::path root = fs::path(POCK_ONNX_TESTDATA) / "data" / "node";
  if (!fs::exists(root)) GTEST_SKIP() << "ONNX's operator tests are not installed (Debian: libonnx-testdata)";
  test::TempDir scratch;
  int read = 0;
  testing::internal::CaptureStderr();
  for (const auto& entry : fs::directory_iterator(root)) {
    std::string name = entry.path().filename();
    // bfloat16 stands in these files as uint16, and random masks are not pock's.
    if (name.find("BFLOAT16") != std::string::npos || name.starts_with("test_training_dropout")) continue;
    SCOPED_TRACE(name);
    read += agrees(entry.path(), scratch);
  }
  testing::internal::GetCapturedStderr();
  EXPECT_GE(read, 200);
}

}  // namespace
}  // namespace pock
