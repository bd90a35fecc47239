// `pockc compile`: from a model file to a training program.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model_args.h"
#include "step_args.h"

namespace pock {

struct CompileArgs : ModelArgs, StepArgs {
  std::string out;
  std::string target = "host", cpu;
  std::optional<int> threads;
  uint64_t seed = 0;
  std::string emit = "exe";
  std::string report;
  bool weights_file = false;  // beside the program, whatever their size
  std::vector<std::string> print_after;
  std::set<std::string> disabled;  // --no-NAME
};

// A program that has more bytes of weights reads them from a file beside it.
constexpr int64_t kLargestSection = int64_t{256} << 20;

// What --emit offers.
std::vector<std::string> emit_choices();

// Throws Error; writes nothing then.
void run_compile(const CompileArgs&);

}  // namespace pock
