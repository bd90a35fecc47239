// `pockc bench`: where the time of a training step goes on this machine, or what its kernels take on another.
#pragma once

#include <optional>

#include "program_args.h"

namespace pock {

struct BenchArgs : ProgramArgs {
  std::optional<int> rounds;
  bool count = false, json = false;
};
// Where nobody says how many.
constexpr int kFewestRounds = 5;

// Prints a table, or JSON. Throws Error; prints neither then.
void run_bench(const BenchArgs&);

}  // namespace pock
