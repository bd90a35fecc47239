// The file that weights stand in where they are no section of the program. Shared with pockc, which writes it.
//
// It is safetensors. Its data is what the section would be; its metadata says as a checkpoint's does whether it is
// whole and whose it is, but under another name, so that neither kind of file is taken for the other.
#ifndef POCK_WEIGHTS_FILE_H
#define POCK_WEIGHTS_FILE_H

#include "checkpoint.h"

// The metadata, in this order: the digits of pock_header_crc(), the model's hash, the digits of the data's checksum.
#define POCK_WEIGHTS_HEADER_CRC "crc32_header"
#define POCK_WEIGHTS_HASH "model_hash"
#define POCK_WEIGHTS_DATA_CRC "crc32_data"
#define POCK_WEIGHTS_FORMAT "pock-weights-1"

// How every one goes on behind its length. Digits at POCK_CRC_AT and text up to the hash's digits follow.
#define POCK_WEIGHTS_START "{\"__metadata__\":{\"" POCK_WEIGHTS_HEADER_CRC "\":\""
enum {
  POCK_WEIGHTS_HASH_AT = POCK_CRC_AT + 8 + sizeof "\",\"" POCK_WEIGHTS_HASH "\":\"" - 1,
  POCK_WEIGHTS_HASH_BYTES = 16,
  POCK_WEIGHTS_ALIGNMENT = 64  // of the data, and of each tensor in it
};

#endif
