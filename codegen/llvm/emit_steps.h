// The entry points of a program: functions that call the kernels of a step in order.
#pragma once

#include <vector>

#include "llvm/emit_kernel.h"
#include "pock/codegen/compile.h"

namespace pock {

struct EntryPoints {
  llvm::Function *scalars, *forward, *update, *infer;
};

EntryPoints emit_entry_points(llvm::Module&, const Program&, const std::vector<std::vector<Phase>>& phases);

}  // namespace pock
