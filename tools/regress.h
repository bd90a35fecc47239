// `pockc regress`: whether generated kernels have become wrong, slower or larger than a stored baseline says.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "program_args.h"

namespace pock {

struct RegressArgs {
  std::string file, baseline, json, junit;
  bool update = false;
};
// The words of a command line behind `pockc compile`, the model's name first.
using ParseProgram = std::function<ProgramArgs(const std::vector<std::string>&)>;

// What is measured of a kernel. What is more than in the baseline by this fraction is worse.
struct Metric {
  const char* name;
  double tolerance;
};
inline constexpr Metric kMetrics[] = {
    {"instructions", 0.02}, {"code_bytes", 0.05}, {"stack_bytes", 0.10}, {"spills", 0}, {"time", 0.30}};

struct RegressCase {
  std::string name, target;
  std::vector<std::string> words;  // for ParseProgram, the target among them
  bool time = false;
};
struct RegressFile {
  std::string baseline;                     // beside the file
  std::map<std::string, double> tolerance;  // by metric
  std::vector<RegressCase> cases;
};
// Throws Error with line and column.
RegressFile read_regress_file(const std::string& path);

// Prints a table of what moved. Throws Error where a kernel is wrong, worse, new or missing, after all is written.
void run_regress(const RegressArgs&, const ParseProgram&);

}  // namespace pock
