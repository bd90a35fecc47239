#include "checkpoint.h"

const char pock_checkpoint_format[] = "pock-checkpoint-1";
const char pock_fact_names[POCK_FACTS][12] = {"format", "model_hash", "scheme",   "optimizer",
                                              "step",   "epoch",      "position", "seed"};

uint32_t pock_crc32(uint32_t crc, const uint8_t* bytes, uint64_t n) {
  uint32_t table[256];  // made each time: a call reads whole tensors
  for (uint32_t i = 0; i < 256; ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xEDB88320u : 0);
  }
  crc = ~crc;
  for (uint64_t i = 0; i < n; ++i) crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 255];
  return ~crc;
}
