#include <cmath>
#include <limits>

#include "ops/cases/op_case.h"

namespace pock::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Attrs over(std::vector<int64_t> axes, int64_t keep = 0) {
  return {{"axes", std::move(axes)}, {"keep", keep}};
}

// Sum over the named axes, by walking over every element.
std::vector<Numbers> sums(const Node& n, const std::vector<Numbers>& in) {
  const Dims& dims = n.in(0)->type.dims;
  int rank = static_cast<int>(dims.size());
  std::vector<bool> reduced(rank, n.integers("axes").empty());
  for (int64_t axis : n.integers("axes")) reduced[axis < 0 ? axis + rank : axis] = true;
  Numbers out(n.out(0)->type.elements(), 0);
  for (size_t i = 0; i < in[0].size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), to = 0, stride = 1;
    for (int axis = rank; axis-- > 0; rest /= dims[axis])
      if (!reduced[axis]) {
        to += rest % dims[axis] * stride;
        stride *= dims[axis];
      }
    out[to] += in[0][i];
  }
  return {out};
}

std::vector<Numbers> means(const Node& n, const std::vector<Numbers>& in) {
  auto out = sums(n, in);
  for (double& v : out[0]) v *= static_cast<double>(out[0].size()) / static_cast<double>(in[0].size());
  return out;
}

std::vector<Numbers> softmax(const Node& n, const std::vector<Numbers>& in) {
  int64_t row = n.in(0)->type.dim(-1);
  Numbers out = in[0];
  for (auto at = out.begin(); at != out.end(); at += row) {
    double sum = 0;
    for (int64_t i = 0; i < row; ++i) sum += std::exp(at[i]);
    for (int64_t i = 0; i < row; ++i) at[i] = std::exp(at[i]) / sum;
  }
  return {out};
}

std::vector<Numbers> log_softmax(const Node& n, const std::vector<Numbers>& in) {
  auto out = softmax(n, in);
  for (double& v : out[0]) v = std::log(v);
  return out;
}

// The last axis, shorter, longer and just as long as the lanes.
OP_CASE(reduce_sum, in({2, 3}).is({1, 2, 3, 4, 5, 6}), attrs(over({1})), gives({6, 15}));
OP_CASE(reduce_sum, in({3, 7}), attrs(over({1})), like(sums));
OP_CASE(reduce_sum, in({3, 16}), attrs(over({-1}, 1)), like(sums));
OP_CASE(reduce_sum, in({2, 33}), attrs(over({1})), like(sums));
OP_CASE(reduce_sum, in({50}), attrs(over({0})), like(sums));
// Everything else: one chunk, several, rows longer than a chunk.
OP_CASE(reduce_sum, in({2, 3}).is({1, 2, 3, 4, 5, 6}), attrs(over({0}, 1)), gives({5, 7, 9}));
OP_CASE(reduce_sum, in({3, 5, 4}), attrs(over({1})), like(sums));
OP_CASE(reduce_sum, in({4, 9, 3, 5}), attrs(over({0, 2, 3})), like(sums));
OP_CASE(reduce_sum, in({3, 2, 17, 33}), attrs(over({0, 2, 3}, 1)), like(sums));
OP_CASE(reduce_sum, in({2, 2, 3, 1030}), attrs(over({0, 2, 3})), like(sums));
OP_CASE(reduce_sum, in({7, 15, 24}), attrs(over({})), like(sums));
OP_CASE(reduce_sum, in({3, 2}), attrs(over({0, 1})), like(sums));
OP_CASE(reduce_sum, in({}), attrs(over({})), like(sums));
OP_CASE(reduce_mean, in({2, 9, 7, 7}), attrs(over({2, 3}, 1)), like(means));
OP_CASE(reduce_mean, in({32}), attrs(over({0})), like(means));
OP_CASE(reduce_max, in({2, 3}).is({1, 7, 3, -4, -5, -6}), attrs(over({1})), gives({7, -4}));
OP_CASE(reduce_max, in({4, 5, 17}).spaced(), attrs(over({0, 2})));
OP_CASE(reduce_max, in({4, 17}).spaced(), attrs(over({-1}, 1)));
OP_CASE(reduce_min, in({2, 3}).is({1, 7, 3, -4, -5, -6}), attrs(over({1})), gives({1, -6}));
OP_CASE(reduce_min, in({4, 5, 17}).spaced(), attrs(over({0, 2})));
OP_CASE(reduce_min, in({4, 17}).spaced(), attrs(over({-1}, 1)));
OP_CASE(reduce_prod, in({3, 3}).is({1, 2, 3, -4, 0, 6, 0, 0, 5}), attrs(over({1})), gives({6, 0, 0}));
OP_CASE(reduce_prod, in({3, 3}).is({1, 2, 3, -4, 0, 6, 0, 0, 5}), attrs(over({0})), gives({0, 0, 90}));
OP_CASE(reduce_prod, in({2, 19}), attrs(over({-1}, 1)));
OP_CASE(reduce_prod, in({3, 2, 3}), attrs(over({0, 2})));
OP_CASE(reduce_l1, in({2, 3}).is({1, -2, 3, -4, 5, 6}), attrs(over({1})), gives({6, 15}));
OP_CASE(reduce_l2, in({2, 3}).is({1, -2, 2, 0, 0, 0}), attrs(over({1}, 1)), gives({3, 0}));
OP_CASE(reduce_sum_square, in({2, 3}).is({1, -2, 2, -4, 5, 6}), attrs(over({0})), gives({17, 29, 40}));
OP_CASE(reduce_log_sum, in({2, 2}).is({1, 3, 2, 4}), attrs(over({1})), gives({std::log(4), std::log(6)}));
OP_CASE(reduce_log_sum_exp, in({3, 2}).is({0, 0, -kInf, -kInf, 1000, -kInf}).without_gradient(),
        attrs(over({1})), gives({std::log(2), -kInf, 1000}));
