// Losses that are operators of their own. Class ids lie along axis 1 of the scores; each is below the number of
// classes or `ignore_index`: whoever feeds them has checked.
#include <limits>

#include "rules.h"
#include "sums.h"

namespace pock {
namespace {

using loop::Expr;
using loop::lit;

// Of `ignore_index`: no class id equals it.
constexpr int64_t kIgnoreNone = std::numeric_limits<int64_t>::min();

const std::vector<AttrDef> kLabelAttrs = {int_attr("ignore_index", kIgnoreNone)};
const std::vector<AttrDef> kCrossEntropyAttrs = {int_attr("ignore_index", kIgnoreNone),
                                                 number_attr("label_smoothing", 0)};

Type without_classes(Type scores) {
  scores.dims.erase(scores.dims.begin() + 1);
  return scores;
}

void need_label_type(const InferArgs& a, int i) {
  if (a.in(i).dtype != DType::i32 && a.in(i).dtype != DType::i64)
    throw a.fail("class ids are i32 or i64, input {} is {}", i, to_string(a.in(i)));
}

void need_class_weights(const InferArgs& a, int i, int64_t classes) {
  if (a.count() > i + 1) throw a.fail("takes at most {} inputs, not {}", i + 1, a.count());
  if (a.count() > i) need_type(a, i, {DType::f32, {classes}}, "the weight of each class");
}

void need_scores_and_labels(const InferArgs& a) {
  need_dtype(a, 0, DType::f32);
  if (a.in(0).rank() < 2) throw a.fail("scores are [N,C,...], input 0 is {}", to_string(a.in(0)));
  if (a.in(0).dim(1) == 0) throw a.fail("there are no classes");
  need_label_type(a, 1);
  need_type(a, 1, {a.in(1).dtype, without_classes(a.in(0)).dims}, "the class at each position");
}

void need_smoothing(const InferArgs& a) {
  double smoothing = a.number("label_smoothing");
  if (!(smoothing >= 0 && smoothing <= 1)) throw a.fail("label_smoothing is {}", smoothing);
}

// The label at one position, read once: its class (0 where it is ignored), whether it is ignored, and its
// weight.
class Label {
 public:
  // `labels` and `weights` (where there are any) are inputs of the node.
  Label(NestArgs& n, int labels, int weights, const std::vector<Expr>& at)
      : n_(n), weights_(weights), ignore_(n.node.integer("ignore_index")) {
    label_ = n.reg("label", cast(n.in(labels, at), DType::i64));
  }

  Expr own_class() const { return ignores() ? select(ignored(), Expr(0), load(label_)) : load(label_); }
  bool weighted() const { return static_cast<int>(n_.node.inputs().size()) > weights_; }
  Expr weight_of(const Expr& c) const { return weighted() ? n_.in(weights_, {c}) : lit(1); }
  Expr times_weight(const Expr& value) const { return weighted() ? weight_of(own_class()) * value : value; }
  Expr zero_if_ignored(const Expr& value) const {
    return ignores() ? select(ignored(), lit(0), value) : value;
  }

 private:
  bool ignores() const { return ignore_ != kIgnoreNone; }
  Expr ignored() const { return load(label_) == Expr(ignore_); }

  NestArgs& n_;
  int weights_;
  int64_t ignore_;
  loop::BufferRef label_;
};

std::vector<Expr> at_class(std::vector<Expr> position, const Expr& c) {
  position.insert(position.begin() + 1, c);
  return position;
}

// The scores (input 0) at one position, and what softmax makes of them. Sums over the classes run in lanes where
// they are the last axis, else in order.
class Scores {
 public:
  Scores(NestArgs& n, std::vector<Expr> at) : n_(n), at_(std::move(at)) {
    shift_ = shift();
    Expr total = sum([&](const Expr& c) { return exp(score(c) - shift_); });
    total_ = load(n.reg("total", select(total == lit(0), lit(1), total)));
  }

