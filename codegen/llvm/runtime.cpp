#include "llvm/runtime.h"

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/Module.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Transforms/IPO/Internalize.h>

#include "llvm/must.h"
#include "pock/codegen/runtime_bitcode.h"

namespace pock {
namespace {

// A board has one core, so the runtime is code for it too; elsewhere it must run before it has asked what there is.
void use_all_of(const Target& target, llvm::Module& runtime) {
  for (llvm::Function& f : runtime) {
    f.addFnAttr("target-cpu", target.baseline);
    f.addFnAttr("target-features", target.features);
  }
}

}  // namespace

void link_runtime(llvm::Module& module, const Target& target, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string_view bitcode = runtime_bitcode(name);
    POCK_CHECK(!bitcode.empty(), "no runtime named {}", name);
    auto runtime = must(llvm::parseBitcodeFile({llvm::StringRef(bitcode), name}, module.getContext()));
    runtime->setTargetTriple(module.getTargetTriple());
    runtime->setDataLayout(module.getDataLayout());
    if (target.bare()) use_all_of(target, *runtime);
    const bool failed = llvm::Linker::linkModules(module, std::move(runtime));
    POCK_CHECK(!failed, "runtime {} does not fit the program", name);
  }
}

void keep_only(llvm::Module& module, const std::set<std::string>& names) {
  llvm::internalizeModule(module, [&](const llvm::GlobalValue& v) { return names.count(v.getName().str()); });
}

const char* first_function(const Target& target) { return target.bare() ? "pock_reset" : "_start"; }

}  // namespace pock
