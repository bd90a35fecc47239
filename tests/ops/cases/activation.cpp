#include <cmath>

#include "ops/cases/op_case.h"

namespace pock::test {
namespace {

// The values of a function, element for element, as a reference in double. Constants of the definition are floats.
template <double (*f)(double)>
auto as() {
  return like([](const Node&, const std::vector<Numbers>& x) {
    Numbers y;
    for (double v : x[0]) y.push_back(f(v));
    return std::vector<Numbers>{y};
  });
}

double softplus(double x) { return std::log1p(std::exp(x)); }
double silu(double x) { return x / (1 + std::exp(-x)); }
double mish(double x) { return x * std::tanh(softplus(x)); }
double gelu(double x) { return x * (1 + std::erf(x * 0.70710678119f)) / 2; }
double gelu_tanh(double x) { return x * (1 + std::tanh(0.79788456080f * (x + 0.044715f * x * x * x))) / 2; }

OP_CASE(where_positive, in({3}).is({-1, 0, 2}).without_gradient(), in({3}).is({1, 2, 3}),
        in({3}).is({4, 5, 6}), gives({4, 5, 3}));
OP_CASE(where_positive, in({3, 1}).without_gradient(), in({3, 4}), in({2, 1, 4}));
OP_CASE(leaky_relu, in({3}).is({-2, 1, 3}), attrs({{"alpha", 0.25}}), gives({-0.5, 1, 3}));
OP_CASE(leaky_relu, in({3, 17}), attrs({{"alpha", 0.01}}));
OP_CASE(prelu, in({2, 2}).is({-2, 1, -3, 4}), in({2}).is({0.5, -1}), gives({-1, 1, -1.5, 4}));
OP_CASE(prelu, in({2, 9, 3, 3}), in({9, 1, 1}));
OP_CASE(prelu, in({2, 7}), in({1}));
OP_CASE(elu, in({3}).is({-1, 1, 3}), attrs({{"alpha", 0.5}}), gives({0.5 * std::expm1(-1), 1, 3}));
OP_CASE(elu, in({3, 15}), attrs({{"alpha", 1.0}}));
OP_CASE(silu, in({33}).between(-6, 6), as<silu>());
OP_CASE(softplus, in({33}).between(-6, 6), as<softplus>());
OP_CASE(softplus, in({2}).is({-200, 200}).without_gradient(), gives({0, 200}));
OP_CASE(mish, in({33}).between(-6, 6), as<mish>());
OP_CASE(erf, in({33}).between(-3, 3), as<std::erf>());
OP_CASE(gelu, in({33}).between(-4, 4), as<gelu>());
OP_CASE(gelu_tanh, in({33}).between(-4, 4), as<gelu_tanh>());
OP_CASE(hard_sigmoid, in({4}).is({-4, 0, 1, 4}), attrs({{"alpha", 0.25}, {"beta", 0.5}}),
        gives({0, 0.5, 0.75, 1}));
OP_CASE(hard_swish, in({4}).is({-4, 0, 1.5, 4}), gives({0, 0, 1.125, 4}));
OP_CASE(selu, in({2}).is({-1, 2}), attrs({{"alpha", 1.5}, {"gamma", 2.0}}), gives({3 * std::expm1(-1), 4}));
OP_CASE(thresholded_relu, in({5}).is({-2, 0.5, 0.75, 1, 3}), attrs({{"alpha", 0.75}}),
        gives({0, 0, 0, 1, 3}));
OP_CASE(celu, in({2}).is({-1, 2}), attrs({{"alpha", 2.0}}), gives({2 * std::expm1(-0.5), 2}));

OP_CASE(where_positive, in({3}).is({1, 0, -1}).without_gradient(), in(DType::i64, {2, 1}).is({5, 6}),
        in(DType::i64, {}).is({-7}), gives({5, -7, -7, 6, -7, -7}));

}  // namespace
}  // namespace pock::test
