// Which values share memory: a view lies in its input's memory, an in-place result takes over its input's.
//
//   const Value* owner = storage_owner(v);           // an input, a parameter, the result that got the memory
//   for (const Value* alias : aliases(owner)) ...    // everything that lies there, the owner first
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "pock/ir/graph.h"

namespace pock {

// The nodes of one kernel share the position of the first.
using Positions = std::unordered_map<const Node*, int>;
Positions positions(const Graph&);

// Made and read in one kernel alone: it is never stored.
bool inside_kernel(const Graph&, const Value*);
// Each kernel's nodes, and every other node alone, in order.
std::vector<std::vector<Node*>> kernels(const Graph&);

// What an `update` stores of its parameter's elements; none: all.
std::optional<Slice> stored_slice(const Node& update);

// The input of `v`'s node whose memory `v` lies in, or nullptr where `v` has its own.
Value* storage_source(const Value* v);
Value* storage_owner(Value* v);
inline const Value* storage_owner(const Value* v) { return storage_owner(const_cast<Value*>(v)); }
std::vector<const Value*> aliases(const Value* owner);
// Whether any result took over the memory of an input.
bool shares_memory(const Graph&);

// Whether result 0 may take over the memory of input `i`: the operator allows it, the types are equal, the
// memory is a result's, `n` reads it in no other way, other nodes of its kernel read it only to make input `i` of it, and
// nobody reads it after `n` by way of other values than result 0.
bool may_take_over(const Graph&, const Positions&, const Node& n, int i);

}  // namespace pock
