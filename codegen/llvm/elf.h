// A relocatable ELF file around raw bytes: weights become one without passing through LLVM.
#pragma once

#include <cstdint>
#include <string>

namespace pock {

// `symbol` names the first byte of a read-only, page-aligned section that holds `bytes`; `machine` is ELF's number.
std::string data_object(const std::string& bytes, const std::string& symbol, uint16_t machine);

}  // namespace pock
