// Random numbers from a counter and a key: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011). The same counter and key
// give the same words everywhere, in any order, as often as one asks.
//
//   std::array<uint64_t, 4> words = philox({0, id, block, 0}, {seed_low, seed_high});
#pragma once

#include <array>
#include <cstdint>

namespace pock {

// Over whatever holds words, each from 0 to 2^32 - 1 in 64 bits: `m` has low(product), high(product), different(a, b)
// and keep(i, word), through which every word of a round goes.
template <class Word, class Machine>
std::array<Word, 4> philox(Machine& m, std::array<Word, 4> counter, const std::array<Word, 2>& key) {
  constexpr int64_t kMultiplier[] = {0xd2511f53, 0xcd9e8d57}, kStep[] = {0x9e3779b9, 0xbb67ae85};
  for (int round = 0; round < 10; ++round) {
    std::array<Word, 4> next;
    for (int i : {0, 1}) {
      Word product = counter[2 * i] * Word(kMultiplier[i]);  // all 64 bits of it, whatever the sign
      Word step = m.low(key[1 - i] + Word(kStep[1 - i] * round));
      next[2 - 2 * i] = m.different(m.different(m.high(product), counter[3 - 2 * i]), step);
      next[3 - 2 * i] = m.low(product);
    }
    for (int i = 0; i < 4; ++i) counter[i] = m.keep(i, next[i]);
  }
  return counter;
}

std::array<uint64_t, 4> philox(const std::array<uint64_t, 4>& counter, const std::array<uint64_t, 2>& key);

}  // namespace pock
