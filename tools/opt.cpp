#include "opt.h"

#include "pock/ir/text.h"

namespace pock {

void run_opt(const OptArgs& args) {
  std::vector<Pass> list;
  for (const std::string& name : args.names) list.push_back(get_pass(name));
  const PassOptions options = pass_options(args);
  auto g = load_graph(args.file);
  for (const PassRun& run : run_passes(*g, list, options))
    say(fmt::format("{}: {} change{}", run.name, run.changes, run.changes == 1 ? "" : "s"));
  save_graph(*g, args.out);
}

}  // namespace pock
