// Arithmetic, activations, reductions and softmax in every spelling: values, gradients against differences, and what
// happens at the ends of where they are defined.
#include <cmath>
#include <limits>

#include "forms.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock::test {
namespace {
using onnx::TensorProto;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr auto kInfF = std::numeric_limits<float>::infinity();

Numbers gradient(const Model& m, const std::string& name) { return gradients(m.import()).at(name); }

bool all_finite(const Numbers& numbers) {
  for (double n : numbers)
    if (!std::isfinite(n)) return false;
  return true;
}

// One operator of constants: x is a parameter, of two axes.
Model of(const char* op, const Floats& x,
         const std::vector<std::pair<std::string, Attribute>>& attributes = {}, int64_t opset = 13) {
  Model m(opset);
  m.floats("x", {1, std::ssize(x)}, x).node(op, {"x"}, {"y"}, attributes).output("y");
  return m;
}

TEST(Arithmetic, GradientsOfBroadcastInputs) {
  Floats big(120), small{0.5f, 2, 3};
  for (size_t i = 0; i < big.size(); ++i) big[i] = 0.5f + 0.02f * static_cast<float>(i);
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow"})
    for (bool swapped : {false, true}) {
      Model m;
      m.floats("a", {2, 3, 4, 5}, big).floats("b", {3, 1, 1}, small);
      m.node(op, swapped ? Strings{"b", "a"} : Strings{"a", "b"}, {"y"}).output("y");
      EXPECT_EQ(m.import()->outputs()[0]->type.dims, (Dims{2, 3, 4, 5}));
      expect_gradients(m, 2);
    }
  Model scalar;  // on the left, with both inputs broadcast
  scalar.floats("a", {1}, {3}).floats("b", {2, 1, 2}, {1, 2, 3, 4}).floats("c", {3, 1}, {5, 6, 7});
  scalar.node("Mul", {"a", "b"}, {"t"}).node("Div", {"t", "c"}, {"y"}).output("y");
  expect_gradients(scalar, 3);
}

TEST(Arithmetic, ManyInputs) {
  for (const char* op : {"Max", "Min", "Sum", "Mean"}) {
    Model m;
    m.floats("a", {2, 3}, {1, -2, 3, 4, 5, -6}).floats("b", {3}, {2, 2.5f, -1}).floats("c", {1}, {0.5f});
    m.node(op, {"a", "b", "c"}, {"y"}).output("y");
    expect_gradients(m, 3);
  }
  Model mean;
  mean.input("x", {2}).floats("b", {2}, {3, 4}).node("Mean", {"x", "b"}, {"y"}).output("y");
  EXPECT_EQ(run(*mean.import(), {1, 2}), (Numbers{2, 3}));
}

TEST(Arithmetic, TiesShareTheGradient) {
  Model m;
  m.floats("a", {1}, {2}).floats("b", {1}, {2}).node("Max", {"a", "b"}, {"y"}).output("y");
  auto gradients = test::gradients(m.import());
  EXPECT_EQ(gradients["a"], gradients["b"]);
  EXPECT_NE(gradients["a"][0], 0);
}

TEST(Power, ConstantExponentsArePartOfTheOperator) {
  for (float exponent : {2.0f, 3.0f, 0.5f, -1.0f, -0.5f, 1.7f, 1.0f, 0.0f}) {
    Model m;
    m.floats("x", {3}, {0.5f, 1, 2.5f})
        .floats("e", {}, {exponent})
        .node("Pow", {"x", "e"}, {"y"})
        .output("y");
    auto g = m.import();
    for (const Node* n : g->nodes()) EXPECT_NE(n->op->name.text, std::string("pow"));
    Numbers want;
    for (double x : {0.5, 1.0, 2.5}) want.push_back(std::pow(x, exponent));
    expect_near(run(*g), want);
    expect_gradients(m, 1);
  }
  Model ints(12);  // of another type, and with more elements
  ints.input("x", {2, 2}).ints("e", {2, 3}).node("Pow", {"x", "e"}, {"y"}).output("y");
  expect_near(run(*ints.import(), {1, -2, 3, 4}), {1, -8, 9, 64});
}

// As in generalised-mean pooling, whose exponent is learned.
TEST(Power, AWeightAsExponentIsTrained) {
  Model m;
  m.floats("x", {2, 3}, {0.5f, 1, 2, 3, 4, 5})
      .floats("p", {1}, {3})
      .node("Pow", {"x", "p"}, {"y"})
      .output("y");
  expect_gradients(m, 2);
}

TEST(EndsOfDomains, GradientsAreFinite) {
  Model fixed;
  fixed.floats("x", {2}, {0, 4});
  fixed.floats("half", {}, {0.5f}).floats("none", {}, {0}).floats("two", {}, {2});
  fixed.node("Pow", {"x", "half"}, {"a"}).node("Pow", {"x", "none"}, {"b"}).node("Pow", {"x", "two"}, {"c"});
  fixed.output("a").output("b").output("c");
  EXPECT_TRUE(all_finite(gradient(fixed, "x")));
  Model general;
  general.floats("x", {4}, {0, 0, 0, 3}).floats("e", {4}, {0.5f, 2, 0, 0});
  general.node("Pow", {"x", "e"}, {"y"}).output("y");
  EXPECT_TRUE(all_finite(gradient(general, "x")));
  EXPECT_TRUE(all_finite(gradient(general, "e")));
  EXPECT_EQ(gradient(of("Sqrt", {0, 4}), "x")[0], 0);
  EXPECT_EQ(gradient(of("Abs", {0, 4}), "x")[0], 0);

  Model norm;  // a norm as exporters write it
  norm.floats("x", {2, 2}, {0, 0, 3, 4}).node("ReduceSumSquare", {"x"}, {"s"}, {{"axes", Ints{1}}});
  norm.node("Sqrt", {"s"}, {"y"}).output("y");
  Numbers g = gradient(norm, "x");
  EXPECT_EQ(Numbers(g.begin(), g.begin() + 2), (Numbers{0, 0}));
  EXPECT_NEAR(g[2] / g[3], 0.75, 1e-6);
  Model l2 = of("ReduceL2", {0, 0, 0});
  EXPECT_EQ(gradient(l2, "x"), (Numbers{0, 0, 0}));

  // The logarithm of 0 is -inf, and its slope is infinite: a loss that is so is found before any update.
  EXPECT_EQ(run(*of("Log", {0, 1}).import()), (Numbers{-kInf, 0}));
  EXPECT_TRUE(std::isinf(gradient(of("Log", {0, 1}), "x")[0]));
}

TEST(EndsOfDomains, MaskedRows) {
  const Floats rows = {-kInfF, -kInfF, -kInfF, 1, -kInfF, 2, -3.4e38f, -3.4e38f, -3.4e38f};
  for (const char* op : {"Softmax", "LogSoftmax", "ReduceLogSumExp"}) {
    Model m;
    m.floats("x", {3, 3}, rows);
    if (std::string(op) == "ReduceLogSumExp")
      m.node(op, {"x"}, {"y"}, {{"axes", Ints{1}}});
    else
      m.node(op, {"x"}, {"y"});
    m.output("y");
    Numbers y = run(*m.import()), g = gradient(m, "x");
    for (double v : y) EXPECT_FALSE(std::isnan(v)) << op;
    EXPECT_TRUE(all_finite(g)) << op;
    EXPECT_EQ(Numbers(g.begin(), g.begin() + 3), (Numbers{0, 0, 0})) << op;
    if (y.size() == 9) {
      double third = op[0] == 'S' ? 1.0 / 3 : -std::log(3);
      expect_near({y.begin() + 6, y.end()}, {third, third, third});
      EXPECT_EQ(y[0], op[0] == 'S' ? 0 : -kInf);
    }
  }
}

TEST(Activations, Forms) {
  const Floats x = {-2.5f, -1.25f, -0.3f, 0.4f, 0.9f, 1.75f, 3};
  auto apply = [&](double (*f)(double)) {
    Numbers y;
    for (float v : x) y.push_back(f(v));
    return y;
  };
  auto check = [&](const Model& m, double (*f)(double)) {
    expect_near(run(*m.import()), apply(f));
    expect_gradients(m, 1);
  };
  check(of("Elu", x, {{"alpha", 0.7f}}), [](double v) { return v < 0 ? 0.7 * std::expm1(v) : v; });
  check(of("Selu", x, {{"alpha", 2.0f}, {"gamma", 3.0f}}),
        [](double v) { return 3 * (v < 0 ? 2 * std::expm1(v) : v); });
  check(of("Celu", x, {{"alpha", 0.5f}}), [](double v) { return v < 0 ? 0.5 * std::expm1(v / 0.5) : v; });
  check(of("LeakyRelu", x, {{"alpha", 0.2f}}), [](double v) { return v < 0 ? 0.2 * v : v; });
  check(of("ThresholdedRelu", x, {{"alpha", 0.8f}}), [](double v) { return v > 0.8 ? v : 0; });
  check(of("HardSigmoid", x, {{"alpha", 0.3f}, {"beta", 0.4f}}),
        [](double v) { return std::min(1.0, std::max(0.0, 0.3 * v + 0.4)); });
  check(of("HardSwish", x, {}, 14), [](double v) { return v * std::min(1.0, std::max(0.0, v / 6 + 0.5)); });
  check(of("Mish", x, {}, 18), [](double v) { return v * std::tanh(std::log1p(std::exp(v))); });
  check(of("Softplus", x), [](double v) { return std::log1p(std::exp(v)); });
  check(of("Softsign", x), [](double v) { return v / (1 + std::abs(v)); });
  check(of("Gelu", x, {}, 20), [](double v) { return v * (1 + std::erf(v / std::sqrt(2))) / 2; });
  check(of("Gelu", x, {{"approximate", std::string("tanh")}}, 20),
        [](double v) { return v * (1 + std::tanh(0.7978845608 * (v + 0.044715 * v * v * v))) / 2; });
  check(of("Swish", x, {}, 24), [](double v) { return v / (1 + std::exp(-v)); });
  check(of("Swish", x, {{"alpha", 1.5f}}, 24), [](double v) { return v / (1 + std::exp(-1.5 * v)); });
  expect_has(of("Gelu", x, {{"approximate", std::string("fast")}}, 20).problem(), "there are none and tanh");

  Model silu;  // as PyTorch writes it
  silu.floats("x", {1, std::ssize(x)}, x)
      .node("Sigmoid", {"x"}, {"s"})
      .node("Mul", {"x", "s"}, {"y"})
      .output("y");
  check(silu, [](double v) { return v / (1 + std::exp(-v)); });

  for (const Dims& shape : {Dims{3, 1, 1}, Dims{1}, Dims{}}) {
    Model prelu;
    Floats image(2 * 3 * 2 * 2), slopes(shape == Dims{3, 1, 1} ? 3 : 1, 0.25f);
    for (size_t i = 0; i < image.size(); ++i) image[i] = 0.3f * static_cast<float>(i) - 3.1f;
    prelu.floats("x", {2, 3, 2, 2}, image)
        .floats("s", shape, slopes)
        .node("PRelu", {"x", "s"}, {"y"})
        .output("y");
    expect_gradients(prelu, shape.empty() ? 1 : 2);
  }
}

TEST(Activations, Clip) {
  const Floats x = {-3, -1, 0.5f, 2, 5};
  Model six = of("Clip", x, {{"min", -1.0f}, {"max", 2.0f}}, 6);
  EXPECT_EQ(run(*six.import()), (Numbers{-1, -1, 0.5, 2, 2}));
  Numbers g = gradient(six, "x");
  for (int i : {0, 1, 3, 4}) EXPECT_EQ(g[i], 0) << "at a bound and beyond it";
  EXPECT_NE(g[2], 0);
  auto clip = [&](const Strings& bounds, float low, float high) {
    Model m;
    m.floats("x", {5}, x).floats("low", {}, {low}).floats("high", {}, {high});
    Strings in = {"x"};
    in.insert(in.end(), bounds.begin(), bounds.end());
    m.node("Clip", in, {"y"}).output("y");
    return run(*m.import());
  };
  EXPECT_EQ(clip({"low", "high"}, -1, 2), (Numbers{-1, -1, 0.5, 2, 2}));
  EXPECT_EQ(clip({"", "high"}, -1, 2), (Numbers{-3, -1, 0.5, 2, 2}));
  EXPECT_EQ(clip({"low"}, -1, 2), (Numbers{-1, -1, 0.5, 2, 5}));
  EXPECT_EQ(clip({}, -1, 2), (Numbers{-3, -1, 0.5, 2, 5}));
  EXPECT_EQ(clip({"low", "high"}, 3, 1), (Numbers{1, 1, 1, 1, 1})) << "bounds that cross";
}

// Bounds that are inputs of a step: the same values, and gradients of their own.
TEST(Activations, ClipBetweenValues) {
  auto clip = [](const Strings& bounds, const Dims& shape, float given) {
    Model m;
    m.input("given", shape).floats("x", {5}, {-3, -1, 0.5f, 2, 5}).floats("two", {}, {2});
    Strings in = {"x"};
    in.insert(in.end(), bounds.begin(), bounds.end());
    m.node("Clip", in, {"y"}).output("y");
    return run(*m.import(), {given});
  };
  EXPECT_EQ(clip({"given", "two"}, {}, -1), (Numbers{-1, -1, 0.5, 2, 2}));
  EXPECT_EQ(clip({"given"}, {1}, -1), (Numbers{-1, -1, 0.5, 2, 5}));
  EXPECT_EQ(clip({"", "given"}, {1}, 2), (Numbers{-3, -1, 0.5, 2, 2}));
  EXPECT_EQ(clip({"given", "two"}, {}, 3), (Numbers{2, 2, 2, 2, 2})) << "bounds that cross";
  Model trained;
  trained.floats("x", {5}, {-3, -1, 0.5f, 2, 5}).floats("a", {1}, {-0.7f}).floats("b", {1}, {1.5f});
  trained.node("Neg", {"a"}, {"high"}).node("Neg", {"b"}, {"low"});
  trained.node("Clip", {"x", "low", "high"}, {"y"}).output("y");
  expect_gradients(trained, 3);
  // At a bound, too, x has no gradient, as with constant bounds: the bound has it.
  const Floats x = {-3, -1, 0.5f, 2, 5};
  Model at, plain;
  at.floats("x", {5}, x).floats("a", {1}, {1}).floats("b", {1}, {-2});
  at.node("Neg", {"a"}, {"low"}).node("Neg", {"b"}, {"high"});
  at.node("Clip", {"x", "low", "high"}, {"y"}).output("y");
  plain.floats("x", {5}, x).floats("far", {}, {-9}).node("Clip", {"x", "far"}, {"y"}).output("y");
  const Numbers up = gradient(plain, "x");
  EXPECT_EQ(gradient(at, "x"), (Numbers{0, 0, up[2], 0, 0}));
  expect_near(gradient(at, "a"), {-(up[0] + up[1])});
  expect_near(gradient(at, "b"), {-(up[3] + up[4])});
  Model crossed;  // everything is the upper bound
  crossed.floats("x", {5}, x).floats("a", {1}, {-3}).floats("b", {1}, {-2});
  crossed.node("Neg", {"a"}, {"low"}).node("Neg", {"b"}, {"high"});
  crossed.node("Clip", {"x", "low", "high"}, {"y"}).output("y");
  EXPECT_EQ(gradient(crossed, "x"), Numbers(5));
  EXPECT_EQ(gradient(crossed, "a"), Numbers{0});
  expect_near(gradient(crossed, "b"), {-(up[0] + up[1] + up[2] + up[3] + up[4])});
  Model many;
  many.input("x", {2}).input("low", {2}).node("Clip", {"x", "low"}, {"y"}).output("y");
  expect_has(many.problem(), "node 'y' (Clip): a bound has 2 elements");
}

TEST(StepFunctions, NothingBehindThemIsTrained) {
  for (const char* op : {"Sign", "Floor", "Ceil", "Round"}) {
    Model m;
    m.floats("w", {3}, {-1.5f, 0.25f, 2.5f}).floats("v", {3}, {1, 2, 3});
    m.node(op, {"w"}, {"s"}).node("Mul", {"s", "v"}, {"y"}).output("y");
    auto g = gradients(m.import());
    EXPECT_EQ(g.count("w"), 0u) << op;
    EXPECT_EQ(g.count("v"), 1u) << op;
    Model through;  // the slope comes from the other factor alone
    through.floats("w", {3}, {-1.5f, 0.25f, 2.75f})
        .node(op, {"w"}, {"s"})
        .node("Mul", {"s", "w"}, {"y"})
        .output("y");
    expect_gradients(through, 1);
  }
}

TEST(Reductions, Forms) {
  const Floats x = {1.5f, -2, 3, 0.5f, -0.25f, 4, 2, -1, 0.75f, 3.5f, -3, 1};
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                         "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"})
    for (const Ints& axes : {Ints{}, Ints{0}, Ints{-1}, Ints{1, -3}})
      for (int64_t keep : {0, 1}) {
        Model m(18);
        m.floats("x", {2, 3, 2}, x).ints("axes", axes);
        m.node(op, {"x", "axes"}, {"y"}, {{"keepdims", keep}}).output("y");
        expect_gradients(m, 1);
        auto g = m.import();
        EXPECT_EQ(g->outputs()[0]->type.rank(), keep ? 3 : axes.empty() ? 0 : 3 - std::ssize(axes)) << op;
      }
  Model positive(18);
  positive.floats("x", {2, 2}, {1, 3, 2, 4}).ints("axes", {1}).node("ReduceLogSum", {"x", "axes"}, {"y"});
  positive.output("y");
  expect_near(run(*positive.import()), {std::log(4), std::log(6)});
  expect_gradients(positive, 1);
}

