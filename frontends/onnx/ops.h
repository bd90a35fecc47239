// The table of ONNX operators that pock reads: a row for each.
//
//   const OpRow* row = find_row("Softmax");
//   Call call(scope, statement, version_for(*row, statement.opset, loc), loc);
//   row->convert(call, row->op);
#pragma once

#include "along.h"

namespace pock::onnx_frontend {

// Which opsets a file may use: every operator says from which on pock knows it, and nobody knows the next one.
constexpr int kNewestOpset = 26;

struct OpRow {
  const char* name;
  std::vector<int> since;  // the versions of the operator that `convert` knows, ascending
  Along* along;            // which axes it works along
  void (*convert)(Call&, const char* op);
  const char* op = "";  // pock's operator, for conversions that serve several rows
};

const OpRow* find_row(std::string_view name);  // nullptr: unknown
std::vector<std::string> known_operators();

// The version that holds at an opset: the newest that is not newer. Throws Error where pock knows none.
int version_for(const OpRow&, int64_t opset, const Loc&);

}  // namespace pock::onnx_frontend
