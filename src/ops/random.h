// Philox (pock/support/philox.h) as arithmetic of the loop IR: the same words on every target.
#pragma once

#include <array>

#include "pock/loop/build.h"

namespace pock {

// Words are i64 from 0 to 2^32 - 1.
using Words = std::array<loop::Expr, 4>;
Words philox(loop::KernelBuilder& k, const Words& counter, const std::array<loop::Expr, 2>& key);

// The low and the high half of an i64 as a word.
loop::Expr low_word(const loop::Expr&);
loop::Expr high_word(const loop::Expr&);

}  // namespace pock
