#include "llvm/float_mode.h"

#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include "pock/support/diag.h"

namespace pock {
namespace {

constexpr uint32_t kMxcsr = 0x9FC0;     // FTZ, DAZ, all exceptions masked
constexpr uint64_t kFpcr = 1ull << 24;  // FZ
constexpr llvm::Intrinsic::ID kGetMxcsr = llvm::Intrinsic::x86_sse_stmxcsr,
                              kSetMxcsr = llvm::Intrinsic::x86_sse_ldmxcsr,
                              kGetFpcr = llvm::Intrinsic::aarch64_get_fpcr,
                              kSetFpcr = llvm::Intrinsic::aarch64_set_fpcr;

bool is_x86(llvm::IRBuilderBase& b) {
  const llvm::Triple triple(b.GetInsertBlock()->getModule()->getTargetTriple());
  POCK_CHECK(triple.isX86() || triple.isAArch64(), "float mode of {}", triple.str());
  return triple.isX86();
}

}  // namespace

llvm::Value* set_float_mode(llvm::IRBuilderBase& b) {
  if (!is_x86(b)) {
    llvm::Value* before = b.CreateIntrinsic(kGetFpcr, {}, {});
    b.CreateIntrinsic(kSetFpcr, {}, {b.getInt64(kFpcr)});
    return before;
  }
  llvm::Value* before = b.CreateAlloca(b.getInt32Ty());
  llvm::Value* ours = b.CreateAlloca(b.getInt32Ty());
  b.CreateIntrinsic(kGetMxcsr, {}, {before});
  b.CreateStore(b.getInt32(kMxcsr), ours);
  b.CreateIntrinsic(kSetMxcsr, {}, {ours});
  return before;
}

void restore_float_mode(llvm::IRBuilderBase& b, llvm::Value* before) {
  b.CreateIntrinsic(is_x86(b) ? kSetMxcsr : kSetFpcr, {}, {before});
}

}  // namespace pock
