// Where memory is on a machine without a system.
//
//   Board b = find_board("mps2-an386");  // or a file: "my_board.toml"
//   b.ram = parse_region("0x20000000+96K", b.ram);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pock {

struct Region {
  uint64_t origin = 0, bytes = 0;
  uint64_t end() const { return origin + bytes; }
};

struct Board {
  std::string name;
  std::string target;  // its core, by the name of a Target
  Region flash, ram;   // what a program may use of them; the vector table is the first of the flash
  std::vector<std::string> emulator;  // runs its programs on another machine
  std::vector<uint32_t> mark = {};    // words behind the vector table, which its loader looks for
};

// Of boards(), or what the file of this name says, which ends in .toml. Throws Error: the boards there are, or all that is wrong
// in the file.
Board find_board(const std::string& name);
Board parse_board(const std::string& toml, const std::string& file);
const std::vector<Board>& boards();
// "ORIGIN+BYTES", or "BYTES" from where `now` begins; a K or M behind stands for KiB or MiB. Throws Error.
Region parse_region(const std::string& text, const Region& now);

}  // namespace pock
