#include "pock/support/toml_file.h"

namespace pock {
namespace {

// toml++ takes nested tables apart with a call inside the call for each: what dotted keys make must not be deep.
constexpr size_t kLongestFile = 1 << 16;
constexpr int64_t kMostDots = 1000;  // in a line

void need_shallow(std::string_view toml, const std::string& file) {
  for (size_t at = 0; at < toml.size();) {
    const std::string_view line = toml.substr(at, toml.find('\n', at) - at);
    if (std::count(line.begin(), line.end(), '.') > kMostDots)
      throw error("{}: a line has more than {} dots: break it up", file, kMostDots);
    at += line.size() + 1;
  }
}

}  // namespace

TomlFile::TomlFile(const std::string& toml, std::string name, const char* what) : name_(std::move(name)) {
  if (toml.size() > kLongestFile)
    throw error("{}: has {} bytes, {} has at most {}", name_, toml.size(), what, kLongestFile);
  need_shallow(toml, name_);
  try {
    all_ = toml::parse(toml);
  } catch (const toml::parse_error& e) {
    throw Error(place(e.source()), "{}", e.description());
  }
}

Loc TomlFile::place(const toml::source_region& where) const {
  Loc loc;
  loc.file = name_;
  loc.line = static_cast<int>(where.begin.line);
  loc.column = static_cast<int>(where.begin.column);
  loc.what = "";
  return loc;
}

}  // namespace pock
