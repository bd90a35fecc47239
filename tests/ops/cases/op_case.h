// Cases for operators, one line of facts each; what is checked of them all is in tests/ops/case_test.cpp.
//
//   OP_CASE(sub, in({3, 5}), in({5}));                                // shape, gradient, order of iterations
//   OP_CASE(relu, in({3}).is({-1, 0, 2}), gives({0, 0, 2}));          // and values
//   OP_CASE(matmul, in({7, 9}), in({9, 5}), like(matmul));            // values from a plain C++ function
#pragma once

#include "pock/ir/builder.h"
#include "pock/loop/loop.h"
#include "pock/ops/evaluate.h"

namespace pock::test {

using Numbers = std::vector<double>;

struct In {
  Type type;
  double low = -2, high = 2;  // of random elements; integers may be both bounds
  Numbers values = {};
  bool differentiable = true;

  In between(double l, double h) const;
  In is(Numbers v) const;
  In without_gradient() const;  // not checked: integers, or elements at a kink, NaN, infinite
  // A random order of numbers 0.05 apart: no two are close, so a maximum stays where it is.
  In spaced() const;

  bool spaced_out = false;
};
inline In in(Dims dims) { return {{DType::f32, std::move(dims)}}; }
inline In in(DType dtype, Dims dims) { return {{dtype, std::move(dims)}}; }

struct CaseAttrs {
  Attrs attrs;
};
inline CaseAttrs attrs(Attrs a) { return {std::move(a)}; }

struct Gives {
  int result;
  Numbers values;
};
inline Gives gives(Numbers values) { return {0, std::move(values)}; }
inline Gives gives(int result, Numbers values) { return {result, std::move(values)}; }

// The results' elements from the node and the inputs' elements.
using Reference = std::vector<Numbers> (*)(const Node&, const std::vector<Numbers>&);
struct Like {
  Reference reference;
};
inline Like like(Reference r) { return {r}; }

// How far f32 results may be from double ones, relative to the largest element.
struct Within {
  double tolerance;
};
inline Within within(double t) { return {t}; }

struct OpCase {
  std::string op;
  std::string place;  // file_line
  std::vector<In> inputs = {};
  Attrs attrs = {};
  std::vector<Gives> expected = {};
  Reference reference = nullptr;
  double tolerance = 2e-5;

  void take(In i) { inputs.push_back(std::move(i)); }
  void take(CaseAttrs a) { attrs = std::move(a.attrs); }
  void take(Gives g) { expected.push_back(std::move(g)); }
  void take(Like l) { reference = l.reference; }
  void take(Within w) { tolerance = w.tolerance; }

  bool has_values() const { return reference || !expected.empty(); }
  // Elements of every input, the same in every run. f32 ones are exact in f32.
  std::vector<Numbers> data() const;
};

const std::vector<OpCase>& all_cases();

// A case's node in a graph of its own, and (where there is one) its gradient.
struct CaseGraph {
  std::unique_ptr<Graph> graph;
  std::vector<Value*> inputs;
  std::vector<Node*> nodes;      // the node; twice of it, where asked for
  std::vector<Value*> upstream;  // of each node: the gradient of its result 0; empty without gradients
  std::vector<std::vector<Value*>> gradients;  // per input: contributions
};
CaseGraph case_graph(const OpCase&, bool with_gradient);
// Two such nodes, and one value for all differentiable inputs of one type.
CaseGraph case_graph_sharing(const OpCase&);
// The node and, in one kernel with it, a pointwise node that reads its result 0 or makes one of its inputs, with a value
// of its own ("beside"; before the node all 1, so that what the node sees is the case's). No graph where the node has no
// kernel, no float there, or cannot share.
enum class Beside { before, behind };
CaseGraph joined_case_graph(const OpCase&, Beside, uint64_t seed);
// Random layouts for everything that nodes which have a kernel read or make.
void shuffle_layouts(Graph&, uint64_t seed);
Numbers random_numbers(int64_t count, double low, double high, uint64_t seed);

// Every kernel that the cases and their gradients need, with arguments: inputs as they were computed, results
// filled with NaN bytes.
struct CaseKernel {
  std::string name;
  loop::Kernel kernel;
  std::vector<std::vector<std::byte>> args;
};
std::vector<CaseKernel> all_case_kernels();

int register_case(OpCase);
std::string case_place(const std::string& file, int line);
template <class... Parts>
int add_case(const char* op, const char* file, int line, Parts... parts) {
  OpCase c{op, case_place(file, line)};
  (c.take(std::move(parts)), ...);
  return register_case(std::move(c));
}

#define POCK_CASE_NAME_2(line) case_at_line_##line
#define POCK_CASE_NAME(line) POCK_CASE_NAME_2(line)
#define OP_CASE(op, ...) \
  [[maybe_unused]] static const int POCK_CASE_NAME(__LINE__) = add_case(#op, __FILE__, __LINE__, __VA_ARGS__)

}  // namespace pock::test
