// What must not change a bit: schedules, threads, passes that preserve the arithmetic, an arena full of NaN,
// stopping and resuming; and the interpreter, which reads the same graphs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "frontends/model.h"
#include "pock/codegen/compile.h"
#include "pock/frontends/import.h"
#include "pock/ops/evaluate.h"
#include "pock/passes/pass.h"
#include "train/net.h"
#include "train/scalars.h"

namespace pock::test {
namespace {

namespace fs = std::filesystem;
constexpr int kSteps = 6;

// A net compiled as it comes, and what the trainer in `dir` learned.
struct Reference {
  explicit Reference(const Net& net) {
    compile(net, dir);
    trained = run_trainer(net, dir, kSteps, {"--threads", "1"});
  }
  TempDir dir;
  Trained trained;
};

void expect_same(const Trained& a, const Trained& b) {
  ASSERT_FALSE(a.bytes.empty());
  EXPECT_EQ(a.losses, b.losses);
  ASSERT_EQ(a.checkpoint.tensors.size(), b.checkpoint.tensors.size());
  for (const auto& [name, array] : a.checkpoint.tensors)
    EXPECT_TRUE(array.bytes == b.checkpoint.tensors.at(name).bytes) << name << " differs";
}

// Every NAME of a --no-NAME.
std::vector<std::string> switches() {
  std::vector<std::string> names;
  for (const Pass& p : training_pipeline())
    if (p.optional) names.push_back(p.name);
  for (const CodegenSwitch& s : kCodegenSwitches) names.push_back(s.name);
  return names;
}

class Bits : public testing::TestWithParam<std::string> {};
std::string name_of(const testing::TestParamInfo<std::string>& info) { return info.param; }

TEST_P(Bits, Threads) {
  const Net net(GetParam());
  const Reference want(net);
  for (int again = 0; again < 5; ++again)
    for (const char* threads : {"1", "2", "3", "4"})
      expect_same(want.trained, run_trainer(net, want.dir, kSteps, {"--threads", threads}));
}

TEST_P(Bits, SwitchesAndOtherProcessor) {
  const Net net(GetParam());
  const Reference want(net);
  std::set<std::string> programs = {program_of(net)};
  std::vector<std::vector<std::string>> ways = {{"--cpu", "x86-64-v3"}, {"--no-schedule"}};
  for (const std::string& name : switches()) ways.push_back({"--no-" + name});
  for (const std::vector<std::string>& flags : ways) {
    SCOPED_TRACE(flags.back());
    if (flags.size() == 1 && !programs.insert(program_of(net, flags)).second) continue;
    expect_same(want.trained, train(net, kSteps, flags, {"--threads", "1"}));
  }
}

// Convolutions by fewer products, whole and in parts: the same bits from every schedule.
TEST(FewerProducts, GiveTheSameBits) {
  const Net net("wide");
  const Trained want = train(net, 3, {}, {"--threads", "1"});
  ASSERT_FALSE(want.bytes.empty());
  for (const char* flag : {"--no-schedule", "--no-layout", "--no-fuse", "--cpu=x86-64-v3"})
    expect_same(want, train(net, 3, {flag}, {"--threads", "4"}));
  const Trained plain = train(net, 3, {"--no-winograd"}, {"--threads", "1"});
  EXPECT_NE(plain.bytes, want.bytes);
  for (size_t i = 0; i < want.losses.size(); ++i) EXPECT_NEAR(plain.losses[i], want.losses[i], 1e-5);
}

// Whether this machine has what runs the programs of a target.
bool is_emulated(const Target& target) { return is_installed(target.emulator[0]); }

// Emulated: other instructions, vectors of four, another schedule, pointers of another size.
TEST_P(Bits, OtherMachines) {
  const Net net(GetParam());
  const Reference want(net);
  for (const char* name : {"aarch64-linux", "armv7-linux"}) {
    SCOPED_TRACE(name);
    const Target target = find_target(name);
    if (!is_emulated(target)) GTEST_SKIP() << target.emulator[0] << " is not installed (Debian: qemu-user)";
    TempDir dir;
    compile(net, dir, {"--target", name});
    for (const char* threads : {"1", "3"})
      expect_same(want.trained, run_trainer(net, dir, kSteps, {"--threads", threads}, target.emulator));
    // Its inference too.
    std::vector<std::string> eval = {want.dir / "trainer",     "eval",      "--labels",
                                     net.data + "/labels.npy", "--weights", want.dir / "checkpoint"};
    const std::vector<std::string> fed = net.data_flags();
    eval.insert(eval.end(), fed.begin(), fed.end());
    const Ran here = run(eval);
    EXPECT_EQ(here.status, 0) << here.err;
    eval[0] = dir / "trainer";
    const Ran there = run(emulated(target.emulator, eval));
    EXPECT_EQ(there.status, 0) << there.err;
    EXPECT_EQ(there.out, here.out);
  }
}

// A checkpoint goes on where another machine saved it, with the same bits.
TEST(TargetBits, ResumedElsewhere) {
  const Net net("mlp");
  const Reference want(net);
  const Target board = find_target("cortex-m4"), pi = find_target("rpi2");
  for (const Target* t : {&board, &pi})
    if (!is_emulated(*t)) GTEST_SKIP() << t->emulator[0] << " is not installed";
  TempDir there, elsewhere;
  compile(net, there, {"--target", board.name, "--board", "stm32f405"});
  compile(net, elsewhere, {"--target", pi.name});
  Trained first = run_trainer(net, there, kSteps / 2, {}, find_board("stm32f405").emulator);
  Trained second = run_trainer(net, elsewhere, kSteps, {"--resume", there / "checkpoint"}, pi.emulator);
  first.losses.insert(first.losses.end(), second.losses.begin(), second.losses.end());
  second.losses = first.losses;
  expect_same(want.trained, second);
  run_trainer(net, there, kSteps, {"--resume", there / "checkpoint"}, find_board("stm32f405").emulator);
  EXPECT_TRUE(read_file(there / "checkpoint") == read_file(elsewhere / "checkpoint"));
}

TEST_P(Bits, PoisonedArena) {
  const Net net(GetParam());
  const Reference want(net);
  expect_same(want.trained, run_trainer(net, want.dir, kSteps, {"--threads", "2", "--poison-arena"}));
}

TEST_P(Bits, StoppedAndResumed) {
  const Net net(GetParam());
  const Reference want(net);
  Trained first = run_trainer(net, want.dir, kSteps / 2);
  Trained second = run_trainer(net, want.dir, kSteps, {"--resume", want.dir / "checkpoint"});
  ASSERT_EQ(second.losses.size(), static_cast<size_t>(kSteps - kSteps / 2));
  first.losses.insert(first.losses.end(), second.losses.begin(), second.losses.end());
  second.losses = first.losses;
  expect_same(want.trained, second);
}

TEST_P(Bits, TwoCompilationsGiveTheSameFile) {
  Net net(GetParam());
  TempDir a, b;
  compile(net, a);
  compile(net, b);
  EXPECT_TRUE(read_file(a / "trainer") == read_file(b / "trainer"));
}

// The interpreter runs the graph that `pockc compile --emit graph` writes, kernels unscheduled.
TEST_P(Bits, Interpreter) {
  Net net(GetParam());
  PassOptions options;
  options.losses = {parse_loss(net.loss)};
  options.recipe.optimizer = parse_optimizer(net.optimizer);
  for (size_t i = 1; i < net.input_flags.size(); ++i)
    if (net.input_flags[i - 1] == "--freeze") options.freeze.push_back(net.input_flags[i]);
  std::unique_ptr<Graph> g = import_onnx(net.folder + "/model.onnx", {.batch = net.batch, .dims = net.sizes});
  run_passes(*g, training_pipeline(), options);
  Memory memory = initial_memory(*g);
  std::map<std::string, Array> fed = {{"labels", read_npy(net.data + "/labels.npy")}};
  for (const auto& [name, file] : net.data_files())
    fed[name.empty() ? g->inputs()[0]->name : name] = read_npy(file);
  ScalarFormulas formulas = scalar_formulas(options.recipe);
  const int steps = 3;
  Trained want = train(net, steps, {}, {"--threads", "1"});
  ASSERT_EQ(want.losses.size(), static_cast<size_t>(steps));
  for (int step = 1; step <= steps; ++step) {
    size_t first = static_cast<size_t>(step - 1) * net.batch;
    for (const Value* v : g->inputs()) {
      const std::vector<double> all = fed.at(v->name).numbers();
      const size_t size = all.size() / fed.at(v->name).dims[0];
      memory.set(v,
                 std::vector<double>(all.begin() + first * size, all.begin() + (first + net.batch) * size));
    }
    set_scalars(*g, formulas, step, &memory);
    evaluate(*g, memory);
    EXPECT_EQ(memory.read(g->outputs()[0])[0], static_cast<float>(want.losses[step - 1])) << "step " << step;
  }
  for (const Value* p : g->params()) {
    if (p->kind == ValueKind::param && !p->trained) continue;
    std::string name =
        p->kind == ValueKind::optimizer ? "optimizer/" + p->slot + "/" + p->owner->name : p->name;
    ASSERT_TRUE(want.checkpoint.tensors.count(name)) << name;
    EXPECT_EQ(memory.read(p), want.checkpoint.tensors.at(name).numbers()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, Bits, testing::ValuesIn(kNets), name_of);
INSTANTIATE_TEST_SUITE_P(Text, Bits, testing::ValuesIn(kText), name_of);

// Stopped in the middle of an epoch with shuffled data: moments, step number, rate and order go on where they were.
TEST(Resume, KeepsTheStateOfEveryRecipe) {
  const std::vector<std::vector<std::string>> recipes = {
      {"sgd:lr=0.05"},
      {"sgd:lr=0.05,momentum=0.9"},
      {"adam"},
      {"adamw:lr=0.01,weight_decay=0.1"},
      {"adagrad:lr_decay=0.1,initial_accumulator_value=0.1"},
      {"rmsprop:centered=1,momentum=0.9"},
      {"lion:lr=0.001"},
      {"adam", "--schedule", "cosine:steps=23,warmup=5", "--accumulate", "2", "--clip-norm", "0.5"}};
  for (const std::vector<std::string>& recipe : recipes) {
    SCOPED_TRACE(recipe.back());
    Net net("mlp");
    net.optimizer = recipe[0];
    TempDir dir;
    compile(net, dir, {recipe.begin() + 1, recipe.end()});
    auto train_to = [&](const std::string& steps, std::vector<std::string> more) {
      std::vector<std::string> argv = {dir / "trainer", "train",
                                       "--data",        net.folder + "/data.npy",
                                       "--labels",      net.folder + "/labels.npy",
                                       "--steps",       steps,
                                       "--checkpoint"};
      argv.insert(argv.end(), more.begin(), more.end());
      Ran ran = run(argv);
      EXPECT_EQ(ran.status, 0) << ran.err;
    };
    train_to("23", {dir / "straight"});
    train_to("4", {dir / "c"});
    train_to("13", {dir / "c", "--resume", dir / "c"});
    train_to("23", {dir / "c", "--resume", dir / "c"});
    EXPECT_TRUE(read_file(dir / "c") == read_file(dir / "straight"));
  }
}

// What stands between gradients and optimizer: threads, and passes that move or copy what is computed.
TEST(RecipeBits, ThreadsAndSwitches) {
  const std::vector<std::string> clipped = {"--clip-norm", "0.5", "--clip-value", "0.1"},
                                 gathered = {"--accumulate", "2"},
                                 both = {"--accumulate", "3", "--clip-norm", "0.5", "--skip-nonfinite"},
                                 late = {"--no-immediate-update", "--no-update-in-place"};
  struct Case {
    const char* net;
    std::vector<std::string> recipe;
    std::vector<std::vector<std::string>> ways;
  };
  const Case cases[] = {
      {"bn_cnn", clipped, {{"--no-immediate-update"}, late}},
      {"bn_cnn", gathered, {{"--no-immediate-update"}, {"--no-update-in-place"}}},
      {"bn_cnn",
       both,
       {late, {"--no-recompute", "--no-inplace"}, {"--no-cse", "--no-dce", "--no-fold-constants"}}},
      {"dropped", both, {late}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(c.net) + " " + c.recipe[0] + " " + c.recipe[1]);
    const Net net(c.net);
    TempDir dir;
    compile(net, dir, c.recipe);
    const Trained want = run_trainer(net, dir, 4, {"--threads", "1"});
    expect_same(want, run_trainer(net, dir, 4, {"--threads", "3", "--poison-arena"}));
    for (std::vector<std::string> flags : c.ways) {
      SCOPED_TRACE(flags[0]);
      flags.insert(flags.end(), c.recipe.begin(), c.recipe.end());
      expect_same(want, train(net, 4, flags, {"--threads", "2"}));
    }
  }
}

// Where nothing is computed from a whole batch, batches added up are one large batch.
TEST(Accumulation, EqualsOneLargeBatch) {
  Net net("mlp");
  net.optimizer = "sgd:lr=0.05,momentum=0.9";
  const int batch = net.batch;
  net.batch = 4 * batch;
  const Trained large = train(net, 12);
  net.batch = batch;
  const Trained four = train(net, 12, {"--accumulate", "4"});
  ASSERT_EQ(four.losses.size(), large.losses.size());
  for (size_t i = 0; i < four.losses.size(); ++i)
    EXPECT_NEAR(four.losses[i], large.losses[i], 1e-6 * large.losses[i]) << "step " << i + 1;
  for (const auto& [name, array] : large.checkpoint.tensors) {
    const std::vector<double> a = array.numbers(), b = four.checkpoint.tensors.at(name).numbers();
    double apart = 0, size = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      apart += (a[i] - b[i]) * (a[i] - b[i]);
      size += a[i] * a[i];
    }
    EXPECT_LE(std::sqrt(apart), 1e-6 * std::sqrt(size)) << name;
  }
  // One batch a step is what there is without it.
  expect_same(train(net, 12), train(net, 12, {"--accumulate", "4"}, {"--accumulate", "1"}));
}

// Where the rate is 0, running statistics are those of as many steps of one batch.
TEST(Accumulation, StatisticsFollowEveryBatch) {
  Net net("bn_cnn");
  net.optimizer = "sgd";
  const Trained one = train(net, 6, {}, {"--lr", "0"}),
                two = train(net, 3, {"--accumulate", "2"}, {"--lr", "0"});
  ASSERT_TRUE(one.checkpoint.tensors.count("bn1.running_mean"));
  EXPECT_TRUE(one.bytes == two.bytes);
}

// One epoch in file order over data of which one sample is NaN: the step that it is in never was.
class NotFinite : public testing::Test {
 protected:
  NotFinite() { use("mlp"); }

  void use(const char* net) {
    net_ = Net(net);
    net_.optimizer = "adam:lr=0.01";
    data_ = read_npy(net_.data + "/data.npy");
    labels_ = read_npy(net_.data + "/labels.npy");
  }

  // The first `count` samples, without those from `hole` to `end`; sample `spoilt` is NaN.
  void prepare(int count, int hole, int end, int spoilt) {
    const size_t sample = data_.bytes.size() / data_.dims[0], label = labels_.bytes.size() / labels_.dims[0];
    std::string x = data_.bytes.substr(0, count * sample), y = labels_.bytes.substr(0, count * label);
    if (spoilt >= 0) x.replace(spoilt * sample, 4, bytes_of(std::vector<float>{std::nanf("")}));
    x.erase(hole * sample, (end - hole) * sample);
    y.erase(hole * label, (end - hole) * label);
    const int left = count - (end - hole);
    std::string dims = fmt::format("({}", left);
    for (size_t i = 1; i < data_.dims.size(); ++i) dims += fmt::format(", {}", data_.dims[i]);
    dir_.write("data.npy", npy("<f4", dims + ")", x));
    dir_.write("labels.npy", npy(fmt::format("<i{}", label), fmt::format("({},)", left), y));
    net_.data = dir_.path;
  }

  Ran train() {
    Ran ran = run({dir_ / "trainer", "train", "--data", dir_ / "data.npy", "--labels", dir_ / "labels.npy",
                   "--epochs", "1", "--no-shuffle", "--log", "json", "--checkpoint", dir_ / "checkpoint"});
    return ran;
  }

  Net net_{"mlp"};       // with the data in dir_
  Array data_, labels_;  // all of them
  TempDir dir_;
};

TEST_F(NotFinite, SkippedStepsNeverWere) {
  for (const auto& [name, batches] : {std::pair{"mlp", 1}, {"mlp", 2}, {"bn_cnn", 2}}) {
    SCOPED_TRACE(fmt::format("{} {}", name, batches));
    use(name);
    const int step = net_.batch * batches, count = 5 * step;
    std::vector<std::string> flags = {"--skip-nonfinite"};
    if (batches > 1) flags.insert(flags.end(), {"--accumulate", std::to_string(batches)});
    compile(net_, dir_, flags);
    prepare(count, 0, 0, 3 * step - 1);  // in the third step, its last batch
    Ran ran = train();
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.err.find("the loss of step 3 is not finite: its samples are skipped"), std::string::npos)
        << ran.err;
    EXPECT_NE(ran.err.find("skipped for not being finite: 1"), std::string::npos) << ran.err;
    const Safetensors skipped = read_safetensors(dir_ / "checkpoint");
    prepare(count, 2 * step, 3 * step, -1);
    Ran without = train();
    ASSERT_EQ(without.status, 0) << without.err;
    EXPECT_EQ(ran.out, without.out);
    for (const auto& [tensor, array] : read_safetensors(dir_ / "checkpoint").tensors)
      EXPECT_TRUE(array.bytes == skipped.tensors.at(tensor).bytes) << tensor << " differs";
  }
}

TEST_F(NotFinite, EndsTheRunWhereNothingElseIsSaid) {
  compile(net_, dir_, {});
  prepare(5 * net_.batch, 0, 0, 3 * net_.batch);
  Ran ran = train();
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.err.find("the loss of step 4 is not finite"), std::string::npos) << ran.err;
}

TEST_F(NotFinite, AWholeEpochOfThemEndsTheRun) {
  compile(net_, dir_, {"--skip-nonfinite"});
  prepare(net_.batch, 0, 0, 0);
  Ran ran = train();
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.err.find("step 1 was skipped as often as an epoch has steps"), std::string::npos) << ran.err;
}

