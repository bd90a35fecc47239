#include <cmath>
#include <limits>

#include "ops/cases/op_case.h"

namespace pock::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class F>
std::vector<Numbers> map(const Numbers& x, F f) {
  Numbers y;
  for (double v : x) y.push_back(f(v));
  return {y};
}

OP_CASE(add, in({2, 2}).is({1, 2, 3, 4}), in({2}).is({10, 20}), gives({11, 22, 13, 24}));
OP_CASE(add, in({3, 5}), in({3, 5}));
OP_CASE(add, in({3, 1, 7}), in({1, 4, 1}));
OP_CASE(add, in({2, 9, 3, 3}), in({9, 1, 1}));
OP_CASE(add, in({}), in({17}));
OP_CASE(sub, in({2, 2}).is({1, 2, 3, 4}), in({2, 1}).is({10, 20}), gives({-9, -8, -17, -16}));
OP_CASE(sub, in({7}), in({4, 7}));
OP_CASE(mul, in({3}).is({1, -2, 3}), in({3}).is({4, 5, 6}), gives({4, -10, 18}));
OP_CASE(mul, in({3, 5}), in({5}));
OP_CASE(mul, in({2, 3, 4}), in({2, 1, 4}));
OP_CASE(div, in({3}).is({1, -2, 3}).without_gradient(), in({3}).is({4, 5, 0}).without_gradient(),
        gives({0.25, -0.4, kInf}));
OP_CASE(div, in({3, 5}), in({3, 1}).between(0.5, 2));
OP_CASE(div, in({6}), in({6}).between(0.5, 2));
OP_CASE(maximum, in({5}).is({1, 2, 3, kNan, 1}).without_gradient(),
        in({5}).is({2, 1, 3, 0, kNan}).without_gradient(), gives({2, 2, 3, kNan, kNan}));
OP_CASE(maximum, in({4, 9}), in({9}).between(-1, 3));
OP_CASE(maximum, in({4, 9}), in({}), attrs({{"tie", 0.0}}));
OP_CASE(minimum, in({5}).is({1, 2, 3, kNan, 1}).without_gradient(),
        in({5}).is({2, 1, 3, 0, kNan}).without_gradient(), gives({1, 1, 3, kNan, kNan}));
OP_CASE(minimum, in({4, 9}), in({9}).between(-1, 3));
OP_CASE(pass_greater, in({3}).is({1, 2, 3}), in({3}).is({2, 2, 2}), in({3}).is({5, 6, 7}), gives({0, 3, 7}));
OP_CASE(pass_greater, in({3}).is({1, 2, 3}), in({3}).is({2, 2, 2}),
        in({3}).is({5, kInf, 7}).without_gradient(), attrs({{"tie", 0.0}}), gives({0, 0, 7}));
OP_CASE(pass_greater, in({3}).is({1, 2, 3}), in({3}).is({2, 2, 2}), in({3}).is({5, 6, 7}),
        attrs({{"tie", 1.0}}), gives({0, 6, 7}));
OP_CASE(neg, in({2}).is({1, -2}), gives({-1, 2}));
OP_CASE(abs, in({3}).is({1, -2, 7}), gives({1, 2, 7}));
OP_CASE(abs, in({3, 15}));
OP_CASE(abs_grad, in({3}).is({0, -2, 7}), in({3}).is({3, 4, 5}), gives({0, -4, 5}));
OP_CASE(exp, in({3}).is({0, 1, -1}), gives({1, std::exp(1), std::exp(-1)}));
OP_CASE(exp, in({33}).between(-8, 8), like([](const Node&, const std::vector<Numbers>& x) {
          return map(x[0], [](double v) { return std::exp(v); });
        }));
OP_CASE(log, in({33}).between(0.1, 8), like([](const Node&, const std::vector<Numbers>& x) {
          return map(x[0], [](double v) { return std::log(v); });
        }));
OP_CASE(sqrt, in({3}).is({0.25, 4, 9}), gives({0.5, 2, 3}));
OP_CASE(sqrt, in({3, 7}).between(0.5, 4));
OP_CASE(sqrt_grad, in({3}).is({0, 2, 0.5}), in({3}).is({3, 4, 5}), gives({0, 1, 5}));
OP_CASE(pow, in({9}).is({2, -2, 0, 0, -8, 5, kInf, 0.5, kNan}).without_gradient(),
        in({9}).is({10, 3, 0, -1, 1.0 / 3, 0, -2, kInf, 0}).without_gradient(),
        gives({1024, -8, 1, kInf, kNan, 1, 0, 0, 1}));
OP_CASE(pow, in({3, 11}).between(0.2, 4), in({3, 1}), like([](const Node&, const std::vector<Numbers>& x) {
          Numbers y = x[0];
          for (size_t i = 0; i < y.size(); ++i) y[i] = std::pow(y[i], x[1][i / 11]);
          return std::vector<Numbers>{y};
        }));
