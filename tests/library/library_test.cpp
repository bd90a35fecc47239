// Libraries as their users have them: a header and an archive, compiled and linked by the compilers that are here, and
// compared with the trainer program of the same model.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "pock/codegen/target.h"
#include "train/net.h"

namespace pock::test {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;
const std::string kHere = std::string(kSourceDir) + "/tests/library/";

Strings operator+(Strings a, const Strings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Library : public testing::Test {
 protected:
  void expect_good(const Strings& argv) {
    Ran ran = run(argv, dir_.path);
    ASSERT_EQ(ran.status, 0) << testing::PrintToString(argv) << ran.err;
    out_ = ran.out;
  }
  void compile(const Net& net, const std::string& name, const Strings& more = {}) {
    expect_good(net.compile_command(dir_ / name, Strings{"--emit", "lib"} + more));
  }
  void build(const std::string& source, const std::string& program, Strings libraries = {"net"},
             const Strings& compiler = {"gcc", "-O1"}) {
    Strings argv = compiler + Strings{"-I", ".", "-pthread", kHere + source, "-x", "none", "-o", program};
    for (const std::string& l : libraries) argv.push_back("lib" + l + ".a");
    expect_good(argv);
  }
  void compile_for_misuse() {
    Net net("lenet");
    net.optimizer = "sgd:lr=0.5,momentum=0.9";
    compile(net, "net", {"--freeze", "fc2.bias", "--seed", "42"});
  }
  TempDir dir_;
  std::string out_;
};

// A net's library in a program that drives it over the net's data.
class Driven : public Library {
 protected:
  void prepare_library(const Net& net, const Strings& more = {}) {
    net_ = std::make_unique<Net>(net);
    compile(*net_, "net", more);
    build("driver.c", "driver");
    const Array data = read_npy(net_->data + "/data.npy"), labels = read_npy(net_->data + "/labels.npy");
    samples_ = data.dims[0];
    dir_.write("data", data.bytes);
    const std::vector<double> ids = labels.numbers();
    dir_.write("labels", bytes_of(std::vector<int32_t>(ids.begin(), ids.end())));
    features_ = data.numbers().size() / samples_;
  }
  void drive(const Strings& acts) {
    expect_good(Strings{dir_ / "driver", "data", "labels", std::to_string(samples_),
                        std::to_string(features_), std::to_string(classes_)} +
                acts);
  }
  std::unique_ptr<Net> net_;
  size_t samples_ = 0, features_ = 0, classes_ = 0;
};

// And its trainer beside it, on the same data.
class Pair : public Driven {
 protected:
  void prepare(const std::string& name, const Strings& more = {}, const std::string& optimizer = "") {
    Net net(name);
    if (!optimizer.empty()) net.optimizer = optimizer;
    expect_good(net.compile_command(dir_ / "trainer", more));
    prepare_library(net, more);
  }
  void train(int steps, const std::string& checkpoint, const Strings& more = {}) {
    expect_good(Strings{dir_ / "trainer", "train", "--data", net_->data + "/data.npy", "--labels",
                        net_->data + "/labels.npy", "--steps", std::to_string(steps), "--checkpoint",
                        checkpoint} +
                more);
  }
  void expect_same(const std::string& a, const std::string& b) {
    EXPECT_TRUE(read_file(dir_ / a) == read_file(dir_ / b)) << a << " and " << b << " differ";
  }
};

// Over the end of an epoch; with threads that share the work unevenly; with a caller that rounds upwards.
TEST_F(Pair, SameBitsAsTheTrainer) {
  const std::map<std::string, std::string> nets = {{"mlp", "adam"},
                                                   {"dropped", "adam"},
                                                   {"bn_cnn", "sgd:lr=0.05,momentum=0.9"},
                                                   {"twice", "adamw:lr=0.01"}};
  for (const auto& [name, optimizer] : nets) {
    SCOPED_TRACE(name);
    prepare(name, {}, optimizer);
    const int steps = static_cast<int>(samples_) / net_->batch + 3;
    train(steps, "trainer.safetensors", {"--no-shuffle"});
    drive({"train=" + std::to_string(steps), "save=one"});
    expect_same("one", "trainer.safetensors");
    drive({"threads=3", "upwards", "train=" + std::to_string(steps), "save=three"});
    expect_same("three", "trainer.safetensors");
    train(steps, "shuffled.safetensors");
    drive({"shuffle", "train=" + std::to_string(steps), "save=shuffled"});
    expect_same("shuffled", "shuffled.safetensors");
  }
}

// What is planned is what is used: nothing beyond it, which the guards show, and all of it.
TEST_F(Driven, TheArenaIsUsedToItsEnd) {
  for (const char* name :
       {"mlp", "lenet", "bn_cnn", "mobile", "dropped", "twice", "size_5x7", "size_33x17", "ds_cnn", "tcn"}) {
    SCOPED_TRACE(name);
    prepare_library(Net(name));
    drive({"threads=2", "train=2", "eval", "full"});
    ASSERT_FALSE(HasFatalFailure());
  }
}

// For every other machine that is emulated: compiled and linked without a C library, the same bits as the trainer here.
TEST_F(Pair, SameBitsOnOtherMachines) {
  if (!is_installed("clang-19") || !is_installed("ld.lld-19"))
    GTEST_SKIP() << "clang-19 or lld-19 is not installed";
  constexpr int kSteps = 4;
  prepare("mlp", {}, "adam");
  train(kSteps, "wanted", {"--no-shuffle"});
  for (const std::string& name : target_names()) {
    const Target target = find_target(name);
    if (target.emulator.empty()) continue;
    SCOPED_TRACE(name);
    if (!is_installed(target.emulator[0])) GTEST_SKIP() << target.emulator[0] << " is not installed";
    compile(*net_, "net", {"--target", name});
    Strings compiler = {"clang-19",
                        "--target=" + target.triple,
                        "-O1",
                        "-ffreestanding",
                        "-nostdlibinc",
                        "-Wall",
                        "-I",
                        ".",
                        "-I",
                        std::string(kSourceDir) + "/runtime",
                        fmt::format("-DSTEPS={}", kSteps),
                        fmt::format("-DSAMPLES={}", samples_),
                        fmt::format("-DFEATURES={}", features_),
                        "-c",
                        kHere + "bare.c",
                        "-o",
                        "bare.o"};
    Strings linker = {"ld.lld-19", "-m",       target.emulation, "--gc-sections",
                      "-o",        "bare.elf", "bare.o",         "libnet.a"};
    if (target.bare()) {
      // No more stack than the header says, and what functions of bare.c take.
      const std::string header = read_file(dir_ / "net.h"), define = "net_STACK_BYTES ";
      ASSERT_NE(header.find(define), std::string::npos);
      const uint64_t stack = std::stoull(header.substr(header.find(define) + define.size())) + 256;
      compiler.push_back("-mcpu=" + target.cpu);
      linker.insert(linker.end(), {"-T", dir_.write("script", fmt::format(R"(ENTRY(_start)
SECTIONS {{
  . = {};
  .vectors : {{ KEEP(*(.vectors)) }}
  .text : {{ *(.text*) *(.rodata*) }}
  /DISCARD/ : {{ *(.ARM.exidx*) }}
  . = {};
  stack_top = .;
  .bss (NOLOAD) : {{ *(.bss*) }}
}}
)",
                                                                          target.board.flash.origin,
                                                                          target.board.ram.origin + stack))});
    }
    expect_good(compiler);
    expect_good(linker);
    expect_good(target.emulator + Strings{dir_ / "bare.elf"});
    if (!target.bare()) write_file(dir_ / "bare", out_);
    expect_same("bare", "wanted");
    fs::remove(dir_ / "bare");
    ASSERT_FALSE(HasFatalFailure());
  }
}

// Without files: whenever the power goes, the record before or the new one is there.
TEST_F(Pair, SlotsSurviveEveryCut) {
  prepare("mlp", {}, "adam");
  build("slots.c", "slots", {"net"}, {"gcc", "-O1", fmt::format("-DFEATURES={}", features_)});
  expect_good({dir_ / "slots"});
}

// Whatever is trained.
TEST_F(Driven, TheArenaOfASchemeIsUsedToItsEnd) {
  const std::string quarter = std::string(kSourceDir) + "/tests/train/schemes/quarter.toml";
  for (const char* name : {"bn_cnn", "mobile", "ds_cnn", "size_33x17"})
    for (const std::string& scheme : {std::string("full"), std::string("head"), std::string("bias-only"),
                                      std::string("last:2"), quarter}) {
      SCOPED_TRACE(name + (" " + scheme));
      prepare_library(Net(name), {"--bn", "frozen", "--sparse-scheme", scheme});
      drive({"threads=2", "train=2", "eval", "full"});
      ASSERT_FALSE(HasFatalFailure());
    }
}

// The library counts batches, the trainer steps; both begin another epoch where no whole step is left.
TEST_F(Pair, StepsOfSeveralBatches) {
  prepare("bn_cnn", {"--accumulate", "3", "--clip-norm", "1", "--schedule", "linear:steps=50"}, "adam");
  const int steps = static_cast<int>(samples_) / (3 * net_->batch) + 2;
  train(steps, "steps");
  drive({"shuffle", "train=" + std::to_string(3 * steps), "save=whole", "train=2", "save=between"});
  expect_same("whole", "steps");
  expect_same("between", "steps");
  drive({"load=steps", "shuffle", "train=3", "save=one"});
  train(steps + 1, "steps", {"--resume", "steps"});
  expect_same("one", "steps");
}

// Those of a part of a weight, which the header says, and sums over batches.
TEST_F(Pair, GivesTheTrainersGradients) {
  const std::string scheme =
      dir_.write("part.toml", "[[weights]]\nmatch = 'conv2.weight'\nchannels = [1, 4]\n");
  for (const Strings& more : {Strings{}, Strings{"--sparse-scheme", scheme}, Strings{"--accumulate", "2"}}) {
    SCOPED_TRACE(testing::PrintToString(more));
    prepare("bn_cnn", Strings{"--keep-gradients"} + more);
    train(2, "steps", {"--no-shuffle", "--gradients", "kept"});
    drive({more == Strings{"--accumulate", "2"} ? "train=4" : "train=2", "gradients=ours"});
    const std::string file = read_file(dir_ / "kept"), ours = read_file(dir_ / "ours");
    EXPECT_FALSE(ours.empty());
    EXPECT_TRUE(file.ends_with(ours));
    const bool part =
        read_file(dir_ / "net.h").find("parameters: conv2.weight[1:1,4]\"\n") != std::string::npos;
    EXPECT_EQ(part, more.size() == 2 && more[1] == scheme);
  }
  prepare("bn_cnn");
  drive({"train=1", "gradients=none"});
  EXPECT_EQ(read_file(dir_ / "none"), "");
}

TEST_F(Pair, EachGoesOnFromTheOther) {
  prepare("bn_cnn", {"--seed", "7"}, "adam");
  train(9, "whole", {"--no-shuffle"});
  train(4, "four", {"--no-shuffle"});
  drive({"load=four", "train=5", "save=library"});
  expect_same("library", "whole");
  drive({"train=4", "save=library4"});
  train(9, "resumed", {"--no-shuffle", "--resume", "library4"});
  expect_same("resumed", "whole");
}

TEST_F(Pair, ScoresAndPredictsAsTheTrainer) {
  prepare("bn_cnn");
  classes_ = 7;
  samples_ -= 3;  // the last batch is not full
  dir_.write("data.npy", npy("<f4", "(" + std::to_string(samples_) + ", 3, 19, 17)",
                             read_file(dir_ / "data").substr(0, samples_ * features_ * 4)));
  dir_.write("labels.npy", npy("<i4", "(" + std::to_string(samples_) + ",)",
                               read_file(dir_ / "labels").substr(0, samples_ * 4)));
  train(5, "c", {"--no-shuffle"});
  drive({"weights=c", "threads=2", "eval", "predict=scores"});
  std::istringstream line(out_);
  double loss = 0;
  size_t samples = 0, judged = 0, correct = 0;
  line >> loss >> samples >> judged >> correct;
  EXPECT_EQ(samples, samples_);
  EXPECT_EQ(judged, samples_);
  const Strings data = {"--data", "data.npy", "--weights", "c"};
  expect_good(Strings{dir_ / "trainer", "eval", "--labels", "labels.npy", "--log", "json"} + data);
  auto score = nlohmann::json::parse(out_);
  EXPECT_EQ(score["loss"].get<float>(), static_cast<float>(loss));
  EXPECT_EQ(score["accuracy"].get<float>(),
            static_cast<float>(static_cast<double>(correct) / static_cast<double>(judged)));
  expect_good(Strings{dir_ / "trainer", "predict", "--output", "scores.npy"} + data);
  EXPECT_TRUE(read_npy(dir_ / "scores.npy").bytes == read_file(dir_ / "scores"));
}

TEST_F(Library, Misuse) {
  compile_for_misuse();
  build("misuse.c", "misuse");
  expect_good({dir_ / "misuse"});
}

TEST_F(Library, TwoInOneProgram) {
  compile(Net("mlp"), "first");
  compile(Net("twice"), "second");
  build("two.c", "two", {"first", "second"});
  expect_good({dir_ / "two"});
}

// What people compile with, and every warning an error.
TEST_F(Library, EveryCompiler) {
  compile_for_misuse();
  const Strings strict = {"-pedantic",           "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wconversion",
                          "-Wl,--fatal-warnings"};
  int count = 0;
  for (const char* c : {"gcc", "clang", "clang-19"})
    for (const char* standard : {"-std=c99", "-std=c17"}) {
      if (run({c, "--version"}).status != 0) continue;
      build("misuse.c", "misuse", {"net"}, Strings{c, standard} + strict);
      expect_good({dir_ / "misuse"});
      ++count;
    }
  for (const char* c : {"g++", "clang++", "clang++-19"})
    for (const char* standard : {"-std=c++11", "-std=c++20"}) {
      if (run({c, "--version"}).status != 0) continue;
      build("misuse.c", "misuse", {"net"}, Strings{c, standard, "-x", "c++", "-Wno-deprecated"} + strict);
      expect_good({dir_ / "misuse"});
      ++count;
    }
  EXPECT_GE(count, 8) << "gcc, g++ and clang 19 are what pock itself needs";
  for (const char* how : {"-static", "-no-pie", "-static-pie", "-flto"}) {
    build("misuse.c", "misuse", {"net"}, {"gcc", how, "-Wl,--fatal-warnings"});
    expect_good({dir_ / "misuse"});
  }
}

// Its functions, and nothing else, are seen; it needs nothing; all its data are constant.
TEST_F(Library, Symbols) {
  compile(Net("bn_cnn"), "net");
  std::set<std::string> declared, defined;
  const std::string header = read_file(dir_ / "net.h");
  const std::regex function(R"((\w+)\([^()]*(\([^()]*\)[^()]*)*\);)");
  for (std::sregex_iterator i(header.begin(), header.end(), function), end; i != end; ++i)
    declared.insert((*i)[1]);
  EXPECT_EQ(declared.size(), 15u) << testing::PrintToString(declared);
  expect_good({"nm", "libnet.a"});
  std::istringstream lines(out_);
  for (std::string line; std::getline(lines, line);) {
    if (line.size() < 19) {
      EXPECT_EQ(line.find(" U "), std::string::npos) << line;
      continue;
    }
    const char type = line[17];
    const std::string name = line.substr(19);
    if (type == 'T') defined.insert(name);
    const std::string constant = name == "net_pock_weights" ? "R" : "Ttrd";
    EXPECT_NE(constant.find(type), std::string::npos) << line;
  }
  EXPECT_EQ(declared, defined);
  expect_good({"objdump", "-h", "libnet.a"});
  for (const char* section : {" .data ", " .bss ", ".data.rel ", ".tdata", ".tbss", ".init_array", ".ctors"})
    EXPECT_EQ(out_.find(section), std::string::npos) << section << out_;
  // A shared library of it shows the same functions.
  expect_good({"gcc", "-shared", "-nostdlib", "-Wl,-z,defs,--whole-archive", "libnet.a", "-o", "libnet.so"});
  expect_good({"nm", "-D", "--defined-only", "libnet.so"});
  std::set<std::string> shown;
  std::istringstream dynamic(out_);
  for (std::string line; std::getline(dynamic, line);) shown.insert(line.substr(19));
  EXPECT_EQ(shown, declared);
}

// A name may be one that pock uses itself.
TEST_F(Library, NamesOfItsOwn) {
  for (const char* name : {"pock", "pock_lib", "k0", "memory", "X"}) {
    compile(Net("mlp"), name);
    const std::string lib = name;
    dir_.write("main.c", "#include \"" + lib + ".h\"\nint main(void) { static " + lib +
                             "_trainer t; return " + lib + "_init(&t, 0, 0, 0) != " + lib +
                             "_BAD_MEMORY; }\n");
    expect_good({"gcc", "-I.", "main.c", "lib" + lib + ".a", "-o", "main"});
    expect_good({dir_ / "main"});
  }
}

TEST_F(Library, TheExampleLearns) {
  expect_good({std::string(kSourceDir) + "/examples/embed/run.sh", kPockc, dir_ / "example", "100"});
  const std::string key = "accuracy after 100 steps: ";
  const size_t at = out_.find(key);
  ASSERT_NE(at, std::string::npos) << out_;
  EXPECT_GT(std::stod(out_.substr(at + key.size())), 0.65) << out_;
}

TEST_F(Library, SameBytesEveryTime) {
  compile(Net("mlp"), "net");
  const std::string archive = read_file(dir_ / "libnet.a"), header = read_file(dir_ / "net.h");
  compile(Net("mlp"), "net");
  EXPECT_TRUE(archive == read_file(dir_ / "libnet.a"));
  EXPECT_EQ(header, read_file(dir_ / "net.h"));
}

TEST_F(Library, BothFilesOrNone) {
  auto refused = [&](const std::string& out, const std::string& says) {
    Ran ran = run(Net("mlp").compile_command(dir_ / out, {"--emit", "lib"}), dir_.path);
    EXPECT_EQ(ran.status, 1) << out;
    EXPECT_NE(ran.err.find(says), std::string::npos) << ran.err;
  };
  refused("my-net", "my-net");
  refused("1net", "1net");
  refused("net.a", "net.a");
  refused("nowhere/net", "nowhere/libnet.a");
  EXPECT_TRUE(fs::is_empty(dir_.path));
  fs::create_directory(dir_.path / "net.h");
  refused("net", "it is a folder");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path), {}), 1);
  Ran printed = run(Net("mlp").compile_command("-", {"--emit", "lib"}), dir_.path);
  EXPECT_EQ(printed.status, 1);
  EXPECT_NE(printed.err.find("--emit lib"), std::string::npos) << printed.err;
}

}  // namespace
}  // namespace pock::test
