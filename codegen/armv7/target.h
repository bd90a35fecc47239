// 32-bit Arm Linux: Armv7-A with NEON, VFPv4 and integer division, which is Cortex-A7 and newer.
#pragma once

#include <string>

#include "pock/codegen/target.h"

namespace pock {

// Throws Error where the cpu is unknown.
Target armv7_target(const std::string& name, const std::string& cpu);

}  // namespace pock
