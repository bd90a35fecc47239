#include "checkpoint.h"

const char pock_checkpoint_format[] = "pock-checkpoint-3";
const char pock_fact_names[POCK_FACTS][12] = {"format",  "model_hash", "adapters",  "scheme",   "optimizer",
                                              "batch",   "step",       "epoch",     "position", "seed",
                                              "samples", "best_epoch", "best_step", "best_loss"};
const char pock_checkpoint_start[] = "{\"__metadata__\":{\"header_crc32\":\"";
_Static_assert(sizeof pock_checkpoint_start == POCK_START_BYTES + 1, "the length of the start");

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

uint32_t pock_header_crc(const uint8_t* bytes, uint64_t n) {
  uint32_t crc = pock_crc32(0, bytes, POCK_CRC_AT);
  crc = pock_crc32(crc, (const uint8_t*)"00000000", 8);
  return pock_crc32(crc, bytes + POCK_CRC_AT + 8, n - POCK_CRC_AT - 8);
}

bool pock_starts_checkpoint(const uint8_t* bytes, uint64_t n) {
  if (n < POCK_CRC_AT + 8) return false;
  for (int i = 0; i < POCK_START_BYTES; ++i)
    if (bytes[8 + i] != (uint8_t)pock_checkpoint_start[i]) return false;
  return true;
}
