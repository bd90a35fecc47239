// Compiled kernels beside interpreted ones, bit for bit.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include "pock/codegen/compile.h"
#include "pock/loop/interpret.h"

namespace pock {

// Elements of a kernel's argument between two guards that no kernel may touch.
struct Guarded {
  explicit Guarded(const loop::Buffer&);
  void* data() { return bytes.data() + kGuard; }
  bool guards_intact() const;
  static constexpr size_t kGuard = 256;
  std::vector<std::byte> bytes;
  loop::Buffer buffer;
};

enum class Fill { ordinary, special };  // special: zeros, infinities, NaN, huge and tiny numbers among them

// Outputs and workspace hold NaN bytes, integers are 0 ... `integers` - 1.
std::vector<Guarded> make_arguments(const loop::Kernel&, std::mt19937&, Fill = Fill::ordinary,
                                    int integers = 4);
std::vector<void*> pointers(std::vector<Guarded>&);

// Where two results differ, for a failure message; empty if they agree. NaN equals NaN.
std::string difference(Guarded& expected, Guarded& got);

// Interprets `plain` and runs `scheduled` compiled, in 1, 2 and 3 pieces. Every argument but workspace must end the same.
void expect_same(const loop::Kernel& plain, const loop::Kernel& scheduled, const Target&,
                 Fill = Fill::ordinary, int integers = 4);
inline void expect_same(const loop::Kernel& plain, const Target& t, Fill fill = Fill::ordinary,
                        int integers = 4) {
  expect_same(plain, plain, t, fill, integers);
}

// This machine's target, and where that has wider vectors the portable one too.
const std::vector<Target>& test_targets();

}  // namespace pock
