// `trainer eval` and `trainer predict`, and the weights that they and `train` start from.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "runtime/trainer.h"

namespace pock::test {
namespace {

using Evaluation = Trainer;
using Prediction = Trainer;

// 83 samples in batches of 8: the five rows that fill up the last batch do not count.
TEST_F(Evaluation, IsTheMeanOverAllSamples) {
  x_[6 * (kSamples - 1)] = 50;  // so that counting the last sample more than once shows
  write_file(dir_ / "e.npy", npy("<f4", "(83, 2, 3)", bytes_of(x_)));
  double loss = 0;
  int right = 0;
  for (int i = 0; i < kSamples; ++i) {
    std::vector<double> z = fake_scores(&x_[6 * i]);
    for (int c = 0; c < 3; ++c) loss += std::pow(z[c] - (labels_[i] == c), 2) / kSamples;
    right += std::max_element(z.begin(), z.end()) - z.begin() == labels_[i];
  }
  Ran training = train({"--steps", "1", "--log", "json", "--eval-data", "e.npy", "--eval-labels", "y.npy"});
  ASSERT_EQ(training.status, 0) << training.err;
  Ran alone = run({"eval", "--data", "e.npy", "--labels", "y.npy", "--log", "json"});
  ASSERT_EQ(alone.status, 0) << alone.err;
  EXPECT_EQ(lines(alone.out)[0]["samples"], kSamples);
  for (const json& score : {lines(training.out)[0], lines(alone.out)[0]}) {
    EXPECT_NEAR(score["loss"].get<double>(), loss, 1e-5 * loss);
    EXPECT_NEAR(score["accuracy"].get<double>(), static_cast<double>(right) / kSamples, 1e-6);
  }
  Ran plain = run({"eval", "--data", "e.npy", "--labels", "y.npy"});
  EXPECT_EQ(plain.out.rfind("loss ", 0), 0u) << plain.out;
  EXPECT_NE(plain.out.find(", accuracy "), std::string::npos) << plain.out;
  EXPECT_NE(plain.out.find(", 83 samples\n"), std::string::npos) << plain.out;
}

// Fewer samples than a batch are enough; no batch of one is needed.
TEST_F(Evaluation, OfFewSamples) {
  write_file(dir_ / "e.npy", npy("<f4", "(1, 2, 3)", bytes_of(x_).substr(0, 24)));
  write_file(dir_ / "l.npy", npy("<i8", "(1,)", bytes_of(labels_).substr(0, 8)));
  Ran r = run({"eval", "--data", "e.npy", "--labels", "l.npy", "--log", "json"});
  ASSERT_EQ(r.status, 0) << r.err;
  double loss = 0;
  std::vector<double> z = fake_scores(x_.data());
  for (int c = 0; c < 3; ++c) loss += std::pow(z[c] - (labels_[0] == c), 2);
  EXPECT_NEAR(lines(r.out)[0]["loss"].get<double>(), loss, 1e-5 * loss);
}

// Scores that are no numbers are never the right ones, not even for class 0.
TEST_F(Evaluation, NanIsNoAnswer) {
  std::fill(x_.begin(), x_.end(), NAN);
  std::fill(labels_.begin(), labels_.end(), 0);
  write_file(dir_ / "e.npy", npy("<f4", "(83, 2, 3)", bytes_of(x_)));
  write_file(dir_ / "l.npy", npy("<i8", "(83,)", bytes_of(labels_)));
  Ran r = run({"eval", "--data", "e.npy", "--labels", "l.npy", "--log", "json"});
  EXPECT_EQ(r.status, 1) << r.err;
  EXPECT_TRUE(lines(r.out)[0]["loss"].is_null());
  EXPECT_EQ(lines(r.out)[0]["accuracy"], 0);
  // In training, too: it is saved, but whoever counts on the evaluation is told.
  r = train({"--epochs", "9", "--patience", "2", "--eval-data", "e.npy", "--eval-labels", "l.npy",
             "--checkpoint", "c", "--log", "json"});
  EXPECT_EQ(r.status, 1) << r.err;
  EXPECT_EQ(lines(r.out).back()["stopped"], "patience");
  EXPECT_TRUE(fs::exists(dir_ / "c"));
  EXPECT_FALSE(fs::exists(dir_ / "c.best"));
}

// One number for a whole batch: only full batches count.
TEST_F(Evaluation, OfAModelsOwnLoss) {
  double loss = 0;
  for (int i = 0; i < 80; ++i) {
    std::vector<double> z = fake_scores(&x_[6 * i]);
    for (int c = 0; c < 3; ++c) loss += std::pow(z[c] - (labels_[i] == c), 2) / 80;
  }
  Ran r = run({"eval", "--data", "x=x.npy", "--data", "target=y.npy", "--log", "json"}, "own_loss_trainer");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NEAR(lines(r.out)[0]["loss"].get<double>(), loss, 1e-5 * loss);
  EXPECT_EQ(lines(r.out)[0]["samples"], 80);
  EXPECT_FALSE(lines(r.out)[0].contains("accuracy"));
  EXPECT_NE(r.err.find("last 3 samples"), std::string::npos) << r.err;
  write_file(dir_ / "e.npy", npy("<f4", "(1, 2, 3)", bytes_of(x_).substr(0, 24)));
  write_file(dir_ / "l.npy", npy("<i8", "(1,)", bytes_of(labels_).substr(0, 8)));
  r = run({"eval", "--data", "x=e.npy", "--data", "target=l.npy"}, "own_loss_trainer");
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("fewer than one batch of 8"), std::string::npos) << r.err;
}

// Parameters and statistics come from the checkpoint, whatever it was trained with; nothing else does.
TEST_F(Evaluation, StartsFromWeights) {
  ASSERT_EQ(train({"--steps", "30", "--checkpoint", "c", "--log", "json"}).status, 0);
  Ran before = run({"eval", "--data", "x.npy", "--labels", "y.npy", "--log", "json"});
  Ran after = run({"eval", "--data", "x.npy", "--labels", "y.npy", "--log", "json", "--weights", "c"});
  ASSERT_EQ(after.status, 0) << after.err;
  EXPECT_LT(lines(after.out)[0]["loss"].get<double>(), 0.9 * lines(before.out)[0]["loss"].get<double>());
  Ran again = train({"--steps", "2", "--weights", "c", "--checkpoint", "d", "--log", "json", "--eval-data",
                     "x.npy", "--eval-labels", "y.npy"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(lines(again.out)[0]["loss"], lines(after.out)[0]["loss"]);
  EXPECT_EQ(lines(again.out)[1]["step"], 1);
  Safetensors c = read_safetensors(dir_ / "c"), d = read_safetensors(dir_ / "d");
  EXPECT_EQ(d.tensors["seen"].numbers()[0], c.tensors["seen"].numbers()[0] + 16);
  EXPECT_EQ(d.metadata["step"], "2");
  // Momentum began at zero: after a step without movement it is the gradient alone.
  ASSERT_EQ(train({"--steps", "1", "--weights", "c", "--checkpoint", "e", "--opt", "momentum=0"}).status, 0);
  ASSERT_EQ(train({"--steps", "1", "--weights", "c", "--checkpoint", "f"}).status, 0);
  EXPECT_EQ(read_safetensors(dir_ / "e").tensors["optimizer/momentum/fc.b"].bytes,
            read_safetensors(dir_ / "f").tensors["optimizer/momentum/fc.b"].bytes);
}

TEST_F(Evaluation, WrongWeightsAreRefused) {
  ASSERT_EQ(train({"--steps", "1", "--checkpoint", "c"}, "other_trainer").status, 0);
  Ran r = run({"eval", "--data", "x.npy", "--labels", "y.npy", "--weights", "c"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("weights 'c' belongs to another model"), std::string::npos) << r.err;
  r = run({"eval", "--data", "x.npy", "--labels", "y.npy", "--weights", "x.npy"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("not a safetensors file"), std::string::npos) << r.err;
  r = train({"--weights", "c", "--resume", "c"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("not both"), std::string::npos) << r.err;
}

TEST_F(Prediction, HasARowForEachSample) {
  ASSERT_EQ(train({"--steps", "30", "--checkpoint", "c"}).status, 0);
  std::vector<double> trained;
  for (const char* output : {"p.npy", "logits=p.npy"}) {
    Ran r = run({"predict", "--data", "x.npy", "--output", output});
    ASSERT_EQ(r.status, 0) << r.err;
    Array p = read_npy(dir_ / "p.npy");
    ASSERT_EQ(p.dims, (std::vector<int64_t>{kSamples, 3}));
    ASSERT_EQ(p.dtype, "<f4");
    std::vector<double> got = p.numbers();
    for (int i = 0; i < kSamples; ++i)
      for (int c = 0; c < 3; ++c) EXPECT_NEAR(got[3 * i + c], fake_scores(&x_[6 * i])[c], 1e-5);
    EXPECT_FALSE(fs::exists(dir_ / "p.npy.tmp"));
  }
  size_t header = read_file(dir_ / "p.npy").size() - kSamples * 3 * 4;
  EXPECT_EQ(header % 64, 0u);
  std::string before = read_file(dir_ / "p.npy");
  ASSERT_EQ(
      run({"predict", "--data", "x.npy", "--weights", "c", "--output", "p.npy", "--threads", "3"}).status, 0);
  EXPECT_NE(read_file(dir_ / "p.npy"), before);
}

// Whatever else is in the batch, and whatever was in memory.
TEST_F(Prediction, OfASampleIsItsOwn) {
  ASSERT_EQ(run({"predict", "--data", "x.npy", "--output", "all.npy"}).status, 0);
  ASSERT_EQ(run({"predict", "--data", "x.npy", "--output", "poisoned.npy", "--poison-arena"}).status, 0);
  EXPECT_EQ(read_file(dir_ / "poisoned.npy"), read_file(dir_ / "all.npy"));
  write_file(dir_ / "e.npy", npy("<f4", "(1, 2, 3)", bytes_of(x_).substr(82 * 24, 24)));
  ASSERT_EQ(run({"predict", "--data", "e.npy", "--output", "one.npy"}).status, 0);
  EXPECT_EQ(read_npy(dir_ / "one.npy").bytes, read_npy(dir_ / "all.npy").bytes.substr(82 * 12));
}

TEST_F(Prediction, OfAModelWithItsOwnLoss) {
  // No target is needed for scores.
  Ran r = run({"predict", "--data", "x=x.npy", "--output", "logits=p.npy"}, "own_loss_trainer");
  ASSERT_EQ(r.status, 0) << r.err;
  ASSERT_EQ(run({"predict", "--data", "x.npy", "--output", "q.npy"}).status, 0);
  EXPECT_EQ(read_file(dir_ / "p.npy"), read_file(dir_ / "q.npy"));
  // The loss needs one, and full batches.
  r = run({"predict", "--data", "x=x.npy", "--output", "loss=l.npy"}, "own_loss_trainer");
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("no file for 'target'; give --data"), std::string::npos) << r.err;
  std::vector<std::string> whole = {"predict",      "--data",   "x=x.npy",     "--data",
                                    "target=y.npy", "--output", "loss=l.npy",  "--output",
                                    "scale=s.npy",  "--output", "logits=p.npy"};
  r = run(whole, "own_loss_trainer");
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("'loss' has no row for each sample"), std::string::npos) << r.err;
  EXPECT_FALSE(fs::exists(dir_ / "l.npy"));
  write_file(dir_ / "x.npy", npy("<f4", "(80, 2, 3)", bytes_of(x_).substr(0, 80 * 24)));
  write_file(dir_ / "y.npy", npy("<i8", "(80,)", bytes_of(labels_).substr(0, 640)));
  r = run(whole, "own_loss_trainer");
  ASSERT_EQ(r.status, 0) << r.err;
  Array loss = read_npy(dir_ / "l.npy"), scale = read_npy(dir_ / "s.npy");
  EXPECT_EQ(loss.dims, (std::vector<int64_t>{10}));
  EXPECT_EQ(scale.numbers(), std::vector<double>(10, 0.125));
  double first = 0;
  for (int i = 0; i < 8; ++i) {
    std::vector<double> z = fake_scores(&x_[6 * i]);
    for (int c = 0; c < 3; ++c) first += std::pow(z[c] - (labels_[i] == c), 2) / 8;
  }
  EXPECT_NEAR(loss.numbers()[0], first, 1e-5);
  EXPECT_EQ(read_npy(dir_ / "p.npy").dims, (std::vector<int64_t>{80, 3}));
}

// Nothing is written over by mistake, and what fails leaves what was there.
TEST_F(Prediction, WritesAllOrNothing) {
  fs::create_directory(dir_ / "folder");
  fs::create_symlink("x.npy", dir_ / "link");
  write_file(dir_ / "x.npy", npy("<f4", "(80, 2, 3)", bytes_of(x_).substr(0, 80 * 24)));
  write_file(dir_ / "y.npy", npy("<i8", "(80,)", bytes_of(labels_).substr(0, 640)));
  std::string x = read_file(dir_ / "x.npy");
  struct Wrong {
    std::vector<std::string> outputs;
    const char* says;
  };
  for (const Wrong& w : {Wrong{{"x.npy"}, "would write over"}, Wrong{{"link"}, "would write over"},
                         Wrong{{"./x.npy"}, "would write over"}, Wrong{{"folder"}, "it is a directory"},
                         Wrong{{"/dev/null"}, "not a regular file"}, Wrong{{"no/such/place"}, "no such file"},
                         Wrong{{"logits=p.npy", "scale=./p.npy"}, "would write over"},
                         Wrong{{std::string(300, 'p')}, "the path is too long"}}) {
    std::vector<std::string> args = {"predict", "--data", "x=x.npy", "--data", "target=y.npy"};
    for (const std::string& o : w.outputs)
      args.insert(args.end(), {"--output", w.outputs.size() > 1 ? o : "logits=" + o});
    Ran r = run(args, "own_loss_trainer");
    EXPECT_EQ(r.status, 1) << w.says;
    EXPECT_NE(r.err.find(w.says), std::string::npos) << r.err;
    EXPECT_EQ(read_file(dir_ / "x.npy"), x);
    for (const auto& entry : fs::directory_iterator(dir_.path))
      EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
    EXPECT_FALSE(fs::exists(dir_ / "p.npy"));
  }
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  // A disk with room for the header but not for the rows.
  write_file(dir_ / "p.npy", "old");
  Ran full = test::run({"/bin/bash", "-c", "exec prlimit --fsize=500 \"$@\"", "-",
                        trainer_path("fake_trainer"), "predict", "--data", "x.npy", "--output", "p.npy"},
                       dir_.path);
  EXPECT_EQ(full.status, 1) << full.err;
  EXPECT_NE(full.err.find("'p.npy' cannot be written: file too large"), std::string::npos) << full.err;
  EXPECT_EQ(read_file(dir_ / "p.npy"), "old");
  EXPECT_FALSE(fs::exists(dir_ / "p.npy.tmp"));
}

TEST_F(Prediction, ASignalLeavesNothing) {
  int child = start({"predict", "--data", "x.npy", "--output", "p.npy"}, "slow_trainer");
  while (!fs::exists(dir_ / "p.npy.tmp")) usleep(1000);
  kill(child, SIGTERM);
  EXPECT_EQ(finish(child).status, 143);
  EXPECT_FALSE(fs::exists(dir_ / "p.npy"));
  EXPECT_FALSE(fs::exists(dir_ / "p.npy.tmp"));
}

TEST_F(Prediction, WrongUseIsExplained) {
  struct Wrong {
    std::vector<std::string> args;
    const char *trainer, *says;
  };
  for (const Wrong& w :
       {Wrong{{"predict", "--data", "x.npy"}, "fake_trainer", "nothing to write; give --output"},
        Wrong{{"predict", "--output", "p"}, "fake_trainer", "no file for 'x'; give --data"},
        Wrong{{"predict", "--output", "p"}, "own_loss_trainer", "one of: loss logits scale"},
        Wrong{{"predict", "--output", "scale=p"}, "own_loss_trainer", "how many samples? give --data"},
        Wrong{{"predict", "--output", "p", "--output", "q"}, "fake_trainer", "'logits' was given twice"},
        Wrong{{"predict", "--output", ""}, "fake_trainer", "the file name is empty"},
        Wrong{{"predict", "--labels", "y.npy"},
              "fake_trainer",
              "unknown option '--labels'; see trainer predict"},
        Wrong{{"eval", "--data", "x.npy"}, "fake_trainer", "no file for 'logits'; give --labels"},
        Wrong{
            {"eval", "--epochs", "2"}, "fake_trainer", "unknown option '--epochs'; see trainer eval --help"},
        Wrong{{"info", "--data", "x"}, "fake_trainer", "unknown option '--data'"}}) {
    Ran r = run(w.args, w.trainer);
    EXPECT_EQ(r.status, 2) << w.says;
    EXPECT_NE(r.err.find(w.says), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(dir_ / "p"));
  }
}

TEST_F(Trainer, EveryCommandHasHelp) {
  for (auto [command, option, not_its] : {std::tuple{"train", "--resume FILE", "--output"},
                                          {"eval", "--log json", "--epochs"},
                                          {"predict", "--output [OUTPUT=]FILE", "--labels"},
                                          {"info", "--json", "--data"}}) {
    Ran r = run({command, "--help"});
    EXPECT_EQ(r.status, 0);
    EXPECT_EQ(r.out.rfind("usage: trainer " + std::string(command), 0), 0u) << r.out;
    EXPECT_NE(r.out.find("  " + std::string(option)), std::string::npos) << r.out;
    EXPECT_EQ(r.out.find("  " + std::string(not_its)), std::string::npos) << r.out;
    EXPECT_TRUE(r.err.empty());
    std::istringstream text(r.out);
    for (std::string line; std::getline(text, line);) {
      EXPECT_LE(line.size(), 90u) << line;
      if (line.rfind("  ", 0) == 0 && line.size() > 32) {
        EXPECT_EQ(line[29], ' ') << line;  // between an option and what it does
      }
    }
    EXPECT_NE(run({"--help"}).out.find("trainer " + std::string(command) + " "), std::string::npos);
  }
}

}  // namespace
}  // namespace pock::test
