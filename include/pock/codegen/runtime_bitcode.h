// The runtime that is linked into every training program, as LLVM bitcode inside pockc.
//
//   auto bitcode = pock::runtime_bitcode("x86_64-linux");   // empty when there is none of that name
//   auto module = llvm::parseBitcodeFile({bitcode, "runtime"}, context);
//
// It defines _start and expects `pock_program` (runtime/pock.h). The memory functions a compiler may call on
// its own (memcpy and friends) are among it, so nothing else has to be linked.
#pragma once

#include <string_view>

namespace pock {

std::string_view runtime_bitcode(std::string_view runtime_name);

}  // namespace pock
