// The runtimes that are linked into training programs and libraries, as LLVM bitcode inside pockc.
//
//   auto bitcode = pock::runtime_bitcode("x86_64-linux");   // empty when there is none of that name
//   auto module = llvm::parseBitcodeFile({bitcode, "runtime"}, context);
//
// A program's runtime defines _start, a library's the functions pock_lib_NAME of runtime/library.h; both expect
// `pock_program` (runtime/pock.h). The memory functions a compiler may call on its own (memcpy and friends) are
// among them, so nothing else has to be linked.
#pragma once

#include <string_view>

namespace pock {

std::string_view runtime_bitcode(std::string_view runtime_name);
// The text of runtime/library.h, a library's header but for its name and what differs between models.
std::string_view library_template();

}  // namespace pock
