// A relocatable ELF file around raw bytes: weights become one without passing through LLVM.
#pragma once

#include <string>

#include "pock/codegen/target.h"

namespace pock {

// `symbol` names the first byte of a read-only section that holds `bytes`, and begins a page where there are pages.
std::string data_object(const std::string& bytes, const std::string& symbol, const Target&);

}  // namespace pock
