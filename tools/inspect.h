// `pockc inspect`: what is in a model file, and what stands in the way of training it.
#pragma once

#include "model_args.h"

namespace pock {

// To standard output, as text or as JSON. Throws Error where the file cannot be read; a model that cannot be trained is
// no error.
void run_inspect(const ModelArgs&, bool json);

}  // namespace pock
