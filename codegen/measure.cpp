#include "pock/codegen/measure.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>

#include "place.h"
#include "pock/support/diag.h"
#include "tables.h"

namespace pock {
namespace {

template <class F>
double seconds_of(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// What this thread had of its core: the same, where nothing else wants the core.
double core_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Zeros, all there from the start; in huge pages but for the tail, as pock_reserve (runtime/io_linux.c) has it.
class Memory {
 public:
  explicit Memory(int64_t bytes) : mapped_bytes_(bytes + kHugePage) {
    mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED)
      throw error("the step needs {} bytes of memory; the system has no such block", bytes);
    const auto given = reinterpret_cast<uintptr_t>(mapped_);
    bytes_ = static_cast<char*>(mapped_) + (kHugePage - given % kHugePage) % kHugePage;
    madvise(bytes_, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
    std::memset(bytes_, 0, bytes);
  }
  ~Memory() { munmap(mapped_, mapped_bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  char* at(int64_t offset) const { return bytes_ + offset; }

 private:
  static constexpr int64_t kHugePage = 2 << 20;
  int64_t mapped_bytes_;
  void* mapped_;
  char* bytes_;
};

void check_runs_here(const Target& t) {
  if (!runs_here(t))
    throw error("this machine cannot run code for {} ({}, {}), so it cannot be measured here", t.name, t.cpu,
                t.features);
}

// Numbers that are neither zeros nor alike.
class MadeUp {
 public:
  float operator()() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(state_ >> 40) * 0x1p-24f - 0.5f;
  }

 private:
  uint64_t state_ = 1;
};

double best_of(int runs, const HostKernels& kernels, const std::vector<void*>& args) {
  double best = 1e9;
  for (int i = 0; i < runs; ++i) best = std::min(best, seconds_of([&] { kernels.run(0, args); }));
  return best;
}

// 12 sums that do not wait for each other hide the latency of every core there is, and leave registers for the factors,
// which are not known when this is compiled: nothing can be folded.
constexpr int kChains = 12;
constexpr int64_t kLinks = 1 << 19;
constexpr const char* kFmaLoop = R"(kernel @peak(in a: f32[{0}], in b: f32[{0}], out y: f32[{1},{0}]) {{
  reg sum: f32[{1},{0}]
  each i in 0..{1} unroll {{
    each j in 0..{0} vector {{
      sum[i,j] = 0.0
    }}
  }}
  for k in 0..{2} {{
    each i in 0..{1} unroll {{
      each j in 0..{0} vector {{
        sum[i,j] = fma(a[j], sum[i,j], b[j])
      }}
    }}
  }}
  each i in 0..{1} unroll {{
    each j in 0..{0} vector {{
      y[i,j] = sum[i,j]
    }}
  }}
}}
)";

double measure_flops(const Target& target) {
  const int lanes = target.vector_floats();
  auto kernels = load_kernels({loop::parse_kernel(fmt::format(kFmaLoop, lanes, kChains, kLinks))}, target);
  std::vector<float> a(lanes, 0.5f), b(lanes, 0.25f), y(static_cast<size_t>(lanes) * kChains);
  return 2.0 * kChains * lanes * kLinks / best_of(20, *kernels, {a.data(), b.data(), y.data()});
}

constexpr int64_t kTriadFloats = 16 << 20;
constexpr const char* kTriad =
    R"(kernel @triad(in x: f32[{0}], in b: f32[{0}], in a: f32[1], out y: f32[{0}]) {{
  each i in 0..{0} {{
    y[i] = fma(a[0], x[i], b[i])
  }}
}}
)";

double measure_bandwidth(const Target& target) {
  const loop::Kernel plain = loop::parse_kernel(fmt::format(kTriad, kTriadFloats));
  auto kernels = load_kernels({loop::apply(plain, schedule_for(plain, target))}, target);
  const int64_t bytes = kTriadFloats * static_cast<int64_t>(sizeof(float));
  Memory x(bytes), b(bytes), y(bytes);
  float a = 0.5f;
  return 3.0 * static_cast<double>(bytes) / best_of(10, *kernels, {x.at(0), b.at(0), &a, y.at(0)});
}

}  // namespace

