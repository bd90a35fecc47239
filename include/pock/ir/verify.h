// Checks a graph as a whole: every node re-inferred, values defined before use, users consistent, names of
// leaves unique, each parameter updated at most once and after its last reader, in-place results legal.
//
//   run_my_pass(graph);
//   verify(graph, "my_pass");   // "pock has a bug: the graph is broken after my_pass: %3 = add reads ..."
#pragma once

#include "pock/ir/graph.h"

namespace pock {

// `after` names the pass that ran, for the message. Throws std::logic_error (a bug of ours) where the graph
// is broken.
void verify(const Graph&, const std::string& after);

// What is broken first, or "".
std::string find_fault(const Graph&);

}  // namespace pock
