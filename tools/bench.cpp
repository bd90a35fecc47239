#include "bench.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "pock/codegen/count.h"
#include "pock/codegen/measure.h"
#include "pock/support/new_file.h"

namespace pock {
namespace {

using json = nlohmann::ordered_json;

struct KernelTime {
  int kernel = 0;            // index into Program::kernels
  double seconds = 0;        // of all calls in a step
  std::vector<size_t> uses;  // indices into Program::train_uses
};

struct StepTime {
  Limits limits;
  std::vector<double> steps;  // seconds of each round, ascending
  std::vector<double> uses;   // the least seconds of each of Program::train_uses
  double least() const { return steps.front(); }
  double median() const { return steps[steps.size() / 2]; }
};

// What ran beside it while one of the two was measured makes that one smaller.
Limits larger(const Limits& a, const Limits& b) {
  return {std::max(a.flops, b.flops), std::max(a.bandwidth, b.bandwidth)};
}

void warn_where_moved(double before, double after) {
  constexpr double kMost = 0.03;
  if (std::abs(before - after) > kMost * std::max(before, after))
    say(fmt::format(
        "the FMA peak was {:.1f} GF/s before and {:.1f} after: the machine was busy, so measure again",
        before * 1e-9, after * 1e-9));
}

int rounds_for(const BenchArgs& args, double step) {
  constexpr double kSeconds = 2;
  if (args.rounds) return *args.rounds;
  return std::clamp(static_cast<int>(kSeconds / (2 * step)), kFewestRounds, 10000);
}

StepTime measure(const BenchArgs& args, const Program& program) {
  StepTime t;
  t.limits = measure_limits(program.options.target);
  say(fmt::format("compiling {} kernels", program.kernels.size()));
  StepRunner runner(program);
  runner.kernels();  // the first one fills caches
  const double first = runner.step();
  const int rounds = rounds_for(args, first);
  say(fmt::format("measuring {} rounds of about {:.3g} ms", rounds, 2e3 * first));
  t.uses.assign(program.train_uses.size(), INFINITY);
  for (int i = 0; i < rounds; ++i) {
    t.steps.push_back(runner.step());
    const std::vector<double> uses = runner.kernels();
    for (size_t u = 0; u < uses.size(); ++u) t.uses[u] = std::min(t.uses[u], uses[u]);
  }
  std::sort(t.steps.begin(), t.steps.end());
  const Limits after = measure_limits(program.options.target);
  warn_where_moved(t.limits.flops, after.flops);
  t.limits = larger(t.limits, after);
  return t;
}

// The slowest first.
std::vector<KernelTime> by_kernel(const Program& program, const StepTime& t) {
  std::vector<KernelTime> all(program.kernels.size());
  for (size_t u = 0; u < t.uses.size(); ++u) {
    KernelTime& k = all[program.train_uses[u].kernel];
    k.kernel = program.train_uses[u].kernel;
    k.seconds += t.uses[u];
    k.uses.push_back(u);
  }
  std::erase_if(all, [](const KernelTime& k) { return k.uses.empty(); });  // of inference alone
  std::stable_sort(all.begin(), all.end(),
                   [](const KernelTime& a, const KernelTime& b) { return a.seconds > b.seconds; });
  return all;
}

// As its function is called in assembly.
std::string name_of(const Program& program, const KernelTime& k) {
  return fmt::format("k{}_{}", k.kernel, program.kernels[k.kernel].plain.name);
}

int64_t flop_of(const Program& program, const KernelTime& k) {
  return program.kernels[k.kernel].cost.flop * std::ssize(k.uses);
}
int64_t bytes_of(const Program& program, const KernelTime& k) {
  return program.kernels[k.kernel].cost.bytes * std::ssize(k.uses);
}

template <class F>
int64_t sum(const Program& program, const std::vector<KernelTime>& kernels, const F& f) {
  return std::accumulate(kernels.begin(), kernels.end(), int64_t{0},
                         [&](int64_t n, const KernelTime& k) { return n + f(program, k); });
}

// Of the nodes that share a kernel, without those that are parts of one in the model.
std::vector<std::string> names_of(const KernelUse& use) {
  std::vector<std::string> names;
  for (const Node* n : use.nodes)
    if (std::find(names.begin(), names.end(), n->loc.name) == names.end()) names.push_back(n->loc.name);
  return names;
}

json step_json(const BenchArgs& args, const Program& program, const StepTime& t) {
  const std::vector<KernelTime> kernels = by_kernel(program, t);
  json rows = json::array();
  for (const KernelTime& k : kernels) {
    json nodes = json::array();
    for (size_t u : k.uses)
      nodes.push_back({{"names", names_of(program.train_uses[u])}, {"seconds", t.uses[u]}});
    rows.push_back({{"name", name_of(program, k)},
                    {"calls", k.uses.size()},
                    {"seconds", k.seconds},
                    {"flop", flop_of(program, k)},
                    {"bytes", bytes_of(program, k)},
                    {"schedule", to_string(program.kernels[k.kernel].schedule)},
                    {"nodes", nodes}});
  }
  const Target& target = program.options.target;
  return {{"model", args.model},
          {"batch", program.batch},
          {"target", target.name},
          {"cpu", target.cpu},
          {"vector_bits", target.vector_bits},
          {"peak_flops", t.limits.flops},
          {"triad_bytes_per_second", t.limits.bandwidth},
          {"rounds", t.steps.size()},
          {"seconds", t.least()},
          {"median_seconds", t.median()},
          {"flop", sum(program, kernels, flop_of)},
          {"bytes", sum(program, kernels, bytes_of)},
          {"kernels", rows}};
}

std::string nodes_text(const Program& program, const KernelTime& k) {
  const std::string first =
      printable(fmt::format("{}", fmt::join(names_of(program.train_uses[k.uses[0]]), " + ")));
  return k.uses.size() == 1 ? first : fmt::format("{} + {} more", first, k.uses.size() - 1);
}

std::string step_text(const Program& program, const StepTime& t) {
  const std::vector<KernelTime> kernels = by_kernel(program, t);
  const double measured = std::accumulate(t.uses.begin(), t.uses.end(), 0.0);
  const double flops = static_cast<double>(sum(program, kernels, flop_of)) / t.least();
  const Target& target = program.options.target;
  std::string text =
      fmt::format("{}, {}-bit vectors, one thread: at most {:.1f} GF/s (FMA), {:.1f} GB/s (triad)\n",
                  target.cpu, target.vector_bits, t.limits.flops * 1e-9, t.limits.bandwidth * 1e-9);
  text += fmt::format(
      "a step of {} samples: {:.3f} ms (median {:.3f} of {}), {:.1f} GF/s, {:.0f} % of the peak; its {} "
      "kernels, each at its best: {:.3f} ms\n\n",
      program.batch, t.least() * 1e3, t.median() * 1e3, t.steps.size(), flops * 1e-9,
      flops / t.limits.flops * 100, kernels.size(), measured * 1e3);
  text += fmt::format("{:>7} {:>9} {:>5} {:>7} {:>6} {:>7} {:>7} {:>10}  {:24} {}\n", "share", "ms", "calls",
                      "GF/s", "% peak", "GB/s", "% triad", "bytes", "kernel", "nodes");
  for (const KernelTime& k : kernels) {
    const double rate = static_cast<double>(flop_of(program, k)) / k.seconds;
    const double traffic = static_cast<double>(bytes_of(program, k)) / k.seconds;
    text += fmt::format("{:5.1f} % {:9.4f} {:5} {:7.1f} {:6.1f} {:7.1f} {:7.1f} {:>10}  {:24} {}\n",
                        k.seconds / measured * 100, k.seconds * 1e3, k.uses.size(), rate * 1e-9,
                        rate / t.limits.flops * 100, traffic * 1e-9, traffic / t.limits.bandwidth * 100,
                        bytes_text(bytes_of(program, k)), name_of(program, k), nodes_text(program, k));
  }
  return text;
}

// ---- What is counted and not timed

struct CountRow {
  std::string name, nodes;
  int64_t calls, macs;  // the latter of one call
  const KernelCount* count;
};

// Of the kernels of a training step, those that take most in front.
std::vector<CountRow> count_rows(const Program& program, const std::vector<KernelCount>& counts) {
  std::vector<KernelTime> kernels =
      by_kernel(program, {.uses = std::vector<double>(program.train_uses.size())});
  std::vector<CountRow> rows;
  for (const KernelTime& k : kernels) {
    const KernelUse& use = program.train_uses[k.uses[0]];
    rows.push_back({name_of(program, k), nodes_text(program, k), std::ssize(k.uses),
                    multiply_accumulates(use), &counts[k.kernel]});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const CountRow& a, const CountRow& b) {
    return a.calls * a.count->instructions.value_or(0) > b.calls * b.count->instructions.value_or(0);
  });
  return rows;
}

std::optional<double> per_mac(const CountRow& r) {
  if (!r.macs || !r.count->instructions) return {};
  return static_cast<double>(*r.count->instructions) / static_cast<double>(r.macs);
}

json count_json(const BenchArgs& args, const Program& program, const std::vector<CountRow>& rows) {
  json kernels = json::array();
  for (const CountRow& r : rows) {
    json row = {{"name", r.name},
                {"nodes", r.nodes},
                {"calls", r.calls},
                {"right", r.count->right},
                {"code_bytes", r.count->code_bytes},
                {"stack_bytes", r.count->stack_bytes},
                {"spills", r.count->spills}};
    if (r.count->instructions) row["instructions"] = *r.count->instructions;
    if (r.macs) row["multiply_accumulates"] = r.macs;
    if (const auto n = per_mac(r)) row["instructions_per_multiply_accumulate"] = *n;
    kernels.push_back(row);
  }
  const Target& target = program.options.target;
  return {{"model", args.model},
          {"batch", program.batch},
          {"target", target.name},
          {"cpu", target.cpu},
          {"kernels", kernels}};
}

std::string count_text(const Program& program, const std::vector<CountRow>& rows) {
  int64_t instructions = 0;
  for (const CountRow& r : rows) instructions += r.calls * r.count->instructions.value_or(0);
  const Target& target = program.options.target;
  std::string text = fmt::format("{} ({}): the kernels of a step of {} samples execute {} instructions\n\n",
                                 target.name, target.cpu, program.batch, instructions);
  text +=
      fmt::format("{:>7} {:>13} {:>5} {:>12} {:>7} {:>7} {:>7} {:>6}  {:24} {}\n", "share", "instructions",
                  "calls", "MAC", "per MAC", "code", "stack", "spills", "kernel", "nodes");
  for (const CountRow& r : rows) {
    const int64_t one = r.count->instructions.value_or(0);
    const auto n = per_mac(r);
    text += fmt::format(
        "{:5.1f} % {:13} {:5} {:>12} {:>7} {:7} {:7} {:6}  {:24} {}{}\n",
        100.0 * static_cast<double>(r.calls * one) / static_cast<double>(std::max<int64_t>(instructions, 1)),
        one, r.calls, r.macs ? std::to_string(r.macs) : "", n ? fmt::format("{:.3f}", *n) : "",
        r.count->code_bytes, r.count->stack_bytes, r.count->spills, r.name, r.nodes,
        r.count->right ? "" : " WRONG");
  }
  return text;
}

std::string counted(const BenchArgs& args, const Program& program) {
  if (args.rounds) throw error("--rounds: instructions are counted once, as they are always the same");
  const std::vector<KernelCount> counts = count_kernels(program);
  const std::vector<CountRow> rows = count_rows(program, counts);
  return args.json
             ? count_json(args, program, rows).dump(2, ' ', false, json::error_handler_t::replace) + "\n"
             : count_text(program, rows);
}

std::string timed(const BenchArgs& args, const Program& program) {
  const StepTime t = measure(args, program);
  return args.json ? step_json(args, program, t).dump(2, ' ', false, json::error_handler_t::replace) + "\n"
                   : step_text(program, t);
}

}  // namespace

void run_bench(const BenchArgs& args) {
  const Prepared prepared = prepare(args);
  const Program program = lower(*prepared.graphs.train, *prepared.graphs.infer, prepared.options);
  const bool count = args.count || !program.options.target.emulator.empty();
  const std::string text = count ? counted(args, program) : timed(args, program);
  NewFile("-", text).commit();
}

}  // namespace pock
