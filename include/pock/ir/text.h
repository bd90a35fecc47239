// The text form of a graph, `.pock`. Printing what was parsed gives the same text again.
//
//   pock 1
//   graph @fit {
//     input %x : f32[2,4]
//     param %w : f32[4,3] trained
//     statistic %m : f32[3]
//     optimizer %w.momentum : f32[4,3] of %w
//     const %c : f32[] = 0.5
//     scalar %lr : f32[]
//     %0 = matmul(%x, %w) : f32[2,3] @ "fc"
//     %1, %2 = max_pool(%0) {kernel = [2,2]} : f32[2,3], u8[2,3]
//     %3 = relu(%1) : f32[2,3] in_place
//     output %3 "logits"
//     update %w = %9
//   }
//
// A name with characters outside [A-Za-z0-9_./-] is quoted: %"my weight". Elements of constants with at most 16
// elements stand in the text; all other data goes to a safetensors file beside it, keyed by name (constants: "const.ID").
#pragma once

#include <string>

#include "pock/ir/graph.h"

namespace pock {

struct PrintOptions {
  bool locs = true;  // the trailing @ "node"
};

std::string print(const Graph&, const PrintOptions& = {});
// Throws Error with line and column. Result types are checked against the shape rules.
std::unique_ptr<Graph> parse_graph(const std::string& text, const std::string& file = "");

// FILE.pock and, where there is data, FILE.pock.safetensors.
void save_graph(const Graph&, const std::string& path);
std::unique_ptr<Graph> load_graph(const std::string& path);

}  // namespace pock
