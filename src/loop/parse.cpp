// The text form of kernels, read. Plain numbers take their type from what stands beside them, so expressions
// are read into a tree first and built once the types are known.
#include <charconv>
#include <limits>
#include <optional>

#include "detail.h"
#include "pock/loop/loop.h"
#include "pock/support/diag.h"

namespace pock::loop {
namespace {

using Op = ScalarOp;

struct Token {
  enum Kind : uint8_t { word, number, symbol, end } kind = end;
  std::string text;
  int line = 0, column = 0;
};

std::vector<Token> scan(const std::string& text, const std::string& file) {
  std::vector<Token> tokens;
  int line = 1;
  size_t start = 0;  // of the line
  auto is_digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  auto is_letter = [&](size_t i) {
    return i < text.size() &&
           (text[i] == '_' || (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z'));
  };
  for (size_t i = 0; i < text.size();) {
    char c = text[i];
    if (c == '\n') {
      ++line;
      start = ++i;
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\r') {
      ++i;
      continue;
    }
    if (c == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
      continue;
    }
    Token t{Token::symbol, "", line, static_cast<int>(i - start) + 1};
    size_t from = i;
    if (is_letter(i)) {
      t.kind = Token::word;
      // A dot belongs to a name where a letter or digit follows: i.o, but 0..n.
      while (is_letter(i) || is_digit(i) ||
             (i < text.size() && text[i] == '.' && (is_letter(i + 1) || is_digit(i + 1))))
        ++i;
    } else if (is_digit(i)) {
      t.kind = Token::number;
      while (is_digit(i)) ++i;
      if (i < text.size() && text[i] == '.' && is_digit(i + 1))
        for (++i; is_digit(i);) ++i;
      if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
        size_t digits = i + 1;
        if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
        if (is_digit(digits))
          for (i = digits; is_digit(i);) ++i;
      }
    } else {
      for (const char* two : {"..", "<=", ">=", "==", "!=", "&&", "||"})
        if (text.compare(i, 2, two) == 0) i = from + 2;
      if (i == from) {
        if (std::string_view("@(){}[],:=+-*/<>!").find(c) == std::string_view::npos) {
          throw Error(Loc{.file = file, .line = t.line, .column = t.column}, "unexpected character (code {})",
                      static_cast<int>(static_cast<unsigned char>(c)));
        }
        ++i;
      }
    }
    t.text = text.substr(from, i - from);
    tokens.push_back(std::move(t));
  }
  tokens.push_back({Token::end, "", line, static_cast<int>(text.size() - start) + 1});
  return tokens;
}

struct Tree {
  enum Kind : uint8_t { number, load, var, call } kind = number;
  Token at;
  double value = 0;
  int64_t integer = 0;
  bool whole = false;         // number written as an integer
  std::optional<DType> type;  // numbers of a fixed type, cast, bitcast
  Op op = Op::constant;
  VarRef variable;
  BufferRef buffer;
  std::vector<Tree> args;
  int height = 1;
};

constexpr int kDeepest = 400;  // nesting that the recursion here and in later stages is sure to bear

class Parser {
 public:
  Parser(const std::string& text, const std::string& file) : file_(file), tokens_(scan(text, file)) {}

  Kernel kernel() {
    Kernel k;
    expect("kernel");
    expect("@");
    k.name = word("a name for the kernel");
    expect("(");
    if (!accept(")")) {
      do k.args.push_back(argument());
      while (accept(","));
      expect(")");
    }
    k.body = block();
    if (now().kind != Token::end) fail(now(), "expected the end of the text, found '{}'", now().text);
    return k;
  }

 private:
  struct Name {
    std::string name;
    VarRef var;
    BufferRef buffer;
  };

  template <class... Args>
  [[noreturn]] void fail(const Token& t, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(Loc{.file = file_, .line = t.line, .column = t.column}, format, std::forward<Args>(args)...);
  }
  const Token& now() const { return tokens_[at_]; }
  Token next() {
    Token t = now();
    if (t.kind != Token::end) ++at_;
    return t;
  }
  bool is(const char* text) const { return now().kind != Token::end && now().text == text; }
  bool accept(const char* text) {
    if (!is(text)) return false;
    ++at_;
    return true;
  }
  void expect(const char* text) {
    if (!accept(text))
      fail(now(), "expected '{}', found {}", text,
           now().kind == Token::end ? "the end" : "'" + now().text + "'");
  }
  std::string word(const char* what) {
    if (now().kind != Token::word) fail(now(), "expected {}, found '{}'", what, now().text);
    return next().text;
  }
  int64_t integer(const char* what) {
    Token t = next();
    int64_t v = 0;
    auto [end, problem] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), v);
    if (t.kind != Token::number || problem != std::errc{} || end != t.text.data() + t.text.size())
      fail(t, "expected {}, found '{}'", what, t.text);
    return v;
  }

