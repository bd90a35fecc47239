// The text form of kernels, written. parse.cpp reads it.
#include <fmt/format.h>

#include <cmath>

#include "detail.h"
#include "pock/loop/loop.h"

namespace pock::loop {
namespace {

using Op = ScalarOp;

std::string number_text(const ExprNode& n) {
  if (n.type == DType::mask) return n.integer ? "true" : "false";
  if (!is_float(n.type)) return fmt::format("{}", n.integer);
  if (std::isnan(n.number)) return "nan";
  return n.type == DType::f32 ? fmt::format("{}", static_cast<float>(n.number)) : fmt::format("{}", n.number);
}

// True where the text of `e` alone tells its type: a plain number takes its type from what is around it.
bool tells_type(const Expr& e) {
  switch (e->op) {
    case Op::constant:
      return e->type == DType::mask;
    case Op::var:
    case Op::load:
    case Op::cast:
    case Op::bitcast:
      return true;
    case Op::select:
      return tells_type(e->args[1]) || tells_type(e->args[2]);
    default:
      break;
  }
  if (e->type == DType::mask) return true;
  for (const Expr& a : e->args)
    if (tells_type(a)) return true;
  return false;
}

int precedence(Op op) {
  switch (op) {
    case Op::logical_or:
      return 1;
    case Op::logical_and:
      return 2;
    case Op::lt:
    case Op::le:
    case Op::eq:
    case Op::ne:
      return 3;
    case Op::add:
    case Op::sub:
      return 4;
    case Op::mul:
    case Op::div:
      return 5;
    case Op::neg:
      return 6;
    default:
      return 7;
  }
}

// `context`: the type is known from outside; `level`: binds at least this tightly, else parentheses.
std::string text(const Expr& e, bool context, int level);

std::string list(const std::vector<Expr>& args, bool context) {
  std::string result;
  for (const Expr& a : args) result += (result.empty() ? "" : ", ") + text(a, context, 0);
  return result;
}

std::string index_text(const std::vector<Expr>& index) {
  std::string result;
  for (const Expr& i : index) result += (result.empty() ? "" : ",") + text(i, true, 0);
  return index.empty() ? "" : "[" + result + "]";
}

std::string text(const Expr& e, bool context, int level) {
  const ExprNode& n = *e;
  switch (n.op) {
    case Op::constant: {
      std::string number = number_text(n);
      if (context || n.type == DType::i64 || n.type == DType::mask) return number;
      return fmt::format("{}({})", to_string(n.type), number);
    }
    case Op::var:
      return n.var->name;
    case Op::load:
      return n.buffer->name + index_text(n.args);
    case Op::cast:
      return fmt::format("{}({})", to_string(n.type), text(n.args[0], false, 0));
    case Op::bitcast:
      return fmt::format("bitcast.{}({})", to_string(n.type), text(n.args[0], false, 0));
    case Op::select: {
      bool known = context || tells_type(e);
      return fmt::format("select({}, {}, {})", text(n.args[0], true, 0), text(n.args[1], known, 0),
                         text(n.args[2], known, 0));
    }
    default:
      break;
  }
  bool compares = n.op >= Op::lt && n.op <= Op::ne;
  bool known = compares ? tells_type(n.args[0]) || tells_type(n.args[1]) : context || tells_type(e);
  int own = precedence(n.op);
  std::string result;
  if (n.op == Op::neg)
    result = "-" + text(n.args[0], known, own + 1);
  else if (n.op == Op::logical_not)
    return "!" + text(n.args[0], known, 7);
  else if (row(n.op).infix)
    result = fmt::format("{} {} {}", text(n.args[0], known, compares ? own + 1 : own), row(n.op).name,
                         text(n.args[1], known, own + 1));
  else
    return fmt::format("{}({})", row(n.op).name, list(n.args, known));
  return own < level ? "(" + result + ")" : result;
}

class Printer {
 public:
  std::string out;

  void body(const std::vector<Stmt>& stmts, int depth) {
    for (const Stmt& s : stmts) stmt(s, depth);
  }

 private:
  void line(int depth, const std::string& s) { out += std::string(2 * depth, ' ') + s + "\n"; }

  void stmt(const Stmt& s, int depth) {
    switch (s.kind) {
      case StmtKind::loop: {
        constexpr const char* kModes[] = {"", " parallel", " unroll", " vector", " thread"};
        std::string step = s.step == 1 ? "" : fmt::format(" step {}", s.step);
        line(depth,
             fmt::format("{} {} in {}..{}{}{} {{", s.independent ? "each" : "for", s.var->name,
                         text(s.lo, true, 4), text(s.hi, true, 4), step, kModes[static_cast<int>(s.mode)]));
        break;
      }
      case StmtKind::when:
        line(depth, fmt::format("when {} {{", text(s.value, true, 0)));
        break;
      case StmtKind::store:
        return line(depth,
                    fmt::format("{}{} = {}", s.buffer->name, index_text(s.index), text(s.value, true, 0)));
      case StmtKind::reg:
        return line(depth, fmt::format("{} {}: {}", to_string(s.buffer->space), s.buffer->name,
                                       s.buffer->type.rank() ? to_string(s.buffer->type)
                                                             : std::string(to_string(s.buffer->type.dtype))));
      case StmtKind::barrier:
        return line(depth, "barrier");
    }
    body(s.body, depth + 1);
    line(depth, "}");
  }
};

}  // namespace

std::string to_string(const Expr& e) { return text(e, false, 0); }

std::string print(const Kernel& k) {
  std::string args;
  for (const BufferRef& b : k.args)
    args += fmt::format("{}{} {}: {}", args.empty() ? "" : ", ", to_string(b->space), b->name,
                        to_string(b->type));
  Printer p;
  p.out = fmt::format("kernel @{}({}) {{\n", k.name, args);
  p.body(k.body, 1);
  return p.out + "}\n";
}

}  // namespace pock::loop
