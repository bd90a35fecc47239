// Runs a graph in the interpreter: the oracle for compiled programs, and what constant folding uses.
//
//   Memory m = initial_memory(graph);            // params, statistics, zeros for optimizer state
//   m.set(x, data);                              // inputs and scalars
//   evaluate(graph, m);
//   m.read(graph.outputs()[0]);
#pragma once

#include <unordered_map>

#include "pock/ir/graph.h"
#include "pock/loop/interpret.h"

namespace pock {

// The elements of values; f32 tensors are held as float or double by precision.
class Memory {
 public:
  explicit Memory(loop::Precision p = loop::Precision::f32) : precision(p) {}
  loop::Precision precision;

  void set(const Value*, const Data&);                 // little-endian elements of the value's type
  void set(const Value*, const std::vector<double>&);  // converted
  std::vector<double> read(const Value*) const;
  Data raw(const Value*) const;  // precision f32 only
  void* at(const Value*);        // allocated at first use, filled with NaN bytes
  bool has(const Value* v) const { return buffers_.count(v) != 0; }

 private:
  std::unordered_map<const Value*, std::vector<std::byte>> buffers_;
};

Memory initial_memory(const Graph&, loop::Precision = loop::Precision::f32);
// Executes all nodes in order; `update` nodes change the parameters in `m`. Expand operators are run by
// expansion.
void evaluate(const Graph&, Memory& m);
void evaluate(const Node&, Memory& m);  // one of them
// One node whose inputs are all constants.
std::vector<Data> evaluate_node(const Node&, const std::vector<Data>& inputs);

}  // namespace pock
