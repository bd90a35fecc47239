// Losses that are operators of their own. Class ids must be below the number of classes: whoever feeds them
// has checked.
#include "rules.h"
#include "sums.h"

namespace pock {
namespace {

using loop::Expr;
using loop::lit;

void need_logits_and_labels(const InferArgs& a) {
  need_dtype(a, 0, DType::f32);
  need_rank(a, 0, 2);
  need_type(a, 1, {DType::i32, {a.in(0).dim(0)}}, "the class of each sample");
  if (a.in(0).dim(1) == 0) throw a.fail("there are no classes");
}

// For every sample: `body(row, shift, sum)` with the value subtracted from its logits and the sum of their
// exponentials after that (1 where all logits are -inf).
void each_sample(NestArgs& n, const std::function<void(Expr row, Expr shift, Expr sum)>& body) {
  int64_t classes = n.in_type(0).dim(1);
  n.each("n", n.in_type(0).dim(0), [&](Expr row) {
    Expr shift = softmax_shift(n, classes, [&](Expr c) { return n.in(0, {row, c}); });
    Expr total = sum_lanes(n, "sum", classes, [&](Expr c) { return exp(n.in(0, {row, c}) - shift); });
    body(row, shift, load(n.reg("total", select(total == lit(0), lit(1), total))));
  });
}

const OpDef kSoftmaxCrossEntropy{
    .name = "softmax_cross_entropy",
    .doc =
        "of logits [N,C] and classes i32[N]: for each sample log(sum exp(logit - max)) - (logit of its class "
        "- max)",
    .inputs = 2,
    .infer = [](const InferArgs& a) -> Types {
      need_logits_and_labels(a);
      return {Type{DType::f32, {a.in(0).dim(0)}}};
    },
    .gradient = Gradient([](GradArgs& g) {
      g.add(0, g.b.value("softmax_cross_entropy_grad", {g.in(0), g.in(1), g.dout()}));
    }),
    .lower = Nest([](NestArgs& n) {
      each_sample(n, [&](Expr row, Expr shift, Expr sum) {
        Expr own = n.in(0, {row, cast(n.in(1, {row}), DType::i64)});
        n.out(0, {row}, log(sum) - (own - shift));
      });
    }),
};

const OpDef kSoftmaxCrossEntropyGrad{
    .name = "softmax_cross_entropy_grad",
    .doc =
        "of logits [N,C], classes i32[N], dloss [N]: (softmax(logits) - (c is the sample's class ? 1 : 0)) * "
        "dloss",
    .inputs = 3,
    .infer = [](const InferArgs& a) -> Types {
      need_logits_and_labels(a);
      need_type(a, 2, {DType::f32, {a.in(0).dim(0)}}, "the gradient of each sample's loss");
      return {a.in(0)};
    },
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Nest([](NestArgs& n) {
      each_sample(n, [&](Expr row, Expr shift, Expr sum) {
        auto label = n.reg("label", cast(n.in(1, {row}), DType::i64));
        n.each("c", n.in_type(0).dim(1), [&](Expr c) {
          Expr probability = exp(n.in(0, {row, c}) - shift) / sum;
          Expr target = select(c == load(label), lit(1), lit(0));
          n.out(0, {row, c}, (probability - target) * n.in(2, {row}));
        });
      });
    }),
};

}  // namespace

OpList loss_ops() { return {&kSoftmaxCrossEntropy, &kSoftmaxCrossEntropyGrad}; }

}  // namespace pock
