#include "pock/passes/choice.h"

#include <charconv>
#include <cmath>

#include "pock/support/diag.h"

namespace pock {
namespace {

const ChoiceDef& find_choice(const char* flag, const std::string& name, const std::vector<ChoiceDef>& all) {
  std::string names;
  for (const ChoiceDef& d : all) {
    if (name == d.name) return d;
    names += fmt::format("\n  {}: {}", d.name, d.doc);
  }
  throw error("{} {}: there is no such {}; the choices are{}", flag, name, flag + 2, names);
}

double number(const KeyDef& key, std::string_view text) {
  double value = 0;
  auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool whole = key.kind == KeyDef::whole;
  if (problem != std::errc{} || stop != text.data() + text.size() || text.empty())
    throw error("{} is not a number: '{}'", key.name, text);
  if (whole && value != std::floor(value)) throw error("{} must be a whole number, not {}", key.name, value);
  if (value >= key.low && (key.open ? value < key.high : value <= key.high)) return value;
  throw error("{} must lie in [{}, {}{}, not {}", key.name, key.low,
              key.high == kMost ? "inf" : fmt::format("{}", key.high), key.open ? ")" : "]", value);
}

}  // namespace

const KeyDef* find_key(const std::vector<KeyDef>& keys, std::string_view name) {
  for (const KeyDef& k : keys)
    if (name == k.name) return &k;
  return nullptr;
}

Choice parse_choice(const char* flag, const std::string& text, const std::vector<ChoiceDef>& all) {
  size_t colon = text.find(':');
  const ChoiceDef& def = find_choice(flag, text.substr(0, colon), all);
  Choice choice{def.name, def.keys, {}, {}};
  std::string keys;
  for (const KeyDef& k : def.keys) keys += (keys.empty() ? "" : ", ") + std::string(k.name);
  Report report;
  auto set = [&](const std::string& item) {
    size_t equals = item.find('=');
    std::string key = item.substr(0, equals);
    const KeyDef* k = find_key(def.keys, key);
    if (!k || equals == std::string::npos)
      throw error("'{}' is not key=value with one of {}", item, keys.empty() ? "no keys at all" : keys);
    std::string value = item.substr(equals + 1);
    bool fresh = k->kind == KeyDef::text ? choice.texts.emplace(key, value).second
                                         : choice.numbers.emplace(key, number(*k, value)).second;
    if (!fresh) throw error("{} is given twice", key);
  };
  size_t at = colon == std::string::npos ? text.size() : colon + 1;
  while (at < text.size()) {
    size_t end = std::min(text.find(',', at), text.size());
    std::string item = text.substr(at, end - at);
    at = end + 1;
    try {
      set(item);
    } catch (const Error& e) {
      report.add(fmt::format("{} {}: {}", flag, choice.name, e.what()));
    }
  }
  report.throw_if_any();
  return choice;
}

double Choice::number(std::string_view key) const {
  if (auto given = numbers.find(key); given != numbers.end()) return given->second;
  const KeyDef* k = find_key(keys, key);
  POCK_CHECK(k, "{} has no key {}", name, key);
  return k->standard;
}

std::string to_string(const Choice& choice) {
  std::string text = choice.name;
  for (const KeyDef& k : choice.keys)
    text += fmt::format("{}{}={}", &k == choice.keys.data() ? ":" : ",", k.name, choice.number(k.name));
  return text;
}

std::string choices_text(const std::vector<ChoiceDef>& all) {
  std::vector<std::string> texts;
  for (const ChoiceDef& d : all) {
    std::vector<std::string> keys;
    for (const KeyDef& k : d.keys)
      keys.push_back(k.kind == KeyDef::text   ? fmt::format("{}=FILE", k.name)
                     : std::isnan(k.standard) ? k.name
                                              : fmt::format("{}={}", k.name, k.standard));
    texts.push_back(keys.empty() ? d.name : fmt::format("{} ({})", d.name, fmt::join(keys, ", ")));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace pock
