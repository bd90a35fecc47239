// The entry points of a program: functions that call the kernels of a step in order.
#pragma once

#include <llvm/IR/Constant.h>

#include <vector>

#include "llvm/emit_kernel.h"
#include "pock/codegen/compile.h"

namespace pock {

struct EntryPoints {
  llvm::Constant *scalars, *forward, *backward, *norm, *update, *infer;  // null where there is no such part
};

EntryPoints emit_entry_points(llvm::Module&, const Program&, const std::vector<Phases>& phases);

}  // namespace pock
