// What the subcommands that read a model have in common: the file, and how its open questions are answered.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pock/frontends/import.h"

namespace pock {

struct ModelArgs {
  std::string model;
  std::optional<int64_t> batch;
  std::vector<std::string> dims;  // NAME=N
  std::optional<int64_t> assume_opset;
};

ImportOptions import_options(const ModelArgs&);  // throws Error

}  // namespace pock