OP_CASE(pow, in({5, 1, 3}).between(0.2, 4), in({4, 3}));
OP_CASE(pow_base_grad, in({5}).is({0, 0, 0, 3, 0}), in({5}).is({0.5, 2, 0, 2, 1}),
        in({5}).is({7, 7, 7, 7, 7}), gives({0, 0, 0, 42, 7}));
OP_CASE(pow_exponent_grad, in({3}).is({0, 1, std::exp(2)}), in({3}).is({1, 1, 3}), in({3}).is({7, 7, 7}),
        gives({0, 0, 42}), within(1e-6));
OP_CASE(pow_fixed, in({4}).is({-2, 0, 3, 0.5}), attrs({{"exponent", 2.0}}), gives({4, 0, 9, 0.25}));
OP_CASE(pow_fixed, in({4}).is({-2, 1, 3, 0.5}), attrs({{"exponent", 3.0}}), gives({-8, 1, 27, 0.125}));
OP_CASE(pow_fixed, in({3}).is({4, 1, 0.25}), attrs({{"exponent", -0.5}}), gives({0.5, 1, 2}));
OP_CASE(pow_fixed, in({3}).is({4, 1, 0.25}), attrs({{"exponent", 0.5}}), gives({2, 1, 0.5}));
OP_CASE(pow_fixed, in({3}).is({4, 1, -0.25}), attrs({{"exponent", -1.0}}), gives({0.25, 1, -4}));
OP_CASE(pow_fixed, in({3, 7}).between(0.3, 3), attrs({{"exponent", -2.0}}));
OP_CASE(pow_fixed, in({3, 7}).between(0.3, 3), attrs({{"exponent", 1.7}}));
OP_CASE(pow_fixed, in({3, 7}), attrs({{"exponent", 5.0}}));
OP_CASE(pow_fixed, in({3, 7}), attrs({{"exponent", 1.0}}));
OP_CASE(pow_fixed, in({2}).is({0, 3}), attrs({{"exponent", 0.0}}), gives({1, 1}));
OP_CASE(pow_fixed_grad, in({3}).is({0, 4, 1}), in({3}).is({3, 4, 5}), attrs({{"exponent", 0.5}}),
        gives({0, 1, 2.5}));
OP_CASE(pow_fixed_grad, in({2}).is({0, 4}), in({2}).is({3, 4}), attrs({{"exponent", 2.0}}), gives({0, 32}));
OP_CASE(sign, in({5}).is({-3, -0.0, 0, 0.25, kNan}), gives({-1, 0, 0, 1, kNan}));
OP_CASE(floor, in({6}).is({-1.5, -1, 0.5, 2.75, -kInf, 1e30}), gives({-2, -1, 0, 2, -kInf, 1e30f}));
OP_CASE(ceil, in({6}).is({-1.5, -1, 0.5, 2.25, kInf, 1e30}), gives({-1, -1, 1, 3, kInf, 1e30f}));
OP_CASE(round, in({6}).is({-1.5, -0.5, 0.5, 1.5, 2.5, 2.75}), gives({-2, 0, 0, 2, 2, 3}));
OP_CASE(reciprocal, in({2}).is({0.5, -4}), gives({2, -0.25}));
OP_CASE(reciprocal, in({3, 7}).between(0.5, 4));
OP_CASE(tanh, in({24}), like([](const Node&, const std::vector<Numbers>& x) {
          return map(x[0], [](double v) { return std::tanh(v); });
        }));
OP_CASE(softsign, in({4}).is({-3, -1, 0.25, 1}), gives({-0.75, -0.5, 0.2, 0.5}));
OP_CASE(sigmoid, in({24}).between(-6, 6), like([](const Node&, const std::vector<Numbers>& x) {
          return map(x[0], [](double v) { return 1 / (1 + std::exp(-v)); });
        }));
OP_CASE(relu, in({5}).is({-1, 0, 2, kNan, -kInf}).without_gradient(), gives({0, 0, 2, kNan, 0}));
OP_CASE(relu, in({3, 17}));
OP_CASE(relu_grad, in({3}).is({0, 2, -1}), in({3}).is({3, 4, 5}), gives({0, 4, 0}));
OP_CASE(clip, in({5}).is({-1, 0, 2, 9, kNan}).without_gradient(), attrs({{"low", 0.0}, {"high", 6.0}}),
        gives({0, 0, 2, 6, kNan}));
OP_CASE(clip, in({3, 17}), attrs({{"low", -0.5}, {"high", 1.0}}));
OP_CASE(clip_grad, in({4}).is({0, 2, 6, 7}), in({4}).is({3, 4, 5, 6}), attrs({{"low", 0.0}, {"high", 6.0}}),
        gives({0, 4, 0, 0}));
