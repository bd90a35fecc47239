// Questions about loops, and copies of statements under other names.
#include <algorithm>
#include <unordered_set>

#include "detail.h"
#include "pock/support/diag.h"

namespace pock::loop {

bool uses(const Expr& e, const Var* v) {
  if (e->var.get() == v) return true;
  return std::any_of(e->args.begin(), e->args.end(), [&](const Expr& a) { return uses(a, v); });
}

bool has_load(const Expr& e) {
  return e->op == ScalarOp::load || std::any_of(e->args.begin(), e->args.end(), has_load);
}

bool clips(const std::vector<Stmt>& body, const Var* v) {
  return std::any_of(body.begin(), body.end(), [&](const Stmt& s) {
    if (s.kind == StmtKind::loop && (uses(s.lo, v) || uses(s.hi, v))) return true;
    if (s.kind == StmtKind::when && uses(s.value, v)) return true;
    return clips(s.body, v);
  });
}

int64_t trips(const Stmt& s) {
  Expr length = s.hi - s.lo;
  return is_constant(length) ? std::max<int64_t>(0, (length->integer + s.step - 1) / s.step) : -1;
}

static Rewriter replacer(const Replace& r) {
  return Rewriter([&r](const Expr& e) {
    if (e->op == ScalarOp::var) {
      auto found = r.vars.find(e->var.get());
      return found == r.vars.end() ? e : found->second;
    }
    if (e->op == ScalarOp::load) {
      auto found = r.buffers.find(e->buffer.get());
      return found == r.buffers.end() ? e : load(found->second, e->args);
    }
    return e;
  });
}

Expr replace(const Expr& e, const Replace& r) { return replacer(r)(e); }

void rewrite_own(Stmt& s, Rewriter& rewrite) {
  for (Expr* e : {&s.lo, &s.hi, &s.value})
    if (e->get()) *e = rewrite(*e);
  for (Expr& e : s.index) e = rewrite(e);
}

bool reads(const std::vector<Stmt>& body, const Buffer* b) {
  return std::any_of(body.begin(), body.end(), [&](const Stmt& s) {
    bool found = reads(s.body, b);
    each_load(s, b, [&](const auto&) { found = true; });
    return found;
  });
}

int stores(const std::vector<Stmt>& body, const Buffer* b) {
  int count = 0;
  for (const Stmt& s : body) count += (s.kind == StmtKind::store && s.buffer.get() == b) + stores(s.body, b);
  return count;
}

namespace {
void replace_own(Stmt& s, const Replace& r) {
  Rewriter rewrite = replacer(r);
  rewrite_own(s, rewrite);
}
}  // namespace

std::vector<Stmt> copy(const std::vector<Stmt>& stmts, Replace r) {
  std::vector<Stmt> result;
  for (const Stmt& from : stmts) {
    Stmt s = from;
    replace_own(s, r);
    if (s.kind == StmtKind::reg) r.buffers[from.buffer.get()] = std::make_shared<const Buffer>(*from.buffer);
    if (auto found = r.buffers.find(from.buffer.get()); found != r.buffers.end()) s.buffer = found->second;
    if (s.kind == StmtKind::loop) {
      s.var = std::make_shared<const Var>(*from.var);
      r.vars[from.var.get()] = var(s.var);
    }
    s.body = copy(from.body, r);
    result.push_back(std::move(s));
  }
  return result;
}

std::vector<Stmt> iteration(const Stmt& loop, int64_t i) {
  return copy(loop.body, {{{loop.var.get(), Expr(i)}}, {}});
}

namespace {

class Names {
 public:
  explicit Names(const Kernel& k) {
    for (const BufferRef& b : k.args) in_scope_.insert(b->name);
  }

  std::vector<Stmt> body(const std::vector<Stmt>& stmts, Replace r) {
    std::vector<std::string> here;
    std::vector<Stmt> result;
    for (const Stmt& from : stmts) {
      Stmt s = from;
      replace_own(s, r);
      if (s.kind == StmtKind::reg) {
        here.push_back(unique(s.buffer->name));
        if (here.back() != s.buffer->name) {
          auto renamed = std::make_shared<Buffer>(*s.buffer);
          renamed->name = here.back();
          r.buffers[from.buffer.get()] = renamed;
        }
      }
      if (auto found = r.buffers.find(from.buffer.get()); found != r.buffers.end()) s.buffer = found->second;
      if (s.kind == StmtKind::loop) {
        std::string name = unique(s.var->name);
        Replace inner = r;
        if (name != s.var->name) {
          s.var = std::make_shared<const Var>(Var{name});
          inner.vars[from.var.get()] = var(s.var);
        }
        s.body = body(from.body, inner);
        in_scope_.erase(name);
      } else {
        s.body = body(from.body, r);
      }
      result.push_back(std::move(s));
    }
    for (const std::string& name : here) in_scope_.erase(name);
    return result;
  }

 private:
  std::string unique(const std::string& name) {
    std::string result = name;
    for (int n = 1; !in_scope_.insert(result).second; ++n) result = fmt::format("{}_{}", name, n);
    return result;
  }
  std::unordered_set<std::string> in_scope_;
};

}  // namespace

void tidy_names(Kernel& k) { k.body = Names(k).body(k.body, {}); }

}  // namespace pock::loop