  DType dtype() {
    Token t = next();
    DType type;
    if (!parse_dtype(t.text, &type)) fail(t, "'{}' is not an element type", t.text);
    return type;
  }

  Type type() {
    Type t{dtype(), {}};
    if (!accept("[") || accept("]")) return t;
    do {
      Token at = now();
      t.dims.push_back(integer("a dimension"));
      if (t.dims.back() < 0) fail(at, "the dimension is negative");
      if (!are_possible(t.dims)) fail(at, "the tensor is too large");
    } while (accept(","));
    expect("]");
    return t;
  }

  BufferRef named_buffer(Space space) {
    std::string name = word("the name of a buffer");
    expect(":");
    auto buffer = std::make_shared<const Buffer>(Buffer{name, type(), space});
    scope_.push_back({name, nullptr, buffer});
    return buffer;
  }

  BufferRef argument() {
    Token t = next();
    for (Space s : {Space::in, Space::out, Space::inout, Space::workspace})
      if (t.text == to_string(s)) return named_buffer(s);
    fail(t, "expected in, out, inout or workspace, found '{}'", t.text);
  }

  std::vector<Stmt> block() {
    if (++depth_ > kDeepest) fail(now(), "statements are nested too deeply");
    std::vector<Stmt> body;
    size_t names = scope_.size();
    expect("{");
    while (!accept("}")) body.push_back(statement());
    scope_.resize(names);
    --depth_;
    return body;
  }

  Stmt statement() {
    Stmt s{.kind = StmtKind::store};
    if (accept("barrier")) {
      s.kind = StmtKind::barrier;
    } else if (is("reg") || is("shared")) {
      s.kind = StmtKind::reg;
      Space space = next().text == "reg" ? Space::reg : Space::shared;
      s.buffer = named_buffer(space);
    } else if (accept("when")) {
      s.kind = StmtKind::when;
      s.value = typed(tree(0), DType::mask);
      s.body = block();
    } else if (is("each") || is("for")) {
      s.kind = StmtKind::loop;
      s.independent = next().text == "each";
      loop(s);
    } else {
      Token t = now();
      std::string name = word("a statement");
      const Name* n = find(name);
      if (!n || !n->buffer) fail(t, "'{}' is not a buffer in scope", name);
      s.buffer = n->buffer;
      s.index = index(t, s.buffer);
      expect("=");
      s.value = typed(tree(0), s.buffer->type.dtype);
    }
    return s;
  }

  void loop(Stmt& s) {
    std::string name = word("the name of a loop variable");
    expect("in");
    s.lo = typed(tree(0), DType::i64);
    expect("..");
    s.hi = typed(tree(0), DType::i64);
    if (accept("step")) {
      Token t = now();
      s.step = integer("a step");
      if (s.step < 1) fail(t, "a step must be positive");
    }
    if (accept("parallel"))
      s.mode = LoopMode::parallel;
    else if (accept("unroll"))
      s.mode = LoopMode::unroll;
    else if (accept("vector"))
      s.mode = LoopMode::vector;
    else if (accept("thread"))
      s.mode = LoopMode::thread;
    s.var = std::make_shared<const Var>(Var{name});
    scope_.push_back({name, s.var, nullptr});
    s.body = block();
    scope_.pop_back();
  }

  const Name* find(const std::string& name) const {
    for (size_t i = scope_.size(); i-- > 0;)
      if (scope_[i].name == name) return &scope_[i];
    return nullptr;
  }

  std::vector<Expr> index(const Token& t, const BufferRef& buffer) {
    std::vector<Expr> result;
    for (const Tree& tree : index_trees(t, buffer)) result.push_back(typed(tree, DType::i64));
    return result;
  }

