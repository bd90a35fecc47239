// The boards that pock knows: those that are emulated, so that all of them are tested.
#include <charconv>

#include "pock/codegen/board.h"
#include "pock/support/diag.h"

namespace pock {
namespace {

// Decimal, or hexadecimal with 0x; nothing behind it but a unit.
bool read_size(std::string_view text, uint64_t* size) {
  uint64_t unit = 1;
  if (text.ends_with('K')) unit = 1 << 10;
  if (text.ends_with('M')) unit = 1 << 20;
  if (unit > 1) text.remove_suffix(1);
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), *size, hex ? 16 : 10);
  if (problem != std::errc{} || stop != text.data() + text.size() || *size > UINT32_MAX / unit) return false;
  *size *= unit;
  return true;
}

}  // namespace

Region parse_region(const std::string& text, const Region& now) {
  Region r = now;
  const size_t plus = text.find('+');
  const bool good = (plus == std::string::npos || read_size(text.substr(0, plus), &r.origin)) &&
                    read_size(plus == std::string::npos ? text : text.substr(plus + 1), &r.bytes);
  constexpr uint64_t kAlignment = 1024;  // of a vector table, and more than anything else needs
  if (!good || r.end() > uint64_t{1} << 32 || r.origin % kAlignment || r.bytes % 64 || !r.bytes)
    throw error(
        "'{}': want [ORIGIN+]BYTES, such as 0x20000000+128K: below 4 GiB, the origin a multiple of {}, the "
        "bytes of 64",
        text, kAlignment);
  return r;
}

const std::vector<Board>& boards() {
  const auto qemu = [](const char* machine) {
    return std::vector<std::string>{"qemu-system-arm",
                                    "-M",
                                    machine,
                                    "-display",
                                    "none",
                                    "-monitor",
                                    "none",
                                    "-serial",
                                    "none",
                                    "-semihosting-config",
                                    "enable=on,target=native",
                                    "-kernel"};
  };
  constexpr uint64_t kMiB = 1 << 20;
  static const std::vector<Board> list = {
      {"mps2-an386",
       "Arm MPS2 with a Cortex-M4",
       "cortex-m4",
       {0, 4 * kMiB},
       {0x21000000, 16 * kMiB},
       qemu("mps2-an386")},
      {"mps2-an500",
       "Arm MPS2 with a Cortex-M7",
       "cortex-m7",
       {0, 4 * kMiB},
       {0x60000000, 16 * kMiB},
       qemu("mps2-an500")},
      {"mps2-an505",
       "Arm MPS2 with a Cortex-M33",
       "cortex-m33",
       {0x10000000, 4 * kMiB},
       {0x80000000, 16 * kMiB},
       qemu("mps2-an505")},
      {"mps3-an547",
       "Arm MPS3 with a Cortex-M55",
       "cortex-m55",
       {0, kMiB / 2},
       {0x60000000, 16 * kMiB},
       qemu("mps3-an547")},
      {"stm32f405",
       "STM32F405 with a Cortex-M4, without its core-coupled memory",
       "cortex-m4",
       {0x08000000, kMiB},
       {0x20000000, 128 << 10},
       qemu("netduinoplus2")},
  };
  return list;
}

Board find_board(const std::string& name) {
  std::vector<std::string> names;
  for (const Board& b : boards()) {
    if (b.name == name) return b;
    names.push_back(b.name);
  }
  throw error("unknown board '{}'; there are: {}", name, fmt::join(names, ", "));
}

}  // namespace pock
