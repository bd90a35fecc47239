// Every way for training to end before its time, and what people see until then.
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/trainer.h"

namespace pock::test {
namespace {

class Stop : public Trainer {
 protected:
  static std::string step_of(const std::string& checkpoint) {
    return read_safetensors(checkpoint).metadata["step"];
  }

  // What was saved on the way is what a run that ends there by itself saves.
  void expect_straight(const std::string& checkpoint) {
    ASSERT_EQ(train({"--steps", step_of(dir_ / checkpoint), "--checkpoint", "straight"}).status, 0);
    EXPECT_TRUE(read_file(dir_ / checkpoint) == read_file(dir_ / "straight"));
    for (const char* left : {"straight", "straight.prev"}) fs::remove(dir_ / left);
  }
};

TEST_F(Stop, SignalsFinishTheStepAndSave) {
  for (auto [number, status] : {std::pair{SIGTERM, 143}, {SIGINT, 130}}) {
    for (const char* left : {"c", "c.prev", "out"}) fs::remove(dir_ / left);
    int child = start({"train", "--data", "x.npy", "--labels", "y.npy", "--epochs", "1000000", "--log",
                       "json", "--checkpoint", "c"},
                      "slow_trainer");
    while (read_file(dir_ / "out").find("\"step\":13") == std::string::npos) usleep(1000);
    kill(child, number);
    Ran r = finish(child);
    EXPECT_EQ(r.status, status) << r.err;
    std::string step = step_of(dir_ / "c");
    EXPECT_NE(r.err.find("signal " + std::to_string(number) + ": stopped after step " + step),
              std::string::npos)
        << r.err;
    EXPECT_NE(r.err.find("saved to c\n"), std::string::npos) << r.err;
    json last = lines(r.out).back();
    EXPECT_EQ(last, (json{{"stopped", "signal"}, {"step", std::stoi(step)}}));
    expect_straight("c");
    std::string more = std::to_string(std::stoi(step) + 17);
    Ran again = train({"--steps", more, "--resume", "c", "--log", "json"});
    ASSERT_EQ(again.status, 0) << again.err;
    std::string steps = r.out.substr(0, r.out.find("{\"stopped\""));
    EXPECT_EQ(steps + again.out, train({"--log", "json", "--steps", more}).out);
  }
}

TEST_F(Stop, ASecondSignalEndsAtOnce) {
  // A pipe that nobody reads holds the trainer inside a write.
  ASSERT_EQ(mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  int reader = open((dir_ / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  int child = test::start({trainer_path("fake_trainer"), "train", "--data", "x.npy", "--labels", "y.npy",
                           "--threads", "1", "--epochs", "1000000", "--log", "json"},
                          dir_.path, "pipe", "/dev/null");
  int waiting = 0, before = -1;  // bytes in the pipe, until no more fit
  while (waiting == 0 || waiting != before) {
    before = waiting;
    usleep(50000);
    ioctl(reader, FIONREAD, &waiting);
  }
  kill(child, SIGTERM);
  usleep(50000);
  int ignored = 0;
  EXPECT_EQ(waitpid(child, &ignored, WNOHANG), 0);
  kill(child, SIGINT);
  EXPECT_EQ(status_of(child), 130);
  close(reader);
}

TEST_F(Stop, TimeLimitSavesAndIsNoFailure) {
  Ran r = train({"--epochs", "1000000", "--time-limit", "0.2", "--log", "json", "--checkpoint", "c"},
                "slow_trainer");
  ASSERT_EQ(r.status, 0) << r.err;
  std::string step = step_of(dir_ / "c");
  EXPECT_GT(std::stoi(step), 2);
  EXPECT_NE(r.err.find("the time is up: stopped after step " + step), std::string::npos) << r.err;
  EXPECT_EQ(lines(r.out).back(), (json{{"stopped", "time-limit"}, {"step", std::stoi(step)}}));
  expect_straight("c");
  // Time enough.
  r = train({"--epochs", "2", "--time-limit", "1h"});
  EXPECT_EQ(r.status, 0);
  EXPECT_EQ(r.err.find("time is up"), std::string::npos) << r.err;
  for (const char* wrong : {"", "x", "10x", "0", "-5", "10mm", "h", "1e999m"}) {
    refuses_use({"--time-limit", wrong}, "--time-limit needs a time such as 90, 10m or 2h");
  }
}

// The reader of the log goes away, as `head` does: the work done so far is kept.
TEST_F(Stop, AClosedPipeSaves) {
  Ran r =
      test::run({"/bin/bash", "-c",
                 trainer_path("slow_trainer") + " train --data x.npy --labels y.npy --epochs 1000000 "
                                                "--log json --checkpoint c | head -3; exit ${PIPESTATUS[0]}"},
                dir_.path);
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(lines(r.out).size(), 3u);
  EXPECT_NE(r.err.find("nobody reads the log: stopped after step " + step_of(dir_ / "c")), std::string::npos)
      << r.err;
  expect_straight("c");
}

TEST_F(Stop, ALogThatCannotBeWrittenSaves) {
  fs::create_symlink("/dev/full", dir_ / "out");
  int child = start({"train", "--data", "x.npy", "--labels", "y.npy", "--log", "json", "--checkpoint", "c"});
  EXPECT_EQ(status_of(child), 1);
  EXPECT_NE(read_file(dir_ / "err").find("the log cannot be written: no space left"), std::string::npos);
  EXPECT_EQ(step_of(dir_ / "c"), "1");
  child = start({"eval", "--data", "x.npy", "--labels", "y.npy"});
  EXPECT_EQ(status_of(child), 1);
  EXPECT_NE(read_file(dir_ / "err").find("cannot be written: no space left"), std::string::npos);
}

TEST_F(Stop, NothingToDoIsSaid) {
  ASSERT_EQ(train({"--steps", "5", "--checkpoint", "c"}).status, 0);
  std::string before = read_file(dir_ / "c");
  Ran r = train({"--steps", "5", "--resume", "c", "--checkpoint", "c"});
  EXPECT_EQ(r.status, 0);
  EXPECT_NE(r.err.find("nothing to do: step 5 is done"), std::string::npos) << r.err;
  EXPECT_EQ(read_file(dir_ / "c"), before);
  EXPECT_FALSE(fs::exists(dir_ / "c.prev"));
}

class Patience : public Stop {
 protected:
  void SetUp() override {
    Stop::SetUp();
    // Labels that training moves away from in the end: the first epochs help, the later ones do not.
    std::vector<int64_t> other = labels_;
    for (size_t i = 0; i < other.size(); i += 3) other[i] = (other[i] + 1) % 3;
    write_file(dir_ / "o.npy", npy("<i8", "(83,)", bytes_of(other)));
  }
  Ran run_with(std::vector<std::string> more) {
    more.insert(more.end(), {"--lr", "0.1", "--opt", "momentum=0", "--log", "json", "--eval-data", "x.npy",
                             "--eval-labels", "o.npy"});
    return train(more);
  }
};

// The rule, from the log: stop after the epoch that is the Nth behind the best.
TEST_F(Patience, StopsWhenNothingGetsBetter) {
  for (size_t patience : {1, 3}) {
    Ran r = run_with({"--epochs", "500", "--patience", std::to_string(patience), "--checkpoint", "c"});
    ASSERT_EQ(r.status, 0) << r.err;
    std::vector<float> losses;  // by epochs done
    for (const json& line : lines(r.out))
      if (line.contains("eval")) losses.push_back(line["loss"]);
    size_t best = static_cast<size_t>(std::min_element(losses.begin(), losses.end()) - losses.begin());
    EXPECT_GT(best, 1u);
    EXPECT_EQ(losses.size() - 1, best + patience);
    EXPECT_EQ(lines(r.out).back()["stopped"], "patience");
    EXPECT_NE(r.err.find("after epoch " + std::to_string(best) + ", kept in c.best"), std::string::npos)
        << r.err;
    // FILE is the last state, for --resume; FILE.best the one to use.
    EXPECT_EQ(step_of(dir_ / "c"), std::to_string(10 * (losses.size() - 1)));
    EXPECT_EQ(step_of(dir_ / "c.best"), std::to_string(10 * best));
    Ran eval = run({"eval", "--data", "x.npy", "--labels", "o.npy", "--weights", "c.best", "--log", "json"});
    EXPECT_EQ(lines(eval.out)[0]["loss"].get<float>(), losses[best]);
    for (const char* left : {"c", "c.prev", "c.best"}) fs::remove(dir_ / left);
  }
}

// Stopped anywhere and resumed, it ends where the undisturbed run ends, with the same two files.
TEST_F(Patience, SurvivesResuming) {
  ASSERT_EQ(run_with({"--epochs", "500", "--patience", "2", "--checkpoint", "s"}).status, 0);
  int last = std::stoi(step_of(dir_ / "s"));
  for (int steps = 1; steps < last; steps += 13) {
    for (const char* left : {"c", "c.prev", "c.best"}) fs::remove(dir_ / left);
    ASSERT_EQ(run_with({"--steps", std::to_string(steps), "--patience", "2", "--checkpoint", "c"}).status, 0);
    Ran r = run_with({"--epochs", "500", "--patience", "2", "--checkpoint", "c", "--resume", "c"});
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_TRUE(read_file(dir_ / "c") == read_file(dir_ / "s")) << steps;
    EXPECT_TRUE(read_file(dir_ / "c.best") == read_file(dir_ / "s.best")) << steps;
  }
  // More patience goes on where less had stopped.
  Ran r = run_with({"--epochs", "500", "--patience", "4", "--checkpoint", "s", "--resume", "s"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_GE(std::stoi(step_of(dir_ / "s")), last + 20);
}

// Where training only harms, the weights it began with are the best.
TEST_F(Patience, MayKeepTheStart) {
  ASSERT_EQ(train({"--epochs", "60", "--checkpoint", "w"}).status, 0);
  fs::copy_file(dir_ / "y.npy", dir_ / "o.npy", fs::copy_options::overwrite_existing);
  for (int64_t& label : labels_) label = (label + 1) % 3;
  write_file(dir_ / "y.npy", npy("<i8", "(83,)", bytes_of(labels_)));
  Ran r = run_with({"--epochs", "500", "--patience", "2", "--checkpoint", "c", "--weights", "w"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(step_of(dir_ / "c.best"), "0");
  EXPECT_EQ(step_of(dir_ / "c"), "20");
}

TEST_F(Patience, IsRefusedWithoutWhatItNeeds) {
  refuses_use({"--patience", "3"}, "--patience needs --eval-data");
  refuses_use({"--patience", "0"}, "at least 1");
  write_file(dir_ / "c.best", "somebody's notes, which are longer than a header");
  Ran r = run_with({"--patience", "3", "--checkpoint", "c"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("'c.best' cannot be written: there is a file of this name"), std::string::npos)
      << r.err;
}

// On a terminal one line is rewritten, and never longer than the terminal is wide.
TEST_F(Trainer, ProgressFitsTheTerminal) {
  for (unsigned short columns : {200, 40}) {
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    ASSERT_GE(terminal, 0);
    ASSERT_EQ(grantpt(terminal) | unlockpt(terminal), 0);
    winsize size{24, columns, 0, 0};
    ASSERT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
    int child = test::start({trainer_path("slow_trainer"), "train", "--data", "x.npy", "--labels", "y.npy",
                             "--epochs", "3", "--eval-data", "x.npy", "--eval-labels", "y.npy"},
                            dir_.path, "out", ptsname(terminal));
    std::string seen;  // ends with an error where nobody has the other side open any more
    char bytes[4096];
    for (ssize_t got; (got = read(terminal, bytes, sizeof bytes)) > 0;)
      seen.append(bytes, static_cast<size_t>(got));
    close(terminal);
    EXPECT_EQ(status_of(child), 0) << seen;
    size_t progress = 0;
    for (size_t at = 0; (at = seen.find("\repoch ", at)) != std::string::npos; ++at) {
      std::string line = seen.substr(at + 1, seen.find("\x1b[K", at) - at - 1);
      EXPECT_LT(line.size(), columns) << line;
      ++progress;
      if (columns < 100) continue;
      for (const char* part : {"step ", "loss ", "lr 0.01", "accuracy ", "samples/s"})
        EXPECT_NE(line.find(part), std::string::npos) << line;
    }
    EXPECT_GE(progress, 3u) << seen;
    if (columns > 100) {
      EXPECT_NE(seen.find(" s left"), std::string::npos) << seen;
    }
  }
}

}  // namespace
}  // namespace pock::test
