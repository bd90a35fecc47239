// The functions that a model defines itself: their bodies take the place of the calls, so that the importer meets
// operators only.
//
//   Body body = inline_functions(file, {});
//   for (const Statement& s : body.statements) import(*s.node, s.opset);
//
// What is made inside of a call has the name of the call in front: 'layer1/hidden'.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reader.h"

namespace pock::onnx_frontend {

// Calls may be nested so deep, and all calls of a file may unfold to so much.
constexpr int64_t kDeepestCall = 100, kMostInlined = 100000, kMostInlinedBytes = 1 << 26;

struct Statement {
  const onnx::NodeProto* node;
  int64_t opset;        // of ONNX's own operators, as the model or the function says; 0: neither does
  bool inside = false;  // of a function: its constants belong to the code, they are no weights
};

struct Body {
  std::vector<Statement> statements;                     // as in the file's graph
  std::deque<onnx::NodeProto> copies;                    // nodes of functions, as each call has them
  std::map<const onnx::NodeProto*, std::string> faults;  // of statements that are calls still: why
};

// `assumed`: the opset of everything, whatever the file says. Throws Error where the bodies are too large to copy.
Body inline_functions(const ModelFile&, std::optional<int64_t> assumed = {});

// What the file says, or what is assumed; 0: it does not say.
int64_t file_opset(const ModelFile&, std::optional<int64_t> assumed);

// Its own, or that of its first output: names of nodes are optional.
std::string node_name(const onnx::NodeProto&);

}  // namespace pock::onnx_frontend
