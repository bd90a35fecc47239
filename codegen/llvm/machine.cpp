#include "llvm/machine.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <mutex>

#include "pock/support/diag.h"

namespace pock {
namespace {

const llvm::Target& find(const std::string& triple) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    llvm::InitializeAllAsmParsers();
  });
  std::string problem;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, problem);
  POCK_CHECK(target, "{}", problem);
  return *target;
}

}  // namespace

std::string host_cpu() { return llvm::sys::getHostCPUName().str(); }

bool host_is(const std::string& triple) {
  return llvm::Triple(triple).getArch() == llvm::Triple(llvm::sys::getProcessTriple()).getArch();
}

void need_cpu(const Target& t) {
  std::unique_ptr<llvm::MCSubtargetInfo> info(find(t.triple).createMCSubtargetInfo(t.triple, "", ""));
  std::vector<std::string> names;
  for (const llvm::SubtargetSubTypeKV& cpu : info->getAllProcessorDescriptions()) names.emplace_back(cpu.Key);
  std::sort(names.begin(), names.end());
  if (!std::binary_search(names.begin(), names.end(), t.cpu))
    throw error("unknown cpu '{}' for target {}; there are: {}", t.cpu, t.name, fmt::join(names, ", "));
}

bool cpu_has(const std::string& triple, const std::string& cpu, const std::vector<std::string>& features) {
  if (cpu == "host") {
    const llvm::StringMap<bool> have = llvm::sys::getHostCPUFeatures();
    return std::all_of(features.begin(), features.end(),
                       [&](const std::string& f) { return have.lookup(f); });
  }
  std::unique_ptr<llvm::MCSubtargetInfo> info(find(triple).createMCSubtargetInfo(triple, cpu, ""));
  return std::all_of(features.begin(), features.end(),
                     [&](const std::string& f) { return info->checkFeatures("+" + f); });
}

std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target, llvm::Module& module,
                                                  Addresses addresses) {
  llvm::TargetOptions options;
  options.FunctionSections = true;
  options.DataSections = true;
  options.EmitStackSizeSection = target.bare();
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(
      find(target.triple)
          .createTargetMachine(target.triple, target.baseline, target.features, options,
                               addresses == Addresses::fixed ? llvm::Reloc::Static : llvm::Reloc::PIC_,
                               llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  module.setTargetTriple(target.triple);
  module.setDataLayout(machine->createDataLayout());
  return machine;
}

void set_attributes(llvm::Function& f, const Target& target) {
  f.addFnAttr(llvm::Attribute::NoUnwind);
  f.addFnAttr("target-cpu", target.baseline);
  f.addFnAttr("tune-cpu", target.cpu);
  f.addFnAttr("target-features", target.features);
  // Without these, cpus that clock down under wide vectors have them split in two.
  f.addFnAttr("prefer-vector-width", std::to_string(target.vector_bits));
  f.addFnAttr("min-legal-vector-width", std::to_string(target.vector_bits));
  f.addFnAttr("denormal-fp-math", "preserve-sign,preserve-sign");
  f.addFnAttr("no-builtins");
}

}  // namespace pock
