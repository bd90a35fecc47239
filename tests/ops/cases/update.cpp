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

OP_CASE(update, in({3}), in({3}));
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

}  // namespace
}  // namespace pock::test
