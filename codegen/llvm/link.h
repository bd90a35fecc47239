// Links object files with the lld inside this process.
#pragma once

#include <string>
#include <vector>

namespace pock {

// Whether a program keeps the names of its functions.
enum class Names { stripped, kept };

// A static program that needs no C library: the objects hold all there is, _start included. `emulation` is
// lld's name for files of the machine.
std::string link_program(const std::string& emulation, const std::vector<std::string>& objects,
                         Names = Names::stripped);
// Likewise for a machine without a system, where a linker script says.
std::string link_image(const std::string& emulation, const std::string& script,
                       const std::vector<std::string>& objects);
// A library that a program of this machine loads while it runs, and that may use what the program has.
std::string link_plugin(const std::string& object);
// One object file from several.
std::string link_objects(const std::string& emulation, const std::vector<std::string>& objects);
// A static library of one object file.
std::string archive(const std::string& object, const std::string& member);

}  // namespace pock
