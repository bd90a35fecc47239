#include "pock/support/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "pock/support/diag.h"

namespace pock {
namespace {

using nlohmann::json;

// Bytes of an element; 0 where the type is unknown.
uint64_t element_bytes(const std::string& dtype) {
  static const std::map<std::string, uint64_t> kBytes = {
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"I32", 4},  {"I16", 2},
      {"I8", 1},  {"U64", 8}, {"U32", 4}, {"U16", 2},  {"U8", 1},  {"BOOL", 1},
  };
  auto known = kBytes.find(dtype);
  return known == kBytes.end() ? 0 : known->second;
}

class Parser {
 public:
  Parser(std::string_view file, const std::string& path) : file_(file), path_(path) {}

  Safetensors run() {
    Safetensors result;
    json header = read_header();
    result.data = data_;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__")
        result.metadata = metadata(entry);
      else
        result.tensors.emplace(name, tensor(name, entry));
    }
    check_cover(result);
    return result;
  }

 private:
  template <class... Args>
  Error fail(fmt::format_string<Args...> format, Args&&... args) const {
    return Error(path_ + ": " + fmt::format(format, std::forward<Args>(args)...));
  }

  json read_header() {
    if (file_.empty()) throw fail("the file is empty");
    uint64_t length = 0;
    for (size_t i = 0; i < 8 && i < file_.size(); ++i)
      length |= uint64_t{static_cast<unsigned char>(file_[i])} << (8 * i);
    if (file_.size() < 8 || length > file_.size() - 8)
      throw fail("is cut short inside its header, or no safetensors file");
    std::string_view text = file_.substr(8, length);
    data_ = file_.substr(8 + length);
    // Of two entries with one name, JSON takes the second and nobody hears of the first.
    std::set<std::string> names;
    std::string twice;
    json header = json::parse(
        text,
        [&](int depth, json::parse_event_t event, json& value) {
          if (depth == 1 && event == json::parse_event_t::key && !names.insert(value).second) twice = value;
          return true;
        },
        false);
    if (!header.is_object()) throw fail("its header is damaged: it is no JSON object");
    if (!twice.empty()) throw fail("its header is damaged: there are two entries '{}'", twice);
    return header;
  }

  std::map<std::string, std::string> metadata(const json& entry) const {
    std::map<std::string, std::string> result;
    if (!entry.is_object()) throw fail("its metadata is damaged: it is no JSON object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) throw fail("its metadata is damaged: '{}' is no text", key);
      result[key] = value;
    }
    return result;
  }

  StoredTensor tensor(const std::string& name, const json& entry) const {
    auto wholes = [&](const char* key) {
      std::vector<int64_t> list;
      if (!entry.is_object() || !entry.contains(key) || !entry[key].is_array())
        throw fail("the entry of tensor '{}' is damaged: it has no {}", name, key);
      for (const json& n : entry[key]) {
        if (!n.is_number_integer() || (n.is_number_unsigned() ? n.get<uint64_t>() > INT64_MAX : n < 0))
          throw fail("the entry of tensor '{}' is damaged: {} are not whole numbers", name, key);
        list.push_back(n);
      }
      return list;
    };
    StoredTensor t;
    t.dims = wholes("shape");
    std::vector<int64_t> offsets = wholes("data_offsets");
    if (!entry.contains("dtype") || !entry["dtype"].is_string())
      throw fail("the entry of tensor '{}' is damaged: it has no dtype", name);
    t.dtype = entry["dtype"];
    int64_t bytes = static_cast<int64_t>(element_bytes(t.dtype));
    if (!bytes) throw fail("tensor '{}' has elements of an unknown type '{}'", name, t.dtype);
    bool fits = true;
    for (int64_t d : t.dims) fits &= !__builtin_mul_overflow(bytes, d, &bytes);
    if (!fits || offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] - offsets[0] != bytes)
      throw fail("the entry of tensor '{}' is damaged: its shape does not take the bytes given", name);
    if (static_cast<uint64_t>(offsets[1]) > data_.size())
      throw fail("is cut short: tensor '{}' ends at byte {} of the data, of which there are {}", name,
                 offsets[1], data_.size());
    t.bytes = data_.substr(static_cast<size_t>(offsets[0]), static_cast<size_t>(bytes));
    return t;
  }

  void check_cover(const Safetensors& result) const {
    std::vector<std::pair<const char*, const char*>> ranges;
    for (const auto& [name, t] : result.tensors)
      if (!t.bytes.empty()) ranges.emplace_back(t.bytes.data(), t.bytes.data() + t.bytes.size());
    std::sort(ranges.begin(), ranges.end());
    const char* at = data_.data();
    for (const auto& [begin, end] : ranges) {
      if (begin < at) throw fail("is damaged: two tensors share bytes");
      if (begin > at) break;
      at = end;
    }
    if (at != data_.data() + data_.size()) throw fail("is damaged: it has bytes that belong to no tensor");
  }

  std::string_view file_, data_;
  const std::string& path_;
};

}  // namespace

Safetensors parse_safetensors(std::string_view file, const std::string& path) {
  return Parser(file, path).run();
}

std::string safetensors_head(const std::vector<std::pair<std::string, StoredTensor>>& tensors,
                             const std::vector<std::pair<std::string, std::string>>& metadata,
                             size_t alignment) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  for (const auto& [key, text] : metadata) header["__metadata__"][key] = text;
  size_t at = 0;
  for (const auto& [name, t] : tensors) {
    header[name] = {{"dtype", t.dtype}, {"shape", t.dims}, {"data_offsets", {at, at + t.bytes.size()}}};
    at += t.bytes.size();
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize((8 + text.size() + alignment - 1) / alignment * alignment - 8, ' ');
  std::string head(8, '\0');
  for (int i = 0; i < 8; ++i) head[i] = static_cast<char>(text.size() >> (8 * i));
  return head + text;
}

bool is_taken_in_checkpoints(std::string_view name) {
  return name == "__metadata__" || name.starts_with("optimizer/");
}

}  // namespace pock
