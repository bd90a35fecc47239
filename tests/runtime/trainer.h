// A folder with data, and trainers made of the runtime and a hand-written program to run in it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "support/support.h"

namespace pock::test {

namespace fs = std::filesystem;
using nlohmann::json;

inline std::string trainer_path(const std::string& name) {
  return std::string(kBuildDir) + "/tests/runtime/" + name;
}

class Trainer : public testing::Test {
 protected:
  static constexpr int kSamples = 83;  // ten batches of eight and three over

  void SetUp() override {
    std::mt19937 random(5);
    std::normal_distribution<float> noise(0, 1);
    for (int i = 0; i < kSamples; ++i) {
      labels_.push_back(i % 3);
      for (int k = 0; k < 6; ++k) x_.push_back(noise(random) + (k == i % 3 ? 3.0f : 0.0f));
    }
    write_file(dir_ / "x.npy", npy("<f4", "(83, 2, 3)", bytes_of(x_)));
    write_file(dir_ / "y.npy", npy("<i8", "(83,)", bytes_of(labels_)));
  }

  // Starts a trainer in the temporary folder, with its output in files there.
  int start(std::vector<std::string> args, const std::string& trainer = "fake_trainer") {
    args.insert(args.begin(), trainer_path(trainer));
    return test::start(args, dir_.path, "out", "err");
  }
  Ran finish(int process) {
    int status = status_of(process);
    return {status, read_file(dir_ / "out"), read_file(dir_ / "err")};
  }
  Ran run(const std::vector<std::string>& args, const std::string& trainer = "fake_trainer") {
    return finish(start(args, trainer));
  }
  Ran train(const std::vector<std::string>& more, const std::string& trainer = "fake_trainer") {
    std::vector<std::string> args = {"train", "--data", "x.npy", "--labels", "y.npy"};
    args.insert(args.end(), more.begin(), more.end());
    return run(args, trainer);
  }
  void refuses_data(const std::string& data, const std::string& labels, const std::string& message) {
    write_file(dir_ / "d", data);
    write_file(dir_ / "l", labels);
    Ran r = run({"train", "--data", "d", "--labels", "l"});
    EXPECT_EQ(r.status, 1) << r.err;
    EXPECT_NE(r.err.find(message), std::string::npos) << "wanted: " << message << "\ngot: " << r.err;
  }
  void refuses_use(const std::vector<std::string>& more, const std::string& message) {
    Ran r = train(more);
    EXPECT_EQ(r.status, 2) << r.err;
    EXPECT_NE(r.err.find(message), std::string::npos) << "wanted: " << message << "\ngot: " << r.err;
  }
  std::string good_x() { return read_file(dir_ / "x.npy"); }
  std::string good_y() { return read_file(dir_ / "y.npy"); }

  TempDir dir_;
  std::vector<float> x_;
  std::vector<int64_t> labels_;
};

// The objects of a JSON log.
inline std::vector<json> lines(const std::string& text) {
  std::vector<json> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(json::parse(line));
  return out;
}

// fake_program.c's scores of a sample at the start.
inline std::vector<double> fake_scores(const float* x) {
  const double w[18] = {0.1, -0.2, 0.05, 0.3, 0.01, -0.1, 0.2, 0.1, -0.3}, b[3] = {0.5, 0.25, -1};
  std::vector<double> z(b, b + 3);
  for (int c = 0; c < 3; ++c)
    for (int k = 0; k < 6; ++k) z[c] += 0.125 * x[k] * w[3 * k + c];
  return z;
}

}  // namespace pock::test
