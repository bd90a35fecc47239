// What a schedule asks of a kernel's loops.
#pragma once

#include <string>
#include <vector>

#include "pock/loop/transform.h"

namespace pock {

constexpr int64_t kLeastVector = 4;  // narrower ones gain nothing

// An outer loop of a nest, 0..extent, independent.
struct Axis {
  std::string name;
  int64_t extent;
  loop::VarRef var;
};

// A load or store of memory; how far a step along each axis moves it.
struct Access {
  bool store = false;
  std::vector<int64_t> stride;
  std::vector<bool> linear;  // the stride is the same everywhere
};

// The loops directly inside one another from the outside, and what the innermost holds.
struct Nest {
  std::vector<Axis> axes;
  const std::vector<loop::Stmt>* core = nullptr;
  std::vector<Access> accesses;  // of the core
  bool sequential = false;       // the core has `for` loops
  bool independent = false;      // the core has `each` loops
};

Nest find_nest(const loop::Stmt& outermost);
std::vector<Access> find_accesses(const std::vector<loop::Stmt>& core, const std::vector<loop::VarRef>& vars);

// All loops of a name, outermost first.
std::vector<const loop::Stmt*> loops_named(const std::vector<loop::Stmt>&, const std::string&);

}  // namespace pock
