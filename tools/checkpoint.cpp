#include "checkpoint.h"

#include "../runtime/checkpoint.h"
#include "pock/support/diag.h"

namespace pock {
namespace {

std::string crc_text(uint32_t crc) { return fmt::format("{:08x}", crc); }

uint32_t crc_of(std::string_view bytes) {
  return pock_crc32(0, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

// Of the CRC-32s of the facts.
std::string header_crc(const std::map<std::string, std::string>& metadata) {
  uint32_t sums[POCK_FACTS] = {};
  for (int i = 0; i < POCK_FACTS; ++i)
    if (auto fact = metadata.find(pock_fact_names[i]); fact != metadata.end()) sums[i] = crc_of(fact->second);
  return crc_text(crc_of({reinterpret_cast<const char*>(sums), sizeof sums}));
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
  if (fact("header_crc32") != header_crc(stored.metadata))
    throw error("{}: is damaged: its metadata does not match its checksum", path);
  if (fact(pock_fact_names[POCK_FORMAT]) != pock_checkpoint_format)
    throw error("{}: is a checkpoint of a format that this pockc does not know", path);
  if (fact("crc32") != crc_text(crc_of(stored.data)))
    throw error("{}: is damaged: its data does not match its checksum", path);
  result.model_hash = fact(pock_fact_names[POCK_MODEL_HASH]);
  for (auto& [name, t] : stored.tensors)
    if (!name.starts_with("optimizer/")) result.tensors.emplace(name, t);
  return result;
}

}  // namespace pock
