// What the runtime and a library's header tell about a program, as the rows of struct pock_program's tables.
#pragma once

#include <string>
#include <vector>

#include "place.h"
#include "pock.h"

namespace pock {

struct TensorRow {
  const Value* value;
  std::string name, slot;  // slot: "" where it is none
  int role;                // enum pock_role
  Place place;
};

// What losses and tables say of an input that holds class ids or numbers of rows, as in pock_input.
struct ClassIds {
  int64_t classes = 0, lowest = 0, ignored = INT64_MIN, stride = 1;
};

struct InputRow {
  const Value *train, *infer;  // the same input of both graphs
  std::string name;            // of labels: the output that they belong to
  bool label;
  ClassIds ids;
  int64_t output = -1, shift = 0;  // of labels, as in pock_input
  uint64_t reaches = 0;
};

struct OutputRow {
  const Value* value;
  std::string name;
  Place place;
  bool rows;  // one for each sample
};

struct LossRow {
  double weight;
  const Value *losses, *weights;  // outputs of the inference graph; weights may be null
};

std::vector<TensorRow> tensor_rows(const Program&);
std::vector<TensorRow> gradient_rows(const Program&);
std::string slices_json(const Program&);  // as pock_program has them
std::vector<InputRow> input_rows(const Program&);
std::vector<OutputRow> output_rows(const Program&);
std::vector<LossRow> loss_rows(const Program&);

}  // namespace pock
