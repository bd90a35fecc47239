#include "x86/target.h"

#include <elf.h>

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
constexpr Feature kVnni[] = {{"avx512vnni", POCK_CPU_AVX512VNNI}};

// Adds the features to those of the target where its cpu has them all.
template <size_t n>
bool use(Target& t, const std::string& cpu, const Feature (&features)[n]) {
  std::vector<std::string> names;
  for (const Feature& f : features) names.emplace_back(f.name);
  if (!cpu_has(kTriple, cpu, names)) return false;
  for (const Feature& f : features) {
    t.features += fmt::format("{}+{}", t.features.empty() ? "" : ",", f.name);
    t.cpu_needs |= f.bit;
  }
  return true;
}

}  // namespace

Target x86_target(const std::string& name, const std::string& cpu) {
  const bool here = cpu.empty();
  Target t{.name = name, .machine = "x86-64", .triple = kTriple, .baseline = "x86-64", .cpu = cpu};
  if (here) t.cpu = host_cpu();
  need_cpu(t);
  const std::string really = here ? "host" : t.cpu;
  if (!use(t, really, kAvx2))
    throw error(
        "cpu '{}' lacks AVX2, FMA, BMI2 or F16C, which x86-64 trainers need; --cpu x86-64-v3 is the least",
        t.cpu);
  if (use(t, really, kAvx512)) {
    t.vector_unit = "AVX-512";
    t.vector_bits = 512;  // 32 registers: 26 for the tile and what it is multiplied with
    t.tile = {.rows = 8, .cols = 3};
    t.byte_dots = use(t, really, kVnni);
  } else {
    t.vector_unit = "AVX2";
    t.vector_bits = 256;  // 16 registers
    t.tile = {.rows = 4, .cols = 2};
  }
  t.emulation = "elf_x86_64";
  t.elf_machine = EM_X86_64;
  t.runtime = {"x86_64-linux"};
  t.library_runtime = {"x86_64-library"};
  t.kernels_runtime = "x86_64-kernels";
  return t;
}

}  // namespace pock