TEST(Reductions, NoAxesAtAll) {
  // With noop_with_empty_axes every element is reduced alone.
  struct {
    const char* op;
    Numbers alone;
  } cases[] = {{"ReduceSum", {1, -2, 3}}, {"ReduceMax", {1, -2, 3}},      {"ReduceL1", {1, 2, 3}},
               {"ReduceL2", {1, 2, 3}},   {"ReduceSumSquare", {1, 4, 9}}, {"ReduceLogSumExp", {1, -2, 3}}};
  for (const auto& c : cases) {
    Model m(18);
    m.floats("x", {3}, {1, -2, 3})
        .node(c.op, {"x"}, {"y"}, {{"noop_with_empty_axes", int64_t{1}}})
        .output("y");
    expect_near(run(*m.import()), c.alone);
    expect_gradients(m, 1);
    Model scalar(18);
    scalar.input("x", {}).node(c.op, {"x"}, {"y"}).output("y");
    expect_near(run(*scalar.import(), {-2}), {std::string(c.op) == "ReduceSumSquare" ? 4.0
                                              : c.op[6] == 'L' && c.op[7] != 'o'     ? 2.0
                                                                                     : -2.0});
  }
}

TEST(Reductions, ProductsWithZeros) {
  Model m;
  m.floats("x", {3, 3}, {2, 3, 4, 0, 3, 4, 0, 0, 4}).node("ReduceProd", {"x"}, {"y"}, {{"axes", Ints{1}}});
  m.output("y");
  expect_gradients(m, 1);
  EXPECT_TRUE(all_finite(gradient(m, "x")));
}

