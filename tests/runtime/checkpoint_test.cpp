// Checkpoints of whole trainers: what is in them, and what is left after any accident.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <map>

#include "runtime/trainer.h"

namespace pock::test {
namespace {

using Checkpoints = Trainer;

TEST_F(Checkpoints, ResumingGivesTheSameBits) {
  for (auto [half, whole] : {std::pair{"5", "10"}, {"7", "23"}, {"10", "20"}}) {
    Ran straight = train({"--steps", whole, "--log", "json", "--checkpoint", "straight"});
    Ran first = train({"--steps", half, "--log", "json", "--checkpoint", "c"});
    Ran second = train({"--steps", whole, "--log", "json", "--checkpoint", "c", "--resume", "c"});
    ASSERT_EQ(straight.status + first.status + second.status, 0) << second.err;
    EXPECT_EQ(straight.out, first.out + second.out);
    EXPECT_EQ(read_file(dir_ / "straight"), read_file(dir_ / "c"));
    EXPECT_TRUE(fs::exists(dir_ / "c.prev"));
    EXPECT_FALSE(fs::exists(dir_ / "c.tmp"));
  }
}

TEST_F(Checkpoints, CheckpointIsSafetensors) {
  ASSERT_EQ(train({"--steps", "13", "--checkpoint", "c"}).status, 0);
  std::string file = read_file(dir_ / "c");
  uint64_t size;
  std::memcpy(&size, file.data(), 8);
  EXPECT_EQ(size % 8, 0u);
  json header = json::parse(file.substr(8, size));
  const json& about = header["__metadata__"];
  EXPECT_EQ(about["step"], "13");
  EXPECT_EQ(about["epoch"], "1");
  EXPECT_EQ(about["position"], "24");
  EXPECT_EQ(about["seed"], "7");
  EXPECT_EQ(about["batch"], "8");
  EXPECT_EQ(about["samples"], "83");
  EXPECT_FALSE(about.contains("best_loss"));
  EXPECT_EQ(header.size(), 6u);
  json w = header["fc.\"w\"\n\\\xC3\xA4"];
  EXPECT_EQ(w["shape"], (json{6, 3}));
  EXPECT_EQ(w["data_offsets"], (json{0, 72}));
  EXPECT_EQ(header["seen"]["shape"], json::array());
  EXPECT_EQ(header["optimizer/momentum/fc.b"]["data_offsets"], (json{160, 172}));
  EXPECT_EQ(file.size(), 8 + size + 172);
  float seen;
  std::memcpy(&seen, file.data() + 8 + size + 84, 4);
  EXPECT_EQ(seen, 13 * 8);
}

TEST_F(Checkpoints, DamagedCheckpointFallsBackToThePrevious) {
  ASSERT_EQ(train({"--steps", "10", "--checkpoint", "c", "--checkpoint-every", "5"}).status, 0);
  std::string good = read_file(dir_ / "c"), previous = read_file(dir_ / "c.prev");
  Ran straight = train({"--steps", "12", "--checkpoint", "straight"});
  std::vector<std::string> bad = {"", good.substr(0, 5), good.substr(0, 100), good.substr(0, good.size() - 1),
                                  good + "x"};
  for (size_t at = 0; at < good.size(); at += 31) {
    bad.push_back(good);
    bad.back()[at] ^= 0x10;
  }
  for (const std::string& bytes : bad) {
    write_file(dir_ / "c.prev", previous);
    fs::remove(dir_ / "c");
    write_file(dir_ / "c", bytes);
    Ran r = train({"--steps", "12", "--resume", "c", "--checkpoint", "c"});
    ASSERT_EQ(r.status, 0) << r.err;
    ASSERT_NE(r.err.find("resuming from 'c.prev'"), std::string::npos) << r.err;
    EXPECT_EQ(read_file(dir_ / "c"), read_file(dir_ / "straight"));
    // The damaged file has not taken the place of the good one it was resumed from.
    EXPECT_EQ(read_file(dir_ / "c.prev"), previous);
  }
  write_file(dir_ / "c", bad[3]);
  write_file(dir_ / "c.prev", bad[2]);
  Ran r = train({"--steps", "12", "--resume", "c"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("'c' truncated"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("'c.prev' truncated"), std::string::npos) << r.err;
}

// However FILE is spelled, and whichever of the two is named: where FILE is damaged or missing, a good FILE.prev
// stays until FILE is good.
TEST_F(Checkpoints, ADamagedOneNeverReplacesThePrevious) {
  ASSERT_EQ(train({"--steps", "10", "--checkpoint", "c", "--checkpoint-every", "5"}).status, 0);
  std::string good = read_file(dir_ / "c"), previous = read_file(dir_ / "c.prev");
  fs::create_directory(dir_ / "folder");
  for (const std::string& bytes : {good.substr(0, good.size() - 1), std::string(), std::string("none")})
    for (const auto& [resume, checkpoint] : {std::pair<const char*, const char*>{"c", "./c"},
                                             {"./c", "c"},
                                             {"folder/../c", "c"},
                                             {"c.prev", "c"},
                                             {"./c.prev", "c"}}) {
      SCOPED_TRACE(std::string(resume) + " " + checkpoint);
      write_file(dir_ / "c.prev", previous);
      fs::remove(dir_ / "c");
      if (bytes != "none") write_file(dir_ / "c", bytes);
      Ran r = train({"--steps", "12", "--resume", resume, "--checkpoint", checkpoint});
      ASSERT_EQ(r.status, 0) << r.err;
      EXPECT_EQ(read_safetensors(dir_ / "c").metadata["step"], "12");
      EXPECT_EQ(read_file(dir_ / "c.prev"), previous);
    }
  // A good one becomes the previous one.
  good = read_file(dir_ / "c");
  ASSERT_EQ(train({"--steps", "14", "--resume", "c.prev", "--checkpoint", "c"}).status, 0);
  EXPECT_EQ(read_file(dir_ / "c.prev"), good);
}

TEST_F(Checkpoints, AnotherModelsCheckpointIsRefused) {
  ASSERT_EQ(train({"--steps", "1", "--checkpoint", "c"}, "other_trainer").status, 0);
  Ran r = train({"--resume", "c"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("another model (hash fedcba9876543210, this program's is 0123456789abcdef)"),
            std::string::npos)
      << r.err;
  r = train({"--resume", "missing"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("no such file"), std::string::npos) << r.err;
}

// What another program of the same model saved: the answer says what differs.
TEST_F(Checkpoints, OfAnotherProgramAreAnswered) {
  struct Other {
    const char *trainer, *says;
  };
  for (const Other& o :
       {Other{"adam_trainer", "'c' was made with optimizer adam, this program has sgd"},
        Other{"bias_trainer", "with training of 1 of 3 parameters: fc.b, this program has everything"},
        Other{"batch_trainer", "with a batch of 16, this program has 8"}}) {
    SCOPED_TRACE(o.trainer);
    fs::remove(dir_ / "c");
    ASSERT_EQ(train({"--steps", "3", "--checkpoint", "c"}, o.trainer).status, 0);
    std::string before = read_file(dir_ / "c");
    Ran r = train({"--resume", "c", "--checkpoint", "c"});
    EXPECT_EQ(r.status, 1);
    EXPECT_NE(r.err.find(o.says), std::string::npos) << r.err;
    EXPECT_NE(r.err.find("--weights"), std::string::npos) << r.err;
    EXPECT_EQ(read_file(dir_ / "c"), before);
    // As weights they all serve: what was frozen there is what the model file has.
    r = train({"--steps", "1", "--weights", "c", "--checkpoint", "d"});
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(read_safetensors(dir_ / "d").metadata["step"], "1");
    EXPECT_EQ(read_safetensors(dir_ / "d").tensors["seen"].numbers()[0],
              read_safetensors(dir_ / "c").tensors["seen"].numbers()[0] + 8);
  }
  // But not where what was trained is frozen now.
  ASSERT_EQ(train({"--steps", "3", "--checkpoint", "e"}).status, 0);
  Ran r = train({"--weights", "e"}, "bias_trainer");
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("weights 'e' does not fit: tensor 'fc."), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("is frozen here; pockc export it and compile that model"), std::string::npos) << r.err;
  r = train({"--resume", "e", "--seed", "8"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("'e' was trained with --seed 7"), std::string::npos) << r.err;
}

TEST_F(Checkpoints, MoreDataIsNoted) {
  ASSERT_EQ(train({"--steps", "9", "--checkpoint", "c"}).status, 0);
  std::vector<std::string> less = {"train", "--data",   "d", "--labels",     "l", "--steps",
                                   "12",    "--resume", "c", "--checkpoint", "e"};
  write_file(dir_ / "d", npy("<f4", "(40, 2, 3)", bytes_of(x_).substr(0, 40 * 24)));
  write_file(dir_ / "l", npy("<i8", "(40,)", bytes_of(labels_).substr(0, 40 * 8)));
  Ran r = run(less);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.err.find("note: there are 40 samples now, there were 83"), std::string::npos) << r.err;
  auto about = read_safetensors(dir_ / "e").metadata;
  EXPECT_EQ(about["step"], "12");
  EXPECT_EQ(about["epoch"], "1");
  EXPECT_EQ(about["samples"], "40");
}

TEST_F(Checkpoints, PathIsTriedFirst) {
  for (auto [path, says] : {std::pair{"no/such/place", "no such file or directory"},
                            {"x.npy/c", "a part of the path is not a directory"},
                            {"/proc/c", "no such file or directory"},
                            {"/sys/c", ""}}) {
    Ran r = train({"--checkpoint", path});
    EXPECT_EQ(r.status, 1);
    EXPECT_NE(r.err.find("cannot be written: " + std::string(says)), std::string::npos) << r.err;
    EXPECT_EQ(r.err.find("epoch"), std::string::npos) << r.err;  // before the first step
  }
}

// No room for the whole file: it says so, and what was there is still there.
TEST_F(Checkpoints, FullDiskLeavesTheOldOne) {
  ASSERT_EQ(train({"--steps", "2", "--checkpoint", "c"}).status, 0);
  ASSERT_EQ(train({"--steps", "4", "--checkpoint", "c", "--resume", "c"}).status, 0);
  std::string before = read_file(dir_ / "c"), previous = read_file(dir_ / "c.prev");
  for (size_t room = 0; room < before.size(); room += 97) {
    Ran r = test::run({"/bin/bash", "-c", "exec prlimit --fsize=" + std::to_string(room) + " \"$@\" 2>&1",
                       "-", trainer_path("fake_trainer"), "train", "--data", "x.npy", "--labels", "y.npy",
                       "--resume", "c", "--checkpoint", "c"},
                      dir_.path);
    ASSERT_EQ(r.status, 1) << room << r.out;
    EXPECT_EQ(read_file(dir_ / "c"), before);
    EXPECT_EQ(read_file(dir_ / "c.prev"), previous);
    EXPECT_FALSE(fs::exists(dir_ / "c.tmp"));
  }
}

// Killed at 200 random moments while it saves every step: FILE is always the whole checkpoint of some step, FILE.prev
// one of an earlier step, and training goes on from there.
TEST_F(Checkpoints, AKillAtAnyMomentLeavesAGoodOne) {
  std::map<int, std::string> whole;  // by step: what an undisturbed run saves
  auto expect_whole = [&](const std::string& name) {
    std::string bytes = read_file(dir_ / name);
    int step = std::stoi(read_safetensors(dir_ / name).metadata["step"]);
    if (!whole.count(
            step)) {  // saved on the way, so that step 10 is the end of an epoch and not the next one's start
      EXPECT_EQ(train({"--steps", std::to_string(step + 1), "--checkpoint-every", std::to_string(step),
                       "--checkpoint", "straight"})
                    .status,
                0);
      whole[step] = read_file(dir_ / "straight.prev");
      for (const char* left : {"straight", "straight.prev"}) fs::remove(dir_ / left);
    }
    EXPECT_TRUE(bytes == whole[step]) << name << " of step " << step;
    return step;
  };
  std::mt19937 random(9);
  int steps = 0, while_saving = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<std::string> args = {"train",    "--data",  "x.npy",        "--labels", "y.npy",
                                     "--epochs", "1000000", "--checkpoint", "c",        "--checkpoint-every",
                                     "1"};
    if (i % 8) {
      args.insert(args.end(), {"--resume", "c"});  // go on from what the last kill left
    } else {
      for (const char* left : {"c", "c.prev", "c.tmp"}) fs::remove(dir_ / left);
      ASSERT_EQ(train({"--steps", "1", "--checkpoint", "c"}).status, 0);
    }
    int child = start(args);
    usleep(static_cast<useconds_t>(random() % 20000));
    kill(child, SIGKILL);
    ASSERT_EQ(finish(child).status, 128 + SIGKILL);
    int now = expect_whole("c");
    if (fs::exists(dir_ / "c.prev")) {
      EXPECT_LE(expect_whole("c.prev"), now);
    }
    steps = std::max(steps, now);
    while_saving += fs::exists(dir_ / "c.tmp");
  }
  EXPECT_GT(steps, 3);
  EXPECT_GT(while_saving, 20);  // or the kills came at other moments
}

TEST_F(Checkpoints, ReplacesOnlyCheckpoints) {
  fs::create_directory(dir_ / "folder");
  write_file(dir_ / "tiny", "mine");
  for (const char* path : {"x.npy", "tiny", "folder", "/dev/full"}) {
    std::string before = fs::is_regular_file(dir_ / path) ? read_file(dir_ / path) : "";
    Ran r = train({"--steps", "1", "--checkpoint", path});
    EXPECT_EQ(r.status, 1) << path << r.err;
    EXPECT_NE(r.err.find("cannot be written"), std::string::npos) << r.err;
    if (!before.empty()) {
      EXPECT_EQ(read_file(dir_ / path), before);
    }
    EXPECT_FALSE(fs::exists((dir_ / path) + ".prev"));
    EXPECT_FALSE(fs::exists((dir_ / path) + ".tmp"));
  }
  EXPECT_TRUE(fs::is_directory(dir_ / "folder"));
  // An empty file holds nothing to lose, and a checkpoint is there to be replaced.
  write_file(dir_ / "c", "");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(train({"--steps", "1", "--checkpoint", "c"}).status, 0);
}

// However two trainers meet, FILE and FILE.prev are whole checkpoints at any moment.
TEST_F(Checkpoints, TwoMaySaveToOneFile) {
  ASSERT_EQ(train({"--steps", "1", "--checkpoint", "c"}).status, 0);
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i)
    children.push_back(start({"train", "--data", "x.npy", "--labels", "y.npy", "--epochs", "40",
                              "--checkpoint", "c", "--checkpoint-every", "1"}));
  int state = 0;
  for (pid_t child : children) {
    while (waitpid(child, &state, WNOHANG) == 0) {
      for (const char* name : {"c", "c.prev"}) {
        std::string bytes = read_file(dir_ / name);
        if (bytes.empty()) continue;  // between two names
        write_file(dir_ / "seen", bytes);
        Ran r = train({"--steps", "1", "--resume", "seen"});
        EXPECT_EQ(r.status, 0) << r.err;
      }
    }
    EXPECT_EQ(state, 0);
  }
  EXPECT_EQ(train({"--epochs", "40", "--resume", "c"}).status, 0);
  EXPECT_FALSE(fs::exists(dir_ / "c.tmp"));
}

}  // namespace
}  // namespace pock::test
