#include "elements.h"

#include <charconv>
#include <cmath>
#include <cstring>

namespace pock {
namespace {

template <class T>
bool parse_whole(const std::string& text, T* out) {
  const char* end = text.data() + text.size();
  auto [stop, failure] = std::from_chars(text.data(), end, *out);
  return failure == std::errc() && stop == end;
}

template <class T>
std::string text_of(T number) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(number)) return "nan";
  return fmt::format("{}", number);
}

template <class F>
auto by_type(DType dtype, F f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::i8:
      return f(int8_t{});
    case DType::i32:
      return f(int32_t{});
    case DType::i64:
      return f(int64_t{});
    case DType::u8:
    case DType::mask:
      break;
  }
  return f(uint8_t{});
}

// Where element i of a mask lies.
struct Bit {
  int64_t byte;
  int shift;
};
Bit bit_of(const Type& type, int64_t i) {
  int64_t row = type.dims.empty() ? 1 : type.dims.back();
  return {i / row * ((row + 7) / 8) + i % row / 8, static_cast<int>(i % row % 8)};
}

}  // namespace

bool parse_number(const std::string& text, double* out) { return parse_whole(text, out); }
bool parse_number(const std::string& text, int64_t* out) { return parse_whole(text, out); }

std::string number_text(double number) {
  std::string text = text_of(number);
  bool integer = text.find_first_not_of("-0123456789") == std::string::npos;
  return integer ? text + ".0" : text;
}

std::vector<std::string> element_texts(const Type& type, const std::vector<std::byte>& data) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < type.elements(); ++i) {
    if (type.dtype == DType::mask) {
      Bit bit = bit_of(type, i);
      texts.push_back(std::to_integer<int>(data[bit.byte] >> bit.shift) & 1 ? "1" : "0");
      continue;
    }
    texts.push_back(by_type(type.dtype, [&](auto element) {
      std::memcpy(&element, &data[i * sizeof element], sizeof element);
      return text_of(element);
    }));
  }
  return texts;
}

bool parse_elements(const Type& type, const std::vector<std::string>& texts, std::vector<std::byte>* data) {
  data->assign(type.bytes(), std::byte{0});
  for (size_t i = 0; i < texts.size(); ++i) {
    if (type.dtype == DType::mask) {
      if (texts[i] != "0" && texts[i] != "1") return false;
      Bit bit = bit_of(type, i);
      if (texts[i] == "1") (*data)[bit.byte] |= std::byte{1} << bit.shift;
      continue;
    }
    bool good = by_type(type.dtype, [&](auto element) {
      if (!parse_whole(texts[i], &element)) return false;
      std::memcpy(&(*data)[i * sizeof element], &element, sizeof element);
      return true;
    });
    if (!good) return false;
  }
  return true;
}

}  // namespace pock