TEST(Reductions, TiesShareTheGradient) {
  for (const char* op : {"ReduceMax", "ReduceMin"}) {
    Model m = of(op, {2, 5, 2, 5}, {{"keepdims", int64_t{0}}});
    Numbers g = gradient(m, "x");
    size_t first = op[6] == 'M' && op[7] == 'a' ? 1 : 0;
    EXPECT_EQ(g[first], g[first + 2]);
    EXPECT_EQ(g[1 - first], 0);
    EXPECT_NE(g[first], 0);
  }
}

TEST(Softmax, AxisByVersion) {
  Floats x(2 * 3 * 4);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.1f * static_cast<float>(i * i % 17);
  for (const char* op : {"Softmax", "LogSoftmax"})
    for (int64_t opset : {11, 13})
      for (int64_t axis : {-3, -1, 0, 1, 2}) {
        Model m(opset);
        m.floats("x", {2, 3, 4}, x).node(op, {"x"}, {"y"}, {{"axis", axis}}).output("y");
        expect_gradients(m, 1);
        // Before 13 one softmax runs over all axes from `axis` on.
        Numbers y = run(*m.import());
        double total = 0;
        for (double v : y) total += op[0] == 'S' ? v : std::exp(v);
        int64_t from = axis < 0 ? axis + 3 : axis;
        int64_t rows = opset < 13 ? (from == 0   ? 1
                                     : from == 1 ? 2
                                                 : 6)
                                  : (from == 0   ? 12
                                     : from == 1 ? 8
                                                 : 6);
        EXPECT_NEAR(total, static_cast<double>(rows), 1e-4) << op << opset << axis;
      }
}

