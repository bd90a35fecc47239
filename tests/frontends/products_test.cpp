// MatMul and Gemm in every form: values against the definition, gradients against differences.
#include "forms.h"
#include "pock/ops/op.h"

namespace pock::test {
namespace {

// numpy's matmul, by its own rules.
Numbers matmul(Dims left, const Numbers& a, Dims right, const Numbers& b, Dims* shape) {
  bool row = left.size() == 1, column = right.size() == 1;
  if (row) left.insert(left.begin(), 1);
  if (column) right.push_back(1);
  int64_t rows = left[left.size() - 2], sum = left.back(), columns = right.back();
  left.resize(left.size() - 2);
  right.resize(right.size() - 2);
  size_t axes = std::max(left.size(), right.size());
  left.insert(left.begin(), axes - left.size(), 1);
  right.insert(right.begin(), axes - right.size(), 1);
  shape->clear();
  for (size_t i = 0; i < axes; ++i) shape->push_back(std::max(left[i], right[i]));
  Numbers y;
  each_index(*shape, [&](const Dims& at) {
    int64_t x = 0, w = 0;
    for (size_t i = 0; i < axes; ++i) {
      x = x * left[i] + (left[i] == 1 ? 0 : at[i]);
      w = w * right[i] + (right[i] == 1 ? 0 : at[i]);
    }
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        y.push_back(0);
        for (int64_t k = 0; k < sum; ++k)
          y.back() += a[(x * rows + i) * sum + k] * b[(w * sum + k) * columns + j];
      }
  });
  if (!row) shape->push_back(rows);
  if (!column) shape->push_back(columns);
  return y;
}

const std::vector<std::pair<Dims, Dims>> kMatMulForms = {
    {{3, 4}, {4, 5}},
    {{4}, {4}},
    {{4}, {4, 5}},
    {{3, 4}, {4}},
    {{2, 3, 4}, {4}},
    {{4}, {2, 4, 5}},
    {{2, 3, 4}, {4, 5}},
    {{3, 4}, {2, 4, 5}},
    {{2, 3, 4}, {2, 4, 5}},
    {{2, 3, 4}, {1, 1, 4, 5}},
    {{3, 4}, {1, 4, 5}},
    {{2, 1, 3, 4}, {7, 4, 5}},
    {{2, 1, 3, 4}, {1, 3, 4, 2}},
    {{1, 2, 3, 4}, {2, 2, 4, 1}},
};

TEST(MatMul, Forms) {
  for (const auto& [left, right] : kMatMulForms) {
    SCOPED_TRACE(to_string(left) + " x " + to_string(right));
    Model m;
    m.random("a", left).random("b", right).node("MatMul", {"a", "b"}, {"y"}).output("y");
    auto g = m.import();
    Dims shape;
    Numbers want = matmul(left, data_of(*g, "a"), right, data_of(*g, "b"), &shape);
    EXPECT_EQ(g->outputs()[0]->type.dims, shape);
    expect_near(run(*g), want);
    expect_gradients(m, 2);
  }
}

// A linear layer over [batch, tokens, features] is one product, whose weight gradient is one as well.
TEST(MatMul, OneWeightForAllRowsIsOneProduct) {
  Model m;
  m.input("x", {2, 3, 4}).random("w", {4, 5}).node("MatMul", {"x", "w"}, {"y"}).output("y");
  std::vector<const Value*> products;
  auto g = m.import();
  for (const Node* n : g->nodes())
    if (n->op->name.text == std::string("matmul")) products.push_back(n->out());
  ASSERT_EQ(products.size(), 1u);
  EXPECT_EQ(products[0]->type.dims, (Dims{6, 5}));
}

TEST(MatMul, Refusals) {
  auto problem = [](const Dims& left, const Dims& right) {
    Model m;
    m.input("a", left).input("b", right).node("MatMul", {"a", "b"}, {"y"}).output("y");
    return m.problem();
  };
  for (const auto& [left, right] :
       {std::pair<Dims, Dims>{{2, 3, 4}, {5, 6}}, {{2, 4}, {5}}, {{4}, {2, 5, 4}}}) {
    std::string text = problem(left, right);
    expect_has(text, "rows of 4 elements on the left meet columns of 5 on the right");
    expect_has(text, "input 'a': is f32" + to_string(left));
    expect_has(text, "input 'b': is f32" + to_string(right));
  }
  expect_has(problem({2, 3, 4}, {3, 4, 5}), "shapes do not broadcast: [3] of input 1 meets [2]");
  expect_has(problem({}, {2, 3}), "a scalar cannot be a matrix");
}

TEST(Gemm, Forms) {
  const int64_t rows = 3, sum = 4, columns = 5;
  for (int form = 0; form < 16; ++form)
    for (const std::optional<Dims>& c : std::vector<std::optional<Dims>>{
             std::nullopt, Dims{}, Dims{1}, Dims{5}, Dims{1, 5}, Dims{3, 1}, Dims{3, 5}, Dims{1, 1}}) {
      bool ta = form & 1, tb = form & 2;
      float alpha = form & 4 ? 0.5f : 1, beta = form & 8 ? 2 : 1;
      SCOPED_TRACE(fmt::format("transA {} transB {} alpha {} beta {} C {}", ta, tb, alpha, beta,
                               c ? to_string(*c) : "none"));
      Model m;
      m.random("a", ta ? Dims{sum, rows} : Dims{rows, sum});
      m.random("b", tb ? Dims{columns, sum} : Dims{sum, columns});
      if (c) m.random("c", *c);
      Attributes attributes{{"alpha", alpha}, {"beta", beta}};
      if (ta) attributes.emplace_back("transA", int64_t{1});
      if (tb) attributes.emplace_back("transB", int64_t{1});
      m.node("Gemm", c ? Strings{"a", "b", "c"} : Strings{"a", "b"}, {"y"}, attributes).output("y");
      auto g = m.import();
      Numbers a = data_of(*g, "a"), b = data_of(*g, "b"), want;
      // C as rows x columns; a scalar is a constant, not a parameter.
      bool scalar = c && c->empty();
      auto at_c = [&](int64_t i, int64_t j) {
        if (!c) return 0.0;
        if (scalar) {
          float number;
          std::memcpy(&number, m.proto.graph().initializer(2).float_data().data(), sizeof number);
          return double{number};
        }
        Dims dims = *c;
        if (dims.size() == 1) dims.insert(dims.begin(), 1);
        return data_of(*g, "c")[(dims[0] == 1 ? 0 : i) * dims[1] + (dims[1] == 1 ? 0 : j)];
      };
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          double s = 0;
          for (int64_t k = 0; k < sum; ++k)
            s += a[ta ? k * rows + i : i * sum + k] * b[tb ? j * sum + k : k * columns + j];
          want.push_back(alpha * s + beta * at_c(i, j));
        }
      EXPECT_EQ(g->outputs()[0]->type.dims, (Dims{rows, columns}));
      expect_near(run(*g), want);
      expect_gradients(m, c && !scalar ? 3 : 2);
    }
}

TEST(Gemm, Refusals) {
  auto problem = [](const Dims& a, const Dims& b, const Dims& c) {
    Model m;
    m.input("a", a).input("b", b).input("c", c).node("Gemm", {"a", "b", "c"}, {"y"}).output("y");
    return m.problem();
  };
  expect_has(problem({2, 3, 4}, {4, 5}, {5}), "A and B must be matrices, but have ranks 3 and 2");
  expect_has(problem({2, 3}, {4, 5}, {5}), "sums over 3 elements of f32[2,3] but 4 of f32[4,5]");
  expect_has(problem({2, 4}, {4, 5}, {4}), "shapes do not broadcast: [4] of input 1 meets [2,5]");
  expect_has(problem({2, 4}, {4, 5}, {3, 2, 5}), "C must broadcast to [2,5]");
}

}  // namespace
}  // namespace pock::test
