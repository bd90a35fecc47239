// Prints GFLOP/s of contractions under the schedules that pockc chooses for this machine, on one thread.
//
//   kernel_bench [SCHEDULE]      another schedule for the matmul, as `to_string(Schedule)` spells it
#include <chrono>
#include <string>
#include <vector>

#include "pock/codegen/compile.h"
#include "pock/loop/build.h"

namespace pock {
namespace {

using loop::Expr;
using loop::lit;
using loop::load;
using loop::Space;

loop::Kernel matmul(int64_t n) {
  loop::KernelBuilder k("matmul");
  auto a = k.arg("a", {DType::f32, {n, n}}, Space::in), b = k.arg("b", {DType::f32, {n, n}}, Space::in);
  auto y = k.arg("y", {DType::f32, {n, n}}, Space::out);
  k.each("i", n, [&](Expr i) {
    k.each("j", n, [&](Expr j) {
      auto acc = k.reg("acc", lit(0));
      k.loop("k", 0, n, [&](Expr kk) { k.set(acc, fma(load(a, {i, kk}), load(b, {kk, j}), load(acc))); });
      k.store(y, {i, j}, load(acc));
    });
  });
  return k.take();
}

// 3x3, padding 1, channels first.
loop::Kernel conv(int64_t channels, int64_t size) {
  loop::KernelBuilder k("conv");
  auto x = k.arg("x", {DType::f32, {channels, size, size}}, Space::in);
  auto w = k.arg("w", {DType::f32, {channels, channels, 3, 3}}, Space::in);
  auto y = k.arg("y", {DType::f32, {channels, size, size}}, Space::out);
  k.each("c", channels, [&](Expr c) {
    k.each("oy", size, [&](Expr oy) {
      k.each("ox", size, [&](Expr ox) {
        auto acc = k.reg("acc", lit(0));
        auto lo = [](Expr o) { return max(Expr(0), 1 - o); };
        auto hi = [&](Expr o) { return min(Expr(3), size + 1 - o); };
        k.loop("ky", lo(oy), hi(oy), [&](Expr ky) {
          k.loop("kx", lo(ox), hi(ox), [&](Expr kx) {
            k.loop("ic", 0, channels, [&](Expr ic) {
              k.set(acc, fma(load(x, {ic, oy + ky - 1, ox + kx - 1}), load(w, {c, ic, ky, kx}), load(acc)));
            });
          });
        });
        k.store(y, {c, oy, ox}, load(acc));
      });
    });
  });
  return k.take();
}

void measure(const loop::Kernel& plain, const loop::Schedule& schedule, const Target& target) {
  using Clock = std::chrono::steady_clock;
  auto seconds_since = [](Clock::time_point t) {
    return std::chrono::duration<double>(Clock::now() - t).count();
  };
  const loop::Kernel fast = loop::apply(plain, schedule);
  const Clock::time_point compiling = Clock::now();
  std::unique_ptr<HostKernels> compiled = load_kernels({fast}, target);
  const double compile_seconds = seconds_since(compiling);
  std::vector<std::vector<float>> memory;
  std::vector<void*> args;
  for (const loop::BufferRef& b : fast.args)
    args.push_back(memory.emplace_back(b->type.elements(), 0.5f).data());
  double best = 1e9;
  for (int run = 0; run < 20; ++run) {
    const Clock::time_point start = Clock::now();
    compiled->run(0, args);
    best = std::min(best, seconds_since(start));
  }
  fmt::print("{:8} {:7.1f} GFLOP/s  {:9.1f} us  compiled in {:.2f} s  {}\n", plain.name,
             static_cast<double>(loop::cost(plain).flop) / best * 1e-9, best * 1e6, compile_seconds,
             loop::to_string(schedule));
}

}  // namespace
}  // namespace pock

int main(int argc, char** argv) {
  using namespace pock;
  const Target target = find_target("host");
  const loop::Kernel product = matmul(384), window = conv(64, 28);
  fmt::print("{}, {}-bit vectors\n", target.cpu, target.vector_bits);
  measure(product, argc > 1 ? loop::parse_schedule(argv[1]) : schedule_for(product, target), target);
  measure(window, schedule_for(window, target), target);
}
