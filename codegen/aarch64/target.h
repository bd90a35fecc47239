// AArch64 Linux (Raspberry Pi 3 and newer, 64-bit): every such machine has NEON with fused multiply-adds.
#pragma once

#include <string>

#include "pock/codegen/target.h"

namespace pock {

// Throws Error where the cpu is unknown.
Target aarch64_target(const std::string& name, const std::string& cpu);

}  // namespace pock
