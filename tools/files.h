// Writing results so that nothing half-done is left behind.
#pragma once

#include <string>

namespace pock {

// Writes through a temporary file in the same folder and a rename; "-" is standard output. Throws Error naming the file
// and the system's reason.
void write_file(const std::string& path, const std::string& bytes, bool executable = false);

}  // namespace pock
