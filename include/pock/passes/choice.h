// What --optimizer, --schedule and --loss take: NAME[:key=value,...].
//
//   const std::vector<ChoiceDef> all = {{"huber", "...", {{"delta", 1, 0, kMost}}}};
//   Choice c = parse_choice("--loss", "huber:delta=2", all);
//   c.number("delta") == 2
#pragma once

#include <limits>
#include <map>
#include <string>
#include <vector>

namespace pock {

inline constexpr double kMost = std::numeric_limits<double>::max();

struct KeyDef {
  enum Kind : uint8_t { real, whole, text };
  const char* name;
  double standard = 0;
  double low = 0, high = kMost;  // allowed range, inclusive; high exclusive where `open`
  bool open = false;
  Kind kind = real;
};

struct ChoiceDef {
  const char* name;
  const char* doc;
  std::vector<KeyDef> keys;
};

// What was chosen, and the values that were given.
struct Choice {
  std::string name;
  std::vector<KeyDef> keys;  // all that it takes
  std::map<std::string, double, std::less<>> numbers;
  std::map<std::string, std::string, std::less<>> texts;

  double number(std::string_view key) const;  // the given one or the default; NaN where there is neither
};

const KeyDef* find_key(const std::vector<KeyDef>&, std::string_view name);
// Throws Error that lists the choices, or every key that is wrong.
Choice parse_choice(const char* flag, const std::string& text, const std::vector<ChoiceDef>& all);
// "sgd:lr=0.01,momentum=0", with all keys.
std::string to_string(const Choice&);
// "sgd (lr=0.01, momentum=0), adam (...)", for --help.
std::string choices_text(const std::vector<ChoiceDef>& all);

}  // namespace pock
