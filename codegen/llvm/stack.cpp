#include "llvm/stack.h"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Module.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/DataExtractor.h>

#include <algorithm>
#include <map>
#include <set>

#include "llvm/must.h"
#include "pock/support/diag.h"

namespace pock {
namespace {

using Object = llvm::object::ELFObjectFile<llvm::object::ELF32LE>;

// A function, which is a section of its own.
struct Function {
  std::string name;
  int64_t frame = -1;        // -1: not said, as of data
  std::set<uint64_t> calls;  // sections
  std::set<uint64_t> jumps;  // at its end, its frame given back
  int64_t depth = -1;        // with all that it calls; -1: not known yet
  bool open = false;         // being asked
};

class Stack {
 public:
  Stack(const llvm::Module& module, const std::string& bytes)
      : file_(must(Object::create(llvm::MemoryBufferRef(bytes, "program")))) {
    for (const llvm::object::ELFSymbolRef s : file_.symbols())
      if (s.getELFType() == llvm::ELF::STT_FUNC) {
        const uint64_t section = section_of(s);
        functions_[section].name = must(s.getName()).str();
        sections_[functions_[section].name] = section;
      }
    for (const llvm::object::SectionRef& s : file_.sections()) read_relocations(s);
    for (const llvm::Function& f : module) read_calls(f);
  }

  int64_t depth(const std::string& name) {
    POCK_CHECK(sections_.count(name), "no function {}", name);
    return depth(sections_.at(name));
  }

 private:
  uint64_t section_of(const llvm::object::SymbolRef& s) {
    auto section = must(s.getSection());
    return section == file_.section_end() ? 0 : section->getIndex();
  }

  // Calls and jumps of code; frames of the sections that hold them.
  void read_relocations(const llvm::object::SectionRef& relocations) {
    auto of = must(relocations.getRelocatedSection());
    if (of == file_.section_end()) return;
    const bool sizes = must(of->getName()) == ".stack_sizes";
    const llvm::StringRef bytes = must(of->getContents());
    for (const llvm::object::RelocationRef& r : relocations.relocations()) {
      if (r.getSymbol() == file_.symbol_end()) continue;
      const uint64_t to = section_of(*r.getSymbol());
      if (sizes) {
        uint64_t at = r.getOffset() + 4;  // behind the address
        const llvm::DataExtractor data(bytes, true, 4);
        functions_[to].frame = static_cast<int64_t>(data.getULEB128(&at));
      } else if (of->isText()) {
        Function& from = functions_[of->getIndex()];
        if (r.getType() == llvm::ELF::R_ARM_THM_CALL) from.calls.insert(to);
        if (r.getType() == llvm::ELF::R_ARM_THM_JUMP24) from.jumps.insert(to);
      }
    }
  }

  // Calls through pointers, and those of functions whose address is in a register: that is shorter where there are many.
  void read_calls(const llvm::Function& f) {
    if (f.isDeclaration() || !sections_.count(f.getName().str())) return;
    Function& from = functions_[sections_.at(f.getName().str())];
    for (const llvm::Instruction& i : llvm::instructions(f)) {
      const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
      if (!call || call->isInlineAsm()) continue;
      if (const llvm::Function* to = call->getCalledFunction()) {
        auto section = sections_.find(to->getName().str());
        if (section != sections_.end() && !from.jumps.count(section->second))
          from.calls.insert(section->second);
        continue;
      }
      for (const llvm::Function& to : *f.getParent())
        if (&to != &f /* no function is handed to itself */ && to.hasAddressTaken() &&
            to.getFunctionType() == call->getFunctionType() && sections_.count(to.getName().str()))
          from.calls.insert(sections_.at(to.getName().str()));
    }
  }

  int64_t depth(uint64_t section) {
    Function& f = functions_[section];
    if (f.depth >= 0) return f.depth;
    POCK_CHECK(f.frame >= 0, "the frame of {} is not known", f.name);
    POCK_CHECK(!f.open, "{} may call itself", f.name);
    f.open = true;
    int64_t calls = 0, jumps = 0;
    for (uint64_t to : f.calls) calls = std::max(calls, depth(to));
    for (uint64_t to : f.jumps) jumps = std::max(jumps, depth(to));
    f.open = false;
    return f.depth = std::max(f.frame + calls, jumps);
  }

  Object file_;
  std::map<uint64_t, Function> functions_;
  std::map<std::string, uint64_t> sections_;
};

}  // namespace

int64_t stack_bound(const llvm::Module& module, const std::string& object,
                    const std::vector<std::string>& roots) {
  Stack stack(module, object);
  int64_t bound = 0;
  for (const std::string& root : roots) bound = std::max(bound, stack.depth(root));
  return (bound + 7) / 8 * 8;
}

}  // namespace pock
