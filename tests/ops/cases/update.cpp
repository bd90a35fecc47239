#include <cmath>

#include "ops/cases/op_case.h"

namespace pock::test {
namespace {

In scalar(double v) { return in({}).is({v}); }

// One step from given state; tests/train/optimizer_test.cpp takes several, with the scalars of each.
std::vector<Numbers> momentum(const Node& n, const std::vector<Numbers>& in) {
  Numbers w, m;
  for (size_t i = 0; i < in[0].size(); ++i) {
    double d = in[2][i] + in[6][0] * in[0][i];
    m.push_back(in[4][0] * in[1][i] + in[5][0] * d);
    w.push_back(in[0][i] - in[3][0] * (n.integer("nesterov") ? d + in[4][0] * m[i] : m[i]));
  }
  return {w, m};
}
std::vector<Numbers> adam(const Node& n, const std::vector<Numbers>& in) {
  Numbers w = in[0], m, v;
  for (size_t i = 0; i < w.size(); ++i) {
    double g = in[3][i], decay = in[11][0];
    if (n.integer("decoupled"))
      w[i] *= 1 - decay;
    else
      g += decay * w[i];
    m.push_back(in[4][0] * in[1][i] + in[5][0] * g);
    v.push_back(in[6][0] * in[2][i] + in[7][0] * g * g);
    w[i] -= in[8][0] * m[i] / (std::sqrt(v[i]) * in[9][0] + in[10][0]);
  }
  return {w, m, v};
}

std::vector<Numbers> adagrad(const Node&, const std::vector<Numbers>& in) {
  Numbers w = in[0], sum;
  for (size_t i = 0; i < w.size(); ++i) {
    double g = in[2][i] + in[5][0] * w[i];
    sum.push_back(in[1][i] + g * g);
    w[i] -= in[3][0] * g / (std::sqrt(sum[i]) + in[4][0]);
  }
  return {w, sum};
}
template <int centered, int momentum>
std::vector<Numbers> rmsprop(const Node&, const std::vector<Numbers>& in) {
  const size_t state = 2 + centered + momentum;
  Numbers w = in[0], squares, mean, buffer;
  for (size_t i = 0; i < w.size(); ++i) {
    auto scalar = [&](size_t k) { return in[state + k][0]; };
    double g = in[state][i] + scalar(5) * w[i];
    squares.push_back(scalar(2) * in[1][i] + scalar(3) * g * g);
    double spread = squares[i];
    if (centered) {
      mean.push_back(scalar(2) * in[2][i] + scalar(3) * g);
      spread -= mean[i] * mean[i];
    }
    double step = g / (std::sqrt(spread) + scalar(4));
    if (momentum) step += scalar(6) * in[state - 1][i];
    buffer.push_back(step);
    w[i] -= scalar(1) * step;
  }
  std::vector<Numbers> results = {w, squares};
  if (centered) results.push_back(mean);
  if (momentum) results.push_back(buffer);
  return results;
}
std::vector<Numbers> lion(const Node&, const std::vector<Numbers>& in) {
  Numbers w = in[0], m;
  for (size_t i = 0; i < w.size(); ++i) {
    double c = in[4][0] * in[1][i] + in[5][0] * in[2][i];
    w[i] -= in[3][0] * ((c > 0) - (c < 0) + in[8][0] * w[i]);
    m.push_back(in[6][0] * in[1][i] + in[7][0] * in[2][i]);
  }
  return {w, m};
}

OP_CASE(update, in({3}), in({3}));
OP_CASE(accumulate, in({2}).is({1, 2}), in({2}).is({8, 16}), scalar(1), scalar(0.25), gives({3, 6}));
OP_CASE(accumulate, in({2}).is({NAN, INFINITY}), in({2}).is({8, 16}), scalar(0), scalar(0.25), gives({2, 4}));
OP_CASE(either, in({2}).is({1, 2}), in({2}).is({NAN, 8}), scalar(0), gives({1, 2}));
OP_CASE(either, in({2}).is({NAN, 2}), in({2}).is({4, 8}), scalar(1), gives({4, 8}));
OP_CASE(sgd_step, in({2}).is({1, 2}), in({2}).is({10, 20}), scalar(0.5), scalar(0.25),
        gives({-4.125, -8.25}));
OP_CASE(momentum_step, in({2}).is({1, 2}), in({2}).is({4, 8}), in({2}).is({10, 20}), scalar(0.5), scalar(0.5),
        scalar(1), scalar(0), gives({-5, -10}), gives(1, {12, 24}));
OP_CASE(momentum_step, in({5, 7}), in({5, 7}), in({5, 7}), scalar(0.125), scalar(0.75), scalar(0.5),
        scalar(0.25), attrs({{"nesterov", int64_t{1}}}), like(momentum));
OP_CASE(adam_step, in({3, 5}), in({3, 5}), in({3, 5}).between(0, 2), in({3, 5}), scalar(0.75), scalar(0.25),
        scalar(0.875), scalar(0.125), scalar(0.25), scalar(1.5), scalar(0.015625), scalar(0.125), like(adam));
OP_CASE(adam_step, in({3, 5}), in({3, 5}), in({3, 5}).between(0, 2), in({3, 5}), scalar(0.75), scalar(0.25),
        scalar(0.875), scalar(0.125), scalar(0.25), scalar(1.5), scalar(0.015625), scalar(0.125),
        attrs({{"decoupled", int64_t{1}}}), like(adam));

OP_CASE(adagrad_step, in({2}).is({1, 2}), in({2}).is({0, 12}), in({2}).is({-4, 2}), scalar(0.5), scalar(0),
        scalar(0), gives({1.5, 1.75}), gives(1, {16, 16}));
OP_CASE(adagrad_step, in({3, 5}), in({3, 5}).between(0, 2), in({3, 5}), scalar(0.125), scalar(0.25),
        scalar(0.5), like(adagrad));
OP_CASE(rmsprop_step, in({2}).is({1, 2}), in({2}).is({0, 32}), in({2}).is({4, 0}), scalar(0.5), scalar(0.5),
        scalar(0.25), scalar(2), scalar(0), gives({0.5, 2}), gives(1, {4, 16}));
OP_CASE(rmsprop_step, in({3, 5}), in({3, 5}).between(0, 2), in({3, 5}), scalar(0.125), scalar(0.75),
        scalar(0.25), scalar(0.5), scalar(0.5), like(rmsprop<0, 0>));
OP_CASE(rmsprop_centered_step, in({3, 5}), in({3, 5}).between(4, 6), in({3, 5}).between(-1, 1), in({3, 5}),
        scalar(0.125), scalar(0.75), scalar(0.25), scalar(0.5), scalar(0.25), like(rmsprop<1, 0>));
OP_CASE(rmsprop_momentum_step, in({3, 5}), in({3, 5}).between(0, 2), in({3, 5}), in({3, 5}), scalar(0.125),
        scalar(0.75), scalar(0.25), scalar(0.5), scalar(0.25), scalar(0.875), like(rmsprop<0, 1>));
OP_CASE(rmsprop_centered_momentum_step, in({3, 5}), in({3, 5}).between(4, 6), in({3, 5}).between(-1, 1),
        in({3, 5}), in({3, 5}), scalar(0.125), scalar(0.75), scalar(0.25), scalar(0.5), scalar(0.25),
        scalar(0.875), like(rmsprop<1, 1>));
// Up, down, and nowhere; what is not finite does not hide behind its sign.
OP_CASE(lion_step, in({5}).is({8, 8, 8, 8, 8}), in({5}).is({1, -1, 0, 0, 0}),
        in({5}).is({0, 0, 0, INFINITY, NAN}), scalar(0.5), scalar(0.5), scalar(0.5), scalar(0.25),
        scalar(0.75), scalar(0.25), gives({6.5, 7.5, 7, NAN, NAN}),
        gives(1, {0.25, -0.25, 0, INFINITY, NAN}));
OP_CASE(lion_step, in({3, 5}), in({3, 5}), in({3, 5}), scalar(0.125), scalar(0.75), scalar(0.25),
        scalar(0.875), scalar(0.125), scalar(0.5), like(lion));

}  // namespace
}  // namespace pock::test
