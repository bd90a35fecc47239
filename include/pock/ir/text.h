// The text form of a graph, `.pock`. Printing what was parsed gives the same text again.
//
//   pock 1
//   graph @fit {
//     model "net.onnx" "0123456789abcdef" "pytorch"
//     input %x : f32[2,4]
//     param %w : f32[4,3] trained
//     statistic %m : f32[3]
//     optimizer %w.momentum : f32[4,3] of %w        (from 0.5: where it does not start at 0)
//     accumulator %w.accumulator : f32[4,3] of %w
//     const %c : f32[2] = [0.5, inf]
//     scalar %lr : f32[]
//     %0 = matmul(%x, %w) : f32[2,3] @ "fc" "Gemm"
//     %1, %2 = max_pool(%0) {kernel = [2,2]} : f32[2,3], u8[2,3]
//     %3 = relu(%1) : f32[2,3] in_place recomputed
//     output %3 "logits"
//     update %w = %9
//   }
//
// Blanks, line breaks and comments (`#` to the end of the line) are free. The order of the nodes is the order
// of execution, `update` among them; outputs are printed before the updates that end a graph. Results are %0,
// %1, ... in order of appearance and constants without a name %const.0, %const.1, ...; any other name of
// digits alone or with characters outside [A-Za-z0-9_./-] is quoted: %"my weight". `model` names the imported
// file, its hash and its producer. `@` tells the node's name in the model and the operator there. Attributes
// that have their default are left out. `in_place` takes over the memory of input 0, `in_place 1` that of
// input 1.
//
// Elements of constants with at most 16 elements stand in the text (a single one without brackets); all other
// data goes to a safetensors file beside it, keyed by the name in the text.
#pragma once

#include <string>
#include <unordered_map>

#include "pock/ir/graph.h"

namespace pock {

struct PrintOptions {
  bool locs = true;  // the trailing @ "node"
};

std::string print(const Graph&, const PrintOptions& = {});
// Throws Error with line and column. Result types are checked against the shape rules.
std::unique_ptr<Graph> parse_graph(const std::string& text, const std::string& file = "");

// FILE.pock and, where there is data, FILE.pock.safetensors. Loading without the second gives a graph without
// data.
void save_graph(const Graph&, const std::string& path);
std::unique_ptr<Graph> load_graph(const std::string& path);

// How the text calls the values of a graph, for tables and messages: "%x", "%12", "%\"my weight\"".
class Names {
 public:
  explicit Names(const Graph&);
  const std::string& operator()(const Value* v) const { return names_.at(v); }

 private:
  std::unordered_map<const Value*, std::string> names_;
};

}  // namespace pock
