// Programs that run each kernel of a model once, on made-up numbers, so that an emulator can count what it takes and its
// results can be compared with the interpreter's. pockc makes the same numbers (codegen/count.cpp).
#ifndef POCK_KERNELS_H
#define POCK_KERNELS_H

#include "pock.h"

// What an argument holds before its kernel runs.
enum pock_fill {
  POCK_FILL_UNSET = 0,     // bytes that are no number
  POCK_FILL_ZEROS = 1,     // rows of tables, and class ids that say where to look
  POCK_FILL_SIGNED = 2,    // floats in [-1, 1)
  POCK_FILL_POSITIVE = 3,  // floats in (0, 1)
  POCK_FILL_BITS = 4,
  POCK_FILL_SMALL_32 = 5,  // whole numbers in [0, 4), of that many bits
  POCK_FILL_SMALL_64 = 6
};
// What is compared of it afterwards.
enum pock_result { POCK_RESULT_NONE = 0, POCK_RESULT_BITS = 1, POCK_RESULT_FLOATS = 2 };

struct pock_kernel_argument {
  uint64_t bytes;  // a multiple of POCK_KERNEL_ALIGNMENT
  uint32_t fill, result, seed;
};
enum { POCK_KERNEL_ALIGNMENT = 64 };

struct pock_kernel_phase {
  pock_kernel function;
  int64_t iterations;
};
struct pock_kernel_row {
  const struct pock_kernel_phase* phases;
  const struct pock_kernel_argument* arguments;
  uint32_t phase_count, argument_count;
};
struct pock_kernel_table {
  const struct pock_kernel_row* rows;
  uint64_t row_count, argument_count, bytes;  // the most that one of them takes
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct pock_kernel_table pock_kernel_table;
#ifdef __cplusplus
}
#endif

static inline void pock_fill_argument(char* at, const struct pock_kernel_argument* a) {
  uint32_t *words = (uint32_t*)at, seed = a->seed;
  for (uint64_t i = 0; i < a->bytes / 4; ++i) {
    seed = seed * 1664525u + 1013904223u;
    uint32_t word = 0;
    float number = 0;
    switch (a->fill) {
      case POCK_FILL_UNSET:
        word = ~0u;
        break;
      case POCK_FILL_SIGNED:
        number = (float)((int32_t)(seed & ~0xffu) / 256) * 0x1p-23f;
        break;
      case POCK_FILL_POSITIVE:
        number = (float)(seed >> 9) * 0x1p-23f + 0x1p-24f;
        break;
      case POCK_FILL_BITS:
        word = seed ^ (seed >> 16);
        break;
      case POCK_FILL_SMALL_32:
        word = seed >> 30;
        break;
      case POCK_FILL_SMALL_64:
        word = i % 2 ? 0 : seed >> 30;
        break;
      default:
        break;
    }
    if (a->fill == POCK_FILL_SIGNED || a->fill == POCK_FILL_POSITIVE)
      ((float*)at)[i] = number;
    else
      words[i] = word;
  }
}

// All NaN count as one.
static inline uint32_t pock_digest_argument(const char* at, const struct pock_kernel_argument* a,
                                            uint32_t digest) {
  const uint32_t* words = (const uint32_t*)at;
  for (uint64_t i = 0; i < a->bytes / 4; ++i) {
    uint32_t word = words[i];
    if (a->result == POCK_RESULT_FLOATS && (word & 0x7fffffffu) > 0x7f800000u) word = 0x7fc00000u;
    digest = (digest ^ word) * 16777619u;
    digest ^= digest >> 15;
  }
  return digest;
}

#endif
