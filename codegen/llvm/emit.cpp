// A lowered program to the bytes of a file.
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Target/TargetMachine.h>

#include <set>
#include <unordered_map>

#include "cortexm/image.h"
#include "llvm/elf.h"
#include "llvm/emit_kernel.h"
#include "llvm/emit_program.h"
#include "llvm/link.h"
#include "llvm/machine.h"
#include "llvm/must.h"
#include "llvm/object.h"
#include "llvm/runtime.h"
#include "llvm/stack.h"
#include "place.h"
#include "pock/codegen/compile.h"

namespace pock {
namespace {

// Gives the runtime's functions pock_lib_NAME the library's own names, which are all that is seen of it. Those names.
std::vector<std::string> name_library(llvm::Module& module, const std::string& library) {
  constexpr std::string_view kPrefix = "pock_lib_";
  std::vector<llvm::Function*> functions;
  for (llvm::Function& f : module)
    if (!f.isDeclaration() && f.getName().starts_with(kPrefix)) functions.push_back(&f);
  std::set<std::string> names;
  for (llvm::Function* f : functions) {
    const std::string name = library + "_" + f->getName().substr(kPrefix.size()).str();
    llvm::GlobalValue* other = module.getNamedValue(name);
    if (other && other != f) other->setName(name + ".private");
    f->setName(name);
    names.insert(name);
  }
  keep_only(module, names);
  return {names.begin(), names.end()};
}

void check_needs_nothing(const std::string& object) {
  auto file = must(llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "library")));
  for (const llvm::object::SymbolRef& s : file->symbols()) {
    const bool missing = must(s.getFlags()) & llvm::object::SymbolRef::SF_Undefined;
    POCK_CHECK(!missing || must(s.getName()).empty(), "the library needs {}", must(s.getName()).str());
  }
}

// Code reaches the section by 32-bit offsets.
void check_reach(const Program& program) {
  constexpr int64_t kLimit = int64_t{3} << 29;
  if (program.weights.bytes > kLimit)
    throw error("the weights take {} bytes; a library or an object file can hold at most {}",
                program.weights.bytes, kLimit);
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
  const bool in_file = !program.weights_file.name.empty();
  const bool is_image = target.bare() && what == Emit::exe;
  if (is_image) check_plan_fits(program);
  if (what == Emit::exe || what == Emit::lib || what == Emit::obj) {
    POCK_CHECK(!in_file || what == Emit::exe, "only a program finds its weights in a file");
    if (!in_file) check_reach(program);
  }
  llvm::LLVMContext context;
  llvm::Module module("pock", context);
  std::unique_ptr<llvm::TargetMachine> machine = make_machine(
      target, module, what == Emit::exe || target.bare() ? Addresses::fixed : Addresses::relative);

  std::vector<Phases> phases;
  std::vector<std::vector<std::string>> names;
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    const loop::Kernel& kernel = program.kernels[i].scheduled;
    phases.push_back(emit_kernel(module, target, kernel, fmt::format("k{}_{}", i, kernel.name)));
    names.emplace_back();
    for (const Phase& phase : phases.back()) names.back().push_back(phase.function->getName().str());
  }
  emit_program(module, program, phases, is_image);

  std::vector<std::string> entries = {first_function(target)};
  if (what == Emit::exe) {
    link_runtime(module, target, target.runtime);
    keep_only(module, {entries[0]});
  }
  if (what == Emit::lib) {
    link_runtime(module, target, target.library_runtime);
    entries = name_library(module, program.options.library);
  }
  optimize(module, *machine);
  if (what == Emit::llvm_ir) return to_text(module);
  if (what == Emit::assembly) return to_assembly(module, *machine);
  const std::string object = to_object(module, *machine);
  measure(program, names, object);
  if (in_file) return link_program(target.emulation, {object});
  const std::string weights = data_object(weights_section(program), weights_symbol(program), target);
  if (target.bare() && what != Emit::obj) program.image.stack = stack_bound(module, object, entries);
  if (is_image) {
    std::string image =
        link_image(target.emulation, linker_script(target.board, program.image.stack), {weights, object});
    measure_image(image, target.board, &program.image);
    check_image_fits(program);
    return image;
  }
  // The weights first: they begin a page, and nothing else does.
  if (what == Emit::exe) return link_program(target.emulation, {weights, object});
  const std::string whole = link_objects(target.emulation, {object, weights});
  if (what == Emit::obj) return whole;
  check_needs_nothing(whole);
  return archive(whole, program.options.library + ".o");
}

}  // namespace pock
