// Whole programs: a training step compiled to an object file, loaded and run beside the interpreter.
#include <elf.h>
#include <gtest/gtest.h>
#include <immintrin.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "pock/codegen/compile.h"
#include "pock/ops/evaluate.h"
#include "pock/passes/passes.h"
#include "step.h"
#include "support/support.h"

namespace pock {
namespace {

using test::bytes_of;
using test::npy;
using test::Ran;
using test::TempDir;

constexpr int64_t kBatch = 8, kFeatures = 20, kHidden = 12, kClasses = 5;

// Two linear layers; the second one's bias is frozen.
std::unique_ptr<Graph> model() {
  auto g = std::make_unique<Graph>("net");
  g->model_hash = "0123456789abcdef";
  Value* x = g->add_input("x", {DType::f32, {kBatch, kFeatures}});
  auto param = [&](const char* name, Dims dims, unsigned seed) {
    const Type type{DType::f32, dims};
    return g->add_param(name, type, make_data(random_floats(type.elements(), seed)));
  };
  Value* w1 = param("w1", {kFeatures, kHidden}, 1);
  Value* b1 = param("b1", {kHidden}, 2);
  Value* w2 = param("w2", {kHidden, kClasses}, 3);
  Value* b2 = param("b2", {kClasses}, 4);
  Builder b(*g);
  Value* hidden = b.relu(b.add(b.matmul(x, w1), b1));
  g->add_output(b.add(b.matmul(hidden, w2), b2), "scores");
  return g;
}

struct Compiled {
  std::unique_ptr<Graph> train, infer;
  Program program;
};

Compiled compile(std::unique_ptr<Graph> (*make)(), PassOptions passes,
                 const std::function<void(CompileOptions&)>& change) {
  Compiled c;
  c.train = make();
  c.infer = make();
  run_passes(*c.train, training_pipeline(), passes);
  passes.inference = true;
  run_passes(*c.infer, inference_pipeline(), passes);
  CompileOptions options;
  options.target = find_target("host");
  options.recipe = passes.recipe;
  options.losses = passes.losses;
  options.model_name = "net.onnx";
  if (change) change(options);
  c.program = lower(*c.train, *c.infer, options);
  return c;
}

Compiled compile(const std::string& optimizer, const std::function<void(CompileOptions&)>& change = {}) {
  PassOptions passes;
  passes.losses = {parse_loss("cross-entropy")};
  passes.freeze = {"b2"};
  passes.recipe.optimizer = parse_optimizer(optimizer);
  return compile(model, passes, change);
}

// Of everything that the runtime may have to do for a program.
Compiled compile_all(const std::function<void(CompileOptions&)>& change) {
  PassOptions passes;
  passes.losses = {parse_loss("scores=cross-entropy:ignore_index=-1"), parse_loss("box=huber:weight=2")};
  passes.recipe.optimizer = parse_optimizer("adam");
  passes.recipe.schedule = parse_schedule("cosine:warmup=10");
  passes.recipe.accumulate = 4;
  passes.recipe.clip_value = passes.recipe.clip_norm = 1;
  passes.recipe.skip_nonfinite = true;
  const auto make = [] {
    std::unique_ptr<Graph> g = model();
    Value* y = g->add_input("y", {DType::f32, {kBatch, kFeatures}});
    Value* w = g->add_param("w3", {DType::f32, {kFeatures, kClasses}},
                            make_data(random_floats(kFeatures * kClasses, 5)));
    Builder b(*g);
    g->add_output(b.matmul(y, w), "box");
    return g;
  };
  return compile(make, passes, change);
}

std::vector<int32_t> labels(unsigned seed) { return random_ids(kBatch, kClasses, seed); }

void expect_training_like_interpreter(Compiled c, bool alone = false) {
  train_both_ways(c.program, kClasses, alone);
}

TEST(Program, TrainsLikeTheInterpreter) {
  for (const char* optimizer : {"sgd:lr=0.1", "sgd:lr=0.1,momentum=0.9", "adam:lr=0.01"}) {
    SCOPED_TRACE(optimizer);
    expect_training_like_interpreter(compile(optimizer));
  }
}

// What a product reads of a large input goes through no memory.
TEST(Program, StagesLikeTheInterpreter) {
  const auto make = [] {
    auto g = std::make_unique<Graph>("large");
    const auto param = [&](const char* name, Dims dims) {
      const Type type{DType::f32, dims};
      return g->add_param(name, type, make_data(random_floats(type.elements(), 1)));
    };
    Value* x = g->add_input("x", {DType::f32, {8192, 260}});
    Builder b(*g);
    Value* read = b.relu(b.add(x, param("b1", {260})));
    g->add_output(b.add(b.matmul(read, param("w", {260, kClasses})), param("b2", {kClasses})), "scores");
    return g;
  };
  PassOptions passes;
  passes.losses = {parse_loss("cross-entropy")};
  passes.freeze = {"b1", "w"};
  for (const bool alone : {false, true}) {
    Compiled c = compile(make, passes, {});
    EXPECT_EQ(std::count_if(c.program.kernels.begin(), c.program.kernels.end(),
                            [](const CompiledKernel& k) {
                              return loop::to_string(k.schedule).find(" stage(") != std::string::npos;
                            }),
              1);
    expect_training_like_interpreter(std::move(c), alone);
  }
}

// A product's and a window's large results are summed up where they are made, in parts that go from one image to the next; and
// so are those of the backward part.
TEST(Program, SumsBehindLikeTheInterpreter) {
  const auto make = [] {
    auto g = std::make_unique<Graph>("large");
    const auto param = [&](const std::string& name, Dims dims) {
      const Type type{DType::f32, dims};
      return g->add_param(name, type, make_data(random_floats(type.elements(), 1)));
    };
    Value* x = g->add_input("x", {DType::f32, {kBatch, 3, 79, 80}});
    Builder b(*g);
    const auto norm = [&](Value* v, const std::string& name) {
      const Type type{DType::f32, {v->type.dim(1)}};
      Value* mean = g->add_statistic("mean" + name, type, make_data(random_floats(type.elements(), 2)));
      Value* variance = g->add_statistic(
          "variance" + name, type, make_data(std::vector<float>(static_cast<size_t>(type.elements()), 1)));
      return b.value("batch_norm",
                     {v, param("scale" + name, type.dims), param("shift" + name, type.dims), mean, variance},
                     {{"epsilon", 1e-5}, {"momentum", 0.9}});
    };
    const auto clip = [&](Value* v) { return b.value("clip", {v}, {{"low", 0.0}, {"high", 6.0}}); };
    Value* wide = clip(norm(b.value("conv", {x, param("w1", {18, 3, 1, 1})}), "1"));
    Value* apart = b.value("conv", {wide, param("w2", {18, 1, 3, 3})},
                           {{"pad", std::vector<int64_t>{1, 1, 1, 1}}, {"groups", int64_t{18}}});
    Value* means = b.reduce_mean(b.relu(norm(apart, "2")), {2, 3});
    g->add_output(b.matmul(means, param("w3", {18, kClasses})), "scores");
    return g;
  };
  PassOptions passes;
  passes.losses = {parse_loss("cross-entropy")};
  passes.recipe.optimizer = parse_optimizer("sgd:lr=0.1,momentum=0.9");
  Compiled c = compile(make, passes, {});
  EXPECT_EQ(std::count_if(c.program.kernels.begin(), c.program.kernels.end(),
                          [](const CompiledKernel& k) {
                            return loop::to_string(k.schedule).find(" beside(") != std::string::npos;
                          }),
            4);
  expect_training_like_interpreter(std::move(c));
}

TEST(Program, SwitchesKeepEveryBit) {
  expect_training_like_interpreter(compile("adam", [](CompileOptions& o) { o.schedule = false; }));
  expect_training_like_interpreter(compile("adam", [](CompileOptions& o) { o.share_kernels = false; }));
  expect_training_like_interpreter(
      compile("adam", [](CompileOptions& o) { o.plan.updates_in_place = false; }));
}

TEST(Program, NeedsNoThreads) { expect_training_like_interpreter(compile("adam"), true); }

TEST(Program, ScalarsOfAStep) {
  Compiled c = compile("adam:lr=0.5,beta1=0.875");
  Step step(c.program);
  ASSERT_TRUE(step.table);
  std::vector<double> hypers;
  for (uint32_t i = 0; i < step.table->hyper_count; ++i) {
    const std::string name = step.table->hypers[i].name;
    hypers.push_back(name == "lr" ? 0.25 : step.table->hypers[i].value);  // changed at run time
  }
  step.table->scalars(hypers.data(), 37, 1, 0, 37, step.memory.scalars);
  int checked = 0;
  for (size_t i = 0; i < c.train->scalars().size(); ++i) {
    const std::string& name = c.train->scalars()[i]->name;
    double expected = 0;
    if (name == "step_size") expected = 0.25 / (1 - std::pow(0.875, 37));
    if (name == "inv_sqrt_bias2") expected = 1 / std::sqrt(1 - std::pow(0.999, 37));
    if (expected == 0) continue;
    EXPECT_FLOAT_EQ(step.memory.scalars[1 + i], expected) << name;
    ++checked;
  }
  EXPECT_EQ(checked, 2);
  EXPECT_EQ(step.memory.scalars[0], 0.25f);
}

// A loss of 0 whose gradient is beyond all floats.
TEST(Program, AGradientIsMeasuredBeforeAnythingChanges) {
  Graph train("train");
  Value* x = train.add_input("x", {DType::f32, {4, 3}});
  Value* w = train.add_param("w", {DType::f32, {3}}, make_data({0.0f, 0.0f, 0.0f}));
  Value* scale = train.add_param("scale", {DType::f32, {3}}, make_data({1.0f, 1.0f, 1.0f}));
  Value* shift = train.add_param("shift", {DType::f32, {3}}, make_data({0.0f, 0.0f, 0.0f}));
  Value* mean = train.add_statistic("mean", {DType::f32, {3}}, make_data({0.0f, 0.0f, 0.0f}));
  Value* variance = train.add_statistic("variance", {DType::f32, {3}}, make_data({1.0f, 1.0f, 1.0f}));
  Builder b(train);
  Node* norm =
      b.make("batch_norm", {x, scale, shift, mean, variance}, {{"epsilon", 1e-5}, {"momentum", 0.9}});
  Value* steep = train.add_param("steep", {DType::f32, {3}}, make_data({0.0f, 0.0f, 0.0f}));
  Value* huge = b.constant(1e38f);
  train.add_output(
      b.add(b.reduce_sum(b.mul(norm->out(), w), {0, 1}), b.reduce_sum(b.mul(b.mul(steep, huge), huge), {0})),
      "loss");
  std::unique_ptr<Graph> infer = train.clone();
  PassOptions passes;
  passes.recipe.optimizer = parse_optimizer("adam");
  passes.recipe.skip_nonfinite = true;
  passes.recipe.clip_value = 0.5;  // must not hide it
  run_passes(train, training_pipeline(), passes);
  passes.inference = true;
  run_passes(*infer, inference_pipeline(), passes);
  for (bool in_place : {false, true}) {
    CompileOptions options;
    options.target = find_target("host");
    options.recipe = passes.recipe;
    options.plan.updates_in_place = in_place;
    Program program = lower(train, *infer, options);
    Step step(program);
    ASSERT_TRUE(step.table);
    const std::vector<float> samples = random_floats(12, 5);
    std::memcpy(step.memory.arena + step.table->inputs[0].offset, samples.data(), 48);
    std::vector<double> hypers;
    for (uint32_t i = 0; i < step.table->hyper_count; ++i) hypers.push_back(step.table->hypers[i].value);
    const std::string params(step.memory.params, step.table->params_bytes),
        state(step.memory.state, step.table->state_bytes);
    auto number = [&](uint64_t offset) {
      float value;
      std::memcpy(&value, step.memory.arena + offset, sizeof value);
      return value;
    };
    step.table->scalars(hypers.data(), 1, 1, 0, 1, step.memory.scalars);
    step.table->forward(&step.memory, nullptr);
    EXPECT_EQ(number(step.table->loss_offset), 0);
    EXPECT_EQ(step.table->backward, nullptr);
    ASSERT_TRUE(step.table->norm);
    step.table->norm(&step.memory, nullptr);
    EXPECT_FALSE(std::isfinite(number(step.table->norm_offset)));
    EXPECT_EQ(std::string(step.memory.params, step.table->params_bytes), params);
    EXPECT_EQ(std::string(step.memory.state, step.table->state_bytes), state);
    step.table->update(&step.memory, nullptr);
    EXPECT_NE(std::string(step.memory.params, step.table->params_bytes), params);
  }
}

// Whatever the caller's rounding is, the step has its own, and gives the caller's back.
TEST(Program, FloatModeOfTheCaller) {
  Compiled c = compile("adam");
  Step step(c.program);
  ASSERT_TRUE(step.table);
  std::vector<double> hypers;
  for (uint32_t i = 0; i < step.table->hyper_count; ++i) hypers.push_back(step.table->hypers[i].value);
  const size_t count = step.table->scalars_count;
  step.table->scalars(hypers.data(), 3, 1, 0, 3, step.memory.scalars);
  const std::vector<float> expected(step.memory.scalars, step.memory.scalars + count);
  const unsigned before = _mm_getcsr(), upwards = before | _MM_ROUND_UP;
  _mm_setcsr(upwards);
  step.table->scalars(hypers.data(), 3, 1, 0, 3, step.memory.scalars);
  const unsigned after = _mm_getcsr() & ~0x3Fu;  // without the flags of what happened
  _mm_setcsr(before);
  EXPECT_EQ(after, upwards & ~0x3Fu);
  EXPECT_EQ(std::vector<float>(step.memory.scalars, step.memory.scalars + count), expected);
}

TEST(Program, NodesThatComputeAlikeShareAKernel) {
  const Compiled shared = compile("adam");
  const Compiled own = compile("adam", [](CompileOptions& o) { o.share_kernels = false; });
  const size_t uses = own.program.train_uses.size() + own.program.infer_uses.size();
  EXPECT_EQ(own.program.kernels.size(), uses);
  EXPECT_LT(shared.program.kernels.size(), uses);
}

// One linear layer, whose weights no first-level cache holds.
std::unique_ptr<Graph> wide_model() {
  auto g = std::make_unique<Graph>("net");
  g->model_hash = "0123456789abcdef";
  Value* x = g->add_input("x", {DType::f32, {kBatch, 128}});
  const Type type{DType::f32, {128, 128}};
  Value* w = g->add_param("w", type, make_data(random_floats(type.elements(), 1)));
  g->add_output(Builder(*g).matmul(x, w), "scores");
  return g;
}

TEST(Program, AsksForTheWeightsBeforeTheirGradientIsSummedUp) {
  PassOptions passes;
  passes.losses = {parse_loss("cross-entropy")};
  passes.recipe.optimizer = parse_optimizer("sgd:momentum=0.9");
  auto prefetches = [&](std::unique_ptr<Graph> (*make)()) {
    Compiled c = compile(make, passes, nullptr);
    return emit(c.program, Emit::assembly).find("prefetcht0") != std::string::npos;
  };
  EXPECT_TRUE(prefetches(wide_model));
  EXPECT_FALSE(prefetches(model));
}

// Of code, constants and data.
int64_t loaded_bytes(const std::string& elf) {
  Elf64_Ehdr header;
  std::memcpy(&header, elf.data(), sizeof header);
  int64_t bytes = 0;
  for (int i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, elf.data() + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_flags & SHF_ALLOC && section.sh_type == SHT_PROGBITS)
      bytes += static_cast<int64_t>(section.sh_size);
  }
  return bytes;
}

// What a trainer has beside the kernels, tables and weights, all of which its object file has too.
int64_t bytes_beside_the_step(Compiled (*make)(), bool weights_file = false) {
  Compiled trainer = make(), object = make();
  int64_t step = loaded_bytes(emit(object.program, Emit::obj));
  EXPECT_GT(step, 2000);
  if (weights_file) {
    step -= trainer.program.weights.bytes;
    move_weights_to_file(trainer.program, "net.safetensors");
  }
  return loaded_bytes(emit(trainer.program, Emit::exe)) - step;
}

TEST(Program, RuntimeAndCommandLineAreSmall) {
  static const auto portable = [](CompileOptions& o) { o.target = find_target("x86-64", "x86-64-v3"); };
  const int64_t plain = bytes_beside_the_step([] { return compile("sgd:momentum=0.9", portable); }),
                full = bytes_beside_the_step([] { return compile_all(portable); }, true);
  std::printf("%lld bytes beside the step, %lld where it has everything\n", static_cast<long long>(plain),
              static_cast<long long>(full));
  EXPECT_GT(plain, 20000);
  EXPECT_GT(full, plain);
  EXPECT_LE(full, 40 << 10);
  const int64_t keeping = bytes_beside_the_step([] {
    PassOptions passes;
    passes.losses = {parse_loss("cross-entropy")};
    passes.freeze = {"b2"};
    passes.recipe.optimizer = parse_optimizer("sgd:momentum=0.9");
    passes.recipe.keep_gradients = true;
    return compile(model, passes, portable);
  });
  std::printf("%lld more where gradients are kept\n", static_cast<long long>(keeping - plain));
  EXPECT_GT(keeping, plain + 500);
  EXPECT_LE(keeping, plain + 2560);
}

TEST(Program, WeightsBeyondReach) {
  Graph g("huge");
  Value* w = g.add_param("w", {DType::f32, {600, 1000, 1000}}, nullptr);
  Builder b(g);
  g.add_output(b.reduce_sum(w, {0, 1, 2}));
  CompileOptions options;
  options.target = find_target("host");
  Program program = lower(g, g, options);
  for (Emit what : {Emit::obj, Emit::lib}) try {
      emit(program, what);
      FAIL() << "took 2.4 GB of weights";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("2400000000 bytes"), std::string::npos) << e.what();
    }
}

