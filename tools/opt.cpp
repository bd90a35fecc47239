#include "opt.h"

#include <set>

#include "pock/ir/text.h"
#include "pock/passes/pass.h"
#include "pock/support/new_file.h"

namespace pock {
namespace {

std::string all_pass_names() {
  std::set<std::string> names;
  for (const auto* pipeline : {&training_pipeline(), &inference_pipeline()})
    for (const Pass& pass : *pipeline) names.insert(pass.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

void run_opt(const std::string& file, const std::vector<std::string>& passes, const std::string& out) {
  std::vector<Pass> list;
  for (const std::string& name : passes) {
    const Pass* pass = find_pass(name);
    if (!pass) throw error("there is no pass '{}'; there are {}", name, all_pass_names());
    list.push_back(*pass);
  }
  auto g = load_graph(file);
  for (const PassRun& run : run_passes(*g, list, PassOptions{}))
    say(fmt::format("{}: {} change{}", run.name, run.changes, run.changes == 1 ? "" : "s"));
  if (out.empty() || out == "-")
    NewFile("-", print(*g)).commit();
  else
    save_graph(*g, out);
}

}  // namespace pock
