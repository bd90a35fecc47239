// Numbers for the int8 convolution of kernels.h, and what must come out.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels.h"

namespace pock::loop {

// Both ends of every type, results clamped on both sides, and rounding of exact halves.
struct ConvInt8 {
  static constexpr int kImages = 2, kRows = 3, kColumns = 4, kIn = 10, kOut = 21, kPlaces = 12;
  static constexpr int kPixels = kImages * kRows * kColumns;

  std::array<uint8_t, kPixels * kIn> x;
  std::array<int8_t, 9 * kPlaces * kOut> w{};  // two places hold no channel
  std::array<int32_t, 9 * kOut> ws{};
  std::array<int32_t, kOut> b;
  std::array<float, kOut> s;
  std::array<int8_t, kPixels * kOut> expected;
  std::array<bool, kPixels * kOut> expected_inside;
  int halves = 0, low = 0, high = 0;

  ConvInt8() {
    std::mt19937 random(3);
    for (uint8_t& v : x) v = static_cast<uint8_t>(random() % 4 == 0 ? random() % 2 * 255 : random());
    for (int tap = 0; tap < 9; ++tap)
      for (int ic = 0; ic < kIn; ++ic)
        for (int oc = 0; oc < kOut; ++oc) {
          const auto v = static_cast<int8_t>(small(oc)           ? static_cast<int>(random() % 3) - 1
                                             : random() % 4 == 0 ? static_cast<int>(random() % 2) * 255 - 128
                                                                 : static_cast<int>(random() % 256) - 128);
          w[place(tap, ic, oc)] = v;
          ws[static_cast<size_t>(tap * kOut + oc)] += v;
        }
    for (int oc = 0; oc < kOut; ++oc) {
      b[oc] = static_cast<int32_t>(random() % 401) - 200;
      s[oc] = small(oc) ? 0.25f : 0.0001f * static_cast<float>(oc + 5);
    }
    for (int at = 0; at < kPixels; ++at)
      for (int oc = 0; oc < kOut; ++oc) reference(at, oc);
  }

  // Runs `kernel(arguments)` and tells the first element that is not as expected; empty if all are.
  template <class Run>
  std::string difference(const Run& kernel) {
    std::vector<int8_t> y(expected.size(), 99);
    const size_t row = (kOut + 7) / 8;
    std::vector<uint8_t> inside(kPixels * row, 0xff);
    kernel(std::vector<void*>{x.data(), w.data(), ws.data(), b.data(), s.data(), y.data(), inside.data()});
    for (size_t i = 0; i < expected.size(); ++i) {
      const bool bit = inside[i / kOut * row + i % kOut / 8] >> (i % kOut % 8) & 1;
      if (y[i] != expected[i] || bit != expected_inside[i])
        return "element " + std::to_string(i) + " is " + std::to_string(y[i]) + (bit ? "" : " clamped") +
               ", expected " + std::to_string(expected[i]) + (expected_inside[i] ? "" : " clamped");
    }
    return "";
  }

 private:
  static bool small(int oc) { return oc % 3 == 1; }  // channels whose results lie between two numbers
  static size_t place(int tap, int ic, int oc) {
    return static_cast<size_t>(((tap * (kPlaces / 4) + ic / 4) * kOut + oc) * 4 + ic % 4);
  }

  void reference(int at, int oc) {
    const int n = at / (kRows * kColumns), oy = at / kColumns % kRows, ox = at % kColumns;
    int64_t acc = b[oc];
    for (int tap = 0; tap < 9; ++tap) {
      const int iy = oy + tap / 3 - 1, ix = ox + tap % 3 - 1;
      if (iy < 0 || iy >= kRows || ix < 0 || ix >= kColumns) continue;
      for (int ic = 0; ic < kIn; ++ic)
        acc += (x[static_cast<size_t>(((n * kRows + iy) * kColumns + ix) * kIn + ic)] - 119) *
               int64_t{w[place(tap, ic, oc)]};
    }
    const double scaled = static_cast<float>(acc) * s[oc], v = std::nearbyint(scaled) - 5;
    const auto i = static_cast<size_t>(at * kOut + oc);
    expected[i] = static_cast<int8_t>(std::clamp(v, -128.0, 127.0));
    expected_inside[i] = v >= -128 && v <= 127;
    low += v < -128;
    high += v > 127;
    halves += expected_inside[i] && scaled - std::floor(scaled) == 0.5;
  }
};

}  // namespace pock::loop
