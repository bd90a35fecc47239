// Adapters beside products and convolutions of every form: their gradients against differences in double, and that
// they add what the merged weight would.
#include "pock/passes/lora.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "pock/ir/text.h"
#include "pock/ops/evaluate.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

struct Form {
  const char* name;
  std::string x, w;  // types
  std::string y;     // the node that makes %y
};
void PrintTo(const Form& f, std::ostream* out) { *out << f.name; }

class Adapters : public testing::TestWithParam<Form> {
 protected:
  Adapters() {
    const Form& f = GetParam();
    g_ = parse_graph("pock 1\ngraph @g {\ninput %x : " + f.x + "\nparam %l.weight : " + f.w + "\n" + f.y +
                         "\noutput %y \"y\"\n}\n",
                     "t");
  }

  // The sum of y, each element times a number, as the loss.
  void make_loss() {
    Builder b(*g_);
    Value* y = g_->outputs()[0];
    Value* loss = b.reduce_sum(b.mul(y, b.constant(y->type, floats(y->type, 5))), {});
    g_->remove_output(0);
    g_->add_output(loss, "loss");
  }

  std::vector<float> floats(const Type& type, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> v(static_cast<size_t>(type.elements()));
    for (float& x : v) x = normal(random);
    return v;
  }
  std::vector<double> doubles(const Type& type, unsigned seed) {
    const std::vector<float> v = floats(type, seed);
    return {v.begin(), v.end()};
  }

  void add(double alpha = 6) {
    PassOptions options;
    options.scheme = parse_scheme(
        "[[lora]]\nmatch = 'l.weight'\nrank = 3\nalpha = " + std::to_string(alpha) + "\n", "s.toml");
    form_ = form_of(adapters(*g_, options).at(0));
    select(*g_, options);
  }

  Memory memory() {
    Memory m = initial_memory(*g_, loop::Precision::f64);
    unsigned seed = 1;
    for (const Value* v : g_->leaves())
      if (v->kind == ValueKind::input || v->kind == ValueKind::param) m.set(v, doubles(v->type, seed++));
    return m;
  }

  std::unique_ptr<Graph> g_;
  LoraForm form_{};
};

TEST_P(Adapters, HaveGradientsThatAgreeWithDifferences) {
  make_loss();
  add();
  const std::unique_ptr<Graph> forward = g_->clone();
  autodiff(*g_, {});
  ASSERT_EQ(g_->outputs().size(), 3u);  // the frozen weight has no gradient
  Memory m = memory();
  evaluate(*g_, m);
  int checked = 0;
  for (const char* factor : {"A", "B"}) {
    const std::string name = std::string("base_model.model.l.lora_") + factor + ".weight";
    const Value* p = g_->find(name);
    ASSERT_NE(p, nullptr);
    const Value* gradient = nullptr;
    for (size_t i = 1; i < g_->outputs().size(); ++i)
      if (g_->output_name(i) == gradient_output_name(*p)) gradient = g_->outputs()[i];
    ASSERT_NE(gradient, nullptr);
    const std::vector<double> analytic = m.read(gradient), start = m.read(p);
    for (size_t k = 0; k < start.size(); ++k) {
      auto loss = [&](double by) {
        Memory moved = memory();
        std::vector<double> there = start;
        there[k] += by;
        moved.set(p, there);
        evaluate(*g_, moved);
        return moved.read(g_->outputs()[0])[0];
      };
      // The loss is linear in each factor.
      EXPECT_NEAR(analytic[k], (loss(1) - loss(-1)) / 2, 1e-9 * std::max(1.0, std::abs(analytic[k]))) << name;
      ++checked;
    }
  }
  EXPECT_GE(checked, 6);
}

