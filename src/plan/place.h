// Where blocks of memory go whose lifetimes are known.
#pragma once

#include "pock/plan/plan.h"

namespace pock {

// Gives every block an offset and returns the arena's size. Deterministic; tries harder until it reaches
// `bound`.
int64_t place(std::vector<Block>&, const std::vector<int64_t>& live, int64_t bound);

}  // namespace pock
