// `pockc targets`: the machines that there are programs for.
#pragma once

namespace pock {

void run_targets(bool json);

}  // namespace pock
