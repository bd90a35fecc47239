// `pockc export`: a model file with the weights of a checkpoint, and adapters in a file of their own.
#pragma once

#include <string>

namespace pock {

struct ExportArgs {
  std::string model, weights;
  std::string out;       // the model with everything in it, adapters merged; "": none
  std::string adapters;  // what was trained, under PEFT's names; "": no such file
};

// Throws Error; writes nothing then.
void run_export(const ExportArgs&);

}  // namespace pock
