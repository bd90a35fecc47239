#include "pock/codegen/target.h"

#include <algorithm>
#include <sstream>

#include "aarch64/target.h"
#include "armv7/target.h"
#include "cortexm/target.h"
#include "llvm/machine.h"
#include "pock/support/diag.h"
#include "x86/target.h"

namespace pock {
namespace {

struct Row {
  const char* name;
  Target (*make)(const std::string& name, const std::string& cpu);
  const char* cpu;  // LLVM's name, where nobody gives another; "": the machine's own
  const char *what, *memory;
  std::vector<std::string> emulator;
  const char* board = nullptr;  // of machines without a system
};

const std::vector<Row>& rows() {
  const auto a64 = [](const char* cpu) { return std::vector<std::string>{"qemu-aarch64", "-cpu", cpu}; };
  const auto a32 = [](const char* cpu) { return std::vector<std::string>{"qemu-arm", "-cpu", cpu}; };
  static const std::vector<Row> list = {
      {"host", x86_target, "", "this machine", "its own", {}},
      {"x86-64", x86_target, "x86-64-v3", "any x86-64 Linux with AVX2 and FMA", "any", {}},
      {"aarch64-linux", aarch64_target, "cortex-a72", "any 64-bit Arm Linux", "any", a64("cortex-a53")},
      {"armv7-linux", armv7_target, "cortex-a7", "32-bit Arm Linux with NEON and VFPv4", "any",
       a32("cortex-a7")},
      {"rpi2", armv7_target, "cortex-a7", "Raspberry Pi 2, 32-bit Linux", "1 GiB", a32("cortex-a7")},
      {"rpi3", aarch64_target, "cortex-a53", "Raspberry Pi 3, 64-bit Linux", "1 GiB", a64("cortex-a53")},
      {"rpi-zero2", aarch64_target, "cortex-a53", "Raspberry Pi Zero 2, 64-bit Linux", "512 MiB",
       a64("cortex-a53")},
      {"rpi4", aarch64_target, "cortex-a72", "Raspberry Pi 4, 64-bit Linux", "1 to 8 GiB", a64("cortex-a72")},
      {"rpi5", aarch64_target, "cortex-a76", "Raspberry Pi 5, 64-bit Linux", "2 to 16 GiB",
       a64("cortex-a76")},
      {"cortex-m4",
       cortexm_target,
       "cortex-m4",
       "bare metal, Cortex-M4 with FPU",
       "the board's",
       {},
       "mps2-an386"},
      {"cortex-m7",
       cortexm_target,
       "cortex-m7",
       "bare metal, Cortex-M7 with FPU",
       "the board's",
       {},
       "mps2-an500"},
      {"cortex-m33",
       cortexm_target,
       "cortex-m33",
       "bare metal, Cortex-M33 with FPU",
       "the board's",
       {},
       "mps2-an505"},
      {"cortex-m55",
       cortexm_target,
       "cortex-m55",
       "bare metal, Cortex-M55 with Helium",
       "the board's",
       {},
       "mps3-an547"},
  };
  return list;
}

// Machines that people will ask for, and why there are no programs for them.
constexpr const char *kArmv6 = "an Armv6 has no fused multiply-add and no vectors of floats",
                     *kNoFloats = "it computes no floats and has no fused multiply-add";
constexpr struct {
  const char *name, *reason, *advice = "";
} kRefused[] = {
    {"rpi1", kArmv6},
    {"rpi-zero", kArmv6, "; a Zero 2 is rpi-zero2"},
    {"armv6-linux", kArmv6},
    {"cortex-m0", kNoFloats},
    {"cortex-m0plus", kNoFloats},
    {"cortex-m0+", kNoFloats},
    {"cortex-m3", kNoFloats},
};

}  // namespace

void set_board(Target& target, const Board& board) {
  if (board.target != target.name)
    throw error("board {} has a {}, not a {}", board.name, board.target, target.name);
  target.board = board;
  target.emulator = board.emulator;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Row& r : rows()) names.emplace_back(r.name);
  return names;
}

Target find_target(const std::string& name, const std::string& cpu) {
  for (const auto& refused : kRefused)
    if (name == refused.name)
      throw error("there are no programs for target {}: {}{}", name, refused.reason, refused.advice);
  for (const Row& r : rows()) {
    if (name != r.name) continue;
    Target t = r.make(name, cpu.empty() ? r.cpu : cpu);
    t.what = r.what;
    t.memory = r.memory;
    t.emulator = r.emulator;
    if (r.board) set_board(t, find_board(r.board));
    return t;
  }
  throw error("unknown target '{}'; there are: {}", name, fmt::join(target_names(), ", "));
}

bool runs_here(const Target& t) {
  std::vector<std::string> features;
  std::istringstream list(t.features);  // "+a,+b"
  for (std::string f; std::getline(list, f, ',');) features.push_back(f.substr(1));
  return host_is(t.triple) && cpu_has(t.triple, "host", features);
}

}  // namespace pock
