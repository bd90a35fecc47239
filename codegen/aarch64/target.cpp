#include "aarch64/target.h"

#include <elf.h>

#include "llvm/machine.h"

namespace pock {

Target aarch64_target(const std::string& name, const std::string& cpu) {
  Target t{.name = name,
           .machine = "aarch64",
           .triple = "aarch64-unknown-linux-gnu",
           .baseline = "generic",
           .cpu = cpu,
           .features = "+neon"};
  need_cpu(t);
  // 32 registers: 25 for the tile and what it is multiplied with, the rest for what is loaded ahead.
  t.vector_unit = "NEON";
  t.vector_bits = 128;
  t.tile = {.rows = 7, .cols = 3};
  t.turns_shared = true;
  t.cache = 1 << 20;  // a Raspberry Pi 4 has it for all four cores
  t.emulation = "aarch64linux";
  t.elf_machine = EM_AARCH64;
  t.runtime = {"aarch64-linux"};
  t.library_runtime = {"aarch64-library"};
  t.kernels_runtime = "aarch64-kernels";
  return t;
}

}  // namespace pock