TEST(Program, Infers) {
  Compiled c = compile("sgd");
  Step step(c.program);
  ASSERT_TRUE(step.table);
  const std::vector<float> x = random_floats(kBatch * kFeatures, 9);
  const std::vector<int32_t> y = labels(9);
  std::memcpy(step.memory.arena + step.table->inputs[0].infer_offset, x.data(), x.size() * 4);
  std::memcpy(step.memory.arena + step.table->inputs[1].infer_offset, y.data(), y.size() * 4);
  Memory m = initial_memory(*c.infer);
  m.set(c.infer->find("x"), make_data(x));
  m.set(c.infer->find("labels"), make_data(y.data(), y.size() * 4));
  evaluate(*c.infer, m);
  step.table->infer(&step.memory, &step.threads);
  EXPECT_EQ(std::memcmp(step.memory.arena + step.table->outputs[0].offset,
                        m.raw(c.infer->outputs()[0])->data(), kBatch * kClasses * 4),
            0);
  EXPECT_EQ(std::memcmp(step.memory.arena + step.table->losses[0].losses_offset,
                        m.raw(c.infer->outputs()[1])->data(), kBatch * 4),
            0);
}

// Nobody looks at labels again behind the step: the sample losses take the place of these.
TEST(Program, LabelsMayBeOverwritten) {
  PassOptions passes;
  passes.losses = {parse_loss("mse")};
  std::unique_ptr<Graph> graphs[2];
  for (bool inference : {false, true}) {
    auto g = std::make_unique<Graph>("net");
    Value* x = g->add_input("x", {DType::f32, {2, 9}});
    Value* w = g->add_param("w", {DType::f32, {9, 17}}, make_data(random_floats(9 * 17, 1)));
    Builder b(*g);
    g->add_output(b.matmul(b.relu(x), w), "scores");
    passes.inference = inference;
    // With them in one kernel there is no such place.
    run_passes(*g, inference ? inference_pipeline() : training_pipeline(), passes, {{"fuse"}, nullptr});
    graphs[inference] = std::move(g);
  }
  CompileOptions options;
  options.target = find_target("host");
  options.recipe = passes.recipe;
  Program program = lower(*graphs[0], *graphs[1], options);
  const Graph& infer = *graphs[1];
  const Plan& plan = program.infer_plan;
  ASSERT_EQ(plan.offset.at(infer.find("labels")), plan.offset.at(infer.outputs()[1]));
  EXPECT_FALSE(emit(program, Emit::obj).empty());
}

