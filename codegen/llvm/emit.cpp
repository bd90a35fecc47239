// A lowered program to the bytes of a file.
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/IPO/Internalize.h>

#include <unordered_map>

#include "llvm/elf.h"
#include "llvm/emit_kernel.h"
#include "llvm/emit_program.h"
#include "llvm/link.h"
#include "llvm/machine.h"
#include "llvm/must.h"
#include "llvm/object.h"
#include "place.h"
#include "pock/codegen/compile.h"
#include "pock/codegen/runtime_bitcode.h"

namespace pock {
namespace {

void link_runtime(llvm::Module& module, const Target& target) {
  for (const std::string& name : target.runtime) {
    const std::string_view bitcode = runtime_bitcode(name);
    POCK_CHECK(!bitcode.empty(), "no runtime named {}", name);
    auto runtime = must(llvm::parseBitcodeFile({llvm::StringRef(bitcode), name}, module.getContext()));
    runtime->setTargetTriple(module.getTargetTriple());
    const bool failed = llvm::Linker::linkModules(module, std::move(runtime));
    POCK_CHECK(!failed, "runtime {} does not fit the program", name);
  }
  // What only assembly refers to, or code generation may call, is marked as used by the runtime.
  llvm::internalizeModule(module, [](const llvm::GlobalValue& v) { return v.getName() == "_start"; });
}

void measure(Program& program, const std::vector<std::vector<std::string>>& names,
             const std::string& object) {
  auto file = must(llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "program")));
  std::unordered_map<std::string, int64_t> bytes;
  for (const llvm::object::ELFSymbolRef s : llvm::cast<llvm::object::ELFObjectFileBase>(*file).symbols())
    bytes[must(s.getName()).str()] = static_cast<int64_t>(s.getSize());
  for (size_t i = 0; i < names.size(); ++i) {
    program.kernels[i].code_bytes = 0;
    for (const std::string& name : names[i]) program.kernels[i].code_bytes += bytes[name];
  }
}

}  // namespace

std::string emit(Program& program, Emit what) {
  const Target& target = program.options.target;
  llvm::LLVMContext context;
  llvm::Module module("pock", context);
  std::unique_ptr<llvm::TargetMachine> machine = make_machine(target, module);

  std::vector<std::vector<Phase>> phases;
  std::vector<std::vector<std::string>> names;
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    const loop::Kernel& kernel = program.kernels[i].scheduled;
    phases.push_back(emit_kernel(module, target, kernel, fmt::format("k{}_{}", i, kernel.name)));
    names.emplace_back();
    for (const Phase& phase : phases.back()) names.back().push_back(phase.function->getName().str());
  }
  emit_program(module, program, phases);

  if (what == Emit::exe) link_runtime(module, target);
  optimize(module, *machine);
  if (what == Emit::llvm_ir) return to_text(module);
  if (what == Emit::assembly) return to_assembly(module, *machine);
  const std::string object = to_object(module, *machine);
  measure(program, names, object);
  const std::string weights = data_object(weights_section(program), kWeightsSymbol, kElfX86_64);
  return what == Emit::exe ? link_program({object, weights}) : link_objects({object, weights});
}

}  // namespace pock
