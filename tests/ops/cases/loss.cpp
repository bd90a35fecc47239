#include <cmath>

#include "ops/cases/op_case.h"

namespace pock::test {
namespace {

// One position of scores [N,C,...] and its label. Where class weights are the input `weights`.
struct Position {
  Numbers p;  // softmax of its scores
  Numbers w;  // of each class
  size_t label = 0;
  bool ignored = false;
  std::vector<size_t> at;  // of each class among the scores
};

std::vector<Position> positions(const Node& n, const std::vector<Numbers>& in, size_t weights) {
  const Type& scores = n.in(0)->type;
  size_t classes = scores.dim(1), inner = scores.elements() / (scores.dim(0) * classes);
  std::vector<Position> all;
  for (size_t i = 0; i < in[1].size(); ++i) {
    Position position;
    double sum = 0;
    for (size_t c = 0; c < classes; ++c) {
      position.at.push_back((i / inner * classes + c) * inner + i % inner);
      position.p.push_back(std::exp(in[0][position.at.back()]));
      sum += position.p.back();
    }
    for (double& p : position.p) p /= sum;
    position.w = in.size() > weights ? in[weights] : Numbers(classes, 1);
    auto label = static_cast<int64_t>(in[1][i]);
    position.ignored = label == n.integer("ignore_index");
    position.label = position.ignored ? 0 : static_cast<size_t>(label);
    all.push_back(position);
  }
  return all;
}

std::vector<Numbers> cross_entropy(const Node& n, const std::vector<Numbers>& in) {
  Numbers loss;
  double e = n.number("label_smoothing");
  for (const Position& at : positions(n, in, 2)) {
    double hard = -at.w[at.label] * std::log(at.p[at.label]), soft = 0;
    for (size_t c = 0; c < at.p.size(); ++c) soft -= at.w[c] * std::log(at.p[c]);
    loss.push_back(at.ignored ? 0 : (1 - e) * hard + e / static_cast<double>(at.p.size()) * soft);
  }
  return {loss};
}
std::vector<Numbers> cross_entropy_grad(const Node& n, const std::vector<Numbers>& in) {
  Numbers d(in[0].size());
  double e = n.number("label_smoothing");
  std::vector<Position> all = positions(n, in, 3);
  for (size_t i = 0; i < all.size(); ++i) {
    const Position& at = all[i];
    double sum = 0;
    for (double w : at.w) sum += w;
    for (size_t c = 0; c < at.p.size(); ++c) {
      double hard = at.w[at.label] * (at.p[c] - (c == at.label));
      double soft = (sum * at.p[c] - at.w[c]) / static_cast<double>(at.p.size());
      d[at.at[c]] = at.ignored ? 0 : ((1 - e) * hard + e * soft) * in[2][i];
    }
  }
  return {d};
}
std::vector<Numbers> likelihood(const Node& n, const std::vector<Numbers>& in) {
  Numbers loss;
  for (const Position& at : positions(n, in, 2))
    loss.push_back(at.ignored ? 0 : -at.w[at.label] * in[0][at.at[at.label]]);
  return {loss};
}
std::vector<Numbers> bce(const Node&, const std::vector<Numbers>& in) {
  Numbers loss;
  for (size_t i = 0; i < in[0].size(); ++i) {
    double p = 1 / (1 + std::exp(-in[0][i])), y = in[1][i % in[1].size()];
    loss.push_back(-y * std::log(p) - (1 - y) * std::log(1 - p));
  }
  return {loss};
}

Attrs ignoring(int64_t label) { return {{"ignore_index", label}}; }
// Dyadic, and classes are powers of two: exact in f32.
Attrs smoothed(double e) { return {{"label_smoothing", e}}; }
Attrs both(int64_t label, double e) { return {{"ignore_index", label}, {"label_smoothing", e}}; }

In classes(Dims dims, double low, double high) { return in(DType::i32, std::move(dims)).between(low, high); }
In weights(int64_t n) { return in({n}).between(0.1, 2).without_gradient(); }

OP_CASE(softmax_cross_entropy, in({2, 2}).is({0, 0, 1000, 0}), in(DType::i32, {2}).is({1, 0}),
        gives({std::log(2), 0}));
// Scores of -inf: a class that cannot be, and nothing that can.
OP_CASE(softmax_cross_entropy, in({2, 2}).is({-INFINITY, 3, -INFINITY, -INFINITY}).without_gradient(),
        in(DType::i32, {2}).is({1, 0}), gives({0, INFINITY}));
OP_CASE(softmax_cross_entropy, in({7, 10}).between(-4, 4), classes({7}, 0, 9), like(cross_entropy));
OP_CASE(softmax_cross_entropy, in({3, 33}), classes({3}, 0, 32), like(cross_entropy));
OP_CASE(softmax_cross_entropy, in({5, 7}), in(DType::i64, {5}).between(0, 6), like(cross_entropy));
OP_CASE(softmax_cross_entropy, in({2, 5, 17}), classes({2, 17}, 0, 4), like(cross_entropy));
OP_CASE(softmax_cross_entropy, in({2, 3, 4, 9}), classes({2, 4, 9}, 0, 2), weights(3), like(cross_entropy));
OP_CASE(softmax_cross_entropy, in({9, 4}), classes({9}, -1, 3), attrs(ignoring(-1)), like(cross_entropy));
OP_CASE(softmax_cross_entropy, in({9, 4}), classes({9}, 0, 3), weights(4), attrs(both(2, 0.25)),
        like(cross_entropy));
OP_CASE(softmax_cross_entropy, in({2, 4, 3, 3}), classes({2, 3, 3}, 0, 3), weights(4), attrs(both(0, 0.125)),
        like(cross_entropy));
OP_CASE(softmax_cross_entropy, in({5, 32}), classes({5}, 0, 31), attrs(smoothed(1)), like(cross_entropy));
// Every label ignored: nothing, whatever the scores are.
OP_CASE(softmax_cross_entropy, in({2, 3}).is({NAN, 1, 2, INFINITY, 0, 0}).without_gradient(),
        in(DType::i32, {2}).is({255, 255}), attrs(ignoring(255)), gives({0, 0}));

OP_CASE(softmax_cross_entropy_grad, in({7, 10}), classes({7}, 0, 9), in({7}), like(cross_entropy_grad));
OP_CASE(softmax_cross_entropy_grad, in({2, 17}), classes({2}, 0, 16), in({2}), like(cross_entropy_grad));
OP_CASE(softmax_cross_entropy_grad, in({2, 5, 17}), classes({2, 17}, 0, 4), in({2, 17}),
        like(cross_entropy_grad));
OP_CASE(softmax_cross_entropy_grad, in({2, 4, 3, 3}), classes({2, 3, 3}, 0, 4), in({2, 3, 3}), weights(4),
        attrs(both(4, 0.125)), like(cross_entropy_grad));
OP_CASE(softmax_cross_entropy_grad, in({6, 4}), classes({6}, 0, 3), in({6}), weights(4), attrs(ignoring(1)),
        like(cross_entropy_grad));
OP_CASE(softmax_cross_entropy_grad, in({1, 3}).is({NAN, 1, INFINITY}), in(DType::i32, {1}).is({255}), in({1}),
        attrs(ignoring(255)), gives({0, 0, 0}));

OP_CASE(negative_log_likelihood, in({2, 3}).is({-1, -2, -3, -4, -5, -6}), in(DType::i32, {2}).is({2, 0}),
        gives({3, 4}));
OP_CASE(negative_log_likelihood, in({2, 3, 4, 9}), classes({2, 4, 9}, 0, 3), weights(3), attrs(ignoring(3)),
        like(likelihood));
OP_CASE(negative_log_likelihood, in({5, 19}), in(DType::i64, {5}).between(0, 18), like(likelihood));
OP_CASE(negative_log_likelihood_grad, in(DType::i32, {2}).is({2, 0}), in({2}).is({10, 20}),
        in({3}).is({1, 2, 3}), attrs({{"classes", int64_t{3}}, {"ignore_index", int64_t{0}}}),
        gives({0, 0, -30, 0, 0, 0}));
OP_CASE(negative_log_likelihood_grad, in(DType::i64, {1, 2}).is({1, 0}), in({1, 2}).is({10, 20}),
        attrs({{"classes", int64_t{2}}}), gives({0, -20, -10, 0}));

OP_CASE(label_weights, in(DType::i32, {4}).is({2, -100, 0, 1}), in({3}).is({0.5, 0.25, 4}),
        attrs(ignoring(-100)), gives({4, 0, 0.5, 0.25}));
OP_CASE(label_weights, in(DType::i64, {2, 2}).is({2, 0, 0, 1}), attrs(ignoring(0)), gives({1, 0, 0, 1}));

OP_CASE(bce_with_logits, in({5, 7}), in({5, 7}).between(0, 1), like(bce));
OP_CASE(bce_with_logits, in({5, 7}), in({7}).between(0, 1), like(bce));
// Exact where the sigmoid is 0 or 1.
OP_CASE(bce_with_logits, in({4}).is({200, 200, -200, -200}), in({4}).is({1, 0, 1, 0}),
        gives({0, 200, 200, 0}));

OP_CASE(div_or_zero, in({3}).is({1, 2, 0}), in({3}).is({4, 0, 0}).without_gradient(), gives({0.25, 0, 0}));
OP_CASE(div_or_zero, in({3, 5}), in({5}).between(0.5, 2));

}  // namespace
}  // namespace pock::test