TEST(Program, Tables) {
  Compiled c = compile("sgd:lr=0.25");
  Step step(c.program);
  ASSERT_TRUE(step.table);
  const struct pock_program& t = *step.table;
  EXPECT_STREQ(t.model, "net.onnx");
  EXPECT_STREQ(t.model_hash, "0123456789abcdef");
  EXPECT_STREQ(t.optimizer, "sgd");
  EXPECT_EQ(t.batch, kBatch);
  EXPECT_EQ(t.threads, 4u);
  ASSERT_EQ(t.output_count, 1u);
  EXPECT_STREQ(t.outputs[0].name, "scores");
  EXPECT_EQ(t.outputs[0].dtype, POCK_F32);
  EXPECT_EQ(t.outputs[0].block, POCK_ARENA);
  EXPECT_EQ(t.outputs[0].dims[1], kClasses);
  ASSERT_EQ(t.loss_count, 1u);
  EXPECT_EQ(t.losses[0].count, static_cast<uint64_t>(kBatch));
  EXPECT_EQ(t.losses[0].weight, 1);
  EXPECT_EQ(t.losses[0].weights_offset, ~uint64_t{0});
  ASSERT_EQ(t.input_count, 2u);
  EXPECT_STREQ(t.inputs[0].name, "x");
  EXPECT_EQ(t.inputs[0].feed, POCK_DATA);
  EXPECT_EQ(t.inputs[0].classes, 0);
  EXPECT_EQ(t.inputs[0].reaches, 1u);
  EXPECT_STREQ(t.inputs[1].name, "scores");
  EXPECT_EQ(t.inputs[1].feed, POCK_LABELS);
  EXPECT_EQ(t.inputs[1].classes, kClasses);
  EXPECT_EQ(t.inputs[1].ignored, INT64_MIN);
  EXPECT_EQ(t.inputs[1].stride, 1u);
  EXPECT_EQ(t.inputs[1].reaches, 0u);
  EXPECT_EQ(t.inputs[1].output, 0u);
  ASSERT_EQ(t.tensor_count, 4u);
  EXPECT_STREQ(t.tensors[3].name, "b2");
  EXPECT_EQ(t.tensors[3].role, POCK_FROZEN);
  EXPECT_EQ(t.tensors[1].dims[0], kHidden);
  EXPECT_EQ(std::memcmp(t.weights + t.tensors[0].offset, random_floats(kFeatures * kHidden, 1).data(),
                        kFeatures * kHidden * 4),
            0);
  ASSERT_GE(t.hyper_count, 1u);
  EXPECT_STREQ(t.hypers[0].name, "lr");
  EXPECT_EQ(t.hypers[0].value, 0.25);
  EXPECT_TRUE(t.cpu_needs & POCK_CPU_AVX2);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.weights) % 4096, 0u);
}

