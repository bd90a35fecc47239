// What is in a model file, and what stands in the way of training it.
//
//   ModelSummary s = inspect_onnx("model.onnx", {});
//   for (const Error& e : s.problems) fmt::print("{}\n", e.what());
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pock/frontends/import.h"

namespace pock {

struct ModelSummary {
  struct Axis {
    int64_t size = 0;
    std::string symbol;  // instead of a size that the file leaves open: what --dim calls it
  };
  struct Tensor {
    std::string name;
    std::string type;  // as the file stores it: "float", "int64", ...
    std::vector<Axis> shape;
  };
  struct Operator {
    std::string domain, name;
    int64_t version = 0;  // that holds for the file's opset; 0: pock knows none, so it is not supported
    int count = 0;
  };
  // A node that no gradient flows through. Freezing the parameters makes do without, as compiling does by itself.
  struct Stop {
    std::string node, op, why;
    std::vector<std::string> parameters;  // that reach the outputs through such nodes only
  };

  std::string file, producer;
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opsets;  // by domain; ONNX's own is "ai.onnx"
  std::vector<Tensor> inputs, outputs;
  // Sizes that the file leaves open: those that were taken for this inspection (an open batch is kTakenBatch unless it is given),
  // and those without which no shapes can be checked.
  std::map<std::string, int64_t> taken;
  std::vector<std::string> open;
  std::vector<Tensor> parameters, statistics;  // in the order of the file
  std::vector<Operator> operators;             // by domain and name; those of functions are their bodies'
  // What keeps the model from being read. Freezing parameters is no help: it is needed forwards.
  std::vector<Error> problems;
  std::vector<Stop> stops;  // known where there are no problems and nothing is open
  std::vector<std::string> notes;
  std::unique_ptr<Graph> graph;  // null where there are problems or open sizes
};
// Two samples: what holds for one alone shows.
inline constexpr int64_t kTakenBatch = 2;

// Throws Error where the file cannot be read, is no ONNX model, or does not fit the options.
ModelSummary inspect_onnx(const std::string& path, const ImportOptions&);

}  // namespace pock
