// The boards that pock knows: those that are emulated, so that they are tested, and chips whose memory is well known.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "cortexm/target.h"
#include "pock/codegen/board.h"
#include "pock/support/mapped_file.h"
#include "pock/support/toml_file.h"

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

// The command that runs programs of a machine of qemu's, without the program.
std::vector<std::string> qemu(const std::string& machine) {
  return {"qemu-system-arm",
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
}

class BoardFile : TomlFile {
 public:
  BoardFile(const std::string& toml, const std::string& name) : TomlFile(toml, name, "a board") {}

  Board read() {
    Board board;
    each_key(all(), {"name", "core", "flash", "ram", "qemu"},
             [&](std::string_view key, const toml::node& value) {
               if (key == "name") board.name = word(value);
               if (key == "core") board.target = core(value);
               if (key == "flash") board.flash = region(value);
               if (key == "ram") board.ram = region(value);
               if (key == "qemu") board.emulator = qemu(word(value));
             });
    for (const char* key : {"name", "core", "flash", "ram"})
      if (!all().contains(key)) report().add(fail(all(), "it has no key '{}'", key));
    report().throw_if_any();
    if (board.flash.origin < board.ram.end() && board.ram.origin < board.flash.end())
      throw fail(*all().get("ram"), "it overlaps the flash");
    return board;
  }

 private:
  // What may stand in a command line and in a message.
  std::string word(const toml::node& value) const {
    const auto* text = value.as_string();
    const auto good = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
    };
    if (!text || text->get().empty() || !std::all_of(text->get().begin(), text->get().end(), good) ||
        text->get()[0] == '-')
      throw fail(value, "want a name in quotes, of letters, digits and -_.");
    return text->get();
  }

  std::string core(const toml::node& value) const {
    const std::vector<std::string> there = cortexm_cores();
    const auto* text = value.as_string();
    if (!text || std::find(there.begin(), there.end(), text->get()) == there.end())
      throw fail(value, "want one of {}, in quotes", fmt::join(there, ", "));
    return text->get();
  }

  Region region(const toml::node& value) const {
    if (value.is_array())
      throw fail(value, "want one region: a program is not spread over several; name the largest");
    const auto* text = value.as_string();
    if (!text || text->get().find('+') == std::string::npos)
      throw fail(value, "want \"ORIGIN+BYTES\", such as \"0x20000000+128K\"");
    try {
      return parse_region(text->get(), {});
    } catch (const Error& e) {
      throw fail(value, "{}", e.what());
    }
  }
};

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
  constexpr uint64_t K = 1 << 10, M = 1 << 20;
  struct Row {
    const char *name, *core;
    Region flash, ram;
    const char* qemu = nullptr;  // its name of the machine that stands for it
    std::vector<uint32_t> mark = {};
  };
  static const Row rows[] = {
      {"mps2-an386", "cortex-m4", {0, 4 * M}, {0x21000000, 16 * M}, "mps2-an386"},
      {"mps2-an500", "cortex-m7", {0, 4 * M}, {0x60000000, 16 * M}, "mps2-an500"},
      {"mps2-an505", "cortex-m33", {0x10000000, 4 * M}, {0x80000000, 16 * M}, "mps2-an505"},
      {"mps3-an547", "cortex-m55", {0, M / 2}, {0x60000000, 16 * M}, "mps3-an547"},
      {"stm32f405", "cortex-m4", {0x08000000, M}, {0x20000000, 128 * K}, "netduinoplus2"},
      {"stm32f746", "cortex-m7", {0x08000000, M}, {0x20000000, 320 * K}},
      {"stm32h743", "cortex-m7", {0x08000000, 2 * M}, {0x24000000, 512 * K}},
      {"nrf52840", "cortex-m4", {0, M}, {0x20000000, 256 * K}},
      // A Raspberry Pi Pico 2. Its loader starts what says that it is a program for the chip's Arm cores.
      {"rp2350",
       "cortex-m33",
       {0x10000000, 4 * M},
       {0x20000000, 512 * K},
       nullptr,
       {0xFFFFDED3, 0x10210142, 0x000001FF, 0, 0xAB123579}},
  };
  static const std::vector<Board> list = [] {
    std::vector<Board> made;
    for (const Row& r : rows) {
      made.push_back({r.name, r.core, r.flash, r.ram, {}, r.mark});
      if (r.qemu) made.back().emulator = qemu(r.qemu);
    }
    return made;
  }();
  return list;
}

Board parse_board(const std::string& toml, const std::string& file) { return BoardFile(toml, file).read(); }

Board find_board(const std::string& name) {
  if (name.ends_with(".toml")) return parse_board(std::string(MappedFile(name).bytes()), name);
  std::vector<std::string> names;
  for (const Board& b : boards()) {
    if (b.name == name) return b;
    names.push_back(b.name);
  }
  throw error("unknown board '{}'; there are: {}; or give a FILE.toml", name, fmt::join(names, ", "));
}

}  // namespace pock
