#include "llvm/object.h"

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include "pock/support/diag.h"

namespace pock {

void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  std::string problems;
  llvm::raw_string_ostream report(problems);
  POCK_CHECK(!llvm::verifyModule(module, &report), "{}", problems);

  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;  // kernels are vectors already
  tuning.SLPVectorization = false;
  tuning.LoopUnrolling = false;
  tuning.LoopInterleaving = false;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::TargetLibraryInfoImpl library{llvm::Triple(module.getTargetTriple())};
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

static std::string emit_file(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  const bool unable = machine.addPassesToEmitFile(passes, out, nullptr, type);
  POCK_CHECK(!unable, "no code emission for {}", module.getTargetTriple());
  passes.run(module);
  return {bytes.begin(), bytes.end()};
}

std::string to_object(llvm::Module& module, llvm::TargetMachine& machine) {
  return emit_file(module, machine, llvm::CodeGenFileType::ObjectFile);
}

std::string to_assembly(llvm::Module& module, llvm::TargetMachine& machine) {
  return emit_file(module, machine, llvm::CodeGenFileType::AssemblyFile);
}

std::string to_text(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  module.print(out, nullptr);
  return text;
}

}  // namespace pock
