// What pock's checkpoints say about themselves: facts in the metadata of a safetensors file. Shared with pockc.
//
// Two checksums stand beside the facts: "header_crc32", at the very start, over the header and its length, and "crc32"
// over the tensors' bytes. So a damaged file is told from another program's.
#ifndef POCK_CHECKPOINT_H
#define POCK_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// In the order of the metadata: texts, then numbers.
enum pock_fact {
  POCK_FORMAT,
  POCK_MODEL_HASH,
  POCK_ADAPTERS,
  POCK_SCHEME,
  POCK_OPTIMIZER_NAME,
  POCK_BATCH,
  POCK_STEP,
  POCK_EPOCH,
  POCK_POSITION,
  POCK_SEED,
  POCK_SAMPLES,
  POCK_BEST_EPOCH,  // these three only where there was a best evaluation
  POCK_BEST_STEP,
  POCK_BEST_LOSS,
  POCK_FACTS
};
extern const char pock_fact_names[POCK_FACTS][12];
extern const char pock_checkpoint_format[];  // the value of POCK_FORMAT
uint32_t pock_crc32(uint32_t crc, const uint8_t* bytes, uint64_t n);

enum { POCK_SLOT_HEAD = 128 };  // bytes in front of the blocks in a slot of a library

// How every checkpoint goes on behind its length; the eight digits of pock_header_crc() follow.
extern const char pock_checkpoint_start[];
enum { POCK_START_BYTES = 33, POCK_CRC_AT = 8 + POCK_START_BYTES };
// Of the length and the header, `n` bytes together, with zeros in place of the digits.
uint32_t pock_header_crc(const uint8_t* bytes, uint64_t n);
// Whether these bytes begin as a checkpoint does.
bool pock_starts_checkpoint(const uint8_t* bytes, uint64_t n);

#ifdef __cplusplus
}
#endif

#endif
