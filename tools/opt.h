// `pockc opt`: runs passes over a graph in its text form.
#pragma once

#include <string>
#include <vector>

namespace pock {

// Reads `file`, runs the passes in the order given, verifying after each, and writes the graph to `out`, or
// prints it to standard output where `out` is "-". Throws Error for unknown passes and bad files; writes
// nothing then.
void run_opt(const std::string& file, const std::vector<std::string>& passes, const std::string& out);

}  // namespace pock
