// What the subcommands that run passes have in common: what is trained, for which loss, with which steps.
#pragma once

#include <string>
#include <vector>

#include "pock/passes/pass.h"

namespace pock {

struct StepArgs {
  std::string scheme;                 // a preset or a file; "": none
  std::vector<std::string> losses;    // [OUTPUT=]NAME[:key=value,...]
  std::string optimizer, schedule;    // "": sgd; constant
  std::vector<std::string> norms;     // [PATTERN=]MODE
  std::vector<std::string> dropouts;  // [PATTERN=]on|off|RATIO
  std::string norm_variance;          // "", "unbiased", "population"
  PassOptions passes;                 // the rest of what passes need
};

PassOptions pass_options(const StepArgs&);  // throws Error

}  // namespace pock
