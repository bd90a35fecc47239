// `pockc export`: a model file with the weights of a checkpoint.
#pragma once

#include <string>

namespace pock {

// Throws Error; writes nothing then.
void run_export(const std::string& model, const std::string& weights, const std::string& out);

}  // namespace pock
