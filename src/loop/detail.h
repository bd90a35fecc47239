// What the files of the loop IR share among themselves.
#pragma once

#include <array>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pock/loop/range.h"
#include "pock/loop/transform.h"

namespace pock::loop {

struct OpRow {
  const char* name;  // infix spelling where `infix`, else called like a function
  int arity;         // -1: any
  bool infix = false;
};
const OpRow& row(ScalarOp);
// Whether the operation takes operands of these types and gives `type`.
bool operands_fit(ScalarOp, const std::vector<Expr>& args, DType type);

// Of an operation on integers, what it gives; false for others and for bitcasts.
bool fold(ScalarOp, const std::array<int64_t, 3>& args, DType type, int64_t* out);

inline bool is_constant(const Expr& e) { return e->op == ScalarOp::constant; }
inline bool is_constant(const Expr& e, int64_t v) {
  return e->op == ScalarOp::constant && !is_float(e->type) && e->integer == v;
}

// An i64 expression as constant + sum of coefficient * atom, where no atom is itself a sum or a multiple.
struct Linear {
  std::vector<std::pair<Expr, int64_t>> terms;
  int64_t constant = 0;

  void add(const Linear& other, int64_t times);
  void add(const Expr& atom, int64_t times);
};
Linear linear(const Expr&);
// The canonical expression of a sum: equal sums over the same atoms give the same tree.
Expr from_linear(Linear);

int64_t floor_div(int64_t a, int64_t b);
int64_t floor_mod(int64_t a, int64_t b);

// Rebuilds expressions bottom up; parts shared by identity are visited once. The rule sees a node whose
// arguments are rebuilt already and may return it as it is.
class Rewriter {
 public:
  using Rule = std::function<Expr(const Expr& rebuilt)>;
  explicit Rewriter(Rule rule) : rule_(std::move(rule)) {}
  Expr operator()(const Expr&);

 private:
  Rule rule_;
  std::unordered_map<const ExprNode*, std::pair<Expr, Expr>> done_;  // the first keeps the key alive
};

// The expressions of the statement itself, not of its body.
void rewrite_own(Stmt&, Rewriter&);

// A copy of statements with variables and buffers replaced. The copy declares buffers and loop variables of
// its own, so it may stand beside the original.
struct Replace {
  std::unordered_map<const Var*, Expr> vars;
  std::unordered_map<const Buffer*, BufferRef> buffers;
};
std::vector<Stmt> copy(const std::vector<Stmt>&, Replace);
Expr replace(const Expr&, const Replace&);

// `each` loops directly inside one another, from 0, around a body without loops.
struct Elements {
  std::vector<VarRef> vars;
  const std::vector<Stmt>* body = nullptr;
};
std::optional<Elements> elements(const std::vector<Stmt>& nest);

// Calls f(index) for every load of the buffer in an expression.
template <class F>
void each_load(const Expr& e, const Buffer* b, const F& f) {
  if (e->op == ScalarOp::load && e->buffer.get() == b) f(e->args);
  for (const Expr& a : e->args) each_load(a, b, f);
}
// In the statement itself, not in its body.
template <class F>
void each_load(const Stmt& s, const Buffer* b, const F& f) {
  for (const Expr* e : {&s.lo, &s.hi, &s.value})
    if (e->get()) each_load(*e, b, f);
  for (const Expr& e : s.index) each_load(e, b, f);
}

bool has_load(const Expr&);
bool reads(const std::vector<Stmt>&, const Buffer*);
// How many statements store there.
int stores(const std::vector<Stmt>&, const Buffer*);

// Gives buffers and variables that hide one in scope another name.
void tidy_names(Kernel&);

// The steps of these names (merge.cpp, hoist.cpp, stage.cpp, behind.cpp).
Kernel merge(const Kernel&, const std::string& i, const std::string& j);
Kernel hoist(const Kernel&, const std::string& i);
Kernel stage(const Kernel&, const std::string& i, const std::string& z);
Kernel beside(const Kernel&, const std::string& part, const std::string& i);

// Smaller where the ranges of its variables say so.
Expr simplified(const Expr&, const std::function<Range(const Var&)>&);

// The same operation on other arguments, simplified.
Expr with_args(const Expr&, std::vector<Expr> args);

}  // namespace pock::loop