// y is what it would be of the weight plus alpha / rank times the product of the factors.
TEST_P(Adapters, ComputeWhatTheMergedWeightWould) {
  const std::unique_ptr<Graph> plain = g_->clone();
  Builder b(*g_);
  b.graph.add_output(b.reduce_sum(g_->outputs()[0], {}), "loss");
  add();
  Memory m = memory();
  evaluate(*g_, m);
  const std::vector<double> want = m.read(g_->outputs()[0]);

  auto number = [&](const char* name) { return m.read(g_->find(name)); };
  std::vector<double> w = number("l.weight");
  const std::vector<double> a = number("base_model.model.l.lora_A.weight"),
                            bs = number("base_model.model.l.lora_B.weight");
  const size_t rank = static_cast<size_t>(form_.rank), out = bs.size() / rank, in = a.size() / rank;
  ASSERT_EQ(w.size(), out * in);
  for (size_t o = 0; o < out; ++o)
    for (size_t i = 0; i < in; ++i)
      for (size_t r = 0; r < rank; ++r)
        w[form_.inputs_first ? i * out + o : o * in + i] += 2 * bs[o * rank + r] * a[r * in + i];
  Memory merged = initial_memory(*plain, loop::Precision::f64);
  merged.set(plain->find("x"), m.read(g_->find("x")));
  merged.set(plain->find("l.weight"), w);
  evaluate(*plain, merged);
  const std::vector<double> got = merged.read(plain->outputs()[0]);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-9) << i;
}

// B is 0: to the bit, what a layer gave it gives.
TEST_P(Adapters, ChangeNothingAtFirst) {
  const std::unique_ptr<Graph> plain = g_->clone();
  Builder b(*g_);
  b.graph.add_output(b.reduce_sum(g_->outputs()[0], {}), "loss");
  add();
  auto run = [&](Graph& g) {
    Memory m = initial_memory(g, loop::Precision::f32);
    m.set(g.find("x"), doubles(g.find("x")->type, 1));
    m.set(g.find("l.weight"), doubles(g.find("l.weight")->type, 2));
    evaluate(g, m);
    return m.raw(g.outputs()[0]);
  };
  EXPECT_EQ(*run(*g_), *run(*plain));
}

std::string conv(const std::string& attrs, const std::string& y) {
  return "%y = conv(%x, %l.weight) {" + attrs + "} : " + y;
}

INSTANTIATE_TEST_SUITE_P(
    Layers, Adapters,
    testing::Values(
        Form{"matmul", "f32[2,5,7]", "f32[7,4]", "%y = matmul(%x, %l.weight) : f32[2,5,4]"},
        Form{"linear", "f32[5,7]", "f32[4,7]", "%y = matmul(%x, %l.weight) {transpose_b = 1} : f32[5,4]"},
        Form{"behind_a_transpose", "f32[5,7]", "f32[4,7]",
             "%0 = transpose(%l.weight) {permutation = [1,0]} : f32[7,4]\n%y = matmul(%x, %0) : f32[5,4]"},
        Form{"transposed_input", "f32[7,5]", "f32[7,4]",
             "%y = matmul(%x, %l.weight) {transpose_a = 1} : f32[5,4]"},
        Form{"weight_left", "f32[2,7,5]", "f32[4,7]", "%y = matmul(%l.weight, %x) : f32[2,4,5]"},
        Form{"weight_left_transposed", "f32[5,7]", "f32[7,4]",
             "%y = matmul(%l.weight, %x) {transpose_a = 1, transpose_b = 1} : f32[4,5]"},
        Form{"gemm_alpha", "f32[5,7]", "f32[4,7]",
             "const %half : f32[] = 0.5\n%0 = matmul(%x, %l.weight) {transpose_b = 1} : f32[5,4]\n"
             "%y = mul(%0, %half) : f32[5,4]"},
        Form{"pointwise", "f32[2,3,4,5]", "f32[6,3,1,1]", conv("", "f32[2,6,4,5]")},
        Form{"strided", "f32[2,3,7,6]", "f32[4,3,3,2]", conv("stride = [2,3]", "f32[2,4,3,2]")},
        Form{"padded", "f32[1,3,5,4]", "f32[4,3,3,3]", conv("pad = [1,0,2,1]", "f32[1,4,6,3]")},
        Form{"dilated", "f32[1,2,9,8]", "f32[4,2,3,3]",
             conv("dilation = [3,2], stride = [1,2]", "f32[1,4,3,2]")},
        Form{"one_axis", "f32[2,3,9]", "f32[4,3,3]", conv("dilation = [2], pad = [4,0]", "f32[2,4,9]")}),
    [](const auto& info) { return std::string(info.param.name); });

