#include "step.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "pock/passes/passes.h"

namespace pock {
namespace {

char* at(std::vector<uint64_t>& v) { return reinterpret_cast<char*>(v.data()); }

void in_two_pieces(void*, pock_kernel fn, void* const* args, int64_t n) {
  fn(args, 0, n / 2);
  fn(args, n / 2, n);
}

constexpr uint64_t kSeed = 0x123456789abcdef0;

}  // namespace

Step::Step(Program& program) : threads{in_two_pieces, nullptr} {
  const std::string object = folder_.write("step.o", emit(program, Emit::obj)), library = folder_ / "step.so";
  if (test::run({"cc", "-shared", "-nostdlib", "-o", library, object}).status != 0) return;
  handle_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_) return;
  table = static_cast<const struct pock_program*>(dlsym(handle_, "pock_program"));
  arena_ =
      std::vector<uint64_t>(table->arena_bytes / 8 + 8, ~uint64_t{0});  // NaN wherever nothing was stored
  params_.resize(table->params_bytes / 8 + 8);
  std::memcpy(params_.data(), table->weights, table->params_bytes);
  state_.resize(table->state_bytes / 8 + 8);
  scalars_.resize(table->scalars_count + 1);
  memory = {at(arena_), at(params_), at(state_), table->weights, scalars_.data()};
}

Step::~Step() {
  if (handle_) dlclose(handle_);
}

std::vector<float> random_floats(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> v(n);
  for (float& x : v) x = std::uniform_real_distribution<float>(-1, 1)(random);
  return v;
}

std::vector<int32_t> random_ids(int64_t n, int64_t classes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> v(n);
  for (int32_t& x : v) x = static_cast<int32_t>(random() % classes);
  return v;
}

Learned train_both_ways(Program& program, int64_t classes, bool alone) {
  Learned learned;
  const Graph& g = *program.train;
  Step step(program);
  EXPECT_TRUE(step.table);
  if (!step.table) return learned;
  const pock_threads* threads = alone ? nullptr : &step.threads;
  Memory m = initial_memory(g);
  std::vector<double> hypers;
  for (uint32_t i = 0; i < step.table->hyper_count; ++i) hypers.push_back(step.table->hypers[i].value);
  for (int s = 1; s <= 3; ++s) {
    for (const Value* v : g.inputs()) {
      const int64_t n = v->type.elements();
      const unsigned seed = 100 * s + v->id;
      const Data data = v->type.dtype == DType::f32
                            ? make_data(random_floats(n, seed))
                            : make_data(random_ids(n, classes, seed).data(), n * sizeof(int32_t));
      std::memcpy(step.memory.arena + program.train_plan.offset.at(v), data->data(), data->size());
      m.set(v, data);
    }
    step.table->scalars(hypers.data(), s, 1, kSeed, s, step.memory.scalars);
    for (size_t i = 0; i < g.scalars().size(); ++i)
      m.set(g.scalars()[i], make_data({step.memory.scalars[1 + i]}));
    evaluate(g, m);
    step.table->forward(&step.memory, threads);
    float loss;
    std::memcpy(&loss, step.memory.arena + step.table->loss_offset, sizeof loss);
    EXPECT_EQ(loss, static_cast<float>(m.read(g.outputs()[0])[0]));
    learned.losses.push_back(loss);
    step.table->update(&step.memory, threads);
    for (uint32_t i = 0; i < step.table->tensor_count; ++i) {
      const pock_tensor& t = step.table->tensors[i];
      const std::string name = t.slot ? std::string(t.name) + "." + t.slot : t.name;
      const Value* v = g.find(name);
      EXPECT_TRUE(v) << name;
      if (!v) continue;
      const char* block = t.role == POCK_OPTIMIZER ? step.memory.state
                          : t.role == POCK_FROZEN  ? step.memory.weights
                                                   : step.memory.params;
      const std::string bytes(block + t.offset, t.bytes);
      EXPECT_EQ(std::memcmp(bytes.data(), m.raw(v)->data(), bytes.size()), 0) << name << " after step " << s;
      std::string in_order(static_cast<size_t>(v->type.elements()) * sizeof(float), '\0');
      unpack(v->type, bytes.data(), in_order.data());
      learned.tensors[name] = in_order;
    }
    for (uint32_t i = 0; i < step.table->gradient_count; ++i) {
      const pock_tensor& t = step.table->gradients[i];
      const char* const blocks[] = {step.memory.arena, step.memory.params, step.memory.state,
                                    step.memory.weights};
      const Value* kept = nullptr;
      for (size_t k = 1; k < g.outputs().size(); ++k)
        if (g.output_name(k) == gradient_output_name(*g.find(t.name))) kept = g.outputs()[k];
      EXPECT_TRUE(kept) << t.name;
      EXPECT_TRUE(kept &&
                  std::memcmp(blocks[t.role - POCK_GRADIENT] + t.offset, m.raw(kept)->data(), t.bytes) == 0)
          << "gradient of " << t.name << " after step " << s;
    }
  }
  return learned;
}

std::set<std::string> optional_passes() {
  std::set<std::string> names;
  for (const Pass& p : training_pipeline())
    if (p.optional) names.insert(p.name);
  return names;
}

Learned learn(const Graph& model, const PassOptions& passes, const std::set<std::string>& left_out,
              int64_t classes, bool updates_in_place) {
  const ProgramGraphs graphs = program_graphs(model, passes, {.disabled = left_out});
  CompileOptions options;
  options.target = find_target("host");
  options.recipe = passes.recipe;
  options.losses = passes.losses;
  options.model_name = "net.onnx";
  options.plan.updates_in_place = updates_in_place;
  Program program = lower(*graphs.train, *graphs.infer, options);  // checks the plan
  return train_both_ways(program, classes);
}

Memory one_step(const Graph& g, int64_t classes) {
  Memory m = initial_memory(g);
  unsigned seed = 7;
  for (const Value* v : g.inputs()) {
    const int64_t n = v->type.elements();
    m.set(v, v->type.dtype == DType::f32
                 ? make_data(random_floats(n, seed))
                 : make_data(random_ids(n, classes, seed).data(), n * sizeof(int32_t)));
    ++seed;
  }
  for (const Value* v : g.scalars()) m.set(v, make_data({0.25f}));
  evaluate(g, m);
  return m;
}

std::map<std::string, std::vector<double>> kept_gradients(const Graph& g, int64_t classes) {
  const Memory m = one_step(g, classes);
  std::map<std::string, std::vector<double>> gradients;
  for (const Value* p : g.params())
    for (size_t i = 1; i < g.outputs().size(); ++i)
      if (p->trained && g.output_name(i) == gradient_output_name(*p))
        gradients[p->name] = m.read(g.outputs()[i]);
  return gradients;
}

}  // namespace pock
