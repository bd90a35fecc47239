// Where a value is when a step runs.
#pragma once

#include <cstdint>

#include "pock/codegen/compile.h"

namespace pock {

// Numbered as the fields of struct pock_buffers (runtime/pock.h).
enum class Base : uint8_t { arena, params, state, weights, scalars };

struct Place {
  Base base;
  int64_t offset;  // bytes
};

// Of a value of the training or the inference graph.
Place place_of(const Program&, const Graph&, const Value*);
// Inputs that a loss compares with the model's output are called "labels" or "labels.NAME".
bool is_label(const Value* input);
// Whether the result that this `update` stores was written straight into its parameter.
bool stores_nothing(const Program&, const Graph&, const Node& update);
// Bytes of a kernel's workspace argument in a node's planned workspace, where such arguments follow each
// other.
int64_t workspace_bytes(const loop::Buffer&);
// Of all arguments of a kernel as a node uses it, workspace among them, in their order.
std::vector<Place> argument_places(const Program&, const Graph&, const KernelUse&);
// The initial bytes of the weights section: params, then frozen tensors and constants, denormals flushed to
// zero.
std::string weights_section(const Program&);

}  // namespace pock
