// Cortex-M with a floating-point unit: no system, one thread, programs at the addresses of a Board.
#pragma once

#include <string>
#include <vector>

#include "pock/codegen/target.h"

namespace pock {

// `cpu` is LLVM's name of the core, and the name of the target. Throws Error where it is another.
std::vector<std::string> cortexm_cores();
Target cortexm_target(const std::string& name, const std::string& cpu);

}  // namespace pock
