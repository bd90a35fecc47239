#include <array>
#include <cmath>

#include "ops/cases/op_case.h"

namespace pock::test {
namespace {

// Philox4x32-10 in plain C++.
std::array<uint32_t, 4> words(std::array<uint32_t, 4> c, uint32_t low, uint32_t high) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xd2511f53} * c[0], b = uint64_t{0xcd9e8d57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ low, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ high, static_cast<uint32_t>(a)};
    low += 0x9e3779b9;
    high += 0xbb67ae85;
  }
  return c;
}

std::vector<Numbers> dropout_train(const Node& n, const std::vector<Numbers>& in) {
  double ratio = n.number("ratio"), threshold = std::round(std::ldexp(ratio, 32));
  auto word = [&](int i) { return static_cast<uint32_t>(static_cast<int64_t>(in[i][0])); };
  Numbers y;
  for (size_t i = 0; i < in[0].size(); ++i) {
    uint32_t drawn = words({word(3), static_cast<uint32_t>(n.integer("id")), static_cast<uint32_t>(i / 4), 0},
                           word(1), word(2))[i % 4];
    y.push_back(drawn >= threshold ? in[0][i] * static_cast<float>(1 / (1 - ratio)) : 0);
  }
  return {y};
}

CaseAttrs drop(double ratio, int64_t id = 0) { return attrs({{"ratio", ratio}, {"id", id}}); }
In word(double value) { return in(DType::i32, {}).is({value}); }

OP_CASE(dropout, in({3}).is({1, 2, 3}), attrs({{"ratio", 0.5}, {"id", int64_t{0}}, {"active", int64_t{1}}}),
        gives({1, 2, 3}));
// The first words that a key of 0 gives are 6627e8d5, e169c58d, bc57ac4c, 9b00dbd8: a known answer of Philox. As
// parts of 2^32 they are 0.399, 0.881, 0.736 and 0.605.
OP_CASE(dropout_train, in({4}).is({1, 2, 3, 4}), word(0), word(0), word(0), drop(0.5), gives({0, 4, 6, 8}));
OP_CASE(dropout_train, in({4}).is({1, 2, 3, 4}), word(0), word(0), word(0), drop(0.75), gives({0, 8, 0, 0}));
OP_CASE(dropout_train, in({4}).is({1, 2, 3, 4}), word(0), word(0), word(0), drop(0), gives({1, 2, 3, 4}));
OP_CASE(dropout_train, in({4}).is({1, 2, 3, 4}), word(0), word(0), word(0), drop(1), gives({0, 0, 0, 0}));
OP_CASE(dropout_train, in({1}), word(5), word(6), word(7), drop(0.25, 3), like(dropout_train));
OP_CASE(dropout_train, in({31}), word(-1), word(-2), word(1), drop(0.1, 0xffffffff), like(dropout_train));
OP_CASE(dropout_train, in({32}), word(2147483647), word(-2147483648), word(-1), drop(0.5, 1),
        like(dropout_train));
OP_CASE(dropout_train, in({331}), word(1), word(0), word(1000000), drop(0.3, 2), like(dropout_train));

}  // namespace
}  // namespace pock::test
