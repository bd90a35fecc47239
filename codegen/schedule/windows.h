// Schedules of kernels that slide small windows along images, each channel by itself: depthwise convolutions and their
// gradients.
#pragma once

#include "pock/codegen/target.h"
#include "schedule/nest.h"

namespace pock {

// Steps after those that led to `now`, whose only nest is `nest`; none where it is no such kernel. Vectors run along
// the axis `column`. `near`: whether the sums of a whole row may wait in memory near by, the stack.
loop::Schedule window_steps(const loop::Kernel& now, const Nest& nest, size_t column, const Target& target,
                            bool near);

}  // namespace pock
