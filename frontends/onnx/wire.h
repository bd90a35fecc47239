// Protobuf messages as bytes: some fields are replaced, and all others stay as they are, with their order and with
// fields that nobody knows.
//
//   std::string tuned = rewrite(message, [&](const WireField& field, std::string* out) {
//     if (!field.is(TensorProto::kRawDataFieldNumber)) return false;   // stays
//     put_again(field, data, out);
//     return true;
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace pock::onnx_frontend {

struct WireField {
  uint64_t number = 0;
  enum Type : uint8_t { varint = 0, eight_bytes = 1, length = 2, group = 3, four_bytes = 5 } type = varint;
  std::string_view whole;  // key, length and payload
  std::string_view payload;

  // A message, text or bytes: a number with another type is a field that nobody knows.
  bool is(int wanted) const { return number == static_cast<uint64_t>(wanted) && type == length; }
};

// `change` sees every field in order. It returns false for what stays, or appends to `out` what stands there instead.
// Throws Error where `message` is none.
std::string rewrite(std::string_view message,
                    const std::function<bool(const WireField&, std::string* out)>& change);

// The field with another payload.
void put_again(const WireField&, std::string_view payload, std::string* out);
// A new field of type `length`.
void put_field(uint64_t number, std::string_view payload, std::string* out);

void put_varint(uint64_t, std::string* out);
// The number in front of `bytes`, and moves behind it; false where there is none.
bool take_varint(std::string_view* bytes, uint64_t* value);

}  // namespace pock::onnx_frontend
