// `pockc explain`: what a scheme trains, and what each trained parameter costs beside training all of the model.
#pragma once

#include "program_args.h"

namespace pock {

struct ExplainArgs : ProgramArgs {
  bool json = false;
};

// Prints tables, or JSON. Throws Error; prints neither then.
void run_explain(const ExplainArgs&);

}  // namespace pock