// Without each pass a different graph, kernels or plan for at least one net.
class Switch : public testing::TestWithParam<std::string> {};

// Kernels, plan, and the graph after every pass but `name`: what one pass drops a later one might have
// dropped too.
std::string shape_of(const Net& net, const std::string& name, const std::vector<std::string>& flags) {
  TempDir dir;
  std::vector<std::string> more = flags;
  more.insert(more.end(), {"--emit", "loops", "--report", dir / "report"});
  for (const Pass& p : training_pipeline())
    if (p.name != name) more.insert(more.end(), {"--print-after", p.name});
  Ran ran = run(net.compile_command(dir / "loops", more));
  EXPECT_EQ(ran.status, 0) << ran.err;
  auto report = nlohmann::json::parse(read_file(dir / "report"));
  for (const char* timing : {"seconds", "passes", "inference_passes"}) report.erase(timing);
  return ran.err + read_file(dir / "loops") + report.dump();
}

TEST_P(Switch, DoesSomething) {
  auto changes = [](const std::string& name, std::vector<std::string> flags) {
    const Net net(name);
    const std::string with = shape_of(net, GetParam(), flags);
    flags.push_back("--no-" + GetParam());
    return with != shape_of(net, GetParam(), flags);
  };
  const std::string quarter = std::string(kSourceDir) + "/tests/train/schemes/quarter.toml";
  EXPECT_TRUE(std::any_of(kNets.begin(), kNets.end(), [&](const auto& net) { return changes(net, {}); }) ||
              changes("squeezenet", {"--sparse-scheme", quarter}) ||
              changes("squeezenet", {"--sparse-scheme", "bias-only"}))
      << "--no-" << GetParam() << " changes nothing";
}

