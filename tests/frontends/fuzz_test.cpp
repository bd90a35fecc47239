// Whatever the bytes, a model is read or refused with an Error, and inspected or refused: nothing else is thrown, nothing
// crashes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "model.h"
#include "pock/frontends/inspect.h"

namespace pock {
namespace {
namespace fs = std::filesystem;

std::vector<std::string> models() {
  std::vector<fs::path> paths;
  for (const auto& e : fs::directory_iterator(fs::path(test::kSourceDir) / "tests" / "import"))
    if (e.path().extension() == ".onnx") paths.push_back(e.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> all;
  for (const auto& p : paths) all.push_back(test::read_file(p));
  return all;
}

// True where it was read.
bool survives(const test::TempDir& folder, const std::string& bytes) {
  std::string path = folder.write("m.onnx", bytes);
  try {
    inspect_onnx(path, {});
    verify(*import_onnx(path, {.batch = 3}), "import");
    return true;
  } catch (const Error& e) {
    EXPECT_FALSE(std::string(e.what()).empty());
    return false;
  }
}

class Fuzz : public testing::Test {
 protected:
  void SetUp() override { testing::internal::CaptureStderr(); }
  void TearDown() override { testing::internal::GetCapturedStderr(); }
  int64_t below(size_t n) { return static_cast<int64_t>(random_() % n); }

  test::TempDir folder_;
  std::mt19937 random_{1};
  std::vector<std::string> models_ = models();
};

TEST_F(Fuzz, Truncated) {
  ASSERT_GT(models_.size(), 20u);
  int read = 0;
  for (size_t m = 0; m < models_.size(); ++m)
    for (size_t n = m % 7; n < models_[m].size(); n += 7) read += survives(folder_, models_[m].substr(0, n));
  // The opset stands behind the graph, so a cut file lacks something; only storage_unknown_field ends in
  // fields that nobody needs.
  EXPECT_LE(read, 1);
}

TEST_F(Fuzz, BitFlips) {
  for (const std::string& good : models_)
    for (int i = 0; i < 60; ++i) {
      std::string bytes = good;
      for (int64_t flips = 1 + below(4); flips > 0; --flips)
        bytes[below(bytes.size())] ^= static_cast<char>(1 << below(8));
      survives(folder_, bytes);
    }
}

TEST_F(Fuzz, CutAndPaste) {
  for (const std::string& good : models_)
    for (int i = 0; i < 20; ++i) {
      std::string bytes = good;
      size_t from = below(bytes.size()), count = below(40), to = below(bytes.size());
      std::string piece = bytes.substr(from, count);
      if (below(2)) bytes.erase(from, count);
      bytes.insert(std::min(to, bytes.size()), piece);
      survives(folder_, bytes);
    }
}

// Well-formed files with senseless numbers and names.
TEST_F(Fuzz, Fields) {
  const std::vector<int64_t> numbers = {0,
                                        1,
                                        -1,
                                        2,
                                        -2,
                                        3,
                                        7,
                                        1 << 20,
                                        int64_t{1} << 31,
                                        int64_t{1} << 40,
                                        std::numeric_limits<int64_t>::max(),
                                        std::numeric_limits<int64_t>::min()};
  auto number = [&] { return numbers[below(numbers.size())]; };
  for (const std::string& good : models_)
    for (int i = 0; i < 60; ++i) {
      onnx::ModelProto model;
      ASSERT_TRUE(model.ParseFromString(good));
      auto& g = *model.mutable_graph();
      auto& node = *g.mutable_node(static_cast<int>(below(g.node_size())));
      switch (below(8)) {
        case 0:
          if (g.initializer_size()) {
            auto& t = *g.mutable_initializer(static_cast<int>(below(g.initializer_size())));
            if (t.dims_size()) t.set_dims(static_cast<int>(below(t.dims_size())), number());
          }
          break;
        case 1:
          for (auto& a : *node.mutable_attribute()) {
            a.set_i(number());
            if (a.ints_size()) a.set_ints(static_cast<int>(below(a.ints_size())), number());
          }
          break;
        case 2:
          for (auto& t : *g.mutable_initializer())
            if (t.data_type() == onnx::TensorProto::INT64) {
              auto& raw = *t.mutable_raw_data();
              int64_t n = number();
              if (raw.size() >= 8) std::memcpy(raw.data() + 8 * below(raw.size() / 8), &n, 8);
            }
          break;
        case 3:
          if (node.input_size()) {
            const auto& other = g.node(static_cast<int>(below(g.node_size())));
            node.set_input(static_cast<int>(below(node.input_size())), other.output(0));
          }
          break;
        case 4: {
          static const char* kOps[] = {
              "Conv",    "ConvTranspose", "AveragePool", "Resize",    "Upsample",  "MatMul",
              "Dropout", "Gemm",          "MaxPool",     "Concat",    "Softmax",   "BatchNormalization",
              "Gather",  "Slice",         "Reshape",     "ReduceSum", "Unsqueeze", "ConstantOfShape",
              "Pad",     "Squeeze",       "Transpose",   "Cast",      "Identity",  "Clip"};
          node.set_op_type(kOps[below(std::size(kOps))]);
          break;
        }
        case 5:
          if (g.input_size()) {
            auto& in = *g.mutable_input(static_cast<int>(below(g.input_size())))
                            ->mutable_type()
                            ->mutable_tensor_type();
            if (in.shape().dim_size())
              in.mutable_shape()
                  ->mutable_dim(static_cast<int>(below(in.shape().dim_size())))
                  ->set_dim_value(number());
            if (below(4) == 0) in.set_elem_type(static_cast<int>(below(24)));
          }
          break;
        case 6:
          if (g.initializer_size())
            g.mutable_initializer(static_cast<int>(below(g.initializer_size())))
                ->set_data_type(static_cast<int>(below(24)));
          break;
        default:
          model.mutable_opset_import(0)->set_version(below(26));
      }
      survives(folder_, model.SerializeAsString());
    }
}

}  // namespace
}  // namespace pock