// A is anywhere within Kaiming's bound, and nowhere the same: not by another seed, be it far or near, nor beside another
// layer, nor further on in one that is large.
TEST(AdapterStart, DependsOnSeedLayerAndPlace) {
  std::vector<std::vector<float>> seen;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, uint64_t{1} << 63}) {
    auto g = parse_graph(
        "pock 1\ngraph @g {\ninput %x : f32[2,400]\nparam %a.weight : f32[400,400]\n"
        "param %b.weight : f32[400,400]\n%0 = matmul(%x, %a.weight) : f32[2,400]\n"
        "%1 = matmul(%0, %b.weight) : f32[2,400]\n%2 = reduce_sum(%1) {axes = []} : f32[]\noutput %2 "
        "\"loss\"\n}\n",
        "t");
    PassOptions options;
    options.scheme = parse_scheme("[[lora]]\nmatch = 'all'\nrank = 6\n", "s.toml");
    options.seed = seed;
    select(*g, options);
    for (const char* name : {"base_model.model.a.lora_A.weight", "base_model.model.b.lora_A.weight"}) {
      std::vector<float> a(2400);
      std::memcpy(a.data(), g->find(name)->data->data(), a.size() * sizeof(float));
      double sum = 0, most = 0;
      for (float x : a) {
        sum += x;
        most = std::max(most, std::abs(static_cast<double>(x)));
      }
      EXPECT_LE(most, 0.05);
      EXPECT_GT(most, 0.0499);
      EXPECT_NEAR(sum / 2400, 0, 0.002);
      for (ptrdiff_t period : {4, 1024})
        EXPECT_NE(std::vector(a.begin(), a.begin() + 4),
                  std::vector(a.begin() + period, a.begin() + period + 4));
      for (const auto& other : seen)
        EXPECT_NE(std::vector(a.begin(), a.begin() + 4), std::vector(other.begin(), other.begin() + 4));
      seen.push_back(std::move(a));
    }
  }
}

// What drops in front of one adapter does not drop in front of another, or elsewhere in the model.
TEST(AdapterDropout, IsEachItsOwn) {
  auto g = parse_graph(
      "pock 1\ngraph @g {\ninput %x : f32[2,3]\nparam %a : f32[3,3]\nparam %b : f32[3,3]\n"
      "%0 = dropout(%x) {ratio = 0.5, id = 6, active = 1} : f32[2,3]\n%1 = matmul(%0, %a) : f32[2,3]\n"
      "%2 = matmul(%1, %b) : f32[2,3]\n%3 = reduce_sum(%2) {axes = []} : f32[]\noutput %3 \"loss\"\n}\n",
      "t");
  PassOptions options;
  options.scheme = parse_scheme("[[lora]]\nmatch = 'all'\nrank = 2\ndropout = 0.5\n", "s.toml");
  select(*g, options);
  std::set<int64_t> ids;
  int count = 0;
  for (const Node* n : g->nodes())
    if (std::string_view(n->op->name) == "dropout") {
      ids.insert(n->integer("id"));
      ++count;
    }
  EXPECT_EQ(count, 3);
  EXPECT_EQ(ids.size(), 3u);
}

// A tensor of the model, or the adapter of a layer that is called the same but for ".weight".
TEST(AdapterNames, AreTheirOwn) {
  for (const char* other : {"base_model.model.fc.lora_A.weight", "base_model.model.fc.lora_B.weight", "fc"}) {
    auto g = parse_graph("pock 1\ngraph @g {\ninput %x : f32[2,3]\nparam %" + std::string(other) +
                             " : f32[3,3]\nparam %fc.weight : f32[3,3]\n%0 = matmul(%x, %" + other +
                             ") : f32[2,3]\n%1 = matmul(%0, %fc.weight) : f32[2,3]\n"
                             "%2 = reduce_sum(%1) {axes = []} : f32[]\noutput %2 \"loss\"\n}\n",
                         "t");
    PassOptions options;
    options.scheme = parse_scheme(std::string("[[lora]]\nmatch = '") +
                                      (other == std::string("fc") ? "fc*" : "fc.weight") + "'\nrank = 2\n",
                                  "s.toml");
    try {
      select(*g, options);
      ADD_FAILURE() << other;
    } catch (const Error& e) {
      const std::string said = e.what();
      EXPECT_NE(
          said.find("parameter 'fc.weight': its adapter would have a tensor 'base_model.model.fc.lora_"),
          std::string::npos)
          << said;
    }
  }
}

}  // namespace
}  // namespace pock