  int64_t count() const { return n_.in_type(0).dim(1); }
  bool last_axis() const { return n_.in_type(0).rank() == 2; }
  Expr score(const Expr& c) const { return n_.in(0, at_class(at_, c)); }
  Expr probability(const Expr& c) const { return exp(score(c) - shift_) / total_; }
  // -log(probability), exact where that is near 0 or too small for a float.
  Expr surprise(const Expr& c) const { return log(total_) - (score(c) - shift_); }

  Expr sum(const std::function<Expr(Expr c)>& term) const {
    if (last_axis()) return sum_lanes(n_, "sum", count(), term);
    Chunks classes({count()});
    return sum_chunks(n_, classes, 1, [&](const Expr& chunk, const auto& sums) {
      classes.each_position(n_, chunk,
                            [&](const std::vector<Expr>& c) { n_.set(sums[0], load(sums[0]) + term(c[0])); });
    })[0];
  }

 private:
  // What is subtracted from the scores: the greatest, or 0 where all are -inf.
  Expr shift() const {
    if (last_axis()) return softmax_shift(n_, count(), [&](const Expr& c) { return score(c); });
    Expr nothing = lit(-std::numeric_limits<double>::infinity());
    auto greatest = n_.reg("max", nothing);
    n_.loop("c", 0, count(), [&](const Expr& c) { n_.set(greatest, max(load(greatest), score(c))); });
    return load(n_.reg("shift", select(load(greatest) == nothing, lit(0), load(greatest))));
  }

