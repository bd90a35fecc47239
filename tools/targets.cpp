#include "targets.h"

#include <fmt/ranges.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "pock/codegen/target.h"
#include "pock/support/diag.h"

namespace pock {
namespace {

std::string tests_of(const Target& t) {
  if (!t.emulator.empty())
    return fmt::format("{}", fmt::join(t.emulator.begin(), t.emulator.begin() + 3, " "));
  return runs_here(t) ? "this machine" : "not here";
}

std::string runtime_of(const Target& t) { return t.bare() ? "bare metal" : "Linux, static"; }

}  // namespace

void run_targets(bool json) {
  auto list = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> table = {
      {"target", "core", "vectors", "memory", "runtime", "tested by", "what it is"}};
  for (const std::string& name : target_names()) {
    const Target t = find_target(name);
    const std::string vectors = fmt::format("{} bits, {}", t.vector_bits, t.vector_unit);
    list.push_back({{"name", t.name},
                    {"what", t.what},
                    {"machine", t.machine},
                    {"core", t.cpu},
                    {"vector_unit", t.vector_unit},
                    {"vector_bits", t.vector_bits},
                    {"memory", t.memory},
                    {"runtime", runtime_of(t)},
                    {"board", t.board.name},
                    {"threads", t.threads},
                    {"emulator", t.emulator}});
    table.push_back({t.name, t.cpu, vectors, t.memory, runtime_of(t), tests_of(t), t.what});
  }
  if (json) {
    std::cout << list.dump(2) << '\n';
  } else {
    std::vector<size_t> width(table[0].size());
    for (const auto& row : table)
      for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
    width.back() = 0;  // nothing stands behind the last
    for (const auto& row : table) {
      for (size_t i = 0; i < row.size(); ++i)
        std::cout << fmt::format("{}{:<{}}", i ? "  " : "", row[i], width[i]);
      std::cout << '\n';
    }
    std::vector<std::string> names;
    for (const Board& b : boards()) names.push_back(b.name);
    std::cout << fmt::format("\nboards: {}; your own: --board FILE.toml (docs/machines.md)\n",
                             fmt::join(names, ", "));
  }
  if (!std::cout.flush()) throw error("cannot write standard output");
}

}  // namespace pock
