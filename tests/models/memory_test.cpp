// How close real nets come to the bound that no plan can beat, what they keep alive, and how large their programs are.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/support.h"

namespace pock::test {
namespace {

nlohmann::json report_of(const std::string& model, int batch) {
  TempDir dir;
  Ran ran =
      run({kPockc, "compile", model, "-o", dir / "trainer", "--batch", std::to_string(batch), "--loss",
           "cross-entropy", "--optimizer", "sgd:lr=0.01,momentum=0.9", "--report", dir / "report.json"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  // Weights are mapped, not read: however many there are, `info` is there at once.
  double best = 1;
  for (int i = 0; i < 20; ++i) {
    auto start = std::chrono::steady_clock::now();
    Ran info = run({dir / "trainer", "info"});
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    EXPECT_EQ(info.status, 0) << info.err;
  }
  EXPECT_LT(best, 0.02);
  printf("info in %.2f ms\n", best * 1000);
  nlohmann::json report = nlohmann::json::parse(read_file(dir / "report.json"));
  report["program_bytes"] = static_cast<int64_t>(std::filesystem::file_size(dir / "trainer")) -
                            report["weights_bytes"].get<int64_t>();
  return report;
}

void expect_tight(const nlohmann::json& report) {
  double arena = report["arena_bytes"], bound = report["arena_lower_bound_bytes"];
  EXPECT_LE(arena, 1.02 * bound);
  printf("arena %.0f bytes, bound %.0f, peak at %s\n", arena, bound,
         report["arena_peak_node"].get<std::string>().c_str());
}

TEST(Memory, SmallNets) {
  for (const char* net : {"lenet", "mobile"})
    expect_tight(report_of(std::string(kSourceDir) + "/tests/train/" + net + "/model.onnx", 8));
}

TEST(Memory, ResNet18) {
  TempDir dir;
  std::string model = dir / "resnet18.onnx";
  Ran made = run({"/usr/bin/python3", std::string(kSourceDir) + "/tests/models/resnet18.py", model});
  if (lacks_package(made)) GTEST_SKIP() << "resnet18.py needs python3-onnx and python3-numpy:\n" << made.err;
  ASSERT_EQ(made.status, 0) << made.err;
  // Outputs of the convolutions, in elements a sample.
  double sum = 802816 + 4 * 200704 + 5 * 100352 + 5 * 50176 + 5 * 25088, two_largest = 802816 + 200704;
  for (int batch : {1, 8}) {
    nlohmann::json report = report_of(model, batch);
    expect_tight(report);
    EXPECT_LE(report["program_bytes"], 300'000);
    if (batch == 8) {
      EXPECT_LE(report["arena_bytes"], 1.5 * (sum + two_largest) * 4 * batch);
    }
  }
#ifdef __SANITIZE_ADDRESS__
  printf("pockc's own memory is not checked: the address sanitizer's is part of it\n");
#else
  // The largest of all children of this process: pockc is the only big one.
  rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  EXPECT_LT(usage.ru_maxrss * 1024.0, 1.5e9);
#endif
}

}  // namespace
}  // namespace pock::test
