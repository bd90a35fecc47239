// What pock's checkpoints say about themselves: facts in the metadata of a safetensors file. Shared with pockc.
//
// Two checksums stand beside the facts: "crc32" over the tensors' bytes, and "header_crc32" over the CRC-32 of each
// fact's text, in order. The second tells a flipped bit from another model's file.
#ifndef POCK_CHECKPOINT_H
#define POCK_CHECKPOINT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum pock_fact {
  POCK_FORMAT,
  POCK_MODEL_HASH,
  POCK_SCHEME,
  POCK_OPTIMIZER_NAME,
  POCK_STEP,
  POCK_EPOCH,
  POCK_POSITION,
  POCK_SEED,
  POCK_FACTS
};
extern const char pock_fact_names[POCK_FACTS][12];
extern const char pock_checkpoint_format[];  // the value of POCK_FORMAT
uint32_t pock_crc32(uint32_t crc, const uint8_t* bytes, uint64_t n);

#ifdef __cplusplus
}
#endif

#endif
