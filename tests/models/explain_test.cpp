// pockc explain: the published sparse-update schemes of a net for microcontrollers must come out with the extra memory that
// the published formula gives them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "support/support.h"

namespace pock::test {
namespace {

struct Published {
  const char* name;
  int bias_layers;                              // in front of the classifier
  std::vector<std::pair<int, double>> weights;  // convolutions and the shares of their input channels
  double weights_kib, activations_kib, total_kib;
};

const Published kSchemes[] = {
    {"49KB", 20, {{24, 0.25}, {27, 0.5}, {30, 0.5}}, 29.75, 20.00, 49.75},
    {"74KB", 21, {{21, 1}, {24, 1}, {27, 0.5}, {30, 1}}, 47.31, 27.50, 74.81},
    {"99KB", 22, {{21, 1}, {24, 1}, {27, 1}, {30, 1}, {36, 0.125}, {39, 0.25}}, 69.97, 29.88, 99.84},
    {"148KB", 23, {{21, 1}, {24, 1}, {27, 1}, {30, 1}, {36, 1}, {39, 0.5}}, 115.59, 32.81, 148.41},
    {"last6", 6, {{36, 1}, {37, 1}, {38, 1}, {39, 1}, {40, 1}, {41, 1}}, 238.94, 37.41, 276.34},
    {"bias-only", 42, {}, 23.47, 97.81, 121.28},
    {"everything",
     42,
     {{0, 1},  {1, 1},  {2, 1},  {3, 1},  {4, 1},  {5, 1},  {6, 1},  {7, 1},  {8, 1},  {9, 1},  {10, 1},
      {11, 1}, {12, 1}, {13, 1}, {14, 1}, {15, 1}, {16, 1}, {17, 1}, {18, 1}, {19, 1}, {20, 1}, {21, 1},
      {22, 1}, {23, 1}, {24, 1}, {25, 1}, {26, 1}, {27, 1}, {28, 1}, {29, 1}, {30, 1}, {31, 1}, {32, 1},
      {33, 1}, {34, 1}, {35, 1}, {36, 1}, {37, 1}, {38, 1}, {39, 1}, {40, 1}, {41, 1}},
     475.83,
     924.56,
     1400.39},
};

std::string toml(const Published& p) {
  std::ostringstream text;
  text << "biases = \"last:" << p.bias_layers + 1 << "\"\n[[weights]]\nmatch = \"last:1\"\n";
  for (const auto& [conv, share] : p.weights)
    text << "[[weights]]\nmatch = \"convs." << conv << ".weight\"\nchannels = " << std::fixed << share
         << "\n";
  return text.str();
}

TEST(Explain, GivesPublishedSchemesTheirMemory) {
  TempDir dir;
  const std::string model = dir / "mcunet.onnx";
  Ran made = run({"/usr/bin/python3", std::string(kSourceDir) + "/tests/models/mcunet.py", model});
  if (lacks_package(made)) GTEST_SKIP() << "mcunet.py needs python3-onnx and python3-numpy:\n" << made.err;
  ASSERT_EQ(made.status, 0) << made.err;
  int64_t less = 0;
  for (const Published& p : kSchemes) {
    SCOPED_TRACE(p.name);
    Ran ran = run({kPockc, "explain", model, "--batch", "1", "--loss", "cross-entropy", "--json",
                   "--sparse-scheme", dir.write("scheme.toml", toml(p))});
    ASSERT_EQ(ran.status, 0) << ran.err;
    const auto all = nlohmann::json::parse(ran.out);
    const auto got = all["analytic_extra_memory_kib"]["int8"];
    EXPECT_NEAR(got["weights"], p.weights_kib, 0.01);
    EXPECT_NEAR(got["activations"], p.activations_kib, 0.01);
    EXPECT_NEAR(got["total"], p.total_kib, 0.01);
    EXPECT_LE(all["this"]["arena_lower_bound_bytes"], all["full"]["arena_lower_bound_bytes"]);
    if (std::string(p.name) == "148KB")
      EXPECT_LE(4 * all["this"]["arena_bytes"].get<int64_t>(), all["full"]["arena_bytes"].get<int64_t>());
    // Each of the first four trains more than the one before.
    if (&p < kSchemes + 4) {
      EXPECT_LE(less, all["this"]["arena_lower_bound_bytes"].get<int64_t>());
      less = all["this"]["arena_lower_bound_bytes"];
    }
    printf("%s: arena %d bytes, of full update %d\n", p.name, all["this"]["arena_bytes"].get<int>(),
           all["full"]["arena_bytes"].get<int>());
  }
}

}  // namespace
}  // namespace pock::test
