// Random numbers from a counter and a key: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011) as arithmetic of the
// loop IR. The same counter and key give the same words on every target, in any order, as often as one asks.
#pragma once

#include <array>

#include "pock/loop/build.h"

namespace pock {

// Words are i64 from 0 to 2^32 - 1.
using Words = std::array<loop::Expr, 4>;
Words philox(loop::KernelBuilder& k, Words counter, std::array<loop::Expr, 2> key);

// The low and the high half of an i64 as a word.
loop::Expr low_word(const loop::Expr&);
loop::Expr high_word(const loop::Expr&);

}  // namespace pock