  std::vector<Tree> index_trees(const Token& t, const BufferRef& buffer) {
    std::vector<Tree> trees;
    if (accept("[") && !accept("]")) {
      do trees.push_back(tree(0));
      while (accept(","));
      expect("]");
    }
    if (static_cast<int>(trees.size()) != buffer->type.rank())
      fail(t, "{} indices for {}: {}", trees.size(), buffer->name, to_string(buffer->type));
    return trees;
  }

  // Binary operators by how tightly they bind.
  Tree tree(int level) {
    struct Infix {
      const char* text;
      Op op;
      int level;
      bool swap = false;
    };
    constexpr Infix kInfix[] = {{"||", Op::logical_or, 0}, {"&&", Op::logical_and, 1}, {"<", Op::lt, 2},
                                {"<=", Op::le, 2},         {"==", Op::eq, 2},          {"!=", Op::ne, 2},
                                {">", Op::lt, 2, true},    {">=", Op::le, 2, true},    {"+", Op::add, 3},
                                {"-", Op::sub, 3},         {"*", Op::mul, 4},          {"/", Op::div, 4}};
    if (level == 5) return unary();
    Tree left = tree(level + 1);
    for (;;) {
      const Infix* found = nullptr;
      for (const Infix& i : kInfix)
        if (i.level == level && is(i.text)) found = &i;
      if (!found) return left;
      Token t = next();
      Tree right = tree(level + 1);
      if (found->swap) std::swap(left, right);
      std::vector<Tree> args;
      args.push_back(std::move(left));
      args.push_back(std::move(right));
      left = call(t, found->op, std::move(args));
      if (level == 2) return left;
    }
  }

  Tree call(const Token& t, Op op, std::vector<Tree> args) {
    Tree result;
    result.kind = Tree::call;
    result.at = t;
    result.op = op;
    for (const Tree& a : args) result.height = std::max(result.height, a.height + 1);
    if (result.height > kDeepest) fail(t, "the expression is nested too deeply");
    result.args = std::move(args);
    return result;
  }

  Tree unary() {
    if (++depth_ > kDeepest) fail(now(), "the expression is nested too deeply");
    Tree result;
    Token t = now();
    if (accept("-")) {
      if (now().kind == Token::number || is("inf")) {
        result = primary();
        result.value = -result.value;
        result.integer = -result.integer;
      } else {
        std::vector<Tree> args;
        args.push_back(unary());
        result = call(t, Op::neg, std::move(args));
      }
    } else if (accept("!")) {
      std::vector<Tree> args;
      args.push_back(unary());
      result = call(t, Op::logical_not, std::move(args));
    } else {
      result = primary();
    }
    --depth_;
    return result;
  }

  Tree primary() {
    Token t = next();
    Tree result;
    result.at = t;
    if (t.kind == Token::number) {
      const char* end = t.text.data() + t.text.size();
      result.whole = t.text.find_first_of(".eE") == std::string::npos;
      auto [stop, problem] = std::from_chars(t.text.data(), end, result.value);
      if (problem != std::errc{} || stop != end) fail(t, "'{}' is out of range", t.text);
      if (result.whole && std::from_chars(t.text.data(), end, result.integer).ec != std::errc{})
        result.whole = false;
      return result;
    }
    if (t.text == "(") {
      result = tree(0);
      expect(")");
      return result;
    }
    if (t.kind != Token::word) fail(t, "expected an expression, found '{}'", t.text);
    if (is("(")) return function(t);
    if (const Name* n = find(t.text)) {
      result.kind = n->var ? Tree::var : Tree::load;
      result.variable = n->var;
      result.buffer = n->buffer;
      if (n->buffer) result.args = index_trees(t, n->buffer);
      for (const Tree& a : result.args) result.height = std::max(result.height, a.height + 1);
      return result;
    }
    if (t.text == "inf" || t.text == "nan") {
      result.value = t.text == "inf" ? std::numeric_limits<double>::infinity()
                                     : std::numeric_limits<double>::quiet_NaN();
      return result;
    }
    if (t.text == "true" || t.text == "false") {
      result.type = DType::mask;
      result.integer = t.text == "true";
      result.whole = true;
      return result;
    }
    fail(t, "'{}' is not in scope", t.text);
  }

