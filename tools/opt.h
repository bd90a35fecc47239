// `pockc opt`: runs passes over a graph in its text form.
#pragma once

#include <string>
#include <vector>

#include "step_args.h"

namespace pock {

struct OptArgs : StepArgs {
  std::string file, out = "-";
  std::vector<std::string> names;  // of passes
};

// Reads the file, runs the passes in the order given, verifying after each, and writes the graph to `out`, or prints it
// to standard output where `out` is "-". Throws Error for unknown passes, bad files and what passes refuse; writes
// nothing then.
void run_opt(const OptArgs&);

}  // namespace pock
