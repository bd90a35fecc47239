// The parts of pock's C runtime that are linked into what is emitted.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "pock/codegen/target.h"

namespace llvm {
class Module;
}  // namespace llvm

namespace pock {

void link_runtime(llvm::Module&, const Target&, const std::vector<std::string>& names);
// What only assembly refers to, or code generation may call, is marked as used by the runtime.
void keep_only(llvm::Module&, const std::set<std::string>& names);
// Where a program begins.
const char* first_function(const Target&);

}  // namespace pock