  Tree function(const Token& t) {
    expect("(");
    std::vector<Tree> args;
    if (!is(")")) do
        args.push_back(tree(0));
      while (accept(","));
    expect(")");
    DType to;
    bool bits = t.text.starts_with("bitcast.");
    if (parse_dtype(bits ? t.text.substr(8) : t.text, &to)) {
      if (args.size() != 1) fail(t, "{} takes one operand", t.text);
      if (!bits && args[0].kind == Tree::number && !args[0].type) {
        args[0].type = to;
        return args[0];
      }
      Tree result = call(t, bits ? Op::bitcast : Op::cast, std::move(args));
      result.type = to;
      return result;
    }
    for (int i = static_cast<int>(Op::add); i <= static_cast<int>(Op::shr); ++i) {
      Op op = static_cast<Op>(i);
      if (row(op).infix || op == Op::cast || op == Op::bitcast || t.text != row(op).name) continue;
      if (static_cast<int>(args.size()) != row(op).arity)
        fail(t, "{} takes {} operands, {} given", t.text, row(op).arity, args.size());
      return call(t, op, std::move(args));
    }
    fail(t, "'{}' is not a function", t.text);
  }

  static bool compares(Op op) { return op >= Op::lt && op <= Op::ne; }

  // The type as far as the text alone tells it.
  static std::optional<DType> told(const Tree& t) {
    if (t.type) return t.type;
    if (t.kind == Tree::number) return std::nullopt;
    if (t.kind == Tree::var) return DType::i64;
    if (t.kind == Tree::load) return t.buffer->type.dtype;
    if (t.op >= Op::lt && t.op <= Op::logical_not) return DType::mask;
    return told_by_operands(t);
  }
  static std::optional<DType> told_by_operands(const Tree& t) {
    for (size_t i = t.op == Op::select ? 1 : 0; i < t.args.size(); ++i)
      if (auto type = told(t.args[i])) return type;
    return std::nullopt;
  }

  Expr number(const Tree& t, DType type) const {
    if (type == DType::mask && !t.type) fail(t.at, "expected a condition, found a number");
    if (is_float(type)) return lit(t.value, type);
    if (!t.whole) fail(t.at, "'{}' is not a number of type {}", t.at.text, to_string(type));
    return int_lit(t.integer, type);
  }

  Expr build(const Tree& t, std::optional<DType> context) const {
    switch (t.kind) {
      case Tree::number:
        return number(t, t.type ? *t.type : context ? *context : t.whole ? DType::i64 : DType::f32);
      case Tree::var:
        return var(t.variable);
      case Tree::load: {
        std::vector<Expr> index;
        for (const Tree& a : t.args) index.push_back(typed(a, DType::i64));
        return load(t.buffer, std::move(index));
      }
      case Tree::call:
        break;
    }
    std::optional<DType> inside = told_by_operands(t);
    if (!inside && !compares(t.op)) inside = context;
    if (t.op == Op::cast || t.op == Op::bitcast) inside = std::nullopt;
    std::vector<Expr> args;
    for (size_t i = 0; i < t.args.size(); ++i)
      args.push_back(build(t.args[i], t.op == Op::select && i == 0 ? DType::mask : inside));
    DType type = t.type                                      ? *t.type
                 : t.op >= Op::lt && t.op <= Op::logical_not ? DType::mask
                                                             : args[t.op == Op::select ? 1 : 0]->type;
    if (!operands_fit(t.op, args, type)) {
      std::string types;
      for (const Expr& a : args) types += std::string(types.empty() ? "" : ", ") + to_string(a->type);
      fail(t.at, "{} cannot take operands of type {}", row(t.op).name, types);
    }
    return make(t.op, std::move(args), type);
  }

  Expr typed(const Tree& t, DType type) const {
    Expr e = build(t, type);
    if (e->type != type)
      fail(t.at, "expected a value of type {}, found {}", to_string(type), to_string(e->type));
    return e;
  }

  std::string file_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  std::vector<Name> scope_;
};

}  // namespace

Kernel parse_kernel(const std::string& text, const std::string& file) { return Parser(text, file).kernel(); }

}  // namespace pock::loop
