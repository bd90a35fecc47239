// What the runtime and a library's header tell about a program, as the rows of struct pock_program's tables.
#pragma once

#include <string>
#include <vector>

#include "place.h"
#include "pock.h"

namespace pock {

struct TensorRow {
  const Value* value;
  std::string name;
  pock_role role;
  Place place;
};

struct InputRow {
  const Value *train, *infer;  // the same input of both graphs
  std::string name;            // of labels: the output that they belong to
  bool label;
  int64_t classes = 0;  // of labels, as in pock_input
  int64_t output = -1;  // likewise
  uint64_t reaches = 0;
};

struct OutputRow {
  const Value* value;
  std::string name;
  Place place;
};

std::vector<TensorRow> tensor_rows(const Program&);
std::vector<InputRow> input_rows(const Program&);
std::vector<OutputRow> output_rows(const Program&);
// Samples a step. Throws Error where an input has no axis for them, or another number.
int64_t batch_of(const Program&);

}  // namespace pock
