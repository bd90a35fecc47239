// The tables and entry points of a program: struct pock_program of runtime/pock.h.
#pragma once

#include <string>
#include <vector>

#include "llvm/emit_kernel.h"
#include "pock/codegen/compile.h"

namespace pock {

// The symbol of the weights section, which another object defines. Libraries have each their own.
std::string weights_symbol(const Program&);

// Adds `pock_program` to the module. `phases[i]` are those of program.kernels[i]. `has_blocks`: and the memory that it works
// in, pock_arena and others.
void emit_program(llvm::Module&, const Program&, const std::vector<Phases>& phases, bool has_blocks);

}  // namespace pock
