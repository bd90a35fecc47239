#include "regress.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "pock/codegen/count.h"
#include "pock/codegen/measure.h"
#include "pock/support/new_file.h"

namespace pock {
namespace {

using json = nlohmann::ordered_json;

constexpr int kFormat = 1;  // of the baseline

using Metrics = std::map<std::string, double>;  // by kMetrics' names; what is not there was not measured

struct Kernel {
  std::string name;
  Metrics metrics;
  bool right = true;
};
struct CaseResult {
  std::string name;
  std::vector<Kernel> kernels;
};

// ---- What there is now

// The kernel's name and those of its nodes: unlike the numbers in assembly, these stay when others come and go.
std::vector<std::string> kernel_names(const Program& program) {
  std::vector<std::string> names(program.kernels.size());
  for (const auto* uses : {&program.train_uses, &program.infer_uses})
    for (const KernelUse& use : *uses) {
      std::string& name = names[use.kernel];
      if (!name.empty()) continue;
      name = program.kernels[use.kernel].plain.name;
      std::set<std::string> seen;
      for (const Node* n : use.nodes)
        if (seen.insert(n->loc.name).second) name += (seen.size() == 1 ? " " : " + ") + n->loc.name;
    }
  std::map<std::string, int> met;
  for (std::string& name : names) {
    name = printable(name);
    if (const int times = ++met[name]; times > 1) name += fmt::format(" #{}", times);
  }
  return names;
}

// Of each kernel of a step, how often the machine could have done a million floating-point operations meanwhile. The
// reference runs beside it, so that a baseline holds on faster and slower machines.
std::vector<double> times(const Program& program) {
  constexpr int kRounds = 20;
  StepRunner runner(program);
  std::vector<double> best(program.kernels.size(), INFINITY);
  double reference = INFINITY;
  for (int half : {0, 1}) {
    reference = std::min(reference, 1e6 / measure_limits(program.options.target).flops);
    for (int round = 0; round < kRounds && half == 0; ++round) {
      const std::vector<double> seconds = runner.kernels();
      for (size_t u = 0; u < seconds.size(); ++u) {
        double& least = best[program.train_uses[u].kernel];
        least = std::min(least, seconds[u]);
      }
    }
  }
  for (double& seconds : best) seconds /= reference;
  return best;
}

CaseResult measure(const RegressCase& c, const ParseProgram& parse) {
  const Prepared prepared = prepare(parse(c.words));
  const Program program = lower(*prepared.graphs.train, *prepared.graphs.infer, prepared.options);
  const std::vector<std::string> names = kernel_names(program);
  const std::vector<KernelCount> counts = count_kernels(program);
  CaseResult result{.name = c.name};
  for (size_t i = 0; i < counts.size(); ++i) {
    const KernelCount& n = counts[i];
    Kernel k{.name = names[i], .right = n.right};
    if (n.instructions) k.metrics["instructions"] = static_cast<double>(*n.instructions);
    k.metrics["code_bytes"] = static_cast<double>(n.code_bytes);
    k.metrics["stack_bytes"] = static_cast<double>(n.stack_bytes);
    k.metrics["spills"] = static_cast<double>(n.spills);
    result.kernels.push_back(std::move(k));
  }
  if (c.time) {
    const std::vector<double> took = times(program);
    for (size_t i = 0; i < took.size(); ++i)
      if (std::isfinite(took[i])) result.kernels[i].metrics["time"] = took[i];
  }
  return result;
}

// ---- The baseline

json number(double x) {
  if (x == std::floor(x)) return static_cast<int64_t>(x);
  return std::round(x * 1e4) / 1e4;
}

// A line for each kernel, for who reads what a change of it is.
std::string baseline_text(const std::vector<CaseResult>& results) {
  auto quoted = [](const std::string& name) {
    return json(name).dump(-1, ' ', false, json::error_handler_t::replace);
  };
  std::string text = fmt::format("{{\n\"format\": {},\n\"cases\": {{\n", kFormat);
  for (const CaseResult& c : results) {
    text += fmt::format(" {}: {{\n", quoted(c.name));
    for (const Kernel& k : c.kernels) {
      json metrics = json::object();
      for (const Metric& m : kMetrics)
        if (const auto found = k.metrics.find(m.name); found != k.metrics.end())
          metrics[m.name] = number(found->second);
      text += fmt::format("  {}: {}{}\n", quoted(k.name), metrics.dump(), &k == &c.kernels.back() ? "" : ",");
    }
    text += fmt::format(" }}{}\n", &c == &results.back() ? "" : ",");
  }
  return text + "}\n}\n";
}

// By case and kernel.
using Baseline = std::map<std::string, std::map<std::string, Metrics>>;

Baseline read_baseline(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw error("there is no baseline '{}'; --update writes it", path);
  Baseline baseline;
  try {
    const json all = json::parse(in);
    if (all.at("format") != kFormat) throw error("{}: of another version; --update writes it anew", path);
    for (const auto& [name, kernels] : all.at("cases").items()) {
      auto& of = baseline[name];
      for (const auto& [kernel, metrics] : kernels.items()) of[kernel] = metrics.get<Metrics>();
    }
  } catch (const nlohmann::json::exception& e) {
    throw error("{}: no baseline of pockc regress: {}", path, e.what());
  }
  return baseline;
}

// ---- What moved

struct Moved {
  std::string kernel, what;
  std::optional<double> before, now;
  bool bad = false;
};
struct Compared {
  const CaseResult* result;
  std::vector<Moved> moved;
};

bool differs(double before, double now) { return std::abs(now - before) > 1e-4 * std::abs(before); }

void compare(const Kernel& k, const Metrics& before, const std::map<std::string, double>& tolerance,
             std::vector<Moved>& moved) {
  for (const Metric& m : kMetrics) {
    const auto now = k.metrics.find(m.name);
    const auto then = before.find(m.name);
    if (now == k.metrics.end() && then == before.end()) continue;
    if (now == k.metrics.end() || then == before.end()) {  // it could not be measured, then or now
      Moved gone{.kernel = k.name, .what = m.name, .bad = now == k.metrics.end()};
      if (now != k.metrics.end()) gone.now = now->second;
      if (then != before.end()) gone.before = then->second;
      moved.push_back(std::move(gone));
      continue;
    }
    const bool bad = now->second > then->second * (1 + tolerance.at(m.name));
    // Times are never twice the same.
    if (bad || (differs(then->second, now->second) && std::string_view(m.name) != "time"))
      moved.push_back({k.name, m.name, then->second, now->second, bad});
  }
}

Compared compare(const CaseResult& now, const Baseline& baseline,
                 const std::map<std::string, double>& tolerance) {
  Compared c{.result = &now};
  const auto found = baseline.find(now.name);
  std::map<std::string, Metrics> rest;
  if (found != baseline.end()) rest = found->second;
  for (const Kernel& k : now.kernels) {
    if (!k.right) c.moved.push_back({.kernel = k.name, .what = "wrong", .bad = true});
    const auto before = rest.find(k.name);
    if (before == rest.end()) {
      c.moved.push_back({.kernel = k.name, .what = "new", .bad = true});
      continue;
    }
    compare(k, before->second, tolerance, c.moved);
    rest.erase(before);
  }
  for (const auto& [name, metrics] : rest)
    c.moved.push_back({.kernel = name, .what = "missing", .bad = true});
  return c;
}

std::string text_of(const std::optional<double>& x) {
  return x ? fmt::format("{}", number(*x).dump()) : std::string("-");
}

std::string text_of(const Moved& m) {
  if (!m.before && !m.now) {
    if (m.what == "wrong") return "WRONG: other bits than the interpreter's";
    return m.what == "new" ? "new: the baseline does not know it" : "missing: it is in the baseline alone";
  }
  std::string text = fmt::format("{:12} {:>12} -> {:<12}", m.what, text_of(m.before), text_of(m.now));
  if (m.before && m.now && *m.before > 0) text += fmt::format(" {:+.1f} %", 100 * (*m.now / *m.before - 1));
  return text + (m.bad ? " worse" : "");
}

std::string table_of(const std::vector<Compared>& cases) {
  std::string text;
  size_t kernels = 0;
  for (const Compared& c : cases) {
    kernels += c.result->kernels.size();
    if (c.moved.empty()) continue;
    text += c.result->name + "\n";
    for (const Moved& m : c.moved) text += fmt::format("  {:48} {}\n", m.kernel, text_of(m));
  }
  if (text.empty())
    return fmt::format("{} kernels of {} cases: all as in the baseline\n", kernels, cases.size());
  return text;
}

std::string json_of(const std::vector<Compared>& cases) {
  json list = json::array();
  for (const Compared& c : cases) {
    json kernels = json::array(), moved = json::array();
    for (const Kernel& k : c.result->kernels) {
      json row = {{"name", k.name}, {"right", k.right}};
      for (const auto& [name, value] : k.metrics) row[name] = number(value);
      kernels.push_back(row);
    }
    for (const Moved& m : c.moved) {
      json row = {{"kernel", m.kernel}, {"what", m.what}, {"bad", m.bad}};
      if (m.before) row["before"] = number(*m.before);
      if (m.now) row["now"] = number(*m.now);
      moved.push_back(row);
    }
    list.push_back({{"name", c.result->name}, {"kernels", kernels}, {"moved", moved}});
  }
  return json{{"cases", list}}.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string xml(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

// A test for each kernel there is, or was.
std::string junit_of(const std::vector<Compared>& cases) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const Compared& c : cases) {
    std::map<std::string, std::string> problems;
    for (const Kernel& k : c.result->kernels) problems[k.name];
    for (const Moved& m : c.moved) {
      std::string& problem = problems[m.kernel];
      if (m.bad) problem += (problem.empty() ? "" : "; ") + text_of(m);
    }
    const auto failures =
        std::count_if(problems.begin(), problems.end(), [](const auto& p) { return !p.second.empty(); });
    text += fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\">\n", xml(c.result->name),
                        problems.size(), failures);
    for (const auto& [name, problem] : problems) {
      text += fmt::format("    <testcase classname=\"{}\" name=\"{}\"", xml(c.result->name), xml(name));
      text += problem.empty() ? "/>\n" : fmt::format("><failure message=\"{}\"/></testcase>\n", xml(problem));
    }
    text += "  </testsuite>\n";
  }
  return text + "</testsuites>\n";
}

int64_t bad_kernels(const Compared& c) {
  std::set<std::string> names;
  for (const Moved& m : c.moved)
    if (m.bad) names.insert(m.kernel);
  return std::ssize(names);
}

void check_places(const RegressArgs& args, const std::string& baseline) {
  std::vector<std::string> all = {args.file, baseline, args.json, args.junit};
  std::erase(all, "");
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (same_place(all[i], all[j]))
        throw error("'{}' cannot be two of the list, the baseline and the results", all[i]);
}

void update(const std::string& path, const std::vector<CaseResult>& results) {
  for (const CaseResult& c : results)
    for (const Kernel& k : c.kernels)
      if (!k.right)
        throw error("{}: kernel {} gives other bits than the interpreter: the baseline stays as it is",
                    c.name, k.name);
  NewFile(path, baseline_text(results)).commit();
  say(fmt::format("wrote {}", path));
}

}  // namespace

