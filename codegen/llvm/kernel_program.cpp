#include "llvm/kernel_program.h"

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/CodeGen/MachineOptimizationRemarkEmitter.h>
#include <llvm/IR/DiagnosticHandler.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/DataExtractor.h>
#include <llvm/Target/TargetMachine.h>

#include <map>
#include <numeric>

#include "cortexm/image.h"
#include "llvm/emit_kernel.h"
#include "llvm/link.h"
#include "llvm/machine.h"
#include "llvm/must.h"
#include "llvm/object.h"
#include "llvm/runtime.h"
#include "llvm/stack.h"
#include "pock/codegen/runtime_bitcode.h"

namespace pock {
namespace {

using llvm::Constant;

// Reads what the register allocator says of each function.
class Spills : public llvm::DiagnosticHandler {
 public:
  explicit Spills(std::map<std::string, int64_t>* of) : of_(of) {}
  bool isMissedOptRemarkEnabled(llvm::StringRef pass) const override { return pass == "regalloc"; }
  bool isAnyRemarkEnabled() const override { return true; }
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    const auto* remark = llvm::dyn_cast<llvm::MachineOptimizationRemarkMissed>(&info);
    if (!remark || remark->getRemarkName() != "SpillReloadCopies") return remark != nullptr;
    for (const auto& a : remark->getArgs())
      if (a.Key == "NumSpills" || a.Key == "NumFoldedSpills")
        (*of_)[remark->getFunction().getName().str()] += std::stoll(a.Val);
    return true;
  }

 private:
  std::map<std::string, int64_t>* of_;
};

// The table that runtime/main_kernels.c goes through.
class Table {
 public:
  explicit Table(llvm::Module& module) : module_(module), b_(module.getContext()) {}

  Constant* row(const std::vector<Phase>& phases, const std::vector<pock_kernel_argument>& arguments) {
    std::vector<Constant*> functions, args;
    for (const Phase& p : phases) functions.push_back(record({p.function, b_.getInt64(p.iterations)}));
    for (const pock_kernel_argument& a : arguments)
      args.push_back(
          record({b_.getInt64(a.bytes), b_.getInt32(a.fill), b_.getInt32(a.result), b_.getInt32(a.seed)}));
    return record({list(functions), list(args), b_.getInt32(functions.size()), b_.getInt32(args.size())});
  }
  void finish(const std::vector<Constant*>& rows, size_t arguments, uint64_t bytes) {
    Constant* whole =
        record({list(rows), b_.getInt64(rows.size()), b_.getInt64(arguments), b_.getInt64(bytes)});
    new llvm::GlobalVariable(module_, whole->getType(), true, llvm::GlobalValue::ExternalLinkage, whole,
                             "pock_kernel_table");
  }

 private:
  Constant* record(const std::vector<Constant*>& fields) {
    return llvm::ConstantStruct::getAnon(module_.getContext(), fields);
  }
  Constant* list(const std::vector<Constant*>& rows) {
    if (rows.empty()) return llvm::ConstantPointerNull::get(b_.getPtrTy());
    Constant* value = llvm::ConstantArray::get(llvm::ArrayType::get(rows[0]->getType(), rows.size()), rows);
    return new llvm::GlobalVariable(module_, value->getType(), true, llvm::GlobalValue::PrivateLinkage,
                                    value);
  }
  llvm::Module& module_;
  llvm::IRBuilder<> b_;
};

uint64_t bytes_of(const std::vector<pock_kernel_argument>& arguments) {
  return std::accumulate(arguments.begin(), arguments.end(), uint64_t{0},
                         [](uint64_t n, const pock_kernel_argument& a) { return n + a.bytes; });
}

// Kernels stay functions that are called by address, as in a trainer, whoever else calls them here.
void keep_apart(const std::vector<Phase>& phases) {
  for (const Phase& phase : phases) {
    phase.function->setLinkage(llvm::GlobalValue::ExternalLinkage);
    phase.function->addFnAttr(llvm::Attribute::NoInline);
  }
}

using Ranges = std::map<std::string, std::pair<uint64_t, uint64_t>>;

// 32-bit Arm marks with the last bit that an address is one of Thumb code.
uint64_t plain_address(const Target& target, uint64_t address) {
  return target.elf_machine == llvm::ELF::EM_ARM ? address & ~uint64_t{1} : address;
}

Ranges functions_of(const llvm::object::ELFObjectFileBase& file, const Target& target) {
  Ranges ranges;
  for (const llvm::object::ELFSymbolRef s : file.symbols()) {
    if (must(s.getType()) != llvm::object::SymbolRef::ST_Function) continue;
    const uint64_t first = plain_address(target, must(s.getValue()));
    ranges[must(s.getName()).str()] = {first, first + s.getSize()};
  }
  return ranges;
}

// LLVM's section of them in an object file: an address, of a function in a section of its own, and a number for each.
std::map<std::string, int64_t> stacks_of(const std::string& object, const Target& target) {
  auto file = must(llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "kernels")));
  const auto section_of = [&](const llvm::object::SymbolRef& s) {
    const auto section = must(s.getSection());
    return section == file->section_end() ? 0 : section->getIndex();
  };
  std::map<uint64_t, std::string> functions;
  for (const llvm::object::SymbolRef& s : file->symbols())
    if (must(s.getType()) == llvm::object::SymbolRef::ST_Function)
      functions[section_of(s)] = must(s.getName()).str();
  std::map<std::string, int64_t> bytes;
  for (const llvm::object::SectionRef& relocations : file->sections()) {
    const auto of = must(relocations.getRelocatedSection());
    if (of == file->section_end() || must(of->getName()) != ".stack_sizes") continue;
    const llvm::DataExtractor data(must(of->getContents()), true, target.pointer_bytes);
    for (const llvm::object::RelocationRef& r : relocations.relocations()) {
      uint64_t at = r.getOffset() + target.pointer_bytes;
      bytes[functions[section_of(*r.getSymbol())]] = static_cast<int64_t>(data.getULEB128(&at));
    }
  }
  return bytes;
}

}  // namespace

