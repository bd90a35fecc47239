// `pockc compile`: from a model file to a training program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program_args.h"

namespace pock {

struct CompileArgs : ProgramArgs {
  std::string out;
  std::optional<int> threads;
  std::string emit = "exe";
  std::string report;
  bool weights_file = false;  // beside the program, whatever their size
};

// A program that has more bytes of weights reads them from a file beside it.
constexpr int64_t kLargestSection = int64_t{256} << 20;

// What --emit offers.
std::vector<std::string> emit_choices();

// Throws Error; writes nothing then.
void run_compile(const CompileArgs&);

}  // namespace pock
