#include "wire.h"

#include "pock/support/diag.h"

namespace pock::onnx_frontend {
namespace {

constexpr int kEndGroup = 4;

bool take_bytes(std::string_view* bytes, uint64_t n) {
  if (n > bytes->size()) return false;
  bytes->remove_prefix(n);
  return true;
}

// The field in front of `bytes`, and moves behind it.
bool take_field(std::string_view* bytes, WireField* field, int depth = 0) {
  constexpr int kDeepest = 100;  // as protobuf's own parser
  std::string_view start = *bytes;
  uint64_t key = 0, n = 0;
  if (depth > kDeepest || !take_varint(bytes, &key)) return false;
  field->number = key >> 3;
  field->type = static_cast<WireField::Type>(key & 7);
  std::string_view payload = *bytes;
  bool good = false;
  switch (field->type) {
    case WireField::varint:
      good = take_varint(bytes, &n);
      break;
    case WireField::eight_bytes:
      good = take_bytes(bytes, 8);
      break;
    case WireField::four_bytes:
      good = take_bytes(bytes, 4);
      break;
    case WireField::length:
      good = take_varint(bytes, &n);
      payload = *bytes;
      good = good && take_bytes(bytes, n);
      break;
    case WireField::group:
      for (WireField inner; (good = take_field(bytes, &inner, depth + 1));)
        if (static_cast<int>(inner.type) == kEndGroup) break;
      break;
    default:
      good = static_cast<int>(field->type) == kEndGroup && depth > 0;
  }
  field->payload = payload.substr(0, payload.size() - bytes->size());
  field->whole = start.substr(0, start.size() - bytes->size());
  return good;
}

}  // namespace

bool take_varint(std::string_view* bytes, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 70 && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes->front());
    bytes->remove_prefix(1);
    if (shift < 64) *value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

void put_varint(uint64_t value, std::string* out) {
  for (; value > 127; value >>= 7) *out += static_cast<char>(value | 128);
  *out += static_cast<char>(value);
}

void put_field(uint64_t number, std::string_view payload, std::string* out) {
  put_varint(number << 3 | WireField::length, out);
  put_varint(payload.size(), out);
  *out += payload;
}

void put_again(const WireField& field, std::string_view payload, std::string* out) {
  if (field.type == WireField::length && payload.size() != field.payload.size())
    return put_field(field.number, payload, out);
  *out += field.whole.substr(0, field.whole.size() - field.payload.size());
  *out += payload;
}

std::string rewrite(std::string_view message,
                    const std::function<bool(const WireField&, std::string*)>& change) {
  std::string out;
  out.reserve(message.size());
  for (std::string_view rest = message; !rest.empty();) {
    WireField field;
    size_t at = message.size() - rest.size();
    if (!take_field(&rest, &field)) throw error("a message of the file is damaged at its byte {}", at);
    if (!change(field, &out)) out += field.whole;
  }
  return out;
}

}  // namespace pock::onnx_frontend
