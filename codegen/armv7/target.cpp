#include "armv7/target.h"

#include <elf.h>

#include "llvm/machine.h"
#include "pock.h"

namespace pock {

Target armv7_target(const std::string& name, const std::string& cpu) {
  Target t{.name = name,
           .machine = "armv7",
           .triple = "armv7-unknown-linux-gnueabihf",
           .baseline = "cortex-a7",
           .cpu = cpu,
           .features = "+neon,+vfp4,+hwdiv-arm"};
  need_cpu(t);
  t.cpu_needs = POCK_CPU_NEON | POCK_CPU_VFPV4 | POCK_CPU_IDIVA;
  // 16 registers of four floats; no instruction multiplies with a part of one.
  t.vector_unit = "NEON";
  t.vector_bits = 128;
  t.tile = {.rows = 4, .cols = 2, .widest = 2, .terms = 2};
  t.cache = 512 << 10;  // a Raspberry Pi 2 has it for all four cores
  t.rounds = false;
  t.emulation = "armelf_linux_eabi";
  t.elf_machine = EM_ARM;
  t.elf_flags = EF_ARM_EABI_VER5;
  t.pointer_bytes = 4;
  t.runtime = {"armv7-linux"};
  t.library_runtime = {"armv7-library"};
  t.kernels_runtime = "armv7-kernels";
  return t;
}

}  // namespace pock
