// A trainer's own memory, while it trains and evaluates: the plan, a stated little more, and never growing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <ostream>

#include "train/net.h"

namespace pock::test {
namespace {

// Tables, stacks and pages that are not full; docs/trainer.md says so.
constexpr int64_t kOverhead = 128 << 10;

// Bytes, or 0 where the process has ended.
int64_t rss_anon(int process) {
  std::string status = read_file("/proc/" + std::to_string(process) + "/status");
  size_t at = status.find("RssAnon:");
  return at == std::string::npos ? 0 : 1024 * std::atoll(status.c_str() + at + 8);
}

int64_t mappings_of(int process) {
  std::string maps = read_file("/proc/" + std::to_string(process) + "/maps");
  return std::count(maps.begin(), maps.end(), '\n');
}

struct Case {
  std::string name, net;
  std::vector<std::string> flags;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class OwnMemory : public testing::TestWithParam<Case> {};

TEST_P(OwnMemory, IsThePlanOverFiftyEpochs) {
  Net net(GetParam().net);
  TempDir dir;
  compile(net, dir, GetParam().flags);
  auto info = nlohmann::json::parse(run({dir / "trainer", "info", "--json"}).out);
  int64_t plan = info["arena_bytes"].get<int64_t>() + info["params_bytes"].get<int64_t>() +
                 info["state_bytes"].get<int64_t>();
  std::string data = net.folder + "/data.npy", labels = net.folder + "/labels.npy";
  int64_t samples = read_npy(data).dims[0], epoch = samples / net.batch;
  int child = start({dir / "trainer",      "train", "--data",        data,   "--labels",     labels,
                     "--eval-data",        data,    "--eval-labels", labels, "--epochs",     "50",
                     "--threads",          "2",     "--log",         "json", "--checkpoint", dir / "c",
                     "--checkpoint-every", "3"},
                    dir.path, "out", "err");
  int64_t first = 0, most = 0, mappings = 0, more_mappings = 0;
  while (true) {
    int64_t now = rss_anon(child);
    if (!now) break;  // a zombie has no memory
    // From the second epoch on every page has been touched.
    if (!first && read_file(dir / "out").find("{\"eval\":1,") != std::string::npos) {
      first = now;
      mappings = mappings_of(child);
    }
    if (first) {
      most = std::max(most, now);
      more_mappings = std::max(more_mappings, mappings_of(child));
    }
    usleep(2000);
  }
  EXPECT_EQ(status_of(child), 0) << read_file(dir / "err");
  std::string out = read_file(dir / "out");
  EXPECT_NE(out.find("{\"eval\":50,\"step\":" + std::to_string(50 * epoch)), std::string::npos);
  ASSERT_GT(first, 0) << "ended before it could be watched";
  EXPECT_GE(most, plan);
  EXPECT_LE(most, plan + kOverhead);
  EXPECT_LE(more_mappings, mappings + 2);  // while it saves, a few more
  EXPECT_LE(most - first, 16 << 10) << "grew from " << first << " to " << most;
}
// Without its weights, which are as large as they are.
TEST(ProgramSize, OfASmallNet) {
  TempDir dir;
  compile(Net("lenet"), dir);
  auto info = nlohmann::json::parse(run({dir / "trainer", "info", "--json"}).out);
  auto bytes = static_cast<int64_t>(std::filesystem::file_size(dir / "trainer"));
  const auto weights = info["weights_bytes"].get<int64_t>();
  EXPECT_LE(bytes - weights, 120 << 10);
  compile(Net("lenet"), dir, {"--target", "rpi4"});
  EXPECT_LE(static_cast<int64_t>(std::filesystem::file_size(dir / "trainer")) - weights, 100 << 10);
}

INSTANTIATE_TEST_SUITE_P(
    Nets, OwnMemory,
    testing::Values(Case{"lenet", "lenet", {}}, Case{"bn_cnn", "bn_cnn", {}},
                    Case{"weights_file", "bn_cnn", {"--weights-file", "--freeze", "conv1.*"}}),
    [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

}  // namespace
}  // namespace pock::test
