// What a model's parameters are to its layers, as schemes speak of them.
//
//   Layers found = find_layers(model);
//   found.layers.back().weight->name == "fc.weight"
#pragma once

#include <vector>

#include "pock/ir/graph.h"

namespace pock {

// A convolution or a product of matrices with a parameter.
struct Layer {
  Node* node;   // where the parameter is used more than once, the last
  int operand;  // which of the node's inputs is the weight, perhaps transposed or under another shape
  Value* weight;
  int input_channels;  // the axis of the weight along which they lie; -1: of none of its own
  // Added to the result, one number for each of its channels: none or one, or one for each node that uses the weight.
  std::vector<Value*> biases = {};
  const Value* out;  // with the bias
};

struct Norm {
  const Node* node;
  Value *scale, *shift;  // may be null
  const Value* x;        // what is normalised
  size_t before;         // how many of the layers stand before it
};

struct Layers {
  std::vector<Layer> layers;  // in the graph's order
  std::vector<Norm> norms;

  void erase_layer(size_t i);
};

// Of a model as imported. A norm is an operator of that name, or an elementwise factor behind a quotient by a root, and
// what is added behind that.
Layers find_layers(const Graph&);

}  // namespace pock
