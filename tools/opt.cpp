#include "opt.h"

#include "pock/ir/text.h"
#include "pock/passes/pass.h"

namespace pock {

void run_opt(const std::string& file, const std::vector<std::string>& passes, const std::string& out) {
  std::vector<Pass> list;
  for (const std::string& name : passes) list.push_back(get_pass(name));
  auto g = load_graph(file);
  for (const PassRun& run : run_passes(*g, list, PassOptions{}))
    say(fmt::format("{}: {} change{}", run.name, run.changes, run.changes == 1 ? "" : "s"));
  save_graph(*g, out.empty() ? "-" : out);
}

}  // namespace pock
