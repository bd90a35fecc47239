// A target is mostly a table: what the machine is, in numbers that schedules and the emitter read.
//
//   Target t = find_target("x86-64", "x86-64-v3");
//   t.vector_floats() == 8, t.tile.rows == 4
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pock/codegen/board.h"

namespace pock {

// Bytes that the registers of a kernel may take on the stack: of the 256 KiB that a thread of the runtime has
// (runtime/threads_linux.c).
inline constexpr int64_t kMostStack = 128 << 10;

struct Tile {
  int rows = 6;    // independent rows of accumulators in a contraction's register tile
  int cols = 2;    // vectors a row
  int widest = 4;  // vectors a row, where they are more and the rows fewer
  int terms = 1;   // of a sum that are written out, so that less is spent on counting them
};

struct Target {
  std::string name;     // "host", "rpi4"
  std::string machine;  // "x86-64": what kind of machine, for people
  std::string triple;
  std::string baseline;     // LLVM's name of a cpu that has no more than every one of them
  std::string cpu;          // LLVM's name; decides costs and the order of instructions
  std::string features;     // LLVM's "+a,+b"
  uint64_t cpu_needs = 0;   // the same as enum pock_cpu bits (runtime/pock.h): checked when a program starts
  std::string vector_unit;  // "NEON", for people
  bool vectors = true;      // else as many instructions as a vector has elements
  int vector_bits = 256;
  Tile tile;
  bool byte_dots =
      false;  // one instruction adds four products of unsigned and signed bytes to each of 4, 8 or 16 words
  bool turns_shared = false;  // registers are enough to turn rows of four floats that rows of a tile share
  int64_t cache = 8 << 20;  // bytes that a thread can hope to find there again: of more, all come from memory
  int threads = 4;          // planned for, where nobody says otherwise
  bool rounds = true;       // an instruction rounds a float to the nearest whole number
  std::string emulation;    // lld's name for files of the machine
  uint16_t elf_machine = 0;  // and ELF's number
  uint32_t elf_flags = 0;
  int pointer_bytes = 8;
  // Bitcode to link into programs and into libraries.
  std::vector<std::string> runtime, library_runtime;
  std::string kernels_runtime;  // likewise into programs that run kernels one by one
  std::string what, memory;     // for people: the machine, and what memory it has
  std::vector<std::string>
      emulator;  // runs its programs on another machine, as that very core; none: not emulated
  Board board;   // of a machine without a system; else it has no name
  bool bare() const { return !board.name.empty(); }
  int vector_floats() const { return vector_bits / 32; }
};

// "host" (this machine), or another name, with an optional LLVM cpu name. Throws Error listing the targets and cpus
// there are.
Target find_target(const std::string& name, const std::string& cpu = "");
std::vector<std::string> target_names();
// A board for a machine without a system, in the place of the one that it has by itself. Throws Error where it has
// another core.
void set_board(Target&, const Board&);
// Whether this machine has the instructions that code for the target uses.
bool runs_here(const Target&);

}  // namespace pock
