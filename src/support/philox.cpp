#include "pock/support/philox.h"

namespace pock {
namespace {

struct Numbers {
  uint64_t low(uint64_t product) const { return product & 0xffffffff; }
  uint64_t high(uint64_t product) const { return product >> 32; }
  uint64_t different(uint64_t a, uint64_t b) const { return a ^ b; }
  uint64_t keep(int, uint64_t word) const { return word; }
};

}  // namespace

std::array<uint64_t, 4> philox(const std::array<uint64_t, 4>& counter, const std::array<uint64_t, 2>& key) {
  Numbers numbers;
  return philox(numbers, counter, key);
}

}  // namespace pock
