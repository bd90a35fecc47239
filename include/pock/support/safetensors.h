// Files of named tensors: 8 bytes of header length, the header in JSON, the tensors' bytes.
//
//   Safetensors file = parse_safetensors(mapped.bytes(), "tuned.safetensors");
//   const StoredTensor& w = file.tensors.at("fc.weight");   // w.dtype == "F32", w.dims, w.bytes
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pock {

struct StoredTensor {
  std::string dtype;  // "F32", "I64", ...
  std::vector<int64_t> dims;
  std::string_view bytes;  // of the file; as many as dtype and dims need
};

struct Safetensors {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
  std::string_view data;  // all tensors' bytes: they cover it without gaps or overlaps
};

// `file` may hold anything: throws an Error that starts with `path` where it is not a whole, well-formed file.
Safetensors parse_safetensors(std::string_view file, const std::string& path);

// What stands in front of the tensors' bytes: the length, and a header that holds the metadata and tells each tensor's
// place, in the order given. `dims` and `dtype` are used, and how long `bytes` is. The head is filled up with blanks to
// a multiple of `alignment`, itself one of 8.
std::string safetensors_head(const std::vector<std::pair<std::string, StoredTensor>>& tensors,
                             const std::vector<std::pair<std::string, std::string>>& metadata = {},
                             size_t alignment = 8);

// Whether a checkpoint has another use for the name than a model's tensor: for what it says of itself, or for the state
// of the optimizer.
bool is_taken_in_checkpoints(std::string_view name);

}  // namespace pock