TEST(Softmax, DefaultAxis) {
  Model old(11), now(13);
  for (Model* m : {&old, &now}) m->input("x", {1, 2, 2}).node("Softmax", {"x"}, {"y"}).output("y");
  expect_near(run(*old.import(), {0, 0, 0, 0}), {0.25, 0.25, 0.25, 0.25});
  expect_near(run(*now.import(), {0, 0, 0, 0}), {0.5, 0.5, 0.5, 0.5});
}

// The mask is that of this very dropout, in training and without.
TEST(Dropout, MaskIsWhatIsKept) {
  for (bool training : {true, false}) {
    Model m;
    m.input("x", {101}).floats("ratio", {}, {0.3f});
    m.tensor("training", {}, onnx::TensorProto::BOOL).add_int32_data(training);
    m.node("Relu", {"x"}, {"r"}).node("Dropout", {"r", "ratio", "training"}, {"y", "mask"});
    m.node("Cast", {"mask"}, {"kept"}, {{"to", int64_t{1}}}).output("y").output("kept");
    auto g = m.import();
    testing::internal::CaptureStderr();
    dropout(*g, {});
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              training
                  ? "dropout: 1 on (ratio 0.3)\n"
                  : "dropout: 1 off; the file is for inference, --dropout on turns it on all the same\n");
    Memory memory = initial_memory(*g);
    memory.set(g->inputs()[0], Numbers(101, 1));
    for (const Value* word : g->scalars()) memory.set(word, {7});
    evaluate(*g, memory);
    const Numbers y = memory.read(g->outputs()[0]), kept = memory.read(g->outputs()[1]);
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(kept[i], y[i] > 0) << i;
    EXPECT_EQ(std::count(kept.begin(), kept.end(), 0) > 0, training);
  }
}

}  // namespace
}  // namespace pock::test
