// What the subcommands that make a program of a model have in common.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "model_args.h"
#include "pock/codegen/compile.h"
#include "pock/passes/passes.h"
#include "step_args.h"

namespace pock {

struct ProgramArgs : ModelArgs, StepArgs {
  std::string target = "host", cpu, board, flash, sram;
  std::vector<std::string> print_after;
  std::set<std::string> disabled;  // --no-NAME
};

Target target_of(const ProgramArgs&);

// Everything that lower() takes.
struct Prepared {
  std::unique_ptr<Graph> model;  // as imported
  PassOptions passes;
  ProgramGraphs graphs;
  CompileOptions options;
  std::string trained;  // what is, for people
};
// Reads the model, makes the choices that nobody made, and says them; runs the passes. Throws Error.
Prepared prepare(const ProgramArgs&);

std::string bytes_text(int64_t);  // "1.5 MiB"

}  // namespace pock
