// Makes nodes with little ceremony. Gradients, importers and passes all build graphs through it.
//
//   Builder b(graph, loc);
//   Value* y = b.relu(b.add(b.matmul(x, w), bias));
//   Value* z = b.make("max_pool", {y}, {{"kernel", Dims{2, 2}}})->out(0);
//
// The methods below are shorthands for `make`; an operator needs none to exist.
#pragma once

#include "pock/ir/graph.h"

namespace pock {

class Builder {
 public:
  // Nodes go to the end of the graph, or before `before`, and carry `loc`.
  explicit Builder(Graph& g, Loc loc = {}, Node* before = nullptr)
      : graph(g), loc(std::move(loc)), before(before) {}

  Node* make(std::string_view op, std::vector<Value*> inputs, Attrs attrs = {});
  Value* value(std::string_view op, std::vector<Value*> inputs, Attrs attrs = {}) {
    return make(op, std::move(inputs), std::move(attrs))->out(0);
  }

  // Constants.
  Value* constant(float);                            // f32[]
  Value* constant(Type, const std::vector<float>&);  // f32 of any shape
  Value* zeros(const Type&);

  // Broadcasting arithmetic (numpy's rule).
  Value* add(Value* a, Value* b) { return value("add", {a, b}); }
  Value* sub(Value* a, Value* b) { return value("sub", {a, b}); }
  Value* mul(Value* a, Value* b) { return value("mul", {a, b}); }
  Value* div(Value* a, Value* b) { return value("div", {a, b}); }
  Value* neg(Value* a) { return value("neg", {a}); }
  Value* relu(Value* a) { return value("relu", {a}); }
  Value* matmul(Value* a, Value* b, bool transpose_a = false, bool transpose_b = false) {
    return value("matmul", {a, b},
                 {{"transpose_a", int64_t{transpose_a}}, {"transpose_b", int64_t{transpose_b}}});
  }
  Value* reshape(Value* a, Dims shape);  // the value itself where the shape is already that
  Value* transpose(Value* a, std::vector<int64_t> permutation);
  Value* reduce_sum(Value* a, std::vector<int64_t> axes, bool keep = false);
  Value* reduce_mean(Value* a, std::vector<int64_t> axes, bool keep = false);
  Value* broadcast_to(Value* a, Dims shape);
  // Sums `a` over the axes along which `shape` was broadcast to a's shape: the gradient of broadcasting.
  Value* sum_to(Value* a, const Dims& shape);
  // running * momentum + batch * (1 - momentum) * factor: a batch norm's statistic after a step.
  Value* running_average(Value* running, Value* batch, double momentum, double factor);
  void update(Value* param, Value* by) { make("update", {param, by}); }
  void update(Value* param, const Slice&, Value* by);  // into those elements
  Value* take(Value*, const Slice&);                   // those elements

  Graph& graph;
  Loc loc;
  Node* before;
};

}  // namespace pock
