// LLVM's way of failing as ours.
#pragma once

#include <llvm/Support/Error.h>

#include "pock/support/diag.h"

namespace pock {

// The value, where nothing but a bug of ours can have kept LLVM from giving it.
template <class T>
T must(llvm::Expected<T> value) {
  if (value) return std::move(*value);
  POCK_CHECK(false, "{}", llvm::toString(value.takeError()));
}

}  // namespace pock
