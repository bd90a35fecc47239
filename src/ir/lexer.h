// Cuts the text of a graph into tokens. Line breaks are blanks; `#` starts a comment that ends with its line.
#pragma once

#include <string>
#include <string_view>

#include "pock/support/diag.h"

namespace pock {

enum class TokenKind : uint8_t {
  word,        // graph, matmul, f32, inf
  number,      // -1.5e-3, -inf, 1/16, 1%16
  string,      // "fc"; text is what it stands for
  value,       // %x
  odd_value,   // %"my weight"
  graph_name,  // @fit
  symbol,      // one of { } ( ) [ ] , : = @
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  // without quotes, escapes, % and @
  int line = 1, column = 1;
  bool is(std::string_view symbol) const { return kind == TokenKind::symbol && text == symbol; }
  bool is_word(std::string_view word) const { return kind == TokenKind::word && text == word; }
};

class Lexer {
 public:
  Lexer(std::string_view text, std::string file) : text_(text), file_(std::move(file)) { advance(); }
  const Token& peek() const { return token_; }
  Token take() {
    Token t = std::move(token_);
    advance();
    return t;
  }
  Loc loc(const Token& t) const {
    Loc loc;
    loc.file = file_;
    loc.line = t.line;
    loc.column = t.column;
    return loc;
  }

 private:
  void advance();
  void skip_blanks();
  void step();
  std::string quoted();
  template <class Accept>
  std::string run(Accept accept) {
    std::string s;
    while (pos_ < text_.size() && accept(text_[pos_])) {
      s += text_[pos_];
      step();
    }
    return s;
  }
  char at(size_t offset) const { return pos_ + offset < text_.size() ? text_[pos_ + offset] : '\0'; }

  std::string_view text_;
  std::string file_;
  size_t pos_ = 0;
  int line_ = 1, column_ = 1;
  Token token_;
};

bool is_name_char(char);                         // may stand in a name without quotes
std::string quote(std::string_view);             // as the lexer reads it
std::string bare_or_quoted(const std::string&);  // quotes where needed
// %x, %"my weight". Names of digits alone are results', const.N those of constants without a name: quoted in
// leaves.
std::string value_name(const std::string& leaf);

}  // namespace pock
