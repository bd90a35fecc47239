#include "lexer.h"

#include <algorithm>

namespace pock {
namespace {
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}
}  // namespace

bool is_name_char(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '/' || c == '-'; }

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + '"';
}

std::string bare_or_quoted(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_name_char) ? name : quote(name);
}

std::string value_name(const std::string& leaf) {
  bool digits = std::all_of(leaf.begin(), leaf.end(), is_digit);
  return "%" + (digits || leaf.starts_with("const.") ? quote(leaf) : bare_or_quoted(leaf));
}

void Lexer::step() {
  if (text_[pos_++] == '\n') {
    ++line_;
    column_ = 1;
  } else {
    ++column_;
  }
}

void Lexer::skip_blanks() {
  while (pos_ < text_.size()) {
    char c = text_[pos_];
    if (c == '#')
      while (pos_ < text_.size() && text_[pos_] != '\n') step();
    else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
      step();
    else
      return;
  }
}

std::string Lexer::quoted() {
  Loc start = loc(token_);
  step();
  std::string s;
  for (;;) {
    if (pos_ >= text_.size() || text_[pos_] == '\n') throw Error(start, "no \" ends this string");
    char c = text_[pos_];
    step();
    if (c == '"') return s;
    if (c != '\\') {
      s += c;
      continue;
    }
    char escape = at(0);
    if (escape == '"' || escape == '\\') {
      s += escape;
      step();
    } else if (escape == 'n') {
      s += '\n';
      step();
    } else if (escape == 'x' && hex_digit(at(1)) >= 0 && hex_digit(at(2)) >= 0) {
      s += static_cast<char>(hex_digit(at(1)) * 16 + hex_digit(at(2)));
      for (int i = 0; i < 3; ++i) step();
    } else {
      throw Error(start, "a backslash in a string is followed by \", \\, n or xHH");
    }
  }
}

void Lexer::advance() {
  skip_blanks();
  token_ = Token{TokenKind::end, "", line_, column_};
  if (pos_ >= text_.size()) return;
  char c = text_[pos_];
  if (is_letter(c)) {
    token_.kind = TokenKind::word;
    token_.text = run([](char d) { return is_letter(d) || is_digit(d); });
  } else if (is_digit(c) || c == '-') {
    token_.kind = TokenKind::number;
    char before = '\0';
    token_.text = run([&](char d) {
      bool sign = (d == '-' || d == '+') && (before == '\0' || before == 'e');
      bool part = sign || is_letter(d) || is_digit(d) || d == '.' || d == '/' || d == '%';
      before = d;
      return part;
    });
  } else if (c == '"') {
    token_.kind = TokenKind::string;
    token_.text = quoted();
  } else if (c == '%' && at(1) == '"') {
    token_.kind = TokenKind::odd_value;
    step();
    token_.text = quoted();
  } else if ((c == '%' || c == '@') && is_name_char(at(1))) {
    token_.kind = c == '%' ? TokenKind::value : TokenKind::graph_name;
    step();
    token_.text = run(is_name_char);
  } else if (std::string_view("{}()[],:=@").find(c) != std::string_view::npos) {
    token_.kind = TokenKind::symbol;
    token_.text = c;
    step();
  } else {
    auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7f) throw Error(loc(token_), "'{}' has no meaning here", c);
    throw Error(loc(token_), "byte 0x{:02x} outside of quotes", byte);
  }
}

}  // namespace pock
