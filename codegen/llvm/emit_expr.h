// Arithmetic of the loop IR as LLVM instructions, on scalars and vectors alike.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "pock/codegen/target.h"
#include "pock/loop/loop.h"

namespace pock {

// mask is i1.
llvm::Type* element_type(llvm::LLVMContext&, DType);
// The same value in every lane; a vector stays as it is. `lanes` 0: scalar code.
llvm::Value* spread(llvm::IRBuilderBase&, llvm::Value*, unsigned lanes);
unsigned lanes_of(const llvm::Value*);  // 0 for a scalar
// A constant of the expression's type.
llvm::Value* emit_constant(llvm::IRBuilderBase&, const loop::ExprNode&);
// Any operation but constants, variables and loads. Operands are scalars or vectors of one width; scalars are
// spread where another operand is a vector. exp, log, tanh, erf, sin, cos and pow must have been expanded.
llvm::Value* emit_operation(llvm::IRBuilderBase&, const Target&, const loop::ExprNode&,
                            std::vector<llvm::Value*> operands);
// Adds to each of 4, 8 or 16 words the four products of its bytes in two vectors, where the target has byte_dots.
llvm::Value* emit_byte_dot(llvm::IRBuilderBase&, llvm::Value* sum, llvm::Value* unsigned_bytes,
                           llvm::Value* signed_bytes);

}  // namespace pock