int64_t KernelCode::bytes() const {
  return std::accumulate(ranges.begin(), ranges.end(), int64_t{0}, [](int64_t n, const auto& r) {
    return n + static_cast<int64_t>(r.second - r.first);
  });
}

KernelProgram kernel_program(const Program& program,
                             const std::vector<std::vector<pock_kernel_argument>>& arguments) {
  const Target& target = program.options.target;
  std::map<std::string, int64_t> spills;
  llvm::LLVMContext context;
  context.setDiagnosticHandler(std::make_unique<Spills>(&spills));
  llvm::Module module("pock", context);
  std::unique_ptr<llvm::TargetMachine> machine = make_machine(target, module, Addresses::fixed);
  machine->Options.EmitStackSizeSection = true;

  Table table(module);
  std::vector<Constant*> rows;
  std::vector<std::vector<std::string>> names;
  std::set<std::string> kept = {first_function(target)};
  size_t most_arguments = 0;
  uint64_t most_bytes = 0;
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    const loop::Kernel& kernel = program.kernels[i].scheduled;
    const std::vector<Phase> phases =
        emit_kernel(module, target, kernel, fmt::format("k{}_{}", i, kernel.name));
    keep_apart(phases);
    names.emplace_back();
    for (const Phase& p : phases) names.back().push_back(p.function->getName().str());
    kept.insert(names.back().begin(), names.back().end());
    rows.push_back(table.row(phases, arguments[i]));
    most_arguments = std::max(most_arguments, arguments[i].size());
    most_bytes = std::max(most_bytes, bytes_of(arguments[i]));
  }
  table.finish(rows, most_arguments, most_bytes);
  link_runtime(module, target, {target.kernels_runtime});
  keep_only(module, kept);
  optimize(module, *machine);
  const std::string object = to_object(module, *machine);

  KernelProgram result;
  if (target.bare()) {
    result.stack_bytes = stack_bound(module, object, {first_function(target)});
    result.file = link_image(target.emulation, linker_script(target.board, result.stack_bytes), {object});
  } else {
    result.file = link_program(target.emulation, {object}, Names::kept);
  }
  auto file =
      must(llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(result.file, "kernels")));
  const auto& elf = llvm::cast<llvm::object::ELFObjectFileBase>(*file);
  const Ranges functions = functions_of(elf, target);
  const std::map<std::string, int64_t> stacks = stacks_of(object, target);
  for (const std::vector<std::string>& of : names) {
    KernelCode& code = result.kernels.emplace_back();
    for (const std::string& name : of) {
      const auto range = functions.find(name);
      POCK_CHECK(range != functions.end(), "the program has no function {}", name);
      code.ranges.push_back(range->second);
      const auto stack = stacks.find(name);
      POCK_CHECK(stack != stacks.end(), "the stack of {} is not known", name);
      code.stack_bytes = std::max(code.stack_bytes, stack->second);
      code.spills += spills[name];
    }
  }
  return result;
}

std::string counting_plugin() {
  const std::string_view bitcode = runtime_bitcode("count-plugin");
  llvm::LLVMContext context;
  auto module = must(llvm::parseBitcodeFile({llvm::StringRef(bitcode), "count-plugin"}, context));
  Target here = find_target("x86-64");
  std::unique_ptr<llvm::TargetMachine> machine = make_machine(here, *module, Addresses::relative);
  return link_plugin(to_object(*module, *machine));
}

}  // namespace pock