Limits measure_limits(const Target& target) {
  check_runs_here(target);
  return {measure_flops(target), measure_bandwidth(target)};
}

class StepRunner::Impl {
 public:
  explicit Impl(const Program& p)
      : p_(p),
        arena_(p.arena_bytes()),
        params_(p.params.bytes),
        state_(p.state.bytes),
        weights_(p.weights.bytes),
        scalars_(static_cast<int64_t>((1 + p.train->scalars().size()) * sizeof(float))),
        inputs_(input_rows(p)) {
    std::vector<loop::Kernel> scheduled;
    for (const CompiledKernel& k : p.kernels) scheduled.push_back(k.scheduled);
    kernels_ = load_kernels(scheduled, p.options.target);
    start_values();
    for (const KernelUse& use : p.train_uses) {
      std::vector<void*>& list = args_.emplace_back();
      for (const Place& place : argument_places(p, *p.train, use)) list.push_back(at(place));
    }
  }

  std::vector<double> kernels() {
    feed();
    std::vector<double> seconds;
    for (size_t i = 0; i < args_.size(); ++i) seconds.push_back(seconds_of([&] { run(i); }));
    return seconds;
  }

  double step() {
    feed();
    const double start = core_seconds();
    for (size_t i = 0; i < args_.size(); ++i) run(i);
    return core_seconds() - start;
  }

 private:
  void run(size_t use) { kernels_->run(p_.train_uses[use].kernel, args_[use]); }

  char* at(const Place& place) const {
    const Memory* blocks[] = {&arena_, &params_, &state_, &weights_, &scalars_};
    return blocks[static_cast<int>(place.base)]->at(place.offset);
  }
  template <class T>
  T* elements(const Value* v) const {
    return reinterpret_cast<T*>(at(place_of(p_, *p_.train, v)));
  }

  void start_values() {
    const std::string section = weights_section(p_);
    std::memcpy(weights_.at(0), section.data(), section.size());
    std::memcpy(params_.at(0), section.data(), p_.params.bytes);
    for (const auto& [v, offset] : p_.state.offset)
      std::fill_n(reinterpret_cast<float*>(state_.at(offset)), v->type.elements(), v->initial);
    for (const Value* v : p_.train->scalars()) {
      if (v->type.dtype == DType::f32)
        *elements<float>(v) = 1e-3f;
      else
        *elements<int32_t>(v) = 1;
    }
  }

  // A step may use its inputs' memory for something else. Whole numbers are class ids, or rows of a table: 0 is there.
  void feed() {
    MadeUp number;
    for (const InputRow& row : inputs_) {
      const Type& type = row.train->type;
      const int64_t n = type.elements();
      if (type.dtype == DType::f32) {
        std::generate_n(elements<float>(row.train), n, [&] { return number(); });
      } else if (type.dtype == DType::u8 && !row.ids.classes) {
        std::generate_n(elements<uint8_t>(row.train), n,
                        [&] { return static_cast<uint8_t>((number() + 0.5f) * 255); });
      } else {
        std::memset(elements<char>(row.train), 0, type.bytes());
      }
    }
  }

  const Program& p_;
  Memory arena_, params_, state_, weights_, scalars_;
  std::vector<InputRow> inputs_;
  std::unique_ptr<HostKernels> kernels_;
  std::vector<std::vector<void*>> args_;  // of each of train_uses
};

StepRunner::StepRunner(const Program& program) {
  check_runs_here(program.options.target);
  impl_ = std::make_unique<Impl>(program);
}
StepRunner::~StepRunner() = default;
std::vector<double> StepRunner::kernels() { return impl_->kernels(); }
double StepRunner::step() { return impl_->step(); }

}  // namespace pock
