#include "cortexm/image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "library.h"
#include "pock/support/diag.h"

namespace pock {
namespace {

// What stands in an image of 32 bits.
template <class T>
T record(const std::string& elf, size_t at) {
  POCK_CHECK(at + sizeof(T) <= elf.size(), "the image ends at {}", elf.size());
  T r;
  std::memcpy(&r, elf.data() + at, sizeof r);
  return r;
}

template <class F>
void each_segment(const std::string& elf, const F& f) {
  const auto header = record<Elf32_Ehdr>(elf, 0);
  for (int i = 0; i < header.e_phnum; ++i)
    if (auto s = record<Elf32_Phdr>(elf, header.e_phoff + i * sizeof(Elf32_Phdr)); s.p_type == PT_LOAD) f(s);
}

std::string bytes(int64_t n) { return fmt::format("{} bytes", n); }

// Of memory that the program asks for when it runs: its command line, tables, and 4 KiB a data file.
constexpr int64_t kLeastHeap = 16 << 10;
// Of a stack, before it is known.
constexpr int64_t kLeastStack = 8 << 10;

int64_t planned(const Program& p) { return p.arena_bytes() + p.params.bytes + p.state.bytes; }

void check_ram_fits(const Program& p, const char* at_least, int64_t stack, int64_t data) {
  const Board& board = p.options.target.board;
  const auto there = static_cast<int64_t>(board.ram.bytes);
  const int64_t needed = stack + data + kLeastHeap + planned(p);
  if (needed > there)
    throw error(
        "board {} has {} of RAM, and the program needs {}: arena {}, parameters {}, optimizer state {}, "
        "stack {}{}, static data {}, and {} for tables and files. Train less of the model "
        "(--sparse-scheme), or take a smaller batch",
        board.name, bytes(there), bytes(needed), p.arena_bytes(), p.params.bytes, p.state.bytes, at_least,
        stack, data, kLeastHeap);
}

}  // namespace

std::string linker_script(const Board& b, int64_t stack) {
  std::string mark;
  for (uint32_t word : b.mark) mark += fmt::format(" LONG({})", word);
  return fmt::format(R"(ENTRY(pock_reset)
SECTIONS {{
  . = {};
  .vectors : {{ KEEP(*(.vectors)){} }}
  .text : {{ *(.text .text.*) }}
  .rodata : {{ *(.rodata.weights) *(.rodata .rodata.*) }}
  pock_data_load = ALIGN(8);
  . = {};
  pock_stack_top = .;
  .data : AT(pock_data_load) {{ pock_data_begin = .; *(.data .data.*) . = ALIGN(8); pock_data_end = .; }}
  .bss (NOLOAD) : {{ pock_bss_begin = .; *(.bss .bss.* COMMON) . = ALIGN(64); pock_bss_end = .; }}
  pock_heap_begin = .;
  pock_heap_end = {};
  /DISCARD/ : {{ *(.ARM.exidx*) *(.comment) *(.stack_sizes) }}
}}
)",
                     b.flash.origin, mark, b.ram.origin + static_cast<uint64_t>(stack), b.ram.end());
}

void measure_image(const std::string& elf, const Board& board, ImageBytes* sizes) {
  const auto flash = static_cast<int64_t>(board.flash.origin),
             data = static_cast<int64_t>(board.ram.origin) + sizes->stack;
  each_segment(elf, [&](const Elf32_Phdr& s) {
    if (s.p_filesz) sizes->flash = std::max<int64_t>(sizes->flash, int64_t{s.p_paddr} + s.p_filesz - flash);
    if (s.p_vaddr >= board.ram.origin)
      sizes->data = std::max<int64_t>(sizes->data, int64_t{s.p_vaddr} + s.p_memsz - data);
  });
}

std::string flat_image(const std::string& elf, const Board& board) {
  std::string flat;
  each_segment(elf, [&](const Elf32_Phdr& s) {
    if (!s.p_filesz) return;
    const size_t at = s.p_paddr - board.flash.origin;
    if (flat.size() < at + s.p_filesz) flat.resize(at + s.p_filesz, '\xff');
    flat.replace(at, s.p_filesz, elf, s.p_offset, s.p_filesz);
  });
  return flat;
}

void check_plan_fits(const Program& p) {
  const Board& board = p.options.target.board;
  const auto flash = static_cast<int64_t>(board.flash.bytes);
  check_ram_fits(p, "at least ", kLeastStack, 0);
  if (p.weights.bytes > flash)
    throw error("board {} has {} of flash, and the weights alone take {}", board.name, bytes(flash),
                bytes(p.weights.bytes));
}

void check_image_fits(const Program& p) {
  const Board& board = p.options.target.board;
  const auto flash = static_cast<int64_t>(board.flash.bytes);
  check_ram_fits(p, "", p.image.stack, p.image.data - planned(p));
  if (p.image.flash > flash)
    throw error("board {} has {} of flash, and the program takes {}: weights {}, code and tables {}",
                board.name, bytes(flash), bytes(p.image.flash), p.weights.bytes,
                p.image.flash - p.weights.bytes);
}

std::string memory_table(const Program& p) {
  const Board& b = p.options.target.board;
  const auto ram = static_cast<int64_t>(b.ram.bytes), flash = static_cast<int64_t>(b.flash.bytes);
  std::string text = fmt::format("memory of {}:\n", b.name);
  auto row = [&](const char* what, int64_t n) { text += fmt::format("  {:<34}{:>10}\n", what, n); };
  row("flash: weights", p.weights.bytes);
  row("flash: code and tables", p.image.flash - p.weights.bytes);
  text += fmt::format("  {:<34}{:>10} of {}\n", "flash in all", p.image.flash, flash);
  row("RAM: stack, at its deepest", p.image.stack);
  row("RAM: static data", p.image.data - planned(p));
  row("RAM: arena", p.arena_bytes());
  row("RAM: trained parameters", p.params.bytes);
  row("RAM: optimizer state", p.state.bytes);
  const int64_t used = p.image.stack + p.image.data;
  text += fmt::format("  {:<34}{:>10} of {}\n", "RAM in all", used, ram);
  text += fmt::format("  {:<34}{:>10}", "left for data and files", ram - used);
  return text;
}

}  // namespace pock
