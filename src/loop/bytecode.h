// The interpreter's own form of a kernel: instructions over numbered slots.
#pragma once

#include <cstddef>
#include <vector>

#include "pock/loop/interpret.h"

namespace pock::loop {

// Slots hold integers and conditions sign-extended in `i`, f64 in `d`, and f32 in `f` or, interpreted in
// double, in `d`.
union Slot {
  int64_t i;
  double d;
  float f;
};

enum class Code : uint8_t {
  halt,
  move,
  // Integers: dst = a op b; `scale_add` is a + b * imm; floordiv and mod divide by imm; wrap_* bring a into a
  // width.
  add_i,
  sub_i,
  mul_i,
  scale_add,
  neg_i,
  abs_i,
  min_i,
  max_i,
  floordiv,
  mod,
  lt_i,
  le_i,
  eq_i,
  ne_i,
  bit_and,
  bit_or,
  bit_xor,
  logical_not,
  shl,
  shr,
  wrap_i8,
  wrap_u8,
  wrap_i32,
  // Floats of type f32 (`_r`), in the order of ScalarOp.
  add_r,
  sub_r,
  mul_r,
  div_r,
  neg_r,
  abs_r,
  min_r,
  max_r,
  fma_r,
  sqrt_r,
  round_r,
  exp_r,
  log_r,
  tanh_r,
  erf_r,
  sin_r,
  cos_r,
  pow_r,
  lt_r,
  le_r,
  eq_r,
  ne_r,
  // The same of type f64.
  add_d,
  sub_d,
  mul_d,
  div_d,
  neg_d,
  abs_d,
  min_d,
  max_d,
  fma_d,
  sqrt_d,
  round_d,
  exp_d,
  log_d,
  tanh_d,
  erf_d,
  sin_d,
  cos_d,
  pow_d,
  lt_d,
  le_d,
  eq_d,
  ne_d,
  select,  // dst = a ? b : c
  i_to_r,
  i_to_d,
  r_to_d,
  d_to_r,
  r_to_i,
  d_to_i,  // to integers: saturate between imm (lowest) and c's slot (highest)
  bits_to_r,
  r_to_bits,
  // Element a + b * imm of buffer c; mask: bit b of the row a. Stores take the value from slot dst.
  load_r,
  load_f64,
  load_i8,
  load_u8,
  load_i32,
  load_i64,
  load_mask,
  store_r,
  store_f64,
  store_i8,
  store_u8,
  store_i32,
  store_i64,
  store_mask,
  // Loops jump by imm; dst is the variable, a and b the bounds, c the step.
  loop_begin,
  loop_end,
  loop_begin_reverse,
  loop_end_reverse,
  skip_unless,          // jumps by imm where slot a is 0
  multiply_accumulate,  // a whole loop over dst = fma(x, y, dst); see compile
  // Every thread of blocks[a] runs what follows up to halt, by turns that end at a barrier; it goes on imm further.
  threads,
  barrier
};

struct Instruction {
  Code code;
  uint32_t dst = 0, a = 0, b = 0, c = 0;
  int64_t imm = 0;
};

struct Program {
  std::vector<Instruction> code;
  std::vector<Slot> slots;  // initial: constants are set
  struct Memory {
    int argument = -1;     // index of the kernel's argument, or
    size_t bytes = 0;      // size of a local buffer
    int64_t elements = 0;  // mask: rows * bytes of a row
    int64_t last = 0;      // mask: length of a row
  };
  std::vector<Memory> buffers;
  struct Block {
    std::vector<std::pair<uint32_t, int64_t>> axes;  // variable's slot and extent, outermost first
    size_t first = 0, last = 0;                      // the buffers that each thread has for itself
  };
  std::vector<Block> blocks;
};

Program compile(const Kernel&, Precision, bool reverse);

}  // namespace pock::loop
