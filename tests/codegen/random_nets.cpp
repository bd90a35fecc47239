// Random nets, random sparse schemes, random passes left out, gradients kept or not: the memory plan holds, the compiled
// step has the interpreter's bits, no pass that may be left out changes one, and the gradient of a slice is the full
// gradient's.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "pock/codegen/compile.h"
#include "pock/ops/evaluate.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"
#include "step.h"

namespace pock {
namespace {

class RandomNet {
 public:
  explicit RandomNet(unsigned seed) : random_(seed), g_(std::make_unique<Graph>("net")) {}

  std::unique_ptr<Graph> make() {
    g_->model_hash = "0123456789abcdef";
    const int64_t channels = upto(5), height = 4 + upto(7), width = 4 + upto(7);
    Value* x = g_->add_input("x", {DType::f32, {1 + upto(3), channels, height, width}});
    for (int64_t i = 1 + upto(4); i > 0; --i)
      x = some({&RandomNet::convolution, &RandomNet::block, &RandomNet::pool}, x);
    x = maybe() ? b_.reduce_mean(x, {2, 3}) : flat(x);
    for (int64_t i = upto(2); i > 0; --i) x = some({&RandomNet::linear, &RandomNet::normed}, x);
    g_->add_output(dense(x, kClasses), "scores");
    return std::move(g_);
  }

  // Of each parameter nothing, all or some channels; biases and norms as it comes.
  std::string scheme(const Graph& g) {
    std::string text = std::string("biases = ") + one_of({"'all'", "'none'", "'last:1'", "'last:2'"}) +
                       "\nnorms = " + one_of({"'all'", "'none'", "'last:1'"}) +
                       "\n[[weights]]\nmatch = 'last:1'\n";
    for (const Value* p : g.params())
      if (p->name.starts_with("w") && p->type.rank() > 1 && maybe())
        text += "[[weights]]\nmatch = '" + p->name + "'\n" +
                one_of({"", "channels = 0.5\n", "channels = 0.3\nselect = 'first'\n", "channels = 1\n"});
    return text;
  }

  std::set<std::string> some_passes() {
    std::set<std::string> names;
    for (const Pass& p : training_pipeline())
      if (p.optional && maybe()) names.insert(p.name);
    return names;
  }

  bool maybe() { return random_() % 2 != 0; }

  static constexpr int64_t kClasses = 4;

 private:
  using Layer = Value* (RandomNet::*)(Value*);

  int64_t upto(int64_t n) { return 1 + static_cast<int64_t>(random_() % static_cast<unsigned>(n)); }
  std::string one_of(const std::vector<std::string>& of) { return of[random_() % of.size()]; }
  Value* some(const std::vector<Layer>& layers, Value* x) {
    return (this->*layers[random_() % layers.size()])(x);
  }

  Value* param(const char* kind, Dims dims, float low = -0.5, float high = 0.5) {
    const Type type{DType::f32, std::move(dims)};
    std::vector<float> data(static_cast<size_t>(type.elements()));
    for (float& v : data) v = std::uniform_real_distribution<float>(low, high)(random_);
    return g_->add_param(kind + std::to_string(count_++), type, make_data(data));
  }

  Value* activated(Value* x) {
    switch (random_() % 6) {
      case 0:
        return b_.relu(x);
      case 1:
        return b_.value("clip", {x}, {{"low", 0.0}, {"high", 0.7}});
      case 2:
        return b_.value("silu", {x});
      case 3:
        return b_.value("hard_swish", {x});
      case 4:
        return b_.mul(x, b_.value("sigmoid", {x}));
      default:
        return x;
    }
  }

  Value* windowed(Value* x, int64_t channels, int64_t kernel, int64_t stride, int64_t groups) {
    Value* w = param("w", {channels, x->type.dim(1) / groups, kernel, kernel});
    const int64_t pad = kernel / 2;
    Value* y = b_.value("conv", {x, w},
                        {{"stride", Dims{stride, stride}},
                         {"pad", Dims{pad, pad, pad, pad}},
                         {"dilation", Dims{1, 1}},
                         {"groups", groups}});
    return maybe() ? b_.add(y, param("b", {channels, 1, 1})) : batch_norm(y);
  }

  Value* batch_norm(Value* x) {
    const Dims c = {x->type.dim(1)};
    Value* scale = param("scale", c, 0.5, 1.5);
    Value* shift = param("shift", c);
    auto statistic = [&](const char* kind, float value) {
      return g_->add_statistic(kind + std::to_string(count_++), {DType::f32, c},
                               make_data(std::vector<float>(static_cast<size_t>(c[0]), value)));
    };
    Value* mean = statistic("mean", 0.1f);
    Value* variance = statistic("variance", 0.9f);
    return b_.value("batch_norm", {x, scale, shift, mean, variance}, {{"epsilon", 1e-5}, {"momentum", 0.9}});
  }

  Value* convolution(Value* x) { return activated(windowed(x, upto(19), maybe() ? 1 : 3, upto(2), 1)); }
  // Widened, depthwise, projected, joined with what went in; perhaps with weights used twice.
  Value* block(Value* x) {
    const int64_t c = x->type.dim(1), wide = c + upto(18);
    Value* y = activated(windowed(x, wide, 1, 1, 1));
    y = activated(windowed(y, wide, 3, 1, wide));
    y = windowed(y, c, 1, 1, 1);
    return activated(b_.add(x, y));
  }
  Value* pool(Value* x) {
    if (x->type.dim(2) < 3 || x->type.dim(3) < 3) return convolution(x);
    return b_.value(maybe() ? "max_pool" : "avg_pool", {x},
                    {{"kernel", Dims{2, 3}}, {"stride", Dims{2, 1}}, {"pad", Dims{0, 0, 0, 0}}});
  }

