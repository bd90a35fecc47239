// How pock talks about mistakes. A person's mistake is an Error: what is wrong, where in their file, both
// sides of the disagreement. Several can be collected and thrown as one report. A mistake of ours is
// POCK_CHECK.
//
//   throw Error(node.loc, "weight expects {} input channels, x has {}", a, b)
//       .note(x->loc(), "x is {}", to_string(x->type));
//
//   Report report;
//   for (auto& node : nodes) report.collect([&] { import(node); });   // goes on after an Error
//   report.throw_if_any();                                            // one Error holding all of them
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace pock {

// Control characters, line ends aside, and bytes that are no UTF-8 shown as \xHH: names come from foreign files.
std::string printable(const std::string& text);

// Whether it is UTF-8 without the character 0, which ends a string in C.
bool is_text(std::string_view);

// Where in the user's model something comes from. `what` says what `name` is: "node", "parameter", "input",
// ...
struct Loc {
  std::string file;
  std::string name;  // as the model file spells it
  std::string op;    // the operator as the model file spells it, may be empty
  std::string what = "node";
  int line = 0, column = 0;  // for text formats, else 0
};

std::string to_string(const Loc&);

// What it says is `printable`.
class Error : public std::exception {
 public:
  explicit Error(const std::string& text) : Error(Loc{}, "{}", text) {}
  template <class... Args>
  Error(Loc loc, fmt::format_string<Args...> format, Args&&... args)
      : Error(fmt::format(format, std::forward<Args>(args)...), std::move(loc)) {}

  template <class... Args>
  Error& note(const Loc& loc, fmt::format_string<Args...> format, Args&&... args) {
    add_note(loc, fmt::format(format, std::forward<Args>(args)...));
    return *this;
  }
  const char* what() const noexcept override { return text_.c_str(); }
  // The parts of what(). The place is empty where there is none.
  const Loc& loc() const { return loc_; }
  const std::string& reason() const { return reason_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Error(const std::string& reason, Loc);
  void add_note(const Loc&, const std::string&);
  Loc loc_;
  std::string reason_, text_;
  std::vector<std::string> notes_;
};

// An Error without a place in a model: bad command lines, unreadable files.
template <class... Args>
Error error(fmt::format_string<Args...> format, Args&&... args) {
  return Error(fmt::format(format, std::forward<Args>(args)...));
}

// Collects Errors so that one run names every problem.
class Report {
 public:
  template <class F>
  bool collect(F&& f) {
    try {
      f();
      return true;
    } catch (const Error& e) {
      add(e);
      return false;
    }
  }
  void add(Error e) { problems_.push_back(std::move(e)); }
  void add(const std::string& text) { add(Error(text)); }
  bool empty() const { return problems_.empty(); }
  const std::vector<Error>& problems() const { return problems_; }
  void throw_if_any() const;

 private:
  std::vector<Error> problems_;
};

// A line for the person that is not an error ("no --optimizer given: sgd:lr=0.01"). Goes to stderr.
void say(const std::string& line);
// While one lives, nothing is said.
class Silence {
 public:
  Silence();
  ~Silence();
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
};

[[noreturn]] void internal_error(const char* file, int line, const std::string& text);

// What must be true unless pock itself is wrong.
#define POCK_CHECK(condition, ...)                                                                           \
  do {                                                                                                       \
    if (!(condition))                                                                                        \
      ::pock::internal_error(__FILE__, __LINE__, std::string(#condition) + ": " + fmt::format(__VA_ARGS__)); \
  } while (false)

}  // namespace pock
