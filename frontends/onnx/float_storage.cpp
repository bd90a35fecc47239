#include "float_storage.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace pock::onnx_frontend {
namespace {
using onnx::TensorProto;

template <class T>
T load(const char* bytes, int64_t i) {
  T value;
  std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(T value, char* bytes, int64_t i) {
  std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
}

float from_half(uint16_t h) {
  int exponent = (h >> 10) & 31, fraction = h & 1023;
  float magnitude = exponent == 0    ? std::ldexp(static_cast<float>(fraction), -24)
                    : exponent == 31 ? (fraction ? std::numeric_limits<float>::quiet_NaN()
                                                 : std::numeric_limits<float>::infinity())
                                     : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return h & 0x8000 ? -magnitude : magnitude;
}

// Cuts the lowest bits off, to nearest, ties to even. A carry moves on into the exponent, as it should.
uint32_t rounded(uint32_t bits, int cut) { return (bits + (1u << (cut - 1)) - 1 + (bits >> cut & 1)) >> cut; }

uint16_t to_half(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  uint32_t half = 0;
  if (magnitude > 0x7F800000)
    half = 0x7E00;  // NaN
  else if (magnitude >= 0x47800000)
    half = 0x7C00;  // from 2^16 on
  else if (magnitude >= 0x38800000)
    half = rounded(magnitude - (112u << 23), 13);
  else  // below 2^-14: in steps of 2^-24
    half = static_cast<uint32_t>(std::nearbyint(std::ldexp(std::abs(x), 24)));
  return static_cast<uint16_t>(sign | half);
}

uint16_t to_bfloat(float x) {
  if (std::isnan(x)) return 0x7FC0;
  return static_cast<uint16_t>(rounded(std::bit_cast<uint32_t>(x), 16));
}

// From a list whose elements are wider than what they stand for.
template <class Narrow, class List>
std::string bytes_of(const List& list) {
  std::string bytes(list.size() * sizeof(Narrow), '\0');
  for (int i = 0; i < list.size(); ++i) store(static_cast<Narrow>(list[i]), bytes.data(), i);
  return bytes;
}

}  // namespace

bool is_float_type(int type) {
  return type == TensorProto::FLOAT || type == TensorProto::DOUBLE || type == TensorProto::FLOAT16 ||
         type == TensorProto::BFLOAT16;
}

std::string stored_bytes(const TensorProto& t) {
  if (t.has_raw_data()) return t.raw_data();
  if (t.data_type() == TensorProto::FLOAT) return bytes_of<float>(t.float_data());
  if (t.data_type() == TensorProto::DOUBLE) return bytes_of<double>(t.double_data());
  return bytes_of<uint16_t>(t.int32_data());
}

float load_float(int type, const char* bytes, int64_t i) {
  switch (type) {
    case TensorProto::FLOAT:
      return load<float>(bytes, i);
    case TensorProto::DOUBLE:
      return static_cast<float>(load<double>(bytes, i));
    case TensorProto::FLOAT16:
      return from_half(load<uint16_t>(bytes, i));
    default:
      return std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(bytes, i)) << 16);
  }
}

void store_float(int type, float x, char* bytes, int64_t i) {
  switch (type) {
    case TensorProto::FLOAT:
      return store(x, bytes, i);
    case TensorProto::DOUBLE:
      return store(static_cast<double>(x), bytes, i);
    case TensorProto::FLOAT16:
      return store(to_half(x), bytes, i);
    default:
      return store(to_bfloat(x), bytes, i);
  }
}

}  // namespace pock::onnx_frontend
