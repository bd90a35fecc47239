// Batch normalisation over x [N,C,...], in parts: statistics, normalisation, and the sums its gradients
// share.
#include "rules.h"
#include "sums.h"

namespace pock {
namespace {

using loop::Expr;
using loop::lit;

Type per_channel(const Type& x) { return {DType::f32, {x.dim(1)}}; }

void need_channels(const InferArgs& a, int i) {
  if (a.in(i).rank() < 2)
    throw a.fail("input {} needs a batch and a channel axis, it is {}", i, to_string(a.in(i)));
}

void need_epsilon(const InferArgs& a) {
  if (!(a.number("epsilon") >= 0)) throw a.fail("epsilon is {}", a.number("epsilon"));
}

// x's axes without the channels', and x's index from a channel and a position along them.
Dims positions_of(const Type& x) {
  Dims dims = x.dims;
  dims.erase(dims.begin() + 1);
  return dims;
}
std::vector<Expr> at_channel(std::vector<Expr> position, const Expr& channel) {
  position.insert(position.begin() + 1, channel);
  return position;
}

Value* spread(Builder& b, Value* channels, const Type& x) {
  return b.reshape(channels, channel_shape(x).dims);
}

// The gradient of a shift alone: the sum of norm_grad_sums, in the same order, without a look at x.
Value* sum_of_channels(Builder& b, Value* dy) {
  std::vector<int64_t> axes = {0};
  for (int axis = 2; axis < dy->type.rank(); ++axis) axes.push_back(axis);
  return b.reduce_sum(dy, axes);
}

const OpDef kNormalize{
    .name = "normalize",
    .doc =
        "(x - mean) * (scale / sqrt(variance + epsilon)) + shift, of x [N,C,...], mean, variance, scale, "
        "shift, all but x of shape [C,1,...]",
    .inputs = 5,
    .attrs = {number_attr("epsilon")},
    .infer =
        [](const InferArgs& a) {
          need_floats(a);
          need_channels(a, 0);
          need_epsilon(a);
          static constexpr const char* kNames[] = {"x", "mean", "variance", "scale", "shift"};
          for (int i = 1; i < 5; ++i) need_type(a, i, channel_shape(a.in(0)), kNames[i]);
          return same_as(a.in(0));
        },
    .gradient = Gradient([](GradArgs& g) {
      Builder& b = g.b;
      Value *x = g.in(0), *mean = g.in(1), *variance = g.in(2), *scale = g.in(3), *dy = g.dout();
      double epsilon = g.node.number("epsilon");
      Value* safe = b.add(variance, b.constant(static_cast<float>(epsilon)));
      Value* factor = b.div(scale, b.value("sqrt", {safe}));
      g.add(0, b.mul(dy, factor));
      // Nothing has to be saved where only the shift is trained.
      if (!g.wants(2) && !g.wants(3)) {
        Value* sum_dy = spread(b, sum_of_channels(b, dy), x->type);
        g.add(1, b.neg(b.mul(sum_dy, factor)));
        return g.add(4, sum_dy);
      }
      Dims channels = per_channel(x->type).dims;
      Node* sums = b.make("norm_grad_sums", {dy, x, b.reshape(mean, channels), b.reshape(variance, channels)},
                          {{"epsilon", epsilon}});
      Value *sum_dy = spread(b, sums->out(0), x->type), *sum_dy_xhat = spread(b, sums->out(1), x->type);
      g.add(1, b.neg(b.mul(sum_dy, factor)));
      g.add(2, b.mul(b.constant(-0.5f), b.div(b.mul(sum_dy_xhat, scale), safe)));
      g.add(3, sum_dy_xhat);
      g.add(4, sum_dy);
    }),
    .lower = Scalar([](const ScalarArgs& a) {
      Expr factor = a.in(3) / sqrt(a.in(2) + lit(a.number("epsilon")));
      return (a.in(0) - a.in(1)) * factor + a.in(4);
    }),
    .in_place = 1,
    .cheap = true,
};

const OpDef kNormalizeGrad{
    .name = "normalize_grad",
    .doc =
        "the gradient with respect to x of batch normalisation with x's own statistics, of dy, x, mean, "
        "variance, scale, sum_dy, sum_dy_xhat; with xhat = (x - mean) / sqrt(variance + epsilon) it is "
        "scale / sqrt(variance + epsilon) * (dy - sum_dy / count - xhat * (sum_dy_xhat / count))",
    .inputs = 7,
    .attrs = {number_attr("epsilon"), int_attr("count")},
    .infer =
        [](const InferArgs& a) {
          need_floats(a);
          need_channels(a, 0);
          need_epsilon(a);
          need_type(a, 1, a.in(0), "x");
          for (int i = 2; i < 7; ++i) need_type(a, i, channel_shape(a.in(0)), "a value of each channel");
          return same_as(a.in(0));
        },
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Scalar([](const ScalarArgs& a) {
      Expr dy = a.in(0), x = a.in(1), mean = a.in(2), variance = a.in(3), scale = a.in(4);
      Expr count = lit(static_cast<double>(a.node.integer("count")));
      Expr inverse = lit(1) / sqrt(variance + lit(a.number("epsilon")));
      Expr mean_dy = a.in(5) / count, slope = inverse * (a.in(6) / count);
      return scale * inverse * (dy - mean_dy - (x - mean) * slope);
    }),
    .in_place = 2,
};

const OpDef kMoments{
    .name = "moments",
    .doc =
        "mean and biased variance of each channel of x [N,C,...]. For each chunk, p its first element, d = "
        "x - p: s = sum d, q = sum d * d; its mean p + s / n and M2 = q - s * (s / n); chunks joined in "
        "order by Chan's formula",
    .inputs = 1,
    .results = 2,
    .infer = [](const InferArgs& a) -> Types {
      need_floats(a);
      need_channels(a, 0);
      if (a.in(0).elements() == 0) throw a.fail("there are no elements to take the mean of");
      return {per_channel(a.in(0)), per_channel(a.in(0))};
    },
    .gradient = Gradient::none("only batch_norm_train, which it is a part of, has one"),
    .lower = Nest([](NestArgs& n) {
      const Type& x = n.in_type(0);
      Chunks chunks(positions_of(x));
      Expr all = lit(static_cast<double>(chunks.positions()));
      n.each("c", x.dim(1), [&](Expr c) {
        auto mean = n.reg("mean", lit(0)), m2 = n.reg("m2", lit(0));
        chunks.each_chunk(n, [&](Expr chunk) {
          auto p = n.reg("p", n.in(0, at_channel(chunks.first_position(chunk), c)));
          auto s = n.reg("s", lit(0)), q = n.reg("q", lit(0));
          chunks.each_position(n, chunk, [&](const std::vector<Expr>& position) {
            auto d = n.reg("d", n.in(0, at_channel(position, c)) - load(p));
            n.set(s, load(s) + load(d));
            n.set(q, fma(load(d), load(d), load(q)));
          });
          // Elements before the chunk and with it.
          Expr before = cast(chunk * chunks.size(), DType::f32);
          Expr after = cast(min(chunk * chunks.size() + chunks.size(), Expr(chunks.positions())), DType::f32);
          Expr count = load(n.reg("count", after - before));
          auto ratio = n.reg("ratio", load(s) / count);
          auto delta = n.reg("delta", load(p) + load(ratio) - load(mean));
          auto chunk_m2 = n.reg("chunk_m2", load(q) - load(s) * load(ratio));
          n.set(m2, load(m2) + load(chunk_m2) + load(delta) * load(delta) * (before * count / after));
          n.set(mean, load(mean) + load(delta) * (count / after));
        });
        n.out(0, {c}, load(mean));
        n.out(1, {c}, max(load(m2), lit(0)) / all);
      });
    }),
};

const OpDef kNormGradSums{
    .name = "norm_grad_sums",
    .doc =
        "of dy, x [N,C,...], mean, variance [C]: for each channel the sum of dy and the sum of dy * xhat, "
        "with xhat = (x - mean) / sqrt(variance + epsilon): the gradients of shift and scale",
    .inputs = 4,
    .results = 2,
    .attrs = {number_attr("epsilon")},
    .infer = [](const InferArgs& a) -> Types {
      need_floats(a);
      need_channels(a, 0);
      need_epsilon(a);
      need_type(a, 1, a.in(0), "x");
      need_type(a, 2, per_channel(a.in(0)), "mean");
      need_type(a, 3, per_channel(a.in(0)), "variance");
      return {per_channel(a.in(0)), per_channel(a.in(0))};
    },
    .gradient = Gradient::none(kFirstOrderOnly),
    .lower = Nest([](NestArgs& n) {
      const Type& x = n.in_type(1);
      Chunks chunks(positions_of(x));
      n.each("c", x.dim(1), [&](Expr c) {
        auto mean = n.reg("mean", n.in(2, {c}));
        auto inverse = n.reg("inverse", lit(1) / sqrt(n.in(3, {c}) + lit(n.node.number("epsilon"))));
        auto totals = sum_chunks(n, chunks, 2, [&](Expr chunk, const auto& sums) {
          chunks.each_position(n, chunk, [&](const std::vector<Expr>& position) {
            auto at = at_channel(position, c);
            n.set(sums[0], load(sums[0]) + n.in(0, at));
            n.set(sums[1], fma(n.in(0, at), (n.in(1, at) - load(mean)) * load(inverse), load(sums[1])));
          });
        });
        n.out(0, {c}, totals[0]);
        n.out(1, {c}, totals[1]);
      });
    }),
};

void need_norm_inputs(const InferArgs& a) {
  need_floats(a);
  need_channels(a, 0);
  need_epsilon(a);
  static constexpr const char* kNames[] = {"x", "scale", "shift", "mean", "variance"};
  for (int i = 1; i < a.count(); ++i) need_type(a, i, per_channel(a.in(0)), kNames[i]);
}

const OpDef kBatchNorm{
    .name = "batch_norm",
    .doc =
        "batch normalisation as a model file has it, of x [N,C,...], scale, shift, mean, variance [C], and "
        "the "
        "statistics after it. As it stands, by the given statistics, which it leaves alone; where "
        "`training`, by "
        "x's own, of which the given ones get 1 - `momentum` parts. The pass `norms` decides its mode; with "
        "`population` the running variance takes the biased one whatever the mode",
    .inputs = 5,
    .results = 3,
    .attrs = {number_attr("epsilon"), number_attr("momentum"), int_attr("training", 0),
              int_attr("population", 0)},
    .infer = [](const InferArgs& a) -> Types {
      need_norm_inputs(a);
      return {a.in(0), a.in(3), a.in(4)};
    },
    .gradient = Gradient::none("its mode (train, frozen or fold) is not decided yet"),
    .lower = Expand([](Builder& b, const Node& n) {
      if (n.integer("training")) {
        Node* y = b.make("batch_norm_train", {n.in(0), n.in(1), n.in(2)}, {{"epsilon", n.number("epsilon")}});
        double momentum = n.number("momentum");
        return std::vector{y->out(0), b.running_average(n.in(3), y->out(1), momentum, 1),
                           b.running_average(n.in(4), y->out(2), momentum, 1)};
      }
      const Type& x = n.in(0)->type;
      auto channels = [&](int i) { return spread(b, n.in(i), x); };
      Value* y = b.value("normalize", {n.in(0), channels(3), channels(4), channels(1), channels(2)},
                         {{"epsilon", n.number("epsilon")}});
      return std::vector{y, n.in(3), n.in(4)};
    }),
    .norm_scale = 1,
};

const OpDef kBatchNormTrain{
    .name = "batch_norm_train",
    .doc =
        "batch normalisation of x [N,C,...] by its own statistics, with scale and shift [C]; also gives "
        "each channel's mean and biased variance",
    .inputs = 3,
    .results = 3,
    .attrs = {number_attr("epsilon")},
    .infer = [](const InferArgs& a) -> Types {
      need_norm_inputs(a);
      const Type& x = a.in(0);
      if (x.elements() <= x.dim(1))
        throw a.fail("batch statistics need more than one value a channel, x is {}", to_string(x));
      return {x, per_channel(x), per_channel(x)};
    },
    .gradient = Gradient([](GradArgs& g) {
      Builder& b = g.b;
      Value *x = g.in(0), *dy = g.dout(0);
      const Type& t = x->type;
      auto channels = [&](Value* v) { return spread(b, v, t); };
      const double count = static_cast<double>(t.elements() / t.dim(1));
      auto parts = [&](Value* v, double n) {
        return channels(b.mul(v, b.constant(static_cast<float>(n / count))));
      };
      if (g.dout(1)) g.add(0, b.broadcast_to(parts(g.dout(1), 1), t.dims));
      if (g.dout(2)) g.add(0, b.mul(b.sub(x, channels(g.out(1))), parts(g.dout(2), 2)));
      if (!dy) return;
      if (!g.wants(0) && !g.wants(1)) return g.add(2, sum_of_channels(b, dy));
      double epsilon = g.node.number("epsilon");
      Node* sums = b.make("norm_grad_sums", {dy, x, g.out(1), g.out(2)}, {{"epsilon", epsilon}});
      g.add(0, b.value("normalize_grad",
                       {dy, x, channels(g.out(1)), channels(g.out(2)), channels(g.in(1)),
                        channels(sums->out(0)), channels(sums->out(1))},
                       {{"epsilon", epsilon}, {"count", t.elements() / t.dim(1)}}));
      g.add(1, sums->out(1));
      g.add(2, sums->out(0));
    }),
    .lower = Expand([](Builder& b, const Node& n) {
      Value* x = n.in(0);
      Node* moments = b.make("moments", {x});
      auto channels = [&](Value* v) { return spread(b, v, x->type); };
      Value* y = b.value(
          "normalize",
          {x, channels(moments->out(0)), channels(moments->out(1)), channels(n.in(1)), channels(n.in(2))},
          {{"epsilon", n.number("epsilon")}});
      return std::vector{y, moments->out(0), moments->out(1)};
    }),
};

}  // namespace

OpList norm_ops() {
  return {&kNormalize, &kNormalizeGrad, &kMoments, &kNormGradSums, &kBatchNorm, &kBatchNormTrain};
}

}  // namespace pock
