// What transformers are made of: ids, masks and positions that a step reads, norms, rotary embedding, attention. Values
// against plain definitions, and gradients.
#include <cmath>
#include <limits>
#include <map>

#include "forms.h"

namespace pock::test {
namespace {

using onnx::TensorProto;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Fed = std::map<std::string, Numbers>;

// Output 0.
Numbers run(const Model& m, const Fed& fed, const ImportOptions& options = {}) {
  auto g = m.import(options);
  Memory memory = initial_memory(*g);
  for (const Value* in : g->inputs()) memory.set(in, fed.at(in->name));
  evaluate(*g, memory);
  return memory.read(g->outputs()[0]);
}

Numbers numbers(int64_t count, double step) {
  Numbers x(count);
  for (int64_t i = 0; i < count; ++i) x[i] = std::sin(step * static_cast<double>(i) + step);
  return x;
}

Floats floats(const Numbers& x) { return {x.begin(), x.end()}; }

// ---- Ids

TEST(Ids, OfRows) {
  for (int type : {TensorProto::INT64, TensorProto::INT32}) {
    Model m;
    m.floats("table", {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}).input("ids", {2, 2}, type);
    m.node("Gather", {"table", "ids"}, {"y"}).output("y");
    EXPECT_EQ(run(m, {{"ids", {3, 0, -1, 2}}}), (Numbers{6, 7, 0, 1, 6, 7, 4, 5}));
    EXPECT_EQ(m.import()->outputs()[0]->type.dims, (Dims{2, 2, 2}));
  }
  Model scalar;
  scalar.input("x", {2, 3}).input("at", {}, TensorProto::INT64);
  scalar.node("Gather", {"x", "at"}, {"y"}, {{"axis", int64_t{1}}}).output("y");
  EXPECT_EQ(run(scalar, {{"x", ramp(6)}, {"at", {1}}}), (Numbers{1, 4}));
}

TEST(Ids, ComputedOnes) {
  // Positions as RoBERTa has them: so many tokens up to here that are no padding, behind the padding's own.
  Model m;
  m.floats("table", {6}, {0, 10, 20, 30, 40, 50}).input("ids", {2, 4}, TensorProto::INT64);
  m.ints("pad", {1}, true).ints("axis", {1}, true);
  m.node("Equal", {"ids", "pad"}, {"is_pad"}).node("Not", {"is_pad"}, {"is_token"});
  m.node("Cast", {"is_token"}, {"ones"}, {{"to", int64_t{TensorProto::INT32}}});
  m.node("CumSum", {"ones", "axis"}, {"sums"}).node("Mul", {"sums", "ones"}, {"places"});
  m.node("Cast", {"places"}, {"long"}, {{"to", int64_t{TensorProto::INT64}}});
  m.node("Add", {"long", "pad"}, {"at"}).node("Gather", {"table", "at"}, {"y"}).output("y");
  EXPECT_EQ(run(m, {{"ids", {7, 8, 1, 1, 9, 5, 6, 1}}}), (Numbers{20, 30, 10, 10, 20, 30, 40, 10}));
}

TEST(Ids, OfElementsAndOfPlaces) {
  Model elements;
  elements.input("x", {2, 3}).input("at", {2, 2}, TensorProto::INT64);
  elements.node("GatherElements", {"x", "at"}, {"y"}, {{"axis", int64_t{1}}}).output("y");
  EXPECT_EQ(run(elements, {{"x", ramp(6)}, {"at", {2, 0, -2, 1}}}), (Numbers{2, 0, 4, 4}));
  Model rows;
  rows.input("x", {2, 3, 2}).input("at", {3, 2}, TensorProto::INT64);
  rows.node("GatherND", {"x", "at"}, {"y"}).output("y");
  EXPECT_EQ(run(rows, {{"x", ramp(12)}, {"at", {0, 2, 1, 0, -1, -1}}}), (Numbers{4, 5, 6, 7, 10, 11}));
  Model batched;
  batched.input("x", {2, 3, 2}).input("at", {2, 1}, TensorProto::INT64);
  batched.node("GatherND", {"x", "at"}, {"y"}, {{"batch_dims", int64_t{1}}}).output("y");
  EXPECT_EQ(run(batched, {{"x", ramp(12)}, {"at", {1, 2}}}), (Numbers{2, 3, 10, 11}));
}

TEST(Ids, GradientOfRowsNamedTwice) {
  Model m;
  m.random("table", {4, 3}).random("scale", {3}).ints("ids", {1, 1, -1, 0});
  m.node("Gather", {"table", "ids"}, {"rows"}).node("Mul", {"rows", "scale"}, {"y"}).output("y");
  expect_gradients(m, 2);
}

TEST(Ids, FromFloats) {
  Model m;
  m.floats("table", {4, 2}, Floats(8, 1)).input("ids", {2});
  m.node("Gather", {"table", "ids"}, {"y"}).output("y");
  expect_has(m.problem(), "node 'y' (Gather): input 'ids' must hold integers, but is f32[2]");
}

TEST(Ids, LastOfThose) {
  Model m;
  m.input("ids", {2, 4}, TensorProto::INT64);
  m.node("ArgMax", {"ids"}, {"y"}, {{"axis", int64_t{-1}}, {"keepdims", int64_t{0}}}).output("y");
  EXPECT_EQ(run(m, {{"ids", {4, 49, 7, 49, 1, 2, 3, 9}}}), (Numbers{1, 3}));
}

TEST(Ids, AsClasses) {
  Model m;
  m.input("ids", {3}, TensorProto::INT64).ints("depth", {4}).floats("values", {2}, {-1, 2});
  m.node("OneHot", {"ids", "depth", "values"}, {"y"}).output("y");
  EXPECT_EQ(run(m, {{"ids", {1, -1, 4}}}), (Numbers{-1, 2, -1, -1, -1, -1, -1, 2, -1, -1, -1, -1}));
}

// ---- Booleans and integers of a step

TEST(Masks, OfBooleans) {
  Model m(14);
  m.input("keep", {2, 3}, TensorProto::BOOL).input("x", {2, 3}).floats("none", {1}, {-1});
  m.node("Not", {"keep"}, {"drop"}).node("Where", {"drop", "none", "x"}, {"y"}).output("y");
  EXPECT_EQ(run(m, {{"keep", {1, 0, 2, 0, 1, 1}}, {"x", ramp(6)}}), (Numbers{0, -1, 2, -1, 4, 5}));
}

TEST(Masks, Logic) {
  for (auto [op, want] : {std::pair{"And", Numbers{0, 0, 0, 1}},
                          {"Or", {0, 1, 1, 1}},
                          {"Xor", {0, 1, 1, 0}},
                          {"Equal", {1, 0, 0, 1}}}) {
    Model m(14);
    m.input("a", {4}, TensorProto::BOOL).input("b", {4}, TensorProto::BOOL).node(op, {"a", "b"}, {"c"});
    m.node("Cast", {"c"}, {"y"}, {{"to", int64_t{TensorProto::FLOAT}}}).output("y");
    EXPECT_EQ(run(m, {{"a", {0, 0, 1, 1}}, {"b", {0, 1, 0, 1}}}), want) << op;
  }
}

TEST(Masks, Comparisons) {
  const Fed fed = {{"a", {1, 2, 3}}, {"b", {2, 2, 2}}};
  for (int type : {TensorProto::FLOAT, TensorProto::INT64, TensorProto::INT32})
    for (auto [op, want] : {std::pair{"Less", Numbers{1, 0, 0}},
                            {"LessOrEqual", {1, 1, 0}},
                            {"Greater", {0, 0, 1}},
                            {"GreaterOrEqual", {0, 1, 1}},
                            {"Equal", {0, 1, 0}}}) {
      Model m(16);
      m.input("a", {3}, type).input("b", {3}, type).node(op, {"a", "b"}, {"c"});
      m.node("Cast", {"c"}, {"y"}, {{"to", int64_t{TensorProto::FLOAT}}}).output("y");
      EXPECT_EQ(run(m, fed), want) << op;
    }
}

TEST(Masks, IntegersStayOfTheirType) {
  Model m(14);
  m.input("a", {3}, TensorProto::INT32).tensor("b", {}, TensorProto::INT32).add_int32_data(5);
  m.node("Mul", {"a", "b"}, {"c"}).node("Max", {"c", "a"}, {"d"}).node("Neg", {"d"}, {"y"}).output("y");
  EXPECT_EQ(m.import()->outputs()[0]->type.dtype, DType::i32);
  EXPECT_EQ(run(m, {{"a", {1, -2, 1 << 30}}}), (Numbers{-5, 2, -(1 << 30)}));
  Model sum;
  sum.input("a", {2, 3}, TensorProto::INT64).ints("axes", {1});
  sum.node("ReduceSum", {"a", "axes"}, {"s"}, {{"keepdims", int64_t{0}}}).ints("least", {1}, true);
  sum.node("Clip", {"s", "least"}, {"y"}).output("y");
  EXPECT_EQ(run(sum, {{"a", {1, 1, 0, 0, 0, 0}}}), (Numbers{2, 1}));
}

TEST(Masks, OfTheWrongType) {
  auto problem = [](int type, const char* op) {
    Model m(14);
    m.input("mask", {2}, type).input("x", {2});
    if (std::string(op) == "Where")
      m.node(op, {"mask", "x", "x"}, {"y"}).output("y");
    else
      m.node(op, {"x", "mask"}, {"y"}).output("y");
    return m.problem();
  };
  expect_has(problem(TensorProto::INT64, "Where"), "input 'mask' must hold booleans, but is i64[2]");
  expect_has(problem(TensorProto::FLOAT, "Where"), "input 'mask' must hold booleans, but is f32[2]");
  expect_has(problem(TensorProto::BOOL, "Mul"), "input 'mask' is bool[2]; pock computes Mul on floats");
  expect_has(problem(TensorProto::INT64, "Mul"), "input 'mask' is int64; pock computes Mul on floats");
}

// A row that is masked whole, by Where or by adding -inf, gives 0 and no NaN, and so does its gradient.
TEST(Masks, WholeRows) {
  for (bool by_where : {true, false}) {
    Model m(13);
    m.random("x", {2, 3});
    if (by_where) {
      auto& keep = m.tensor("keep", {2, 1}, TensorProto::BOOL);
      keep.add_int32_data(0);
      keep.add_int32_data(1);
      m.floats("least", {}, {-INFINITY}).node("Where", {"keep", "x", "least"}, {"scores"});
    } else {
      m.input("bias", {2, 1}).node("Add", {"x", "bias"}, {"scores"});
    }
    m.node("Softmax", {"scores"}, {"y"}).output("y");
    if (by_where) expect_gradients(m, 1);
    Numbers y = run(m, {{"bias", {-kInfinity, 0}}});
    for (int i : {0, 1, 2}) EXPECT_EQ(y[i], 0);
    EXPECT_NEAR(y[3] + y[4] + y[5], 1, 1e-6);
  }
}

TEST(Masks, Triangles) {
  for (auto [upper, k] : {std::pair{1, 0}, {1, 1}, {0, 0}, {0, -1}}) {
    Model m(14);
    m.input("x", {3, 4}).ints("k", {k}, true);
    m.node("Trilu", {"x", "k"}, {"y"}, {{"upper", int64_t{upper}}}).output("y");
    Numbers y = run(m, {{"x", Numbers(12, -kInfinity)}});
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 4; ++j)
        EXPECT_EQ(y[4 * i + j], (upper ? j >= i + k : j <= i + k) ? -kInfinity : 0) << i << j;
  }
}

// ---- Norms

TEST(Norms, RootMeanSquare) {
  Model m(23);
  m.random("x", {2, 3, 5}).random("scale", {5});
  m.node("RMSNormalization", {"x", "scale"}, {"y"}, {{"epsilon", 0.5f}}).output("y");
  auto g = m.import();
  Numbers x = data_of(*g, "x"), scale = data_of(*g, "scale"), want(x.size());
  for (size_t row = 0; row < x.size(); row += 5) {
    double square = 0;
    for (int i = 0; i < 5; ++i) square += x[row + i] * x[row + i] / 5;
    for (int i = 0; i < 5; ++i) want[row + i] = x[row + i] / std::sqrt(square + 0.5) * scale[i];
  }
  expect_near(run(m, {}), want);
  expect_gradients(m, 2);
}

TEST(Norms, LayerOverSeveralAxes) {
  Model m(17);
  m.random("x", {2, 3, 5}).random("scale", {3, 5}).random("shift", {3, 5});
  m.node("LayerNormalization", {"x", "scale", "shift"}, {"y"}, {{"axis", int64_t{1}}}).output("y");
  expect_gradients(m, 3);
  Model wrong(17);
  wrong.input("x", {2, 3}).random("scale", {4}).node("LayerNormalization", {"x", "scale"}, {"y"}).output("y");
  expect_has(wrong.problem(), "shapes do not broadcast");
}

TEST(Norms, Groups) {
  for (int64_t opset : {18, 21}) {
    Model m(opset);
    const int64_t scales = opset < 21 ? 2 : 6;
    m.random("x", {2, 6, 3}).random("scale", {scales}).random("shift", {scales});
    m.node("GroupNormalization", {"x", "scale", "shift"}, {"y"}, {{"num_groups", int64_t{2}}}).output("y");
    auto g = m.import();
    Numbers x = data_of(*g, "x"), scale = data_of(*g, "scale"), shift = data_of(*g, "shift"), want(x.size());
    for (size_t row = 0; row < x.size(); row += 9) {
      double mean = 0, square = 0;
      for (int i = 0; i < 9; ++i) mean += x[row + i] / 9;
      for (int i = 0; i < 9; ++i) square += (x[row + i] - mean) * (x[row + i] - mean) / 9;
      for (int i = 0; i < 9; ++i) {
        const size_t group = row / 9 % 2, of = opset < 21 ? group : group * 3 + i / 3;
        want[row + i] = (x[row + i] - mean) / std::sqrt(square + 1e-5) * scale[of] + shift[of];
      }
    }
    expect_near(run(m, {}), want);
    expect_gradients(m, 3);
  }
}

TEST(Norms, OfLength) {
  for (int64_t p : {1, 2}) {
    Model m(22);
    m.floats("x", {2, 3}, {3, -4, 0, 0, 0, 0}).node("LpNormalization", {"x"}, {"y"}, {{"p", p}}).output("y");
    const double length = p == 1 ? 7 : 5;
    expect_near(run(m, {}), {3 / length, -4 / length, 0, 0, 0, 0});
  }
}

// ---- Rotary embedding

// y of [N,heads,T,D] by the definition; cos and sin of [N,T,turned/2].
Numbers rotated(const Numbers& x, Dims d, const Numbers& cos, const Numbers& sin, int64_t turned,
                bool interleaved) {
  Numbers y = x;
  const int64_t half = turned / 2;
  for (int64_t n = 0; n < d[0]; ++n)
    for (int64_t h = 0; h < d[1]; ++h)
      for (int64_t t = 0; t < d[2]; ++t)
        for (int64_t i = 0; i < half; ++i) {
          const int64_t row = ((n * d[1] + h) * d[2] + t) * d[3], at = (n * d[2] + t) * half + i;
          const int64_t a = row + (interleaved ? 2 * i : i), b = row + (interleaved ? 2 * i + 1 : half + i);
          y[a] = cos[at] * x[a] - sin[at] * x[b];
          y[b] = sin[at] * x[a] + cos[at] * x[b];
        }
  return y;
}

TEST(Rotary, Forms) {
  const Dims d = {2, 3, 4, 6};
  const Numbers x = numbers(144, 0.7);
  for (int64_t interleaved : {0, 1})
    for (int64_t turned : {0, 4}) {
      const int64_t half = (turned ? turned : 6) / 2;
      const Numbers cos = numbers(2 * 4 * half, 0.3), sin = numbers(2 * 4 * half, 1.1);
      Model m(23);
      m.input("x", d).floats("cos", {2, 4, half}, floats(cos)).floats("sin", {2, 4, half}, floats(sin));
      m.node("RotaryEmbedding", {"x", "cos", "sin"}, {"y"},
             {{"interleaved", interleaved}, {"rotary_embedding_dim", turned}})
          .output("y");
      expect_near(run(m, {{"x", x}}), rotated(x, d, cos, sin, 2 * half, interleaved));
    }
}

TEST(Rotary, PositionsAndFlatHeads) {
  const Numbers table = numbers(5 * 2, 0.4), other = numbers(5 * 2, 0.9), x = numbers(2 * 3 * 8, 0.2);
  const Numbers places = {0, 1, 4, 3, 3, 2};
  Model m(23);
  m.input("x", {2, 3, 8}).input("at", {2, 3}, TensorProto::INT64);
  m.floats("cos", {5, 2}, floats(table)).floats("sin", {5, 2}, floats(other));
  m.node("RotaryEmbedding", {"x", "cos", "sin", "at"}, {"y"}, {{"num_heads", int64_t{2}}}).output("y");
  Numbers cos, sin;
  for (double p : places)
    for (int i : {0, 1}) {
      cos.push_back(table[2 * static_cast<int>(p) + i]);
      sin.push_back(other[2 * static_cast<int>(p) + i]);
    }
  // [N,T,heads,D] is [N*T,heads,1,D] to the definition.
  expect_near(run(m, {{"x", x}, {"at", places}}), rotated(x, {6, 2, 1, 4}, cos, sin, 4, false));
}

// ---- Attention

struct Sizes {
  int64_t heads, groups, queries, keys, size, values;
};

// The definition, of [heads,T,D] of one sample.
Numbers attended(const Sizes& s, const Numbers& q, const Numbers& k, const Numbers& v, double scale,
                 const std::function<double(int64_t h, int64_t i, int64_t j, double score)>& mask) {
  Numbers y(s.heads * s.queries * s.values, 0);
  for (int64_t h = 0; h < s.heads; ++h)
    for (int64_t i = 0; i < s.queries; ++i) {
      const int64_t g = h / (s.heads / s.groups);
      Numbers weights(s.keys);
      double sum = 0;
      for (int64_t j = 0; j < s.keys; ++j) {
        double score = 0;
        for (int64_t e = 0; e < s.size; ++e)
          score += q[(h * s.queries + i) * s.size + e] * k[(g * s.keys + j) * s.size + e];
        weights[j] = std::exp(mask(h, i, j, score * scale));
        sum += weights[j];
      }
      for (int64_t j = 0; j < s.keys; ++j)
        for (int64_t e = 0; e < s.values; ++e)
          y[(h * s.queries + i) * s.values + e] +=
              sum == 0 ? 0 : weights[j] / sum * v[(g * s.keys + j) * s.values + e];
    }
  return y;
}

Model attention(const Sizes& s, const Strings& in, const Attributes& attributes = {}) {
  Model m(23);
  m.input("q", {1, s.heads, s.queries, s.size}).input("k", {1, s.groups, s.keys, s.size});
  m.input("v", {1, s.groups, s.keys, s.values}).node("Attention", in, {"y"}, attributes).output("y");
  return m;
}

TEST(Attention, Forms) {
  for (const Sizes& s : {Sizes{3, 3, 5, 5, 4, 4}, Sizes{6, 2, 3, 7, 5, 2}, Sizes{4, 1, 9, 9, 3, 3}}) {
    const Numbers q = numbers(s.heads * s.queries * s.size, 0.7),
                  k = numbers(s.groups * s.keys * s.size, 0.4),
                  v = numbers(s.groups * s.keys * s.values, 1.3), bias = numbers(s.queries * s.keys, 0.9);
    const Fed fed = {{"q", q}, {"k", k}, {"v", v}, {"bias", bias}};
    const double scale = 1 / std::sqrt(static_cast<double>(s.size));
    auto plain = [](int64_t, int64_t, int64_t, double x) { return x; };
    expect_near(run(attention(s, {"q", "k", "v"}), fed), attended(s, q, k, v, scale, plain));
    expect_near(run(attention(s, {"q", "k", "v"}, {{"scale", 0.3f}}), fed), attended(s, q, k, v, 0.3, plain));
    expect_near(run(attention(s, {"q", "k", "v"}, {{"softcap", 0.4f}}), fed),
                attended(s, q, k, v, scale,
                         [](int64_t, int64_t, int64_t, double x) { return 0.4 * std::tanh(x / 0.4); }));
    expect_near(run(attention(s, {"q", "k", "v"}, {{"is_causal", int64_t{1}}}), fed),
                attended(s, q, k, v, scale,
                         [](int64_t, int64_t i, int64_t j, double x) { return j <= i ? x : -kInfinity; }));
    Model masked = attention(s, {"q", "k", "v", "bias"});
    masked.input("bias", {s.queries, s.keys});
    expect_near(run(masked, fed), attended(s, q, k, v, scale, [&](int64_t, int64_t i, int64_t j, double x) {
                  return x + bias[i * s.keys + j];
                }));
  }
}

TEST(Attention, MaskOfBooleansForEachHead) {
  const Sizes s{4, 2, 3, 5, 4, 3};
  const Numbers q = numbers(48, 0.7), k = numbers(40, 0.4), v = numbers(30, 1.3);
  Numbers keep(4 * 3 * 5);
  for (size_t i = 0; i < keep.size(); ++i) keep[i] = i % 7 != 2 && !(i >= 20 && i < 25);  // a row has none
  Model m = attention(s, {"q", "k", "v", "keep"});
  m.input("keep", {1, 4, 3, 5}, TensorProto::BOOL);
  expect_near(run(m, {{"q", q}, {"k", k}, {"v", v}, {"keep", keep}}),
              attended(s, q, k, v, 0.5, [&](int64_t h, int64_t i, int64_t j, double x) {
                return keep[(h * 3 + i) * 5 + j] ? x : -kInfinity;
              }));
}

TEST(Attention, FlatHeadsAndGradients) {
  Model m(23);
  m.random("q", {2, 3, 12}).random("k", {2, 3, 6}).random("v", {2, 3, 4});
  m.node("Attention", {"q", "k", "v"}, {"y"},
         {{"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}, {"is_causal", int64_t{1}}})
      .output("y");
  expect_gradients(m, 3);
  EXPECT_EQ(m.import()->outputs()[0]->type.dims, (Dims{2, 3, 8}));
}

TEST(Attention, Refusals) {
  const Sizes s{3, 2, 3, 5, 4, 3};
  expect_has(attention(s, {"q", "k", "v"}).problem(),
             "queries f32[1,3,3,4], keys f32[1,2,5,4] and values f32[1,2,5,3] do not fit");
  const Sizes good{4, 2, 3, 5, 4, 3};
  Model mask = attention(good, {"q", "k", "v", "bias"});
  mask.input("bias", {3, 4});
  expect_has(mask.problem(), "the mask f32[3,4] does not broadcast to the scores [1,4,3,5]");
  Model cache = attention(good, {"q", "k", "v", "", "past", "past"});
  cache.input("past", {1, 2, 1, 4});
  expect_has(cache.problem(), "keys and values of a cache");
}

// ---- Sums of products

TEST(Einsum, AsMatrices) {
  for (const auto& [equation, a, b, y] : std::vector<std::tuple<std::string, Dims, Dims, Dims>>{
           {"bhid,bhjd->bhij", {2, 3, 4, 5}, {2, 3, 6, 5}, {2, 3, 4, 6}},
           {"bhij, bhjd -> bihd", {2, 3, 4, 6}, {2, 3, 6, 5}, {2, 4, 3, 5}},
           {"ij,kj->ki", {4, 5}, {3, 5}, {3, 4}},
           {"abc,cd->ab", {2, 3, 4}, {4, 5}, {2, 3}},
           {"i,j->ji", {3}, {2}, {2, 3}},
           // An ellipsis is for as many axes from the right; those of one place are repeated.
           {"...id,...jd->...ij", {2, 3, 4, 5}, {2, 3, 6, 5}, {2, 3, 4, 6}},
           {"b...i,ij->b...j", {2, 3, 2, 4}, {4, 5}, {2, 3, 2, 5}},
           {"...ij,...jk->k...i", {3, 2, 4}, {2, 1, 4, 5}, {5, 2, 3, 2}},
           {"...i,...i->...", {4}, {4}, {}}}) {
    Model m(13);
    m.random("a", a).random("b", b).node("Einsum", {"a", "b"}, {"y"}, {{"equation", equation}}).output("y");
    auto g = m.import();
    EXPECT_EQ(g->outputs()[0]->type.dims, y) << equation;
    // Every product of elements whose letters agree. What an ellipsis stands for is called ...XYZ.
    std::string text = equation;
    std::erase(text, ' ');
    auto named = [](std::string axes, size_t rank) {
      const size_t dots = axes.find("...");
      if (dots == std::string::npos) return axes;
      return axes.replace(dots, 3, std::string("VWXYZ").substr(5 - (rank - (axes.size() - 3))));
    };
    const std::string rest = text.substr(text.find(',') + 1);
    const std::string left = named(text.substr(0, text.find(',')), a.size()),
                      right = named(rest.substr(0, rest.find('-')), b.size()),
                      result = named(rest.substr(rest.find('>') + 1), y.size());
    std::map<char, int64_t> length, at;
    auto lengths = [&](const std::string& axes, const Dims& dims) {
      for (size_t i = 0; i < axes.size(); ++i) length[axes[i]] = std::max(length[axes[i]], dims[i]);
    };
    lengths(left, a);
    lengths(right, b);
    Numbers x = data_of(*g, "a"), z = data_of(*g, "b"), want(Type{DType::f32, y}.elements(), 0);
    auto place = [&](const std::string& axes, const Dims& dims) {
      int64_t place = 0;
      for (size_t i = 0; i < axes.size(); ++i) place = place * dims[i] + (dims[i] == 1 ? 0 : at[axes[i]]);
      return place;
    };
    int64_t all = 1;
    for (const auto& [c, n] : length) all *= n;
    for (int64_t i = 0; i < all; ++i) {
      int64_t left_over = i;
      for (const auto& [c, n] : length) {
        at[c] = left_over % n;
        left_over /= n;
      }
      want[place(result, y)] += x[place(left, a)] * z[place(right, b)];
    }
    expect_near(run(m, {}), want);
    expect_gradients(m, 2);
  }
}

TEST(Einsum, Refusals) {
  auto problem = [](const std::string& equation) {
    Model m(13);
    m.input("a", {2, 3})
        .input("b", {3, 4})
        .node("Einsum", {"a", "b"}, {"y"}, {{"equation", equation}})
        .output("y");
    return m.problem();
  };
  expect_has(problem("...i,ij->j"), "has an ellipsis that its result lacks, which is not supported");
  expect_has(problem("i..,ij->j"), "names axes by other than letters and one ellipsis");
  expect_has(problem("1i,ij->j"), "names axes by other than letters and one ellipsis");
  expect_has(problem("...ijk,ij->...j"), "names 3 axes of input 0, which has 2");
  expect_has(problem("...,...->..."), "is 2 and 3 long");
  expect_has(problem("ij,jk"), "names no result");
  expect_has(problem("ii,jk->ik"), "names an axis twice in a term");
  expect_has(problem("ij,ik->jk"), "axis 'i' of equation 'ij,ik->jk' is 2 and 3 long");
  expect_has(problem("ij,jk->iz"), "names axis 'z' of the result, which no term has");
  expect_has(problem("ij->i"), "does not have 2 terms");
}

// ---- Elements put into place

TEST(Scatter, AtKnownPlaces) {
  Model m(16);
  m.random("x", {3, 2}).random("by", {2, 2}).tensor("at", {2, 1}, TensorProto::INT64).add_int64_data(2);
  m.proto.mutable_graph()->mutable_initializer(2)->add_int64_data(0);
  m.node("ScatterND", {"x", "at", "by"}, {"y"}).output("y");
  auto g = m.import();
  Numbers x = data_of(*g, "x"), by = data_of(*g, "by");
  expect_near(run(m, {}), {by[2], by[3], x[2], x[3], by[0], by[1]});
  expect_gradients(m, 2);
}

// ---- Weights that are shared

TEST(Tied, ACopyOfTheTableIsTheTable) {
  for (bool transposed : {true, false}) {
    Model m;
    m.input("ids", {-1}, TensorProto::INT64).floats("table", {3, 2}, {1, 2, 3, 4, 5, 6});
    if (transposed)
      m.floats("head", {2, 3}, {1, 3, 5, 2, 4, 6});
    else
      m.floats("head", {3, 2}, {1, 2, 3, 4, 5, 6});
    m.node("Gather", {"table", "ids"}, {"x"});
    m.node("Gemm", {"x", "head"}, {"y"}, {{"transB", int64_t{!transposed}}}).output("y");
    auto g = m.import({.batch = 2});
    ASSERT_EQ(g->params().size(), 1u);
    EXPECT_EQ(g->params()[0]->name, "table");
    EXPECT_EQ(run(m, {{"ids", {1, 0}}}, {.batch = 2}), (Numbers{11, 25, 39, 5, 11, 17}));
  }
  // Another number in one place: it is a weight of its own.
  Model m;
  m.input("ids", {-1}, TensorProto::INT64).floats("table", {3, 2}, {1, 2, 3, 4, 5, 6});
  m.floats("head", {2, 3}, {1, 3, 5, 2, 4, 7}).node("Gather", {"table", "ids"}, {"x"});
  m.node("MatMul", {"x", "head"}, {"y"}).output("y");
  EXPECT_EQ(m.import({.batch = 2})->params().size(), 2u);
  // Both filled with one number: chance.
  Model filled;
  filled.input("ids", {-1}, TensorProto::INT64).floats("table", {3, 2}, Floats(6, 0.5f));
  filled.floats("head", {2, 3}, Floats(6, 0.5f)).node("Gather", {"table", "ids"}, {"x"});
  filled.node("MatMul", {"x", "head"}, {"y"}).output("y");
  EXPECT_EQ(filled.import({.batch = 2})->params().size(), 2u);
}

// ---- Another batch

TEST(OtherBatch, WhatMixesSamplesIsRefused) {
  auto problem = [](const Model& m) { return m.problem({.batch = 8}); };
  Model rms(23);
  rms.input("x", {4, 3}).random("scale", {4, 3});
  rms.node("RMSNormalization", {"x", "scale"}, {"y"}, {{"axis", int64_t{0}}}).output("y");
  EXPECT_NE(problem(rms), "");
  Model length(22);
  length.input("x", {4, 3}).node("LpNormalization", {"x"}, {"y"}, {{"axis", int64_t{0}}}).output("y");
  expect_has(problem(length), "works along axis 0 of 'x', which is the batch");
  Model triangle(14);
  triangle.input("x", {4, 3}).node("Trilu", {"x"}, {"y"}).output("y");
  expect_has(problem(triangle), "works along axis 0 of 'x', which is the batch");
  Model turned(23);
  turned.input("x", {4, 2, 3}).node("Transpose", {"x"}, {"t"}, {{"perm", Ints{1, 0, 2}}});
  turned.node("Attention", {"t", "t", "t"}, {"a"},
              {{"q_num_heads", int64_t{1}}, {"kv_num_heads", int64_t{1}}});
  turned.node("Transpose", {"a"}, {"y"}, {{"perm", Ints{1, 0, 2}}}).output("y");
  expect_has(problem(turned), "works along axis 1 of 't', which is the batch");
}

TEST(OtherBatch, WhatKeepsSamplesApartIsRead) {
  Model m(23);
  m.input("x", {4, 3, 6}).random("scale", {6}).random("t", {1, 3, 6});
  m.node("RMSNormalization", {"x", "scale"}, {"n"});
  m.node("Attention", {"n", "n", "n"}, {"a"}, {{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{2}}});
  m.node("LpNormalization", {"a"}, {"y"}).output("y");
  EXPECT_EQ(m.import({.batch = 8})->outputs()[0]->type.dims, (Dims{8, 3, 6}));
}

}  // namespace
}  // namespace pock::test
