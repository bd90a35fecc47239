#include <cmath>

#include "ops/cases/op_case.h"

namespace pock::test {
namespace {

constexpr double kEpsilon = 0x1p-10;  // exact in f32
CaseAttrs epsilon() { return attrs({{"epsilon", kEpsilon}}); }

// Which channel an element of x [N,C,...] belongs to.
int64_t channel_of(const Type& x, size_t i) {
  int64_t per_channel = x.elements() / x.dim(0) / x.dim(1);
  return static_cast<int64_t>(i) / per_channel % x.dim(1);
}

std::vector<Numbers> moments_of(const Type& x, const Numbers& in) {
  double count = static_cast<double>(x.elements() / x.dim(1));
  Numbers mean(x.dim(1), 0), variance(x.dim(1), 0);
  for (size_t i = 0; i < in.size(); ++i) mean[channel_of(x, i)] += in[i] / count;
  for (size_t i = 0; i < in.size(); ++i)
    variance[channel_of(x, i)] += std::pow(in[i] - mean[channel_of(x, i)], 2) / count;
  return {mean, variance};
}
std::vector<Numbers> moments(const Node& n, const std::vector<Numbers>& in) {
  return moments_of(n.in(0)->type, in[0]);
}

Numbers normalized(const Type& t, const Numbers& x, const Numbers& mean, const Numbers& variance,
                   const Numbers& scale, const Numbers& shift) {
  Numbers y;
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t c = channel_of(t, i);
    y.push_back((x[i] - mean[c]) / std::sqrt(variance[c] + kEpsilon) * scale[c] + shift[c]);
  }
  return y;
}
std::vector<Numbers> normalize(const Node& n, const std::vector<Numbers>& in) {
  return {normalized(n.in(0)->type, in[0], in[1], in[2], in[3], in[4])};
}
std::vector<Numbers> batch_norm(const Node& n, const std::vector<Numbers>& in) {
  if (n.integer("training")) {
    auto batch = moments_of(n.in(0)->type, in[0]);
    Numbers y = normalized(n.in(0)->type, in[0], batch[0], batch[1], in[1], in[2]);
    for (int i : {0, 1})
      for (size_t c = 0; c < batch[i].size(); ++c)
        batch[i][c] = n.number("momentum") * in[3 + i][c] + (1 - n.number("momentum")) * batch[i][c];
    return {y, batch[0], batch[1]};
  }
  return {normalized(n.in(0)->type, in[0], in[3], in[4], in[1], in[2]), in[3], in[4]};
}
std::vector<Numbers> batch_norm_train(const Node& n, const std::vector<Numbers>& in) {
  auto m = moments_of(n.in(0)->type, in[0]);
  return {normalized(n.in(0)->type, in[0], m[0], m[1], in[1], in[2]), m[0], m[1]};
}

std::vector<Numbers> norm_grad_sums(const Node& n, const std::vector<Numbers>& in) {
  const Type& x = n.in(1)->type;
  Numbers ones(x.dim(1), 1), zeros(x.dim(1), 0), sum(x.dim(1), 0), sum_xhat(x.dim(1), 0);
  Numbers xhat = normalized(x, in[1], in[2], in[3], ones, zeros);
  for (size_t i = 0; i < xhat.size(); ++i) {
    sum[channel_of(x, i)] += in[0][i];
    sum_xhat[channel_of(x, i)] += in[0][i] * xhat[i];
  }
  return {sum, sum_xhat};
}
std::vector<Numbers> normalize_grad(const Node& n, const std::vector<Numbers>& in) {
  const Type& x = n.in(1)->type;
  Numbers ones(x.dim(1), 1), zeros(x.dim(1), 0), dx;
  Numbers xhat = normalized(x, in[1], in[2], in[3], ones, zeros);
  double count = static_cast<double>(n.integer("count"));
  for (size_t i = 0; i < xhat.size(); ++i) {
    int64_t c = channel_of(x, i);
    double inverse = 1 / std::sqrt(in[3][c] + kEpsilon);
    dx.push_back(in[4][c] * inverse * (in[0][i] - in[5][c] / count - xhat[i] * in[6][c] / count));
  }
  return {dx};
}

OP_CASE(normalize, in({2, 2}).is({1, 2, 3, 4}), in({2}).is({1, 2}), in({2}).is({0.25, 4}), in({2}).is({2, 3}),
        in({2}).is({10, 20}), attrs({{"epsilon", 0.0}}), gives({10, 20, 18, 23}));
OP_CASE(normalize, in({2, 9, 3, 5}), in({9, 1, 1}), in({9, 1, 1}).between(0.5, 2), in({9, 1, 1}),
        in({9, 1, 1}), epsilon(), like(normalize));
OP_CASE(normalize_grad, in({2, 7, 3, 2}), in({2, 7, 3, 2}), in({7, 1, 1}), in({7, 1, 1}).between(0.5, 2),
        in({7, 1, 1}), in({7, 1, 1}), in({7, 1, 1}), attrs({{"epsilon", kEpsilon}, {"count", int64_t{12}}}),
        like(normalize_grad));
OP_CASE(moments, in({4, 1}).is({1, 2, 3, 6}), gives({3}), gives(1, {3.5}));
OP_CASE(moments, in({3, 7, 5, 5}), like(moments));
OP_CASE(moments, in({2, 3, 33, 40}), like(moments), within(1e-4));  // several chunks, the last one short
OP_CASE(moments, in({3, 2, 1, 1100}), like(moments), within(1e-4));
OP_CASE(moments, in({4, 3, 24, 24}).between(999.8, 1000.2), like(moments), within(1e-5));
OP_CASE(norm_grad_sums, in({3, 7, 5, 5}), in({3, 7, 5, 5}), in({7}), in({7}).between(0.5, 2), epsilon(),
        like(norm_grad_sums));
OP_CASE(norm_grad_sums, in({2, 3, 33, 40}), in({2, 3, 33, 40}), in({3}), in({3}).between(0.5, 2), epsilon(),
        like(norm_grad_sums));
OP_CASE(batch_norm, in({2, 7, 3, 3}), in({7}), in({7}), in({7}), in({7}).between(0.5, 2),
        attrs({{"epsilon", kEpsilon}, {"momentum", 0.9}}), like(batch_norm));
OP_CASE(batch_norm, in({3, 5, 2, 4}), in({5}), in({5}), in({5}), in({5}).between(0.5, 2),
        attrs({{"epsilon", kEpsilon}, {"momentum", 0.75}, {"training", int64_t{1}}}), like(batch_norm));
OP_CASE(batch_norm_train, in({3, 7, 3, 5}), in({7}), in({7}), epsilon(), like(batch_norm_train));
OP_CASE(batch_norm_train, in({5, 9}), in({9}), in({9}), epsilon(), like(batch_norm_train));
OP_CASE(batch_norm_train, in({2, 2, 33, 20}), in({2}), in({2}), epsilon(), like(batch_norm_train));

}  // namespace
}  // namespace pock::test
