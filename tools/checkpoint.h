// Reading a trainer's checkpoint.
//
//   Checkpoint c = read_checkpoint("tuned.safetensors");
//   const StoredTensor& w = c.tensors.at("fc.weight");
#pragma once

#include <memory>
#include <string>

#include "pock/support/mapped_file.h"
#include "pock/support/safetensors.h"

namespace pock {

struct Checkpoint {
  std::unique_ptr<MappedFile> file;  // holds the tensors' bytes
  std::string model_hash;
  std::string adapters;                         // as pock_program has it
  std::map<std::string, StoredTensor> tensors;  // weights and running statistics; no optimizer state
};

// Throws Error with the reason where the file is damaged, truncated, or no checkpoint.
Checkpoint read_checkpoint(const std::string& path);

}  // namespace pock
