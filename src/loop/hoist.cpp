// What the loops inside a loop compute in every iteration alike, computed once in front of them.
#include <algorithm>
#include <map>

#include "detail.h"
#include "pock/support/diag.h"

namespace pock::loop {
namespace {

// Of one kernel: all loops of a name.
class Hoisting {
 public:
  Hoisting(const Kernel& k, const std::string& name) : kernel_(k), name_(name) {}

  Kernel run() {
    Kernel result = kernel_;
    result.body = walk(kernel_.body);
    return result;
  }
  bool found() const { return found_; }

 private:
  struct Waiting {
    Expr value;
    BufferRef buffer;
  };

  std::vector<Stmt> walk(const std::vector<Stmt>& body) {
    std::vector<Stmt> result;
    for (Stmt s : body) {
      if (s.kind == StmtKind::loop) outside_[s.var.get()] = &s;
      if (s.kind == StmtKind::loop && s.var->name == name_) {
        waiting_.clear();
        loop_ = &s;
        s.body = without(s.body, 0);
        std::vector<Stmt> first;
        for (const Waiting& w : waiting_) first.push_back({.kind = StmtKind::reg, .buffer = w.buffer});
        for (const Waiting& w : waiting_)
          first.push_back({.kind = StmtKind::store, .buffer = w.buffer, .value = w.value});
        s.body.insert(s.body.begin(), first.begin(), first.end());
        found_ |= !waiting_.empty();
      } else {
        s.body = walk(s.body);
      }
      outside_.erase(s.var.get());
      result.push_back(std::move(s));
    }
    return result;
  }

  // Statements under so many loops, whose largest parts that qualify are read from where they wait.
  std::vector<Stmt> without(std::vector<Stmt> body, int loops) {
    for (Stmt& s : body) {
      if (s.kind == StmtKind::store && loops > 0) s.value = without(s.value);
      s.body = without(s.body, loops + (s.kind == StmtKind::loop));
    }
    return body;
  }
  Expr without(const Expr& e) {
    if (e->args.empty() || e->op == ScalarOp::load) return e;
    if (e->type == DType::f32 && uses(e, loop_->var.get()) && is_known(e)) return load(waiting(e));
    std::vector<Expr> args;
    for (const Expr& a : e->args) args.push_back(without(a));
    return with_args(e, std::move(args));
  }

  // Whether the expression can be computed before the loops inside run, even if they never do.
  bool is_known(const Expr& e) const {
    if (e->op == ScalarOp::var && !outside_.count(e->var.get())) return false;
    if (e->op == ScalarOp::load && (e->buffer->space != Space::in || !is_inside(*e))) return false;
    return std::all_of(e->args.begin(), e->args.end(), [&](const Expr& a) { return is_known(a); });
  }

  // Whether the element exists whatever the variables are.
  bool is_inside(const ExprNode& element) const {
    for (size_t axis = 0; axis < element.args.size(); ++axis) {
      const Expr& index = element.args[axis];
      const int64_t size = element.buffer->type.dims[axis];
      if (is_constant(index) && index->integer >= 0 && index->integer < size) continue;
      auto around = index->op == ScalarOp::var ? outside_.find(index->var.get()) : outside_.end();
      if (around == outside_.end()) return false;
      const Stmt& loop = *around->second;
      if (!is_constant(loop.lo) || !is_constant(loop.hi) || loop.lo->integer < 0 || loop.hi->integer > size)
        return false;
    }
    return true;
  }

  const BufferRef& waiting(const Expr& e) {
    for (const Waiting& w : waiting_)
      if (same(w.value, e)) return w.buffer;
    Buffer b{.name = name_ + ".once", .type = {DType::f32, {}}};
    if (!waiting_.empty()) b.name += std::to_string(waiting_.size());
    return waiting_.emplace_back(Waiting{e, std::make_shared<const Buffer>(std::move(b))}).buffer;
  }

  const Kernel& kernel_;
  const std::string& name_;
  std::map<const Var*, const Stmt*> outside_;  // the loops around, the one in question among them
  const Stmt* loop_ = nullptr;
  std::vector<Waiting> waiting_;
  bool found_ = false;
};

}  // namespace

bool hoistable(const Kernel& k, const std::string& i) {
  Hoisting hoisting(k, i);
  hoisting.run();
  return hoisting.found();
}

Kernel hoist(const Kernel& k, const std::string& i) {
  Hoisting hoisting(k, i);
  Kernel result = hoisting.run();
  POCK_CHECK(hoisting.found(), "hoist({}): the loops inside compute nothing from {} alone", i, i);
  return result;
}

}  // namespace pock::loop
