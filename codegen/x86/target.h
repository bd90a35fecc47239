// x86-64 Linux: what a cpu must have, and the numbers that follow from what it has.
#pragma once

#include <string>

#include "pock/codegen/target.h"

namespace pock {

// "host" or "x86-64". Throws Error where the cpu is unknown or lacks AVX2 and FMA.
Target x86_target(const std::string& name, const std::string& cpu);

}  // namespace pock