INSTANTIATE_TEST_SUITE_P(All, Switch, testing::ValuesIn(switches()), name_of);

// Values that are read twice, joined with others of any age, overwritten in place or not: random images through
// convolutions, norms, activations, pools and joins in random order.
Model random_net(unsigned seed) {
  std::mt19937 random(seed);
  auto floats = [&](size_t n, float low, float high) {
    std::vector<float> data(n);
    for (float& v : data) v = std::uniform_real_distribution<float>(low, high)(random);
    return data;
  };
  Model m;
  m.input("x", {-1, 3, 9, 7}).floats("stem", {5, 3, 3, 3}, floats(135, -0.3f, 0.3f));
  m.node("Conv", {"x", "stem"}, {"v0"}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  std::vector<std::string> values = {"v0"};
  std::set<std::string> unread = {"v0"};
  for (int i = 1; i <= 10; ++i) {
    const std::string to = "v" + std::to_string(i), w = "w" + std::to_string(i);
    auto any = [&] {
      const std::string& v = values[values.size() - 1 - random() % std::min<size_t>(values.size(), 3)];
      unread.erase(v);
      return v;
    };
    switch (random() % 8) {
      case 0:
      case 1:
        m.floats(w, {5, 5, 3, 3}, floats(225, -0.2f, 0.2f));
        m.node("Conv", {any(), w}, {to}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
        break;
      case 2:
      case 3:
        for (const char* what : {"scale", "variance"}) m.floats(w + what, {5}, floats(5, 0.5f, 1.5f));
        for (const char* what : {"shift", "mean"}) m.floats(w + what, {5}, floats(5, -0.5f, 0.5f));
        m.node("BatchNormalization", {any(), w + "scale", w + "shift", w + "mean", w + "variance"}, {to});
        break;
      case 4:
        m.node("Relu", {any()}, {to});
        break;
      case 5:
        m.node("Tanh", {any()}, {to});
        break;
      case 6: {
        const std::string a = any();
        m.node("Add", {a, any()}, {to});
        break;
      }
      default:
        m.node("MaxPool", {any()}, {to},
               {{"kernel_shape", std::vector<int64_t>{3, 3}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
    }
    values.push_back(to);
    unread.insert(to);
  }
  m.node("Sum", {unread.begin(), unread.end()}, {"sum"}).node("GlobalAveragePool", {"sum"}, {"mean"});
  m.node("Flatten", {"mean"}, {"flat"})
      .floats("fc", {5, 4}, floats(20, -1, 1))
      .node("MatMul", {"flat", "fc"}, {"logits"});
  return m.output("logits");
}

TEST(RandomNets, TrainAlikeWithAndWithoutEverySwitch) {
  TempDir dir;
  std::mt19937 random(1);
  std::vector<float> x(8 * 3 * 9 * 7);
  for (float& v : x) v = std::normal_distribution<float>()(random);
  dir.write("x", npy("<f4", "(8, 3, 9, 7)", bytes_of(x)));
  dir.write("y", npy("|u1", "(8,)", std::string("\0\1\2\3\3\2\1\0", 8)));
  std::vector<std::string> off;
  for (const std::string& name : switches()) off.push_back("--no-" + name);
  for (unsigned seed = 0; seed < 7; ++seed) {
    SCOPED_TRACE(seed);
    dir.write("m", random_net(seed).proto.SerializeAsString());
    auto learned = [&](const std::vector<std::string>& flags, const std::vector<std::string>& how) {
      std::vector<std::string> compile = {kPockc,
                                          "compile",
                                          dir / "m",
                                          "-o",
                                          dir / "t",
                                          "--batch",
                                          "4",
                                          "--loss",
                                          "cross-entropy",
                                          "--optimizer",
                                          "sgd:lr=0.05,momentum=0.9"};
      compile.insert(compile.end(), flags.begin(), flags.end());
      Ran ran = run(compile);
      EXPECT_EQ(ran.status, 0) << ran.err;
      std::vector<std::string> train = {dir / "t",  "train", "--data", "x",    "--labels",     "y",
                                        "--epochs", "3",     "--log",  "json", "--checkpoint", dir / "c"};
      train.insert(train.end(), how.begin(), how.end());
      fs::remove(dir / "c");
      ran = run(train, dir.path);
      EXPECT_EQ(ran.status, 0) << ran.err;
      return ran.out + read_file(dir / "c");
    };
    EXPECT_TRUE(learned({}, {"--threads", "3", "--poison-arena"}) == learned(off, {"--threads", "1"}));
  }
}

}  // namespace
}  // namespace pock::test
