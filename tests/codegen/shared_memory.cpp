// Results that could share memory: convolution, batch norm and activation in every order, with a way around them, one of
// the two perhaps activated. What is learned has the bits of the interpreter, where every result has memory of its own,
// whatever passes decide who shares.
#include <gtest/gtest.h>

#include <algorithm>

#include "pock/ir/builder.h"
#include "pock/passes/passes.h"
#include "step.h"

namespace pock {
namespace {

constexpr int64_t kClasses = 4, kChannels = 5;

class Blocks {
 public:
  // What stands in the place of block(x), by what it is called.
  using Join = Value* (*)(Blocks&, Value* x);

  std::unique_ptr<Graph> make(Join join) {
    Value* x = g_->add_input("x", {DType::f32, {2, 3, 6, 5}});
    Value* sum = nullptr;
    for (const char* activation : {"relu", "silu"}) {
      activation_ = activation;
      order_ = "anc";  // activation, norm, convolution
      do {
        Value* y = join(*this, convolution(x));
        y = convolution(y);  // whose gradient asks for what it reads
        y = b_.reduce_mean(y, {2, 3});
        sum = sum ? b_.add(sum, y) : y;
      } while (std::next_permutation(order_.begin(), order_.end()));
    }
    g_->add_output(b_.matmul(sum, param("head", {kChannels, kClasses})), "scores");
    return std::move(g_);
  }

  Value* block(Value* x) {
    for (char layer : order_) x = layer == 'c' ? convolution(x) : layer == 'n' ? norm(x) : activated(x);
    return x;
  }
  Value* activated(Value* x) { return b_.value(activation_, {x}); }
  Value* add(Value* a, Value* b) { return b_.add(a, b); }

 private:
  Value* param(const std::string& kind, Dims dims, float middle = 0) {
    const Type type{DType::f32, std::move(dims)};
    std::vector<float> data = random_floats(type.elements(), static_cast<unsigned>(++count_));
    for (float& v : data) v = middle + v / 2;
    return g_->add_param(kind + std::to_string(count_), type, make_data(data));
  }
  Value* convolution(Value* x) {
    return b_.value("conv", {x, param("w", {kChannels, x->type.dim(1), 3, 3})}, {{"pad", Dims{1, 1, 1, 1}}});
  }
  Value* norm(Value* x) {
    const Dims c = {kChannels};
    Value *scale = param("scale", c, 1), *shift = param("shift", c);
    auto statistic = [&](const char* kind) {
      return g_->add_statistic(kind + std::to_string(count_), {DType::f32, c},
                               make_data(std::vector<float>(kChannels, 0.7f)));
    };
    Value *mean = statistic("mean"), *variance = statistic("variance");
    return b_.value("batch_norm", {x, scale, shift, mean, variance}, {{"epsilon", 1e-5}, {"momentum", 0.9}});
  }

  std::unique_ptr<Graph> g_ = std::make_unique<Graph>("net");
  Builder b_{*g_};
  std::string activation_, order_;
  int count_ = 0;
};

struct Case {
  const char* name;
  Blocks::Join join;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class SharedMemory : public testing::TestWithParam<Case> {};

TEST_P(SharedMemory, ChangesNoBit) {
  const std::unique_ptr<Graph> model = Blocks().make(GetParam().join);
  PassOptions passes;
  passes.losses = {parse_loss("cross-entropy")};
  passes.recipe.optimizer = parse_optimizer("sgd:lr=0.05,momentum=0.9");
  // In kernels of many nodes few results are left to share memory.
  const std::set<std::string> apart = {"fuse", "fused_update", "layout", "recompute", "masks"};
  int over = 0;
  const ProgramGraphs graphs = program_graphs(*model, passes, {.disabled = apart});
  for (const Node* n : graphs.train->nodes()) over += n->in_place >= 0;
  EXPECT_GE(over, 12);  // one in each block
  const Learned whole = learn(*model, passes, {}, kClasses), unfused = learn(*model, passes, apart, kClasses);
  ASSERT_EQ(whole.losses.size(), 3u);
  EXPECT_NE(whole.losses[0], whole.losses[2]);
  EXPECT_EQ(whole.losses, unfused.losses);
  EXPECT_TRUE(whole.tensors == unfused.tensors);
}

INSTANTIATE_TEST_SUITE_P(
    Joins, SharedMemory,
    testing::Values(
        Case{"chain", [](Blocks& b, Value* x) { return b.block(x); }},
        Case{"around", [](Blocks& b, Value* x) { return b.add(x, b.block(x)); }},
        Case{"activated_sum", [](Blocks& b, Value* x) { return b.activated(b.add(x, b.block(x))); }},
        Case{"activated_way_around", [](Blocks& b, Value* x) { return b.add(b.activated(x), b.block(x)); }},
        Case{"beside_what_it_was",
             [](Blocks& b, Value* x) {
               Value* y = b.block(x);
               return b.add(b.activated(y), y);
             }}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace pock
