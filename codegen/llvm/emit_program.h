// The tables and entry points of a program: struct pock_program of runtime/pock.h.
#pragma once

#include <string>
#include <vector>

#include "llvm/emit_kernel.h"
#include "pock/codegen/compile.h"

namespace pock {

// The symbol of the weights section, which another object defines. Libraries have each their own.
std::string weights_symbol(const Program&);

// Adds `pock_program` to the module. `phases[i]` are those of program.kernels[i].
void emit_program(llvm::Module&, const Program&, const std::vector<std::vector<Phase>>& phases);

}  // namespace pock
