#include "llvm/float_mode.h"

#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsARM.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include "pock/support/diag.h"

namespace pock {
namespace {

constexpr uint64_t kMxcsr = 0x9FC0;      // FTZ, DAZ, all exceptions masked
constexpr uint64_t kFlush = 1ull << 24;  // FZ, in FPCR and FPSCR alike

// A Cortex-M with vectors would leave out lanes if another number stood here (LTPSIZE); without them it means nothing.
constexpr uint64_t kAllLanes = 4 << 16;

// Arm reads and writes a register, x86 memory.
struct Intrinsics {
  llvm::Intrinsic::ID get, set;
  bool in_memory = false;
  uint64_t mode = kFlush;
};

Intrinsics intrinsics(llvm::IRBuilderBase& b) {
  const llvm::Triple triple(b.GetInsertBlock()->getModule()->getTargetTriple());
  if (triple.isX86())
    return {llvm::Intrinsic::x86_sse_stmxcsr, llvm::Intrinsic::x86_sse_ldmxcsr, true, kMxcsr};
  if (triple.isAArch64()) return {llvm::Intrinsic::aarch64_get_fpcr, llvm::Intrinsic::aarch64_set_fpcr};
  POCK_CHECK(triple.isARM() || triple.isThumb(), "float mode of {}", triple.str());
  return {llvm::Intrinsic::arm_get_fpscr, llvm::Intrinsic::arm_set_fpscr, false,
          triple.isThumb() ? kFlush | kAllLanes : kFlush};
}

}  // namespace

llvm::Value* set_float_mode(llvm::IRBuilderBase& b) {
  const Intrinsics mode = intrinsics(b);
  if (!mode.in_memory) {
    llvm::Value* before = b.CreateIntrinsic(mode.get, {}, {});
    b.CreateIntrinsic(mode.set, {}, {llvm::ConstantInt::get(before->getType(), mode.mode)});
    return before;
  }
  llvm::Value* before = b.CreateAlloca(b.getInt32Ty());
  llvm::Value* ours = b.CreateAlloca(b.getInt32Ty());
  b.CreateIntrinsic(mode.get, {}, {before});
  b.CreateStore(b.getInt32(mode.mode), ours);
  b.CreateIntrinsic(mode.set, {}, {ours});
  return before;
}

void restore_float_mode(llvm::IRBuilderBase& b, llvm::Value* before) {
  b.CreateIntrinsic(intrinsics(b).set, {}, {before});
}

}  // namespace pock