void run_regress(const RegressArgs& args, const ParseProgram& parse) {
  const RegressFile file = read_regress_file(args.file);
  const std::string path = args.baseline.empty() ? file.baseline : args.baseline;
  check_places(args, path);
  Baseline baseline;
  if (!args.update) baseline = read_baseline(path);

  std::vector<CaseResult> results;
  for (const RegressCase& c : file.cases) {
    say("# " + c.name);
    results.push_back(measure(c, parse));
  }
  if (args.update) return update(path, results);

  for (const auto& [name, kernels] : baseline)
    if (std::none_of(results.begin(), results.end(), [&](const CaseResult& c) { return c.name == name; }))
      results.push_back({.name = name});
  std::vector<Compared> cases;
  for (const CaseResult& c : results) cases.push_back(compare(c, baseline, file.tolerance));
  if (!args.json.empty()) NewFile(args.json, json_of(cases)).commit();
  if (!args.junit.empty()) NewFile(args.junit, junit_of(cases)).commit();
  if (args.json != "-" && args.junit != "-") NewFile("-", table_of(cases)).commit();
  int64_t bad = 0;
  for (const Compared& c : cases) bad += bad_kernels(c);
  if (bad)
    throw error(
        "{} kernels are wrong, worse, new or missing; where that is meant, --update makes it the baseline",
        bad);
}

}  // namespace pock
