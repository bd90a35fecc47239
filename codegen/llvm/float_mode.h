// The processor's float mode that kernels need: denormal operands and results are zero, every exception is masked,
// results are rounded to nearest.
#pragma once

#include <llvm/IR/IRBuilder.h>

namespace pock {

// Emits code that sets it; what there was before, for restore_float_mode. At the start of a function.
llvm::Value* set_float_mode(llvm::IRBuilderBase&);
void restore_float_mode(llvm::IRBuilderBase&, llvm::Value* before);

}  // namespace pock
