#include "cortexm/target.h"

#include <elf.h>

#include "pock/support/diag.h"

namespace pock {
namespace {

struct Core {
  const char *name, *triple, *features, *vector_unit;
  Tile tile;
};
// Doubles are left to software everywhere, as not every chip with such a core has them. Where there are no vectors four
// floats at a time are that many instructions, and as many registers of 32; Helium has 8 of four.
constexpr Tile kScalars{.rows = 6, .cols = 1, .widest = 3, .terms = 2};
constexpr Tile kHelium{.rows = 3, .cols = 2, .widest = 2};
constexpr Core kCores[] = {
    {"cortex-m4", "thumbv7em-unknown-none-eabihf", "", "none", kScalars},
    {"cortex-m7", "thumbv7em-unknown-none-eabihf", "-fp64", "none", kScalars},
    {"cortex-m33", "thumbv8m.main-unknown-none-eabihf", "", "none", kScalars},
    {"cortex-m55", "thumbv8.1m.main-unknown-none-eabihf", "+mve.fp,-fp64", "Helium", kHelium},
};

}  // namespace

std::vector<std::string> cortexm_cores() {
  std::vector<std::string> names;
  for (const Core& core : kCores) names.emplace_back(core.name);
  return names;
}

Target cortexm_target(const std::string& name, const std::string& cpu) {
  if (cpu != name) throw error("target {} is for its own core alone, not for cpu '{}'", name, cpu);
  for (const Core& core : kCores) {
    if (name != core.name) continue;
    Target t{.name = name,
             .machine = "arm",
             .triple = core.triple,
             .baseline = core.name,
             .cpu = core.name,
             .features = core.features};
    t.vector_unit = core.vector_unit;
    t.vectors = std::string_view(core.vector_unit) != "none";
    t.vector_bits = 128;
    t.tile = core.tile;
    t.cache = 16 << 10;
    t.threads = 1;
    t.rounds = false;  // a Cortex-M4 does not, and little depends on it
    t.emulation = "armelf";
    t.elf_machine = EM_ARM;
    t.elf_flags = EF_ARM_EABI_VER5;
    t.pointer_bytes = 4;
    t.runtime = {"cortexm-semihosting"};
    t.library_runtime = {"cortexm-library"};
    t.kernels_runtime = "cortexm-kernels";
    return t;
  }
  POCK_CHECK(false, "no core {}", name);
}

}  // namespace pock
