#include "pock/codegen/target.h"

#include <algorithm>
#include <sstream>

#include "aarch64/target.h"
#include "llvm/machine.h"
#include "pock/support/diag.h"
#include "x86/target.h"

namespace pock {

std::vector<std::string> target_names() { return {"host", "x86-64", "aarch64-linux"}; }

Target find_target(const std::string& name, const std::string& cpu) {
  const std::vector<std::string> names = target_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw error("unknown target '{}'; there are: {}", name, fmt::join(names, ", "));
  return name == "aarch64-linux" ? aarch64_target(name, cpu) : x86_target(name, cpu);
}

bool runs_here(const Target& t) {
  std::vector<std::string> features;
  std::istringstream list(t.features);  // "+a,+b"
  for (std::string f; std::getline(list, f, ',');) features.push_back(f.substr(1));
  return host_is(t.triple) && cpu_has(t.triple, "host", features);
}

}  // namespace pock
