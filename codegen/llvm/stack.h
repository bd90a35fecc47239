// How deep the stack of a program can get, from the frames of its functions and who calls whom.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace llvm {
class Module;
}

namespace pock {

// Bytes below the stack pointer, a multiple of 8, that the deepest of `roots` takes. `object` was made from the module, with stack sizes and
// a section for each function: its relocations are the calls, those among them that code generation added; a call through a
// pointer may reach each function of that type whose address is taken. Throws where there is no bound.
int64_t stack_bound(const llvm::Module&, const std::string& object, const std::vector<std::string>& roots);

}  // namespace pock
