#include <climits>
#include <cmath>
#include <limits>

#include "elements.h"
#include "lexer.h"
#include "pock/ir/text.h"
#include "pock/ir/verify.h"
#include "pock/ops/op.h"

namespace pock {
namespace {

constexpr int64_t kLargestKernel = 1'000'000'000;  // passes number theirs from there

class Parser {
 public:
  Parser(const std::string& text, const std::string& file) : file_(file), lex_(text, file) {}

  std::unique_ptr<Graph> parse() {
    expect_word("pock");
    Token version = expect(TokenKind::number, "the version of the format");
    if (version.text != "1") fail(version, "this pock reads version 1 of the format, not {}", version.text);
    expect_word("graph");
    g_ = std::make_unique<Graph>(graph_name());
    expect("{");
    while (!lex_.peek().is("}")) statement();
    expect("}");
    if (lex_.peek().kind != TokenKind::end) fail(lex_.peek(), "the graph has ended before this");
    if (std::string fault = find_fault(*g_); !fault.empty()) {
      Loc loc;
      loc.file = file_;
      throw Error(loc, "{}", fault);
    }
    return std::move(g_);
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(const Token& t, fmt::format_string<Args...> format, Args&&... args) {
    throw Error(lex_.loc(t), format, std::forward<Args>(args)...);
  }

  Token expect(TokenKind kind, const char* what) {
    if (lex_.peek().kind != kind) fail(lex_.peek(), "expected {}{}", what, found());
    return lex_.take();
  }
  void expect(const char* symbol) {
    if (!lex_.peek().is(symbol)) fail(lex_.peek(), "expected '{}'{}", symbol, found());
    lex_.take();
  }
  void expect_word(const char* word) {
    if (!lex_.peek().is_word(word)) fail(lex_.peek(), "expected '{}'{}", word, found());
    lex_.take();
  }
  std::string found() {
    const Token& t = lex_.peek();
    return t.kind == TokenKind::end ? ", found the end" : fmt::format(", found {}", quote(t.text));
  }
  bool accept(const char* symbol) {
    if (!lex_.peek().is(symbol)) return false;
    lex_.take();
    return true;
  }
  bool accept_word(const char* word) {
    if (!lex_.peek().is_word(word)) return false;
    lex_.take();
    return true;
  }

  std::string graph_name() {
    if (accept("@")) return expect(TokenKind::string, "the graph's name").text;
    return expect(TokenKind::graph_name, "the graph's name").text;
  }

  // The name of a value: what it is called in the text, and in the model.
  struct Name {
    Token token;
    std::string spelling;
    const std::string& text() const { return token.text; }
  };
  Name name() {
    const Token& t = lex_.peek();
    if (t.kind != TokenKind::value && t.kind != TokenKind::odd_value)
      fail(t, "expected the name of a value{}", found());
    Name n{lex_.take(), ""};
    n.spelling = n.token.kind == TokenKind::value ? "%" + n.token.text : value_name(n.token.text);
    return n;
  }
  Value* known(const Name& n) {
    auto it = values_.find(n.spelling);
    if (it == values_.end()) fail(n.token, "{} is not defined above", n.spelling);
    return it->second;
  }
  Value* value() { return known(name()); }
  void define(const Name& n, Value* v) {
    if (!values_.emplace(n.spelling, v).second) fail(n.token, "{} is defined twice", n.spelling);
  }

  Type type() {
    Token word = expect(TokenKind::word, "a type");
    Type t;
    if (!parse_dtype(word.text, &t.dtype)) fail(word, "there is no element type '{}'", word.text);
    t.dims = integers();
    for (int64_t dim : t.dims)
      if (dim < 0) fail(word, "an axis has the negative length {}", dim);
    if (!are_possible(t.dims)) fail(word, "a tensor of more than 2^40 elements");
    if (!lex_.peek().is("{")) return t;
    Layout layout = this->layout();
    if (!fits(layout, t.dims)) fail(word, "{} is no layout of {}", to_string(layout), to_string(t));
    return laid_out(t, layout);
  }

  Layout layout() {
    Layout parts;
    expect("{");
    while (!lex_.peek().is("}")) {
      if (!parts.empty()) expect(",");
      Token t = expect(TokenKind::number, "an axis");
      size_t cut = t.text.find_first_of("/%");
      int64_t axis = 0, size = 1;
      bool good = parse_number(t.text.substr(0, cut), &axis) && axis >= 0 && axis <= INT_MAX;
      if (cut != std::string::npos) good &= parse_number(t.text.substr(cut + 1), &size);
      if (!good) fail(t, "'{}' is no axis of a layout: 1, 1/16 or 1%16", t.text);
      Part::Kind kind = cut == std::string::npos ? Part::whole
                        : t.text[cut] == '/'     ? Part::block
                                                 : Part::within;
      parts.push_back({static_cast<int>(axis), kind, size});
    }
    lex_.take();
    return parts;
  }

  std::vector<int64_t> integers() {
    std::vector<int64_t> list;
    expect("[");
    while (!lex_.peek().is("]")) {
      if (!list.empty()) expect(",");
      Token t = expect(TokenKind::number, "an integer");
      if (!parse_number(t.text, &list.emplace_back())) fail(t, "'{}' is no 64-bit integer", t.text);
    }
    lex_.take();
    return list;
  }

  Attr attr() {
    const Token& t = lex_.peek();
    if (t.is("[")) return integers();
    if (t.kind == TokenKind::string) return lex_.take().text;
    if (t.kind != TokenKind::number && t.kind != TokenKind::word)
      fail(t, "expected a number, a string or a list of integers{}", found());
    int64_t integer;
    if (parse_number(t.text, &integer)) {
      lex_.take();
      return integer;
    }
    double number;
    if (!parse_number(t.text, &number)) fail(t, "'{}' is no number", t.text);
    lex_.take();
    return number;
  }

  Attrs attrs() {
    Attrs list;
    if (!accept("{")) return list;
    while (!lex_.peek().is("}")) {
      if (!list.empty()) expect(",");
      Token key = expect(TokenKind::word, "the name of an attribute");
      expect("=");
      if (!list.emplace(key.text, attr()).second) fail(key, "attribute '{}' is given twice", key.text);
    }
    lex_.take();
    return list;
  }

  // What of a parameter is trained.
  Slice slice(const Type& type) {
    const Token at = lex_.peek();
    Attrs given = attrs();
    const auto* axis = std::get_if<int64_t>(&given["axis"]);
    const auto* index = std::get_if<std::vector<int64_t>>(&given["index"]);
    if (given.size() != 2 || !axis || !index)
      fail(at, "what is trained of a parameter is {{axis = 1, index = [0, 2]}}");
    if (!is_slice_of({static_cast<int>(std::clamp<int64_t>(*axis, -1, INT_MAX)), *index}, type))
      fail(at, "these are no elements along an axis of {} in ascending order", to_string(type));
    return {static_cast<int>(*axis), *index};
  }

  void statement() {
    const Token& t = lex_.peek();
    if (t.kind == TokenKind::value || t.kind == TokenKind::odd_value) return node();
    Token word = expect(TokenKind::word, "a statement");
    if (word.text == "input")
      leaf([&](const Name& n, Type type) { return g_->add_input(n.text(), type); });
    else if (word.text == "param")
      leaf([&](const Name& n, Type type) {
        Value* v = g_->add_param(n.text(), type, nullptr);
        v->trained = accept_word("trained");
        if (v->trained && lex_.peek().is("{")) v->slice = slice(type);
        return v;
      });
    else if (word.text == "statistic")
      leaf([&](const Name& n, Type type) { return g_->add_statistic(n.text(), type, nullptr); });
    else if (word.text == "optimizer")
      leaf([&](const Name& n, Type type) { return optimizer_state(n, type); });
    else if (word.text == "accumulator")
      leaf([&](const Name& n, const Type& type) { return accumulator(n, type); });
    else if (word.text == "scalar")
      leaf([&](const Name& n, const Type& type) {
        if (type != Type{} && type != Type{DType::i32, {}})
          fail(n.token, "a scalar is f32[] or i32[], not {}", to_string(type));
        return g_->add_scalar(n.text(), type.dtype);
      });
    else if (word.text == "const")
      leaf([&](const Name& n, Type type) { return constant(n, type); });
    else if (word.text == "model") {
      g_->model_file = expect(TokenKind::string, "the model's file").text;
      g_->model_hash = expect(TokenKind::string, "the model's hash").text;
      g_->producer = expect(TokenKind::string, "the model's producer").text;
    } else if (word.text == "output") {
      Value* v = value();
      g_->add_output(v, lex_.peek().kind == TokenKind::string ? lex_.take().text : "");
      if (accept_word("whole")) g_->set_whole(g_->outputs().size() - 1);
    } else if (const OpDef* op = find_op(word.text); op && op->has_effect())
      effect(*op, word);
    else
      fail(word, "'{}' starts no statement", word.text);
  }

  template <class Make>
  void leaf(Make make) {
    Name n = name();
    expect(":");
    Value* v = make(n, type());
    Loc at = lex_.loc(n.token);
    v->origin.file = at.file;
    v->origin.line = at.line;
    v->origin.column = at.column;
    define(n, v);
  }

  Value* owner(bool of_statistic = false) {
    expect_word("of");
    Name n = name();
    Value* v = known(n);
    if (v->kind != ValueKind::param && !(of_statistic && v->kind == ValueKind::statistic))
      fail(n.token, "{} is no parameter{}", n.spelling, of_statistic ? " or statistic" : "");
    return v;
  }

  Value* accumulator(const Name& n, const Type& type) {
    Value* v = g_->add_accumulator(owner(true));
    if (v->type != type) fail(n.token, "the parameter is {}", to_string(v->type));
    v->name = n.text();
    return v;
  }

  Value* optimizer_state(const Name& n, const Type& type) {
    Value* owner = this->owner();
    std::string slot, prefix = owner->name + ".";
    if (accept_word("slot"))
      slot = expect(TokenKind::string, "the slot's name").text;
    else if (n.text().starts_with(prefix))
      slot = n.text().substr(prefix.size());
    else
      fail(n.token, "the name does not start with {}, so `slot \"NAME\"` must follow", quote(prefix));
    Value* v = g_->add_optimizer_state(owner, slot, type);
    v->name = n.text();
    if (accept_word("from")) v->initial = number();
    return v;
  }

  float number() {
    Token t = expect(TokenKind::number, "a number");
    double value;
    if (!parse_number(t.text, &value) || std::abs(value) > std::numeric_limits<float>::max())
      fail(t, "'{}' is no f32", t.text);
    return flushed(static_cast<float>(value));
  }

  Value* constant(const Name& n, const Type& type) {
    Value* v = g_->add_constant(type, nullptr);
    bool numbered = n.token.kind == TokenKind::value && n.text().starts_with("const.");
    if (!numbered) v->name = v->origin.name = n.text();
    if (accept("=")) v->data = elements(type);
    return v;
  }

  Data elements(const Type& type) {
    Token start = lex_.peek();
    bool list = accept("[");
    std::vector<std::string> texts;
    while (!list || !lex_.peek().is("]")) {
      if (!texts.empty()) expect(",");
      const Token& t = lex_.peek();
      if (t.kind != TokenKind::number && t.kind != TokenKind::word) fail(t, "expected a number{}", found());
      texts.push_back(lex_.take().text);
      if (!list) break;
    }
    if (list) expect("]");
    if (static_cast<int64_t>(texts.size()) != type.elements())
      fail(start, "{} has {} elements, given are {}", to_string(type), type.elements(), texts.size());
    std::vector<std::byte> bytes;
    if (!parse_elements(type, texts, &bytes)) fail(start, "these are no elements of {}", to_string(type));
    return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  }

  void node() {
    std::vector<Name> names{name()};
    while (accept(",")) names.push_back(name());
    expect("=");
    Token word = expect(TokenKind::word, "an operator");
    const OpDef* op = find_op(word.text);
    if (!op) fail(word, "there is no operator '{}'", word.text);
    if (static_cast<int>(names.size()) != op->results)
      fail(names[0].token, "{} has {} results, named are {}", word.text, op->results, names.size());
    expect("(");
    std::vector<Value*> inputs;
    while (!lex_.peek().is(")")) {
      if (!inputs.empty()) expect(",");
      inputs.push_back(value());
    }
    lex_.take();
    Attrs given = attrs();
    expect(":");
    std::vector<Type> types{type()};
    while (accept(",")) types.push_back(type());
    Node* n = finish(*op, names[0].token, std::move(inputs), std::move(given));
    if (types.size() != names.size())
      fail(names[0].token, "{} results, but {} types", names.size(), types.size());
    for (size_t i = 0; i < names.size(); ++i) {
      Type& inferred = n->out(static_cast<int>(i))->type;
      if (types[i].row_major() != inferred)
        fail(names[i].token, "{} is declared {}, but {} gives {}", names[i].spelling, to_string(types[i]),
             word.text, to_string(inferred));
      inferred = types[i];
      define(names[i], n->out(static_cast<int>(i)));
    }
  }

  void effect(const OpDef& op, const Token& word) {
    Value* target = value();
    expect("=");
    std::vector<Value*> inputs = {target, value()};
    if (accept_word("at")) inputs.push_back(value());
    finish(op, word, std::move(inputs), attrs());
  }

  // What only a bug could ask of a shape rule elsewhere, a person may well write in a text.
  Node* make(const OpDef& op, std::vector<Value*> inputs, Attrs given, const Loc& loc) {
    try {
      return g_->add_node(op, std::move(inputs), std::move(given), loc);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& e) {
      throw Error(loc, "{} cannot be built: {}", op.name.text, e.what());
    }
  }

  // Marks and place, then the node itself.
  Node* finish(const OpDef& op, const Token& start, std::vector<Value*> inputs, Attrs given) {
    int64_t in_place = -1;
    bool recomputed = false;
    int64_t kernel = 0;
    for (;;) {
      Token mark = lex_.peek();
      if (accept_word("recomputed")) {
        recomputed = true;
      } else if (accept_word("kernel")) {
        if (lex_.peek().kind != TokenKind::number || !parse_number(lex_.take().text, &kernel) || kernel < 1 ||
            kernel > kLargestKernel)
          fail(mark, "kernel wants a number from 1 to {}", kLargestKernel);
      } else if (accept_word("in_place")) {
        in_place = 0;
        if (lex_.peek().kind == TokenKind::number && !parse_number(lex_.take().text, &in_place))
          in_place = -1;
        if (op.results == 0 || in_place < 0 || in_place >= static_cast<int64_t>(inputs.size()))
          fail(mark, "in_place names no input of {}", op.name.text);
      } else {
        break;
      }
    }
    Loc loc = lex_.loc(start);
    if (accept("@")) {
      loc.name = expect(TokenKind::string, "the node's name in the model").text;
      if (lex_.peek().kind == TokenKind::string) loc.op = lex_.take().text;
    }
    Node* n = make(op, std::move(inputs), std::move(given), loc);
    n->in_place = static_cast<int>(in_place);
    n->recomputed = recomputed;
    n->kernel = static_cast<int>(kernel);
    return n;
  }

  const std::string& file_;
  Lexer lex_;
  std::unique_ptr<Graph> g_;
  std::unordered_map<std::string, Value*> values_;
};

}  // namespace

std::unique_ptr<Graph> parse_graph(const std::string& text, const std::string& file) {
  std::string shown = file.empty() ? "<text>" : file;
  return Parser(text, shown).parse();
}

}  // namespace pock
