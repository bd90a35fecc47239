// Kernels compiled into this process.
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Target/TargetMachine.h>

#include "llvm/emit_kernel.h"
#include "llvm/machine.h"
#include "llvm/must.h"
#include "llvm/object.h"
#include "pock.h"
#include "pock/codegen/compile.h"
#include "pock/loop/interpret.h"

namespace pock {
namespace {

struct HostPhase {
  pock_kernel function;
  int64_t iterations;
};
struct HostPhases : std::vector<HostPhase> {
  int64_t times = 1;
};

class Loaded : public HostKernels {
 public:
  Loaded(const std::vector<loop::Kernel>& kernels, const Target& target) {
    llvm::LLVMContext context;
    llvm::Module module("pock", context);
    std::unique_ptr<llvm::TargetMachine> machine = make_machine(target, module, Addresses::relative);
    std::vector<std::vector<std::pair<std::string, int64_t>>> names;
    for (size_t i = 0; i < kernels.size(); ++i) {
      names.emplace_back();
      const Phases phases = emit_kernel(module, target, kernels[i], fmt::format("kernel{}", i));
      kernels_.emplace_back().times = phases.times;
      for (const Phase& phase : phases) {
        phase.function->setLinkage(llvm::GlobalValue::ExternalLinkage);
        names.back().emplace_back(phase.function->getName().str(), phase.iterations);
      }
    }
    optimize(module, *machine);
    jit_ = must(llvm::orc::LLJITBuilder().create());
    llvm::Error problem =
        jit_->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(to_object(module, *machine), "kernels"));
    POCK_CHECK(!problem, "{}", llvm::toString(std::move(problem)));
    for (size_t i = 0; i < kernels.size(); ++i)
      for (const auto& [name, iterations] : names[i])
        kernels_[i].push_back({must(jit_->lookup(name)).toPtr<pock_kernel>(), iterations});
  }

  void run(int kernel, const std::vector<void*>& args, int pieces) const override {
    loop::FlushDenormals flush;
    std::vector<void*> with_time = args;
    with_time.push_back(nullptr);
    for (int64_t time = 0; time < kernels_[kernel].times; ++time) {
      with_time.back() = reinterpret_cast<void*>(time);  // as Phases has it
      for (const HostPhase& phase : kernels_[kernel])
        for (int64_t i = 0; i < pieces; ++i) {
          const int64_t begin = phase.iterations * i / pieces, end = phase.iterations * (i + 1) / pieces;
          if (begin < end) phase.function(with_time.data(), begin, end);
        }
    }
  }

 private:
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  std::vector<HostPhases> kernels_;
};

}  // namespace

std::string assembly(const loop::Kernel& kernel, const Target& target) {
  llvm::LLVMContext context;
  llvm::Module module("pock", context);
  std::unique_ptr<llvm::TargetMachine> machine = make_machine(target, module, Addresses::relative);
  for (const Phase& phase : emit_kernel(module, target, kernel, kernel.name))
    phase.function->setLinkage(llvm::GlobalValue::ExternalLinkage);
  optimize(module, *machine);
  return to_assembly(module, *machine);
}

std::unique_ptr<HostKernels> load_kernels(const std::vector<loop::Kernel>& kernels, const Target& target) {
  return std::make_unique<Loaded>(kernels, target);
}

}  // namespace pock
