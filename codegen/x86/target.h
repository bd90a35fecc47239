// x86-64 Linux: what a cpu must have, and the numbers that follow from what it has.
#pragma once

#include <cstdint>
#include <string>

#include "pock/codegen/target.h"

namespace pock {

// "host" or "x86-64". Throws Error where the cpu is unknown or lacks AVX2 and FMA.
Target x86_target(const std::string& name, const std::string& cpu);
// enum pock_cpu bits (runtime/pock.h) for the features that the target's kernels may use.
uint64_t x86_cpu_needs(const Target&);

}  // namespace pock
