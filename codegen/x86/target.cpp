#include "x86/target.h"

#include <algorithm>
#include <vector>

#include "llvm/machine.h"
#include "pock.h"
#include "pock/support/diag.h"

namespace pock {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

struct Feature {
  const char* name;  // LLVM's
  uint64_t bit;
};
// Kernels use these and what they imply, so that a trainer can check at start all that it needs.
constexpr Feature kAvx2[] = {
    {"avx2", POCK_CPU_AVX2}, {"fma", POCK_CPU_FMA}, {"bmi2", POCK_CPU_BMI2}, {"f16c", POCK_CPU_F16C}};
constexpr Feature kAvx512[] = {{"avx512f", POCK_CPU_AVX512F},
                               {"avx512vl", POCK_CPU_AVX512VL},
                               {"avx512bw", POCK_CPU_AVX512BW},
                               {"avx512dq", POCK_CPU_AVX512DQ},
                               {"avx512cd", POCK_CPU_AVX512CD}};

template <size_t n>
std::vector<std::string> names(const Feature (&features)[n]) {
  std::vector<std::string> result;
  for (const Feature& f : features) result.emplace_back(f.name);
  return result;
}

bool uses(const Target& t, const Feature& f) {
  const std::string list = "," + t.features + ",";
  return list.find(fmt::format(",+{},", f.name)) != std::string::npos;
}

}  // namespace

Target x86_target(const std::string& name, const std::string& cpu) {
  const bool here = cpu.empty() && name == "host";
  Target t{.name = name, .triple = kTriple, .cpu = here ? host_cpu() : cpu.empty() ? "x86-64-v3" : cpu};
  const std::vector<std::string> known = known_cpus(kTriple);
  if (std::find(known.begin(), known.end(), t.cpu) == known.end())
    throw error("unknown cpu '{}' for target {}; there are: {}", t.cpu, name, fmt::join(known, ", "));
  auto has = [&](const std::vector<std::string>& features) {
    return cpu_has(kTriple, here ? "host" : t.cpu, features);
  };
  std::vector<std::string> features = names(kAvx2);
  if (!has(features))
    throw error(
        "cpu '{}' lacks AVX2, FMA, BMI2 or F16C, which x86-64 trainers need; --cpu x86-64-v3 is the least",
        t.cpu);
  if (const auto wide = names(kAvx512); has(wide)) {
    features.insert(features.end(), wide.begin(), wide.end());
    t.vector_bits = 512;  // 32 registers: 26 for the tile and what it is multiplied with
    t.tile = {.rows = 8, .cols = 2};
  } else {
    t.vector_bits = 256;  // 16 registers
    t.tile = {.rows = 4, .cols = 2};
  }
  t.runtime = {"x86_64-linux"};
  t.features = fmt::format("+{}", fmt::join(features, ",+"));
  return t;
}

uint64_t x86_cpu_needs(const Target& t) {
  uint64_t bits = 0;
  for (const Feature& f : kAvx2) bits |= uses(t, f) ? f.bit : 0;
  for (const Feature& f : kAvx512) bits |= uses(t, f) ? f.bit : 0;
  return bits;
}

}  // namespace pock
