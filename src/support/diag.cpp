#include "pock/support/diag.h"

#include <cstdio>
#include <stdexcept>

namespace pock {

namespace {

// How long the UTF-8 character is that the text begins with; 0 where it begins with none.
size_t character_bytes(std::string_view text) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const uint32_t first = byte(0);
  if (first < 0x80) return text.empty() ? 0 : 1;
  if (first < 0xc0 || first >= 0xf8) return 0;
  const size_t n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  uint32_t code = first & (0x7f >> n);
  for (size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code >= kLeast[n - 2] && code <= 0x10ffff && !surrogate ? n : 0;
}

}  // namespace

// Line ends are ours: messages have several lines.
std::string printable(const std::string& text) {
  std::string shown;
  for (std::string_view rest = text; !rest.empty();) {
    const auto byte = static_cast<unsigned char>(rest[0]);
    const bool control = (byte < 0x20 && byte != '\n') || byte == 0x7f;
    const size_t n = control ? 0 : character_bytes(rest);
    shown += n ? std::string(rest.substr(0, n)) : fmt::format("\\x{:02x}", byte);
    rest.remove_prefix(n ? n : 1);
  }
  return shown;
}

bool is_text(std::string_view text) {
  while (!text.empty()) {
    const size_t n = character_bytes(text);
    if (!n || !text[0]) return false;
    text.remove_prefix(n);
  }
  return true;
}

namespace {

thread_local int silences = 0;

std::string prefix(const Loc& loc) {
  std::string text = to_string(loc);
  return text.empty() ? text : text + ": ";
}

}  // namespace

std::string to_string(const Loc& loc) {
  std::string text = loc.file;
  if (loc.line) text += fmt::format(":{}:{}", loc.line, loc.column);
  if (!loc.name.empty() || !loc.op.empty()) {
    if (!text.empty()) text += ": ";
    text += fmt::format("{} '{}'", loc.what, loc.name);
    if (!loc.op.empty()) text += fmt::format(" ({})", loc.op);
  }
  return text;
}

Error::Error(const std::string& reason, Loc loc)
    : loc_(std::move(loc)), reason_(printable(reason)), text_(printable(prefix(loc_)) + reason_) {}

void Error::add_note(const Loc& loc, const std::string& text) {
  Loc inner = loc;
  inner.file.clear();
  notes_.push_back(printable(prefix(inner) + text));
  text_ += "\n  " + notes_.back();
}

void Report::throw_if_any() const {
  if (problems_.empty()) return;
  std::string text;
  for (const Error& e : problems_) text += (text.empty() ? "" : "\n") + std::string(e.what());
  throw Error(text);
}

// Where standard error takes nothing there is no one to tell, and what was asked for can still be done.
void say(const std::string& line) {
  if (!silences) std::fputs((printable(line) + "\n").c_str(), stderr);
}

Silence::Silence() { ++silences; }
Silence::~Silence() { --silences; }

void internal_error(const char* file, int line, const std::string& text) {
  throw std::logic_error(fmt::format("pock has a bug ({}:{}): {}", file, line, text));
}

}  // namespace pock
