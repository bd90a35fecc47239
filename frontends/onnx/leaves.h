// The names under which the tensors of a model file are trained and saved. They depend on the file alone, so that
// what was trained finds its way back (export.cpp).
//
// A weight has its own name, or that of the Constant or Identity node that makes it. A running statistic as well;
// but each batch norm updates statistics of its own, and where a tensor has other readers, every further reader's is
// called NAME:2, NAME:3, ...
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <utility>

#include "functions.h"

namespace pock::onnx_frontend {

bool is_standard(const std::string& domain);  // of ONNX's own operators

// Of every batch norm, for its inputs 3 and 4.
using StatisticNames = std::map<std::pair<const onnx::NodeProto*, int>, std::string>;
StatisticNames statistic_names(const onnx::GraphProto&, const Body&);

// A head that shares its weight with an embedding has a copy of the table in the file, mostly transposed: exporters fold
// the transposition into it. Both are one parameter, the table. By the copy's name.
struct TiedCopy {
  std::string table;
  bool transposed;
};
using TiedCopies = std::map<std::string, TiedCopy>;
TiedCopies tied_copies(const ModelFile&, const Body&);

}  // namespace pock::onnx_frontend