OP_CASE(positive, in({5}).is({-1, 0, 0.25, kNan, kInf}).without_gradient(), gives({0, 0, 1, 0, 1}));
OP_CASE(positive, in({3, 17}).without_gradient());
OP_CASE(positive, in({4, 8, 1}).without_gradient());
OP_CASE(inside, in({5}).is({-1, 0, 0.5, 1, kNan}).without_gradient(), attrs({{"low", 0.0}, {"high", 1.0}}),
        gives({0, 0, 1, 0, 0}));
OP_CASE(inside, in({2, 3, 9, 16}).without_gradient(), attrs({{"low", -1.0}, {"high", 1.0}}));
OP_CASE(where, in(DType::mask, {4}).is({1, 0, 0, 1}), in({4}).is({1, 2, 3, 4}), in({}).is({0}),
        gives({1, 0, 0, 4}));
OP_CASE(where, in(DType::mask, {3, 17}).between(0, 1), in({3, 17}), in({3, 17}));
OP_CASE(where, in(DType::mask, {2, 5, 1}).between(0, 1), in({2, 5, 1}), in({1}));
OP_CASE(where, in(DType::mask, {2, 3, 9, 16}).between(0, 1), in({2, 3, 9, 16}), in({}));
OP_CASE(cast, in({4}).is({-1.5, 2.75, 300, 0}).without_gradient(), attrs({{"to", std::string("i32")}}),
        gives({-1, 2, 300, 0}));
OP_CASE(cast, in({3}).is({-1.5, 2.75, 300}).without_gradient(), attrs({{"to", std::string("u8")}}),
        gives({0, 2, 255}));
OP_CASE(cast, in({3}).is({-1.5, 2.75, -300}).without_gradient(), attrs({{"to", std::string("i8")}}),
        gives({-1, 2, -128}));
OP_CASE(cast, in(DType::u8, {3}).is({0, 7, 255}), attrs({{"to", std::string("f32")}}), gives({0, 7, 255}));
OP_CASE(cast, in(DType::i64, {3}).is({-5, 7, 255}), attrs({{"to", std::string("i32")}}), gives({-5, 7, 255}));
OP_CASE(cast, in({2, 3}), attrs({{"to", std::string("f32")}}));

OP_CASE(sin, in({5}).is({0, 0.5, -1.5, 3, 40}), gives({0, 0.47942554, -0.99749499, 0.14112001, 0.74511316}));
OP_CASE(sin, in({3, 7}).between(-9, 9));
OP_CASE(cos, in({5}).is({0, 0.5, -1.5, 3, 40}), gives({1, 0.87758256, 0.07073720, -0.98999250, -0.66693806}));
OP_CASE(cos, in({3, 7}).between(-9, 9));

// Numbers that are no floats.
OP_CASE(add, in(DType::i64, {2, 1}).is({5, -7}), in(DType::i64, {3}).is({1, 0, -2}),
        gives({6, 5, 3, -6, -7, -9}));
OP_CASE(sub, in(DType::i64, {17}).between(-99, 99), in(DType::i64, {1}).is({4}));
OP_CASE(mul, in(DType::i32, {3}).is({2, -3, 65536}), in(DType::i32, {3}).is({5, 7, 65536}),
        gives({10, -21, 0}));
OP_CASE(neg, in(DType::i64, {3}).is({0, 4, -5}), gives({0, -4, 5}));
OP_CASE(maximum, in(DType::i64, {3}).is({0, 4, -5}), in(DType::i64, {}).is({-1}), gives({0, 4, -1}));
OP_CASE(minimum, in(DType::i64, {3}).is({0, 4, -5}), in(DType::i64, {}).is({1}), gives({0, 1, -5}));
OP_CASE(equal, in(DType::i64, {2, 3}).is({1, 2, 3, 3, 2, 1}), in(DType::i64, {3}).is({1, 2, 1}),
        gives({1, 1, 0, 0, 1, 1}));
OP_CASE(less, in({4}).is({1, 2, NAN, INFINITY}).without_gradient(), in({}).is({2}).without_gradient(),
        gives({1, 0, 0, 0}));
OP_CASE(less, in(DType::i64, {5, 1}).is({0, 1, 2, 3, 4}), in(DType::i64, {1, 5}).is({0, 1, 2, 3, 4}));
OP_CASE(less_or_equal, in({4}).is({1, 2, NAN, INFINITY}).without_gradient(),
        in({}).is({2}).without_gradient(), gives({1, 1, 0, 0}));
OP_CASE(less_or_equal, in(DType::u8, {3}).is({7, 8, 255}), in(DType::u8, {1}).is({8}), gives({1, 1, 0}));

}  // namespace
}  // namespace pock::test
