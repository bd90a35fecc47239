// One weight in two places: its gradient is the sum of what each place gives, to the bit; one update, one state; and no
// pass, optimizer or sparse scheme changes a bit of that.
#include <gtest/gtest.h>

#include <algorithm>

#include "pock/ir/builder.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"
#include "step.h"

namespace pock {
namespace {

constexpr int64_t kClasses = 7;

// A net that reads `first` and `second`, which are one parameter or two of the same numbers.
class Net {
 public:
  using Body = Value* (*)(Net&, Value* first, Value* second);

  std::unique_ptr<Graph> make(Dims dims, Body body, bool tied) {
    Value* first = param("w", dims);
    Value* second = first;
    if (!tied) {
      second = g->add_param("w2", first->type, first->data);
    }
    Value* y = body(*this, first, second);
    g->add_output(y->type.dim(1) == kClasses ? y : b.matmul(y, param("head", {y->type.dim(1), kClasses})),
                  "scores");
    return std::move(g);
  }
  Value* param(const std::string& name, Dims dims) {
    const Type type{DType::f32, std::move(dims)};
    return g->add_param(name, type,
                        make_data(random_floats(type.elements(), static_cast<unsigned>(name.size()))));
  }
  Value* input(const char* name, DType dtype, Dims dims) {
    return g->add_input(name, {dtype, std::move(dims)});
  }

  std::unique_ptr<Graph> g = std::make_unique<Graph>("net");
  Builder b{*g};
};

struct Case {
  const char* name;
  Dims weight;
  Net::Body body;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// The rows of a table and, behind a layer, their products with all of it.
Value* embedding(Net& n, Value* first, Value* second) {
  Value* rows = n.b.value("gather", {first, n.input("ids", DType::i32, {9})}, {{"axis", int64_t{0}}});
  Value* h = n.b.relu(n.b.add(n.b.matmul(rows, n.param("body", {6, 6})), n.param("bias", {6})));
  return n.b.matmul(h, n.b.transpose(second, {1, 0}));
}

Value* siamese(Net& n, Value* first, Value* second) {
  Value* bias = n.param("bias", {5, 1, 1});
  auto side = [&](const char* name, Value* w) {
    Value* x = n.input(name, DType::f32, {4, 3, 7, 6});
    return n.b.relu(n.b.add(n.b.value("conv", {x, w}, {{"pad", Dims{1, 1, 1, 1}}}), bias));
  };
  Value* left = side("left", first);
  return n.b.reduce_mean(n.b.mul(left, side("right", second)), {2, 3});
}

// One matrix, the second time transposed, and a bias of its own for each.
Value* both_ways(Net& n, Value* first, Value* second) {
  Value* x = n.input("x", DType::f32, {8, 9});
  Value* h = n.b.relu(n.b.add(n.b.matmul(x, first, false, true), n.param("b1", {5})));
  return n.b.relu(n.b.add(n.b.matmul(h, second), n.param("b2", {9})));
}

// A convolution, and once more behind itself.
Value* recurrent(Net& n, Value* first, Value* second) {
  Value* x = n.input("x", DType::f32, {2, 5, 6, 7});
  for (Value* w : {first, second})
    x = n.b.value("tanh", {n.b.value("conv", {x, w}, {{"pad", Dims{1, 1, 1, 1}}})});
  return n.b.reduce_mean(x, {2, 3});
}

PassOptions training(const std::string& optimizer) {
  PassOptions passes;
  passes.losses = {parse_loss("cross-entropy")};
  passes.recipe.optimizer = parse_optimizer(optimizer);
  return passes;
}

class Tied : public testing::TestWithParam<Case> {
 protected:
  static std::unique_ptr<Graph> net(bool tied) {
    return Net().make(GetParam().weight, GetParam().body, tied);
  }
};

TEST_P(Tied, GradientsAddUp) {
  PassOptions passes = training("sgd");
  passes.recipe.keep_gradients = true;
  const auto one = kept_gradients(*program_graphs(*net(true), passes).train, kClasses),
             two = kept_gradients(*program_graphs(*net(false), passes).train, kClasses);
  ASSERT_EQ(one.size() + 1, two.size());
  for (const auto& [name, gradient] : one) {
    if (name != "w") {
      EXPECT_EQ(gradient, two.at(name)) << name;
      continue;
    }
    const std::vector<double>&first = two.at("w"), &second = two.at("w2");
    EXPECT_NE(first, second);
    for (size_t i = 0; i < gradient.size(); ++i)
      ASSERT_EQ(gradient[i], static_cast<float>(first[i]) + static_cast<float>(second[i])) << i;
  }
}

TEST_P(Tied, AreUpdatedOnceWhateverIsLeftOut) {
  const char* part = "biases = 'all'\n[[weights]]\nmatch = '*'\n[[weights]]\nmatch = 'w'\nchannels = 0.4\n";
  const std::unique_ptr<Graph> model = net(true);
  for (const auto& [optimizer, sparse] : {std::pair{"sgd:lr=0.1", false},
                                          {"sgd:lr=0.1,momentum=0.9,weight_decay=0.01", true},
                                          {"adamw:lr=0.01", false}}) {
    SCOPED_TRACE(optimizer);
    PassOptions passes = training(optimizer);
    if (sparse) passes.scheme = parse_scheme(part, "part.toml");
    const ProgramGraphs graphs = program_graphs(*model, passes);
    const Value* w = graphs.train->find("w");
    EXPECT_EQ(w->slice.has_value(), sparse);
    EXPECT_EQ(std::count_if(w->users.begin(), w->users.end(),
                            [&](const Node* n) { return n->op->has_effect() && n->in(0) == w; }),
              1);
    const Learned whole = learn(*model, passes, {}, kClasses);
    EXPECT_NE(whole.losses[0], whole.losses[2]);
    for (const std::set<std::string>& left_out :
         {std::set<std::string>{"immediate_update"}, optional_passes()}) {
      const Learned learned = learn(*model, passes, left_out, kClasses, /*updates_in_place=*/false);
      EXPECT_EQ(learned.losses, whole.losses);
      EXPECT_TRUE(learned.tensors == whole.tensors);
    }
  }
}

// A bias belongs to the place where it is added.
TEST(TiedBiases, AreAllBiases) {
  const std::unique_ptr<Graph> model = Net().make({5, 9}, both_ways, true);
  for (const auto& [scheme, trained] : {std::pair{"bias-only", std::set<std::string>{"b1", "b2", "head"}},
                                        {"last:2", {"w", "b1", "b2", "head"}},
                                        {"last:1", {"head"}}}) {
    PassOptions passes = training("sgd");
    passes.scheme = load_scheme(scheme);
    std::set<std::string> names;
    const ProgramGraphs graphs = program_graphs(*model, passes);
    for (const Value* p : graphs.train->params())
      if (p->trained) names.insert(p->name);
    EXPECT_EQ(names, trained) << scheme;
  }
}

INSTANTIATE_TEST_SUITE_P(Weights, Tied,
                         testing::Values(Case{"embedding", {kClasses, 6}, embedding},
                                         Case{"siamese", {5, 3, 3, 3}, siamese},
                                         Case{"both_ways", {5, 9}, both_ways},
                                         Case{"recurrent", {5, 5, 3, 3}, recurrent}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace pock