  Value* flat(Value* x) { return b_.reshape(x, {x->type.dim(0), x->type.elements() / x->type.dim(0)}); }
  Value* dense(Value* x, int64_t features) {
    Value* w = maybe() ? param("w", {features, x->type.dim(1)}) : nullptr;
    Value* y = w ? b_.matmul(x, w, false, true) : b_.matmul(x, param("w", {x->type.dim(1), features}));
    return maybe() ? b_.add(y, param("b", {features})) : y;
  }
  Value* linear(Value* x) { return activated(dense(x, upto(37))); }
  // A product with one matrix twice, around a layer norm written out.
  Value* normed(Value* x) {
    Value* w = param("w", {x->type.dim(1), x->type.dim(1)}, -0.1f, 0.1f);
    Value* y = b_.add(x, b_.value("tanh", {b_.matmul(x, w)}));
    Value* d = b_.sub(y, b_.reduce_mean(y, {1}, true));
    Value* variance = b_.reduce_mean(b_.mul(d, d), {1}, true);
    y = b_.div(d, b_.value("sqrt", {b_.add(variance, b_.constant(1e-5f))}));
    return b_.matmul(b_.mul(y, param("scale", {x->type.dim(1)}, 0.5, 1.5)), w);
  }

  std::mt19937 random_;
  std::unique_ptr<Graph> g_;
  Builder b_{*g_};
  int count_ = 0;
};

// What a step from zero momentum leaves there: the gradients, of what is trained of each parameter.
std::map<std::string, std::vector<double>> gradients(const Graph& g) {
  const Memory m = one_step(g, RandomNet::kClasses);
  std::map<std::string, std::vector<double>> found;
  for (const Value* v : g.params())
    if (v->kind == ValueKind::optimizer) found[v->owner->name] = m.read(v);
  return found;
}

std::vector<double> restricted(const std::vector<double>& all, const Value& p) {
  if (!p.slice) return all;
  const auto channels = static_cast<size_t>(p.type.dim(p.slice->axis));
  size_t behind = 1;
  for (int i = p.slice->axis + 1; i < p.type.rank(); ++i) behind *= static_cast<size_t>(p.type.dim(i));
  std::vector<double> some;
  for (size_t row = 0; row < all.size(); row += channels * behind)
    for (int64_t i : p.slice->index) {
      const auto at = all.begin() + static_cast<int64_t>(row + static_cast<size_t>(i) * behind);
      some.insert(some.end(), at, at + static_cast<int64_t>(behind));
    }
  return some;
}

// Names of the optimizer's state, one for each trained parameter. (Frozen ones may be folded away.)
std::vector<std::string> states(const Learned& l) {
  std::vector<std::string> all;
  for (const auto& [name, bytes] : l.tensors)
    if (name.ends_with(".momentum_buffer")) all.push_back(name);
  return all;
}

bool has_norms(const Graph& g) {
  const std::vector<Node*> nodes = g.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const Node* n) { return n->op->norm_scale >= 0; });
}

PassOptions options_for(const Scheme& scheme) {
  PassOptions passes;
  passes.losses = {parse_loss("cross-entropy")};
  passes.scheme = scheme;
  passes.recipe.optimizer = parse_optimizer("sgd:lr=0.05,momentum=0.9,weight_decay=0.01");
  return passes;
}

class RandomNets : public testing::TestWithParam<unsigned> {
 protected:
  // Calls f(net, model, scheme) for the first `count` of twenty, up to one that fails.
  template <class F>
  static void each_net(unsigned count, const F& f) {
    for (unsigned seed = 20 * GetParam(); seed < 20 * GetParam() + count && !HasFailure(); ++seed) {
      RandomNet net(seed);
      const std::unique_ptr<Graph> model = net.make();
      const std::string scheme = net.scheme(*model);
      SCOPED_TRACE(std::to_string(seed) + "\n" + scheme);
      f(net, *model, parse_scheme(scheme, "scheme.toml"));
    }
  }
};

TEST_P(RandomNets, TrainTheSameWhateverIsLeftOut) {
  each_net(10, [](RandomNet& net, const Graph& model, const Scheme& scheme) {
    PassOptions passes = options_for(scheme);
    const Learned whole = learn(model, passes, {}, RandomNet::kClasses);
    for (const std::set<std::string>& left_out : {net.some_passes(), optional_passes()}) {
      passes.recipe.keep_gradients = net.maybe();
      const Learned learned = learn(model, passes, left_out, RandomNet::kClasses);
      EXPECT_EQ(learned.losses, whole.losses);
      EXPECT_EQ(states(learned), states(whole));
      for (const auto& [name, bytes] : learned.tensors)
        if (auto same = whole.tensors.find(name); same != whole.tensors.end()) {
          EXPECT_TRUE(bytes == same->second) << name;
        }
    }
  });
}

TEST_P(RandomNets, GiveSlicesTheFullGradient) {
  each_net(20, [](RandomNet&, const Graph& model, const Scheme& scheme) {
    PassOptions sparse = options_for(scheme), full = options_for(load_scheme("full"));
    for (PassOptions* passes : {&sparse, &full})
      if (has_norms(model)) passes->norms = {parse_norm_rule("frozen")};
    const auto all = gradients(*program_graphs(model, full, {.disabled = optional_passes()}).train);
    const ProgramGraphs graphs = program_graphs(model, sparse);
    const auto some = gradients(*graphs.train);
    EXPECT_FALSE(some.empty());
    for (const auto& [name, gradient] : some)
      EXPECT_EQ(gradient, restricted(all.at(name), *graphs.train->find(name))) << name;
  });
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomNets, testing::Range(0u, 10u));

}  // namespace
}  // namespace pock
