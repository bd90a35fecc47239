#include "pock/support/diag.h"

#include <cstdio>
#include <stdexcept>

namespace pock {

// Line ends are ours: messages have several lines.
std::string printable(const std::string& text) {
  std::string shown;
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c != '\n' && (byte < 0x20 || byte == 0x7f))
      shown += fmt::format("\\x{:02x}", byte);
    else
      shown += c;
  }
  return shown;
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