TEST(Program, DenormalWeightsBecomeZero) {
  Compiled c;
  c.train = std::make_unique<Graph>("g");
  Value* x = c.train->add_input("x", {DType::f32, {2}});
  Value* w = c.train->add_param("w", {DType::f32, {2}}, make_data({-1e-40f, 1e-37f}));
  Builder b(*c.train);
  c.train->add_output(b.reduce_sum(b.mul(x, w), {0}));
  CompileOptions options;
  options.target = find_target("host");
  c.program = lower(*c.train, *c.train, options);
  Step step(c.program);
  ASSERT_TRUE(step.table);
  const float expected[] = {-0.0f, 1e-37f};
  EXPECT_EQ(std::memcmp(step.table->weights, expected, 8), 0);
}

TEST(Program, SameBytesEveryTime) {
  for (Emit what : {Emit::exe, Emit::obj, Emit::llvm_ir, Emit::assembly}) {
    Compiled a = compile("adam"), b = compile("adam");
    const std::string once = emit(a.program, what), again = emit(b.program, what);
    EXPECT_FALSE(once.empty());
    EXPECT_TRUE(once == again) << static_cast<int>(what);
  }
}

TEST(Program, RunsAsProcess) {
  TempDir folder;
  Compiled c = compile("sgd:lr=0.1");
  const std::string exe = folder.write("trainer", emit(c.program, Emit::exe));
  std::filesystem::permissions(exe, std::filesystem::perms::owner_all);
  const std::vector<float> x = random_floats(3 * kBatch * kFeatures, 5);
  std::vector<int32_t> y;
  for (int64_t i = 0; i < 3 * kBatch; ++i) y.push_back(x[i * kFeatures] > 0 ? 1 : 3);
  const std::string data = folder.write("x.npy", npy("<f4", "(24, 20)", bytes_of(x)));
  const std::string ids = folder.write("y.npy", npy("<i4", "(24,)", bytes_of(y)));
  const Ran ran = test::run(
      {exe, "train", "--data", data, "--labels", ids, "--epochs", "40", "--threads", "2", "--log", "json"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  const size_t at = ran.out.rfind("\"loss\":");
  ASSERT_NE(at, std::string::npos) << ran.out;
  EXPECT_LT(std::atof(ran.out.c_str() + at + 7), 0.5) << ran.out;
}

TEST(Target, RefusesWhatCannotRunKernels) {
  auto message = [](const std::string& name, const std::string& cpu) {
    try {
      find_target(name, cpu);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(message("host", "nehalem").find("lacks AVX2"), std::string::npos);
  EXPECT_NE(message("host", "x86-64").find("lacks AVX2"), std::string::npos);
  EXPECT_NE(message("host", "znver99").find("znver4"), std::string::npos);  // lists what there is
  EXPECT_NE(message("toaster", "").find("host, x86-64"), std::string::npos);
  EXPECT_NE(message("aarch64-linux", "skylake").find("cortex-a72"), std::string::npos);
  EXPECT_EQ(find_target("aarch64-linux").vector_bits, 128);
  EXPECT_EQ(find_target("x86-64").vector_bits, 256);
  EXPECT_EQ(find_target("x86-64", "x86-64-v4").vector_bits, 512);
}

}  // namespace
}  // namespace pock
