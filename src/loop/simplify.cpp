// Index arithmetic made smaller with what the enclosing loops say about their variables.
#include <unordered_map>

#include "detail.h"
#include "pock/loop/range.h"
#include "pock/loop/transform.h"

namespace pock::loop {
namespace {

using Op = ScalarOp;
using RangeOf = std::function<Range(const Var&)>;

// Expressions under the ranges of their variables.
class Smaller {
 public:
  explicit Smaller(const RangeOf& of_variable) : of_variable_(of_variable) {}

  Expr operator()(const Expr& e) const {
    Rewriter rewrite([&](const Expr& n) { return smaller(n); });
    return rewrite(e);
  }

 private:
  Expr smaller(const Expr& e) const {
    switch (e->op) {
      case Op::min:
      case Op::max: {
        if (e->type != DType::i64) return e;
        Range difference = range(e->args[0] - e->args[1]);
        bool min = e->op == Op::min;
        if (difference.known_hi() && difference.hi <= 0) return e->args[min ? 0 : 1];
        if (difference.known_lo() && difference.lo >= 0) return e->args[min ? 1 : 0];
        return e;
      }
      case Op::floordiv:
      case Op::mod: {
        if (e->type != DType::i64) return e;
        int64_t d = e->args[1]->integer;
        Range r = range(e->args[0]);
        if (!r.known() || floor_div(r.lo, d) != floor_div(r.hi, d)) return e;
        Expr quotient(floor_div(r.lo, d));
        return e->op == Op::floordiv ? quotient : e->args[0] - quotient * Expr(d);
      }
      case Op::lt:
      case Op::le:
      case Op::eq:
      case Op::ne:
        return compared(e);
      default:
        return e;
    }
  }

  Expr compared(const Expr& e) const {
    if (e->args[0]->type != DType::i64) return e;
    Range r = range(e->args[0] - e->args[1]);
    auto known = [](bool v) { return int_lit(v, DType::mask); };
    bool negative = r.known_hi() && r.hi < 0, positive = r.known_lo() && r.lo > 0;
    switch (e->op) {
      case Op::lt:
        if (negative) return known(true);
        if (r.known_lo() && r.lo >= 0) return known(false);
        return e;
      case Op::le:
        if (r.known_hi() && r.hi <= 0) return known(true);
        if (positive) return known(false);
        return e;
      default:
        return negative || positive ? known(e->op == Op::ne) : e;
    }
  }

  Range range(const Expr& e) const { return range_of(e, of_variable_); }

  const RangeOf& of_variable_;
};

class Simplifier {
 public:
  std::vector<Stmt> body(const std::vector<Stmt>& stmts) {
    std::vector<Stmt> result;
    for (const Stmt& s : stmts) stmt(s, result);
    return result;
  }

 private:
  void stmt(Stmt s, std::vector<Stmt>& out) {
    switch (s.kind) {
      case StmtKind::store:
        for (Expr& i : s.index) i = simple(i);
        s.value = simple(s.value);
        break;
      case StmtKind::when:
        s.value = simple(s.value);
        if (is_constant(s.value, 0)) return;
        if (is_constant(s.value)) return inlined(s.body, {}, out);
        s.body = body(s.body);
        if (s.body.empty()) return;
        break;
      case StmtKind::loop:
        if (!loop(s, out)) return;
        break;
      case StmtKind::reg:
      case StmtKind::barrier:
        break;
    }
    out.push_back(std::move(s));
  }

  // False where nothing of the loop remains to be kept, or it was put into `out` without its head.
  bool loop(Stmt& s, std::vector<Stmt>& out) {
    s.lo = simple(s.lo);
    s.hi = simple(s.hi);
    Expr length = s.hi - s.lo;
    Range trip = range(length);
    if (trip.known_hi() && trip.hi <= 0) return false;
    if (is_constant(length) && length->integer <= s.step && s.mode != LoopMode::thread) {
      inlined(s.body, {{{s.var.get(), s.lo}}, {}}, out);
      return false;
    }
    Range lo = range(s.lo), hi = range(s.hi);
    int64_t last = hi.known_hi() ? hi.hi - 1 : hi.hi;
    if (is_constant(s.lo) && is_constant(s.hi))
      last = s.lo->integer + (s.hi->integer - s.lo->integer - 1) / s.step * s.step;
    ranges_[s.var.get()] = {lo.lo, last};
    s.body = body(s.body);
    ranges_.erase(s.var.get());
    return !s.body.empty();
  }

  void inlined(const std::vector<Stmt>& stmts, Replace r, std::vector<Stmt>& out) {
    for (Stmt& s : body(copy(stmts, std::move(r)))) out.push_back(std::move(s));
  }

  Expr simple(const Expr& e) const { return simplified(e, of_variable_); }
  Range range(const Expr& e) const { return range_of(e, of_variable_); }

  std::unordered_map<const Var*, Range> ranges_;
  const RangeOf of_variable_ = [this](const Var& v) {
    auto found = ranges_.find(&v);
    return found == ranges_.end() ? Range{} : found->second;
  };
};

}  // namespace

Expr simplified(const Expr& e, const RangeOf& of_variable) { return Smaller(of_variable)(e); }

Kernel simplify(const Kernel& k) {
  Kernel result = k;
  result.body = Simplifier().body(k.body);
  tidy_names(result);
  return result;
}

bool linear_stride(const Expr& e, const VarRef& v, int64_t* stride) {
  if (e->type != DType::i64) return false;
  int64_t found = 0;
  for (const auto& [atom, times] : linear(e).terms) {
    if (atom->op == Op::var && atom->var == v)
      found = times;
    else if (uses(atom, v.get()))
      return false;
  }
  *stride = found;
  return true;
}

}  // namespace pock::loop
