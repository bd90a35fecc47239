// The C header of a library: runtime/library.h, filled in for one program.
#pragma once

#include "pock/codegen/compile.h"

namespace pock {

// Every block that the caller gives is aligned to this.
constexpr int64_t kBlockAlignment = 64;
// As the library asks for it: at least one aligned line, and in the arena also room to read a checkpoint.
int64_t library_arena_bytes(const Program&);

}  // namespace pock
