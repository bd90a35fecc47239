// Runs trainers made of the runtime and a hand-written program, as a person at the device would.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "pock/codegen/runtime_bitcode.h"
#include "runtime/trainer.h"

namespace pock::test {
namespace {

TEST(Bitcode, IsEmbedded) {
  EXPECT_EQ(runtime_bitcode("x86_64-linux").substr(0, 2), "BC");
  EXPECT_EQ(runtime_bitcode("aarch64-linux").substr(0, 2), "BC");
  EXPECT_EQ(runtime_bitcode("armv7-linux").substr(0, 2), "BC");
  EXPECT_TRUE(runtime_bitcode("vax").empty());
}

TEST_F(Trainer, LossFallsAndTheLogIsJson) {
  Ran r = train({"--epochs", "20", "--log", "json", "--eval-data", "x.npy", "--eval-labels", "y.npy"});
  ASSERT_EQ(r.status, 0) << r.err;
  std::vector<json> log = lines(r.out);
  ASSERT_EQ(log.size(), 200u + 21u);
  EXPECT_EQ(log[0]["eval"], 0);
  EXPECT_EQ(log[0]["step"], 0);
  EXPECT_EQ(log[1]["step"], 1);
  EXPECT_EQ(log.back()["eval"], 20);
  EXPECT_EQ(log.back()["step"], 200);
  EXPECT_LT(log.back()["loss"].get<double>(), 0.7 * log[0]["loss"].get<double>());
  EXPECT_GT(log.back()["accuracy"].get<double>(), 0.7);
  EXPECT_NE(r.err.find("last 3 samples"), std::string::npos);
  EXPECT_NE(r.err.find("RssAnon"), std::string::npos);
}

TEST_F(Trainer, ThreadsDoNotChangeABit) {
  std::vector<std::string> logs;
  for (const char* threads : {"1", "2", "3", "4"}) {
    Ran r = train({"--epochs", "9", "--log", "json", "--threads", threads, "--checkpoint", "c"});
    ASSERT_EQ(r.status, 0) << r.err;
    logs.push_back(r.out + read_file(dir_ / "c"));
  }
  for (const std::string& log : logs) EXPECT_EQ(log, logs[0]);
}

TEST_F(Trainer, OrderIsShuffledUnlessToldNot) {
  std::string a = train({"--log", "json", "--seed", "1"}).out,
              b = train({"--log", "json", "--seed", "2"}).out;
  std::string c = train({"--log", "json", "--no-shuffle"}).out;
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
  EXPECT_EQ(c, train({"--log", "json", "--no-shuffle", "--seed", "2"}).out);
}

TEST_F(Trainer, FormatsAndConversions) {
  std::string wanted = train({"--log", "json"}).out;
  std::vector<double> doubles(x_.begin(), x_.end());
  doubles[0] = x_[0];
  write_file(dir_ / "x64", npy("<f8", "(83, 1, 2, 3)", bytes_of(doubles), 2));
  std::string idx("\0\0\x08\x01\0\0\0\x53", 8);
  for (int64_t label : labels_) idx += static_cast<char>(label);
  write_file(dir_ / "idx", idx);
  std::vector<int32_t> narrow(labels_.begin(), labels_.end());
  write_file(dir_ / "y32", npy("<i4", "(83, 1)", bytes_of(narrow), 3));
  for (const char* x : {"x.npy", "x64", "x=x.npy"})
    for (const char* y : {"y.npy", "idx", "y32", "logits=idx"}) {
      Ran r = run({"train", "--log", "json", "--data", x, "--labels", y});
      EXPECT_EQ(r.status, 0) << r.err;
      EXPECT_EQ(r.out, wanted);
    }
}

TEST_F(Trainer, BadDataIsRefusedWithTheReason) {
  std::string x = good_x(), y = good_y(), data = bytes_of(x_), ids = bytes_of(labels_);
  refuses_data("", y, "'d' the file is empty");
  refuses_data("\x1f\x8b\x08 and so on", y, "is gzip-compressed; decompress it first");
  refuses_data("PK\3\4 and so on", y, ".npz");
  refuses_data("hello, world", y, "neither a .npy nor an IDX");
  refuses_data(x.substr(0, x.size() - 1), y, "truncated");
  refuses_data(x.substr(0, 40), y, "truncated inside the .npy header");
  refuses_data(x + "more", y, "too long");
  refuses_data(npy(">f4", "(83, 2, 3)", data), y, "big-endian");
  refuses_data(npy("<f4", "(83, 2, 3)", data, 1, "True"), y, "Fortran order");
  refuses_data(npy("<f2", "(83, 2, 3)", data), y, "'<f2' is not read");
  refuses_data(npy("<i2", "(83, 2, 3)", data), y, "'<i2' is not read");
  refuses_data(npy("<f4", "(83, 3, 2)", data), y, "has shape [83,3,2], 'x' needs [N,1,2,3]");
  refuses_data(npy("<f4", "()", data.substr(0, 4)), y, "has shape []");
  refuses_data(npy("<i4", "(83, 2, 3)", data), y, "has int32 elements, 'x' takes float32");
  refuses_data(npy("|u1", "(83, 2, 3)", data.substr(0, 498)), y, "recompile with --input-scale");
  refuses_data(npy("<f4", "(99999999999, 99999999999, 3)", data), y, "more elements than memory");
  refuses_data(npy("<f4", "(4, 2, 3)", data.substr(0, 96)), npy("<i8", "(4,)", ids.substr(0, 32)),
               "fewer than one batch of 8");
  refuses_data(npy("<f4", "(0, 2, 3)", ""), npy("<i8", "(0,)", ""), "no samples");
  refuses_data(x, npy("<i8", "(82,)", ids.substr(0, 656)), "has 82 samples, 'd' has 83");
  refuses_data(x, std::string("\0\0\x0C\x01\0\0\0\1....", 12), "big-endian");
  refuses_data(x, std::string("\0\0\x08\x01\0\0\0\x53..", 10), "promises 83 bytes of data, the file has 2");
  labels_[17] = 3;
  labels_[20] = -1;
  refuses_data(x, npy("<i8", "(83,)", bytes_of(labels_)), "element 17 (sample 17) is 3, outside [0,2]");
  // What numpy makes of a NaN, and what stands for "none is ignored" in the program.
  labels_[17] = INT64_MIN;
  refuses_data(x, npy("<i8", "(83,)", bytes_of(labels_)),
               "element 17 (sample 17) is -9223372036854775808, outside [0,2]\n");
  // Everything in one report.
  refuses_data("", npy("<i8", "(83,)", bytes_of(labels_)), "outside [0,2]");
  EXPECT_NE(read_file(dir_ / "err").find("the file is empty"), std::string::npos);
  Ran r = run({"train", "--data", ".", "--labels", "nowhere"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("it is a directory"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("no such file"), std::string::npos) << r.err;
}

// Class ids of any whole type, and what only looks like class ids.
TEST_F(Trainer, LabelsAreClassIds) {
  std::string x = good_x(), wanted = train({"--log", "json"}).out;
  auto as = [&]<class T>(const char* descr, T) {
    return npy(descr, "(83,)", bytes_of(std::vector<T>(labels_.begin(), labels_.end())));
  };
  for (bool good : {true, false}) {
    for (const std::string& labels :
         {as("<i8", int64_t{}), as("<i4", int32_t{}), as("|u1", uint8_t{}), as("|i1", int8_t{})}) {
      if (!good) {
        refuses_data(x, labels, "element 82 (sample 82) is 3, outside [0,2]");
        continue;
      }
      write_file(dir_ / "l", labels);
      Ran r = run({"train", "--log", "json", "--data", "x.npy", "--labels", "l"});
      EXPECT_EQ(r.status, 0) << r.err;
      EXPECT_EQ(r.out, wanted);
    }
    labels_.back() = 3;
  }
  for (const std::string& labels : {as("<f4", float{}), as("<f8", double{})})
    refuses_data(x, labels, "'logits' takes class ids: uint8, int32 or int64");
  std::vector<float> one_hot(83 * 3);
  refuses_data(x, npy("<f4", "(83, 3)", bytes_of(one_hot)), "is it one-hot? Save numpy.argmax(..., -1)");
  for (const char* descr : {"|O", "<U3", "<c8", "<u4", "<M8[s]"})
    refuses_data(x, npy(descr, "(83,)", std::string(83, '\1')),
                 std::string("element type '") + descr + "' is not read");
  std::string record = npy("X", "(83,)", "");
  record.replace(record.find("'X'"), 3, "[('a', '<i4')]");
  refuses_data(x, record, "holds records");
  refuses_data(x, npy("<i8", "(83, 2)", bytes_of(labels_) + bytes_of(labels_)),
               "has shape [83,2], 'logits' needs [N]");
}

// Somebody cuts a file short while it is mapped: said, not a bus error.
TEST_F(Trainer, AFileThatShrinksIsNoCrash) {
  std::vector<float> many(6 * 8 * 100000);
  std::vector<uint8_t> ids(8 * 100000);
  write_file(dir_ / "big", npy("<f4", "(800000, 2, 3)", bytes_of(many)));
  write_file(dir_ / "ids", npy("|u1", "(800000,)", bytes_of(ids)));
  int child = start({"train", "--data", "big", "--labels", "ids", "--no-shuffle", "--log", "json"});
  while (read_file(dir_ / "out").find("\"step\":20") == std::string::npos) usleep(500);
  ASSERT_EQ(truncate((dir_ / "big").c_str(), 4096), 0);
  Ran r = finish(child);
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("has become shorter"), std::string::npos) << r.err;
}

TEST_F(Trainer, WrongUseIsExplained) {
  refuses_use({"--lerning-rate", "1"}, "unknown option '--lerning-rate'");
  refuses_use({"--lr"}, "--lr needs a value");
  refuses_use({"--lr", "fast"}, "'lr' needs a number, not 'fast'");
  refuses_use({"--lr", "-1"}, "'lr' must lie in [0, 1e38]");
  refuses_use({"--lr", "nan"}, "needs a number");
  refuses_use({"--opt", "momentum=1"}, "'momentum' must lie in [0, 1)");
  refuses_use({"--opt", "beta=1"}, "was compiled without 'beta'; there are: lr momentum");
  refuses_use({"--opt", "lr"}, "needs KEY=VALUE");
  refuses_use({"--opt", "lr=1", "--lr", "1"}, "'lr' was given twice");
  refuses_use({"--steps", "0"}, "at least 1");
  refuses_use({"--steps", "1x"}, "needs a whole number");
  refuses_use({"--steps", "99999999999999999999"}, "needs a whole number");
  refuses_use({"--steps", "1", "--steps", "2"}, "given twice");
  refuses_use({"--steps", "1", "--epochs", "2"}, "not both");
  refuses_use({"--threads", "5"}, "for more than 4");
  refuses_use({"--data", "x.npy"}, "'x' was given twice");
  refuses_use({"--log", "xml"}, "--log knows json");
  refuses_use({"--checkpoint-every", "2"}, "needs --checkpoint");
  refuses_use({"--eval-data", "x.npy"}, "no file for 'logits'; give --eval-labels");
  EXPECT_EQ(run({"train", "--data", "x.npy"}).status, 2);
  EXPECT_EQ(run({}).status, 2);
  EXPECT_EQ(run({"fly"}).status, 2);
  EXPECT_EQ(run({"--help"}).status, 0);
  EXPECT_NE(run({"train", "--help"}).out.find("--resume"), std::string::npos);
  EXPECT_EQ(run({"--version"}).out, "pock for tests\n");
}

TEST_F(Trainer, InfoIsReadable) {
  Ran r = run({"info", "--json"}, "own_loss_trainer");
  ASSERT_EQ(r.status, 0) << r.err;
  json info = json::parse(r.out);
  EXPECT_EQ(info["trained"], 21);
  EXPECT_EQ(info["hypers"]["momentum"], 0.9);
  EXPECT_EQ(info["inputs"][0]["shape"], (json{8, 1, 2, 3}));
  EXPECT_EQ(info["outputs"].size(), 3u);
  EXPECT_EQ(info["outputs"][1], (json{{"name", "logits"}, {"dtype", "float32"}, {"shape", {8, 3}}}));
  EXPECT_EQ(info["trains"].size(), 2u);
  EXPECT_EQ(info["trains"][0]["name"], "fc.\"w\"\n\\\xC3\xA4");
  r = run({"info"});
  for (const char* text : {"input      x: float32[8,1,2,3]", "labels     logits: int32[8], 3 classes",
                           "output     logits: float32[8,3]", "--opt momentum=0.9, in [0, 1)",
                           "  fc.b: float32[3]", "trains     everything: 21 numbers"})
    EXPECT_NE(r.out.find(text), std::string::npos) << text << "\nin\n" << r.out;
}

TEST_F(Trainer, ProcessorIsChecked) {
  Ran r = train({}, "picky_trainer");
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("lacks feature 63"), std::string::npos) << r.err;
}

TEST_F(Trainer, LossThatIsNoNumberStops) {
  ASSERT_EQ(train({"--steps", "2", "--checkpoint", "c"}).status, 0);
  std::string before = read_file(dir_ / "c");
  Ran r = train({"--epochs", "9", "--lr", "1e30", "--checkpoint", "c"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find(" is not finite"), std::string::npos) << r.err;
  EXPECT_EQ(read_file(dir_ / "c"), before);
}

// The loss of the only step is finite, the weights after it are not.
TEST_F(Trainer, WeightsThatAreNoNumbersAreNotSaved) {
  ASSERT_EQ(train({"--steps", "2", "--checkpoint", "c"}).status, 0);
  std::string before = read_file(dir_ / "c");
  std::vector<float> large = x_;
  for (float& v : large) v *= 1e17f;
  write_file(dir_ / "large", npy("<f4", "(83, 2, 3)", bytes_of(large)));
  Ran r = run(
      {"train", "--data", "large", "--labels", "y.npy", "--steps", "1", "--lr", "1e38", "--checkpoint", "c"});
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("after step 1 'fc."), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("is not finite: not saved"), std::string::npos) << r.err;
  EXPECT_EQ(read_file(dir_ / "c"), before);
}

TEST_F(Trainer, DenormalsAreZeroOnEveryThread) {
  std::string wanted = train({"--epochs", "3", "--log", "json", "--checkpoint", "c"}).out;
  for (const char* threads : {"1", "4"}) {
    Ran r = train({"--epochs", "3", "--log", "json", "--threads", threads}, "denormal_trainer");
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.out, wanted);
  }
}

struct Emulated {
  std::vector<std::string> emulator;
  const char* trainer;
};
const Emulated kArm64{{"qemu-aarch64"}, "arm_trainer"};
const Emulated kArm32{{"qemu-arm", "-cpu", "cortex-a7"}, "armv7_trainer"};

class OtherMachine : public Trainer, public testing::WithParamInterface<Emulated> {};

// System calls, threads, signals, the float mode and the command line of the other architecture.
TEST_P(OtherMachine, TrainsAlike) {
  std::vector<std::string> argv = GetParam().emulator;
  if (!is_installed(argv[0])) GTEST_SKIP() << argv[0] << " is not installed (Debian: qemu-user)";
  argv.insert(argv.end(), {trainer_path(GetParam().trainer), "train", "--data", "x.npy", "--labels", "y.npy",
                           "--log", "json", "--checkpoint", "c"});
  Ran here = train({"--log", "json", "--steps", "15", "--checkpoint", "d"});
  for (const char* threads : {"1", "4"}) {
    std::vector<std::string> whole = argv;
    whole.insert(whole.end(), {"--steps", "15", "--threads", threads});
    Ran r = test::run(whole, dir_.path);
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.out, here.out);
    EXPECT_EQ(read_file(dir_ / "c"), read_file(dir_ / "d"));
  }
  argv.insert(argv.end(), {"--epochs", "1000000", "--resume", "d"});
  int child = test::start(argv, dir_.path, "out", "err");
  while (read_file(dir_ / "out").find("\"step\":20") == std::string::npos) usleep(1000);
  kill(child, SIGTERM);
  EXPECT_EQ(status_of(child), 143) << read_file(dir_ / "err");
}

INSTANTIATE_TEST_SUITE_P(Arm, OtherMachine, testing::Values(kArm64, kArm32),
                         [](const auto& info) { return std::string(info.param.trainer); });

// A core of the same architecture without what the kernels need.
TEST_F(Trainer, AsksLinuxWhatAnArmCoreHas) {
  if (!is_installed("qemu-arm")) GTEST_SKIP() << "qemu-arm is not installed (Debian: qemu-user)";
  Ran r = test::run({"qemu-arm", "-cpu", "cortex-a9", trainer_path("armv7_trainer"), "train", "--data",
                     "x.npy", "--labels", "y.npy"},
                    dir_.path);
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.err.find("lacks vfpv4"), std::string::npos) << r.err;
}

}  // namespace
}  // namespace pock::test