OP_CASE(reduce_log_sum_exp, in({3, 2, 4}), attrs(over({0, 2})));
OP_CASE(reduce_log_sum_exp, in({3, 17}), attrs(over({1}, 1)));
OP_CASE(above_minus_infinity, in({3}).is({-kInf, 3, kInf}), gives({0, 3, kInf}));
OP_CASE(equal, in({3}).is({1, 2, 3}), in({}).is({2}), gives({0, 1, 0}));
OP_CASE(softmax, in({2, 3}).is({-kInf, -kInf, -kInf, -kInf, 5, 5}).without_gradient(),
        gives({0, 0, 0, 0, 0.5, 0.5}));
OP_CASE(softmax, in({3, 10}).between(-5, 5), like(softmax));
OP_CASE(softmax, in({2, 3, 33}), like(softmax));
OP_CASE(softmax, in({2}).is({1000, 1001}), gives({1 / (1 + std::exp(1)), 1 / (1 + std::exp(-1))}));
OP_CASE(log_softmax, in({3, 10}).between(-5, 5), like(log_softmax));
OP_CASE(log_softmax, in({2, 2}).is({-kInf, -kInf, -kInf, 5}).without_gradient(),
        gives({-kInf, -kInf, -kInf, 0}));

OP_CASE(reduce_sum, in(DType::i64, {2, 3}).is({1, 2, 3, -4, 5, 1 << 30}), attrs({{"axes", Dims{-1}}}),
        gives({6, (1 << 30) + 1}));
OP_CASE(reduce_sum, in(DType::i32, {3, 2, 2}), attrs({{"axes", Dims{0, 2}}, {"keep", int64_t{1}}}));

OP_CASE(arg_max, in(DType::i64, {2, 4}).is({3, 9, 9, 1, 0, 0, 0, 0}), attrs({{"axis", int64_t{1}}}),
        gives({1, 0}));
OP_CASE(arg_max, in(DType::i64, {2, 4}).is({3, 9, 9, 1, 0, 0, 0, 0}),
        attrs({{"axis", int64_t{-1}}, {"last", int64_t{1}}}), gives({2, 3}));
OP_CASE(arg_max, in({3, 2}).is({3, -1, 2, -4, 2, -4}).without_gradient(),
        attrs({{"axis", int64_t{0}}, {"least", int64_t{1}}}), gives({1, 1}));
OP_CASE(arg_max,
        in({2, 4}).is({1, NAN, 5, NAN, -INFINITY, -INFINITY, -INFINITY, -INFINITY}).without_gradient(),
        attrs({{"axis", int64_t{1}}}), gives({1, 0}));
OP_CASE(arg_max, in({2, 4}).is({1, NAN, 5, NAN, 2, 2, 2, 1}).without_gradient(),
        attrs({{"axis", int64_t{1}}, {"last", int64_t{1}}}), gives({3, 2}));
OP_CASE(arg_max, in({3, 5, 7}).without_gradient(), attrs({{"axis", int64_t{1}}}));

OP_CASE(cumulative_sum, in({2, 3}).is({1, 2, 3, 4, 5, 6}), attrs({{"axis", int64_t{1}}}),
        gives({1, 3, 6, 4, 9, 15}));
OP_CASE(cumulative_sum, in({2, 3}).is({1, 2, 3, 4, 5, 6}),
        attrs({{"axis", int64_t{1}}, {"exclusive", int64_t{1}}, {"reverse", int64_t{1}}}),
        gives({5, 3, 0, 11, 6, 0}));
OP_CASE(cumulative_sum, in({3, 5, 2}), attrs({{"axis", int64_t{-2}}, {"reverse", int64_t{1}}}));
OP_CASE(cumulative_sum, in({17, 3}), attrs({{"axis", int64_t{0}}, {"exclusive", int64_t{1}}}));
OP_CASE(cumulative_sum, in(DType::i64, {2, 4}).is({1, 0, 1, 1, 0, 0, 1, 1}), attrs({{"axis", int64_t{1}}}),
        gives({1, 1, 2, 3, 0, 0, 1, 2}));

}  // namespace
}  // namespace pock::test
