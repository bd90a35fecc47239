// LLVM's view of a target.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pock/codegen/target.h"

namespace llvm {
class Function;
class Module;
class TargetMachine;
}  // namespace llvm

namespace pock {

std::string host_cpu();
bool host_is(const std::string& triple);  // of the architecture
// Throws Error, listing the cpus there are, where LLVM knows no such one for the target's triple.
void need_cpu(const Target&);
// Whether a cpu has all of some features, each given by LLVM's name. "host": what this machine really has.
bool cpu_has(const std::string& triple, const std::string& cpu, const std::vector<std::string>& features);

// Whether addresses are numbers in the code, which is shorter, or relative to it, which lets it lie anywhere.
enum class Addresses { fixed, relative };
// The machine, and the module made for it.
std::unique_ptr<llvm::TargetMachine> make_machine(const Target&, llvm::Module&, Addresses);
// What holds for all generated code: the target's instructions, denormals are zero, no calls that LLVM
// invents.
void set_attributes(llvm::Function&, const Target&);

}  // namespace pock
