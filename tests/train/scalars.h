// The scalars of a step, computed in double as the emitted program does.
#pragma once

#include "pock/ops/evaluate.h"
#include "pock/passes/optimizer.h"

namespace pock::test {

void set_scalars(const Graph&, const ScalarFormulas&, int step, Memory*);

}  // namespace pock::test
