// A TOML file that people wrote, of which all faults are said at once, with their places.
//
//   TomlFile file(text, "net.toml", "a scheme");
//   file.each_key(file.all(), {"biases"}, [&](auto key, const toml::node& value) { use(file.text(value)); });
//   file.report().throw_if_any();
//
// toml++ takes seconds to compile: only what reads such files includes this.
#pragma once

#include <algorithm>
#include <string>
#include <vector>
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "pock/support/diag.h"

namespace pock {

class TomlFile {
 public:
  // Throws Error where it is no TOML, or so long or deep that no person wrote it. `what`: "a scheme".
  TomlFile(const std::string& toml, std::string name, const char* what);

  const toml::table& all() const { return all_; }
  Report& report() { return report_; }

  template <class... Args>
  Error fail(const toml::node& at, fmt::format_string<Args...> format, Args&&... args) const {
    return Error(place(at.source()), format, std::forward<Args>(args)...);
  }

  // Calls f(key, value) for each, whose Errors are collected; a key that is not `known` is a fault.
  template <class F>
  void each_key(const toml::table& table, const std::vector<std::string_view>& known, const F& f) {
    for (const auto& [key, value] : table)
      report_.collect([&, &key = key, &value = value] {
        if (std::find(known.begin(), known.end(), key.str()) == known.end())
          throw Error(place(key.source()), "there is no key '{}'; here may stand {}", key.str(),
                      fmt::join(known, ", "));
        f(key.str(), value);
      });
  }

 private:
  Loc place(const toml::source_region&) const;

  std::string name_;
  toml::table all_;
  Report report_;
};

}  // namespace pock
