// Gradients of whole graphs by `autodiff` against differences in double.
#pragma once

#include <memory>
#include <string>

#include "pock/ir/graph.h"

namespace pock::test {

struct Gradients {
  int checked = 0;  // parameters
  std::string problem;
};

// Of the sum of all float outputs, each element times a random number, by every parameter. At a kink or a jump, the
// derivative must lie between those on either side.
Gradients check_gradients(std::unique_ptr<Graph> forward);

}  // namespace pock::test
