#include <cmath>

#include "ops/cases/op_case.h"

namespace pock::test {
namespace {

Numbers probabilities(const Type& logits, const Numbers& in) {
  Numbers p = in;
  for (auto at = p.begin(); at != p.end(); at += logits.dim(1)) {
    double sum = 0;
    for (int64_t c = 0; c < logits.dim(1); ++c) sum += std::exp(at[c]);
    for (int64_t c = 0; c < logits.dim(1); ++c) at[c] = std::exp(at[c]) / sum;
  }
  return p;
}
std::vector<Numbers> cross_entropy(const Node& n, const std::vector<Numbers>& in) {
  int64_t classes = n.in(0)->type.dim(1);
  Numbers p = probabilities(n.in(0)->type, in[0]), loss;
  for (size_t i = 0; i < in[1].size(); ++i)
    loss.push_back(-std::log(p[i * classes + static_cast<size_t>(in[1][i])]));
  return {loss};
}
std::vector<Numbers> cross_entropy_grad(const Node& n, const std::vector<Numbers>& in) {
  int64_t classes = n.in(0)->type.dim(1);
  Numbers d = probabilities(n.in(0)->type, in[0]);
  for (size_t i = 0; i < in[1].size(); ++i) {
    d[i * classes + static_cast<size_t>(in[1][i])] -= 1;
    for (int64_t c = 0; c < classes; ++c) d[i * classes + c] *= in[2][i];
  }
  return {d};
}

OP_CASE(softmax_cross_entropy, in({2, 2}).is({0, 0, 1000, 0}), in(DType::i32, {2}).is({1, 0}),
        gives({std::log(2), 0}));
OP_CASE(softmax_cross_entropy, in({7, 10}).between(-4, 4), in(DType::i32, {7}).between(0, 9),
        like(cross_entropy));
OP_CASE(softmax_cross_entropy, in({3, 33}), in(DType::i32, {3}).between(0, 32), like(cross_entropy));
OP_CASE(softmax_cross_entropy_grad, in({7, 10}), in(DType::i32, {7}).between(0, 9), in({7}),
        like(cross_entropy_grad));
OP_CASE(softmax_cross_entropy_grad, in({2, 17}), in(DType::i32, {2}).between(0, 16), in({2}),
        like(cross_entropy_grad));

}  // namespace
}  // namespace pock::test
