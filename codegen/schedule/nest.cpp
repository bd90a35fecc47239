#include "schedule/nest.h"

namespace pock {

using loop::Expr;
using loop::ScalarOp;
using loop::Stmt;
using loop::StmtKind;
using loop::trips;

std::vector<const Stmt*> loops_named(const std::vector<Stmt>& body, const std::string& name) {
  std::vector<const Stmt*> found;
  for (const Stmt& s : body) {
    if (s.kind == StmtKind::loop && s.var->name == name) found.push_back(&s);
    std::vector<const Stmt*> inside = loops_named(s.body, name);
    found.insert(found.end(), inside.begin(), inside.end());
  }
  return found;
}

namespace {

class Accesses {
 public:
  explicit Accesses(const std::vector<loop::VarRef>& vars) : vars_(vars) {}

  void body(const std::vector<Stmt>& stmts) {
    for (const Stmt& s : stmts) {
      for (const Expr* e : {&s.lo, &s.hi, &s.value})
        if (e->get()) loads(*e);
      for (const Expr& i : s.index) loads(i);
      if (s.kind == StmtKind::store) add(s.buffer, s.index, true);
      body(s.body);
    }
  }

  std::vector<Access> found;

 private:
  void loads(const Expr& e) {
    if (e->op == ScalarOp::load) add(e->buffer, e->args, false);
    for (const Expr& a : e->args) loads(a);
  }

  void add(const loop::BufferRef& b, const std::vector<Expr>& index, bool store) {
    if (b->space >= loop::Space::reg) return;
    Access access{.store = store};
    for (const loop::VarRef& v : vars_) {
      int64_t flat = 0, of_axis = 1;
      bool linear = true;
      for (size_t axis = index.size(); axis-- > 0;) {
        int64_t stride = 0;
        linear &= loop::linear_stride(index[axis], v, &stride);
        flat += stride * of_axis;
        of_axis *= b->type.dims[axis];
      }
      access.stride.push_back(flat);
      access.linear.push_back(linear);
    }
    found.push_back(std::move(access));
  }

  const std::vector<loop::VarRef>& vars_;
};

void find_loops(const std::vector<Stmt>& body, Nest& nest) {
  for (const Stmt& s : body) {
    if (s.kind == StmtKind::loop) (s.independent ? nest.independent : nest.sequential) = true;
    find_loops(s.body, nest);
  }
}

}  // namespace

std::vector<Access> find_accesses(const std::vector<Stmt>& core, const std::vector<loop::VarRef>& vars) {
  Accesses accesses(vars);
  accesses.body(core);
  return std::move(accesses.found);
}

Nest find_nest(const Stmt& outermost) {
  Nest nest;
  const Stmt* s = &outermost;
  for (;;) {
    nest.axes.push_back({s->var->name, trips(*s), s->var});
    nest.core = &s->body;
    if (s->body.size() != 1) break;
    const Stmt& next = s->body[0];
    if (next.kind != StmtKind::loop || !next.independent || trips(next) < 0 || next.step != 1) break;
    s = &next;
  }
  std::vector<loop::VarRef> vars;
  for (const Axis& a : nest.axes) vars.push_back(a.var);
  nest.accesses = find_accesses(*nest.core, vars);
  find_loops(*nest.core, nest);
  return nest;
}

}  // namespace pock
