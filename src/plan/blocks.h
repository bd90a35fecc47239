// The two halves of planning: which blocks of memory there are and when they are needed; where they go.
#pragma once

#include "pock/plan/plan.h"

namespace pock {

// Blocks with sizes rounded up to the alignment and lifetimes, without offsets.
std::vector<Block> find_blocks(const Graph&, const PlanOptions&);

// The bytes alive at every node.
std::vector<int64_t> live_bytes(const std::vector<Block>&, size_t nodes);

// Gives every block an offset and returns the arena's size. Deterministic; tries harder until it reaches
// `bound`.
int64_t place(std::vector<Block>&, const std::vector<int64_t>& live, int64_t bound);

}  // namespace pock
