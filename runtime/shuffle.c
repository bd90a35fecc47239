// The order of the samples: a keyed permutation that needs no memory and is the same on every target.
//
// A Feistel network permutes [0, 4^h), the smallest such range that holds all samples. An index that lands
// outside is sent through again until it lands inside ("cycle walking"), which keeps it a permutation.
#include "runtime.h"

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

struct pock_shuffle pock_shuffle_for(uint64_t count, uint64_t seed, uint64_t epoch) {
  struct pock_shuffle s = {.count = count, .half_bits = 1};
  while (s.half_bits < 32 && count > (uint64_t)1 << 2 * s.half_bits) ++s.half_bits;
  uint64_t key = mix(mix(seed) + epoch);
  for (int round = 0; round < 8; ++round)
    s.keys[round] = (uint32_t)(mix(key + 0x9E3779B97F4A7C15u * (uint64_t)(round + 1)) >> 32);
  return s;
}

uint64_t pock_shuffled(const struct pock_shuffle* s, uint64_t index) {
  uint32_t mask = (uint32_t)(((uint64_t)1 << s->half_bits) - 1);
  do {
    uint32_t left = (uint32_t)(index >> s->half_bits) & mask, right = (uint32_t)index & mask;
    for (int round = 0; round < 8; ++round) {
      uint32_t next = left ^ ((uint32_t)(mix((uint64_t)s->keys[round] << 32 | right) >> 32) & mask);
      left = right;
      right = next;
    }
    index = (uint64_t)left << s->half_bits | right;
  } while (index >= s->count);
  return index;
}
