// For tests of an operator in all its spellings: each one's values against its definition, and its gradients.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "gradients.h"
#include "model.h"

namespace pock::test {

using Numbers = std::vector<double>;
using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

inline Numbers ramp(int n) {
  Numbers x(n);
  for (int i = 0; i < n; ++i) x[i] = i;
  return x;
}

inline void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
}

// All initializers of the model that the loss can reach are parameters: so many.
inline void expect_gradients(const Model& m, int params) {
  Gradients gradients = check_gradients(m.import());
  EXPECT_EQ(gradients.problem, "");
  EXPECT_EQ(gradients.checked, params);
}

inline void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5) << i;
}

// The elements of a parameter.
inline std::vector<double> data_of(const Graph& g, const std::string& name) {
  const Value* v = g.find(name);
  std::vector<float> data(v->type.elements());
  std::memcpy(data.data(), v->data->data(), v->data->size());
  return {data.begin(), data.end()};
}

}  // namespace pock::test
