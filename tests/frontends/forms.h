// For tests of an operator in all its spellings: each one's values against its definition, and its gradients.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "gradients.h"
#include "model.h"

namespace pock::test {

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

// All indices below these lengths, the last one fastest.
inline void each_index(const Dims& dims, const std::function<void(const Dims&)>& f) {
  Dims index(dims.size(), 0);
  for (;;) {
    f(index);
    size_t axis = dims.size();
    while (axis > 0 && ++index[axis - 1] == dims[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

}  // namespace pock::test
