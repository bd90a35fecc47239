// Gradients of whole graphs by `autodiff` against differences in double.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pock/ir/graph.h"

namespace pock::test {

struct Gradients {
  int checked = 0;  // parameters
  std::string problem;
};

// Of the sum of all float outputs, each element times a random number, by every parameter. At a kink or a jump, the
// derivative must lie between those on either side.
Gradients check_gradients(std::unique_ptr<Graph> forward);

// The same gradients, in f32.
using NamedNumbers = std::map<std::string, std::vector<double>>;
NamedNumbers gradients(std::unique_ptr<Graph> forward);

}  // namespace pock::test
