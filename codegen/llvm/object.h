// From an LLVM module to bytes.
#pragma once

#include <string>

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace pock {

// Checks the module, then the -O2 passes without those that would make library calls or copy loops.
void optimize(llvm::Module&, llvm::TargetMachine&);
std::string to_object(llvm::Module&, llvm::TargetMachine&);
std::string to_assembly(llvm::Module&, llvm::TargetMachine&);
std::string to_text(const llvm::Module&);

}  // namespace pock
