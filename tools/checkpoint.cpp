#include "checkpoint.h"

#include "../runtime/checkpoint.h"
#include "pock/support/diag.h"

namespace pock {
namespace {

std::string crc_text(uint32_t crc) { return fmt::format("{:08x}", crc); }

uint32_t crc_of(std::string_view bytes) {
  return pock_crc32(0, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

// Of everything in front of the data.
std::string header_crc(std::string_view file, std::string_view data) {
  return crc_text(pock_header_crc(reinterpret_cast<const uint8_t*>(file.data()),
                                  static_cast<uint64_t>(data.data() - file.data())));
}

}  // namespace

Checkpoint read_checkpoint(const std::string& path) {
  Checkpoint result;
  result.file = std::make_unique<MappedFile>(path);
  Safetensors stored = parse_safetensors(result.file->bytes(), path);
  auto fact = [&](const char* name) {
    auto found = stored.metadata.find(name);
    return found == stored.metadata.end() ? std::string() : found->second;
  };
  if (!stored.metadata.count("header_crc32") && !stored.metadata.count("crc32"))
    throw error("{}: is not a checkpoint of a pock trainer", path);
  std::string_view bytes = result.file->bytes();
  if (!pock_starts_checkpoint(reinterpret_cast<const uint8_t*>(bytes.data()),
                              static_cast<uint64_t>(stored.data.data() - bytes.data())) ||
      fact("header_crc32") != header_crc(bytes, stored.data))
    throw error("{}: is damaged: its header does not match its checksum", path);
  if (fact(pock_fact_names[POCK_FORMAT]) != pock_checkpoint_format)
    throw error("{}: is a checkpoint of a format that this pockc does not know", path);
  if (fact("crc32") != crc_text(crc_of(stored.data)))
    throw error("{}: is damaged: its data does not match its checksum", path);
  result.model_hash = fact(pock_fact_names[POCK_MODEL_HASH]);
  result.adapters = fact(pock_fact_names[POCK_ADAPTERS]);
  for (auto& [name, t] : stored.tensors)
    if (!is_taken_in_checkpoints(name)) result.tensors.emplace(name, t);
  return result;
}

}  // namespace pock