  NestArgs& n_;
  std::vector<Expr> at_;
  Expr shift_, total_;
};

const OpDef kSoftmaxCrossEntropy{
    .name = "softmax_cross_entropy",
    .doc =
        "of scores [N,C,...], class ids [N,...] and perhaps class weights [C]: at each position w[y] * s[y], "
        "y its "
        "class, s = log(sum exp(score - max)) - (score - max); with label_smoothing e it is (1 - e) * w[y] * "
        "s[y] "
        "+ e / C * (sum over c of w[c] * s[c]); 0 where the class is ignore_index",
    .inputs = 2,
    .attrs = kCrossEntropyAttrs,
    .infer = [](const InferArgs& a) -> Types {
      need_scores_and_labels(a);
      need_class_weights(a, 2, a.in(0).dim(1));
      need_smoothing(a);
      return {without_classes(a.in(0))};
    },
    .gradient = Gradient([](GradArgs& g) {
      std::vector<Value*> inputs = {g.in(0), g.in(1), g.dout()};
      inputs.insert(inputs.end(), g.node.inputs().begin() + 2, g.node.inputs().end());
      g.add(0, g.b.value("softmax_cross_entropy_grad", inputs, g.node.attrs));
    }),
    .lower = Nest([](NestArgs& n) {
      const double smoothing = n.node.number("label_smoothing");
      n.each(n.out_type().dims, [&](const std::vector<Expr>& at) {
        Label label(n, 1, 2, at);
        Scores scores(n, at);
        Expr loss = label.times_weight(scores.surprise(label.own_class()));
        if (smoothing > 0) {
          Expr spread = scores.sum([&](const Expr& c) {
            return label.weighted() ? label.weight_of(c) * scores.surprise(c) : scores.surprise(c);
          });
          loss = lit(1 - smoothing) * loss + lit(smoothing / static_cast<double>(scores.count())) * spread;
        }
        n.out(0, at, label.zero_if_ignored(loss));
      });
    }),
    .variadic = true,
    .gradients = 1,
    .class_ids = 1,
};

const OpDef kSoftmaxCrossEntropyGrad{
    .name = "softmax_cross_entropy_grad",
    .doc =
        "of scores [N,C,...], class ids [N,...], dloss [N,...] and perhaps class weights [C], with p = "
        "softmax(scores) over C and t[c] = (c is the class ? 1 : 0): (p - t) * w[y] * dloss; with "
        "label_smoothing e "
        "((1 - e) * w[y] * (p - t) + e / C * ((sum w) * p - w)) * dloss; 0 where the class is ignore_index",
    .inputs = 3,
    .attrs = kCrossEntropyAttrs,
    .infer = [](const InferArgs& a) -> Types {
      need_scores_and_labels(a);
      need_type(a, 2, without_classes(a.in(0)), "the gradient of the loss at each position");
      need_class_weights(a, 3, a.in(0).dim(1));
      need_smoothing(a);
      return {a.in(0)};
    },
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Nest([](NestArgs& n) {
      const double smoothing = n.node.number("label_smoothing");
      n.each(n.in_type(1).dims, [&](const std::vector<Expr>& at) {
        Label label(n, 1, 3, at);
        Scores scores(n, at);
        const double share = smoothing / static_cast<double>(scores.count());
        Expr all = lit(static_cast<double>(scores.count()));
        if (label.weighted() && smoothing > 0)
          all = load(n.reg("all", scores.sum([&](const Expr& c) { return label.weight_of(c); })));
        auto own = n.reg("own", label.own_class());
        auto store = [&](const Expr& c) {
          Expr p = scores.probability(c);
          Expr slope = label.times_weight(p - select(c == load(own), lit(1), lit(0)));
          if (smoothing > 0) slope = lit(1 - smoothing) * slope + lit(share) * (all * p - label.weight_of(c));
          n.out(0, at_class(at, c), label.zero_if_ignored(slope * n.in(2, at)));
        };
        // Neighbours in memory are the classes, or else the positions.
        if (scores.last_axis())
          n.each("c", scores.count(), store);
        else
          n.loop("c", 0, scores.count(), store);
      });
    }),
    .variadic = true,
};

const OpDef kNegativeLogLikelihood{
    .name = "negative_log_likelihood",
    .doc =
        "of log-probabilities [N,C,...], class ids [N,...] and perhaps class weights [C]: at each position "
        "-w[y] * (log-probability of its class y); 0 where the class is ignore_index",
    .inputs = 2,
    .attrs = kLabelAttrs,
    .infer = [](const InferArgs& a) -> Types {
      need_scores_and_labels(a);
      need_class_weights(a, 2, a.in(0).dim(1));
      return {without_classes(a.in(0))};
    },
    .gradient = Gradient([](GradArgs& g) {
      std::vector<Value*> inputs = {g.in(1), g.dout()};
      inputs.insert(inputs.end(), g.node.inputs().begin() + 2, g.node.inputs().end());
      Attrs attrs = g.node.attrs;
      attrs["classes"] = g.in(0)->type.dim(1);
      g.add(0, g.b.value("negative_log_likelihood_grad", inputs, attrs));
    }),
    .lower = Nest([](NestArgs& n) {
      n.each(n.out_type().dims, [&](const std::vector<Expr>& at) {
        Label label(n, 1, 2, at);
        n.out(0, at, label.zero_if_ignored(label.times_weight(-n.in(0, at_class(at, label.own_class())))));
      });
    }),
    .variadic = true,
    .gradients = 1,
    .class_ids = 1,
};

const OpDef kNegativeLogLikelihoodGrad{
    .name = "negative_log_likelihood_grad",
    .doc =
        "of class ids [N,...], dloss [N,...] and perhaps class weights [C]: -w[y] * dloss at each position's "
        "class "
        "y of [N,C,...], 0 elsewhere and where the class is ignore_index",
    .inputs = 2,
    .attrs = {int_attr("ignore_index", kIgnoreNone), int_attr("classes")},
    .infer = [](const InferArgs& a) -> Types {
      need_label_type(a, 0);
      if (a.in(0).rank() < 1) throw a.fail("class ids are [N,...], input 0 is {}", to_string(a.in(0)));
      need_type(a, 1, {DType::f32, a.in(0).dims}, "the gradient of the loss at each position");
      if (a.integer("classes") < 1) throw a.fail("classes is {}", a.integer("classes"));
      need_class_weights(a, 2, a.integer("classes"));
      Dims dims = a.in(0).dims;
      dims.insert(dims.begin() + 1, a.integer("classes"));
      return {Type{DType::f32, dims}};
    },
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Nest([](NestArgs& n) {
      n.each(n.out_type().dims, [&](const std::vector<Expr>& index) {
        std::vector<Expr> at = index;
        at.erase(at.begin() + 1);
        Label label(n, 0, 2, at);
        Expr slope = label.zero_if_ignored(label.times_weight(-n.in(1, at)));
        n.out(0, index, select(index[1] == label.own_class(), slope, lit(0)));
      });
    }),
    .variadic = true,
};

const OpDef kLabelWeights{
    .name = "label_weights",
    .doc =
        "of class ids, and perhaps class weights [C]: the weight of each class id, 1 without weights; 0 "
        "where it is "
        "ignore_index. A weighted mean of losses divides by their sum",
    .inputs = 1,
    .attrs = kLabelAttrs,
    .infer = [](const InferArgs& a) -> Types {
      need_label_type(a, 0);
      if (a.count() > 1) {
        need_rank(a, 1, 1);
        need_class_weights(a, 1, a.in(1).dim(0));
      }
      return {Type{DType::f32, a.in(0).dims}};
    },
    .gradient = Gradient::none("class ids have none"),
    .lower = Nest([](NestArgs& n) {
      n.each(n.out_type().dims, [&](const std::vector<Expr>& at) {
        Label label(n, 0, 1, at);
        n.out(0, at, label.zero_if_ignored(label.weight_of(label.own_class())));
      });
    }),
    .variadic = true,
};

const OpDef kBceWithLogits{
    .name = "bce_with_logits",
    .doc = "binary cross-entropy of logits x and targets y: max(x, 0) - x * y + log(1 + exp(-|x|))",
    .inputs = 2,
    .infer = broadcast_floats,
    .gradient = Gradient([](GradArgs& g) {
      Value *x = g.in(0), *y = g.in(1);
      g.add(0, g.b.sum_to(g.b.mul(g.b.sub(g.b.value("sigmoid", {x}), y), g.dout()), x->type.dims));
      g.add(1, g.b.sum_to(g.b.neg(g.b.mul(x, g.dout())), y->type.dims));
    }),
    .lower = Scalar([](const ScalarArgs& a) {
      Expr x = a.in(0);
      return max(x, lit(0)) - x * a.in(1) + log(lit(1) + exp(-abs(x)));
    }),
    .in_place = 2,
};

const OpDef kDivOrZero{
    .name = "div_or_zero",
    .doc = "b == 0 ? 0 : a / b: a weighted mean, 0 where nothing has a weight",
    .inputs = 2,
    .infer = broadcast_floats,
    .gradient = Gradient([](GradArgs& g) {
      Value* over_b = g.b.value("div_or_zero", {g.dout(), g.in(1)});
      g.add(0, g.b.sum_to(over_b, g.in(0)->type.dims));
      g.add(1, g.b.sum_to(g.b.neg(g.b.mul(over_b, g.out())), g.in(1)->type.dims));
    }),
    .lower = Scalar([](const ScalarArgs& a) {
      Expr zero = a.in(1) == lit(0);
      return select(zero, lit(0), a.in(0) / a.in(1));
    }),
    .in_place = 2,
};

}  // namespace

OpList loss_ops() {
  return {&kSoftmaxCrossEntropy,   &kSoftmaxCrossEntropyGrad,   &kLabelWeights, &kBceWithLogits,
          &kNegativeLogLikelihood, &kNegativeLogLikelihoodGrad, &kDivOrZero};
}

}  // namespace pock
