// Weights that stand beside the program: runtime/weights_file.h, written.
#include "weights_file.h"

#include <map>
#include <set>

#include "place.h"
#include "pock/codegen/compile.h"
#include "pock/ir/stored.h"
#include "pock/support/diag.h"

namespace pock {
namespace {

uint32_t crc_of(std::string_view bytes) {
  return pock_crc32(0, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

std::string digits(uint32_t crc) { return fmt::format("{:08x}", crc); }

// What is where. Of tensors that share their bytes, the first.
std::map<int64_t, const Value*> by_offset(const Program& p) {
  std::map<int64_t, const Value*> values;
  auto add = [&](const Value* v) {
    for (const BlockLayout* block : {&p.params, &p.weights})
      if (auto found = block->offset.find(v); found != block->offset.end() && v->type.bytes())
        values.emplace(found->second, v);
  };
  // The model's tensors first: what passes made of them gets another name where that is taken.
  for (const Value* v : p.train->params()) add(v);
  for (const Graph* g : {p.train, p.infer})
    for (const Value* v : g->leaves()) add(v);
  return values;
}

// All of the data, the bytes between tensors as well: readers of such files want no gaps.
std::vector<std::pair<std::string, StoredTensor>> tensors(const Program& p, std::string_view data) {
  std::set<std::string> taken = {"__metadata__"};
  auto unique = [&](const std::string& wish) {
    std::string name = wish;
    for (int n = 2; !taken.insert(name).second; ++n) name = fmt::format("{}:{}", wish, n);
    return name;
  };
  const std::map<int64_t, const Value*> values = by_offset(p);
  std::map<int64_t, std::string> names;  // none of them is given up for padding
  for (const auto& [offset, v] : values) names[offset] = unique(v->name.empty() ? "constant" : v->name);

  std::vector<std::pair<std::string, StoredTensor>> list;
  int64_t end = 0;
  auto put = [&](const std::string& name, const Type& type) {
    list.emplace_back(name, stored_tensor(type, data.substr(end, type.bytes())));
    end += type.bytes();
  };
  auto fill = [&](int64_t to) {
    POCK_CHECK(to >= end, "tensors overlap at byte {} of the weights", to);
    if (to > end) put(unique("padding"), {DType::u8, {to - end}});
  };
  for (const auto& [offset, v] : values) {
    fill(offset);
    put(names.at(offset), v->type.stored());  // as the kernels read it, whatever the model's order
  }
  fill(p.weights.bytes);
  return list;
}

}  // namespace

bool is_weights_file(std::string_view bytes) {
  return bytes.size() > 8 && bytes.substr(8).starts_with(POCK_WEIGHTS_START);
}

std::vector<std::string> move_weights_to_file(Program& p, const std::string& name) {
  const std::string& hash = p.train->model_hash;
  POCK_CHECK(hash.size() == POCK_WEIGHTS_HASH_BYTES, "model hash '{}'", hash);
  std::string data = weights_section(p);
  p.weights_file = {.name = name, .data_crc = crc_of(data)};
  std::string head = safetensors_head(tensors(p, data),
                                      {{POCK_WEIGHTS_HEADER_CRC, digits(0)},
                                       {POCK_WEIGHTS_HASH, hash},
                                       {POCK_WEIGHTS_DATA_CRC, digits(p.weights_file.data_crc)},
                                       {"format", POCK_WEIGHTS_FORMAT},
                                       {"model", p.options.model_name}},
                                      POCK_WEIGHTS_ALIGNMENT);
  POCK_CHECK(is_weights_file(head) && head.substr(POCK_WEIGHTS_HASH_AT, hash.size()) == hash,
             "the program looks for {} at byte {} of {}", hash, +POCK_WEIGHTS_HASH_AT, head);
  p.weights_file.header_crc = pock_header_crc(reinterpret_cast<const uint8_t*>(head.data()), head.size());
  head.replace(POCK_CRC_AT, 8, digits(p.weights_file.header_crc));
  return {std::move(head), std::move(data)};
}

}  // namespace pock
