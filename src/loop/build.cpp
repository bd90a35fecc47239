#include "pock/loop/build.h"

#include <algorithm>

#include "pock/support/diag.h"

namespace pock::loop {

std::vector<Stmt>& KernelBuilder::here() { return open_.empty() ? kernel_.body : *open_.back(); }

std::string KernelBuilder::unique(const std::string& name) {
  std::string result = name;
  for (int n = 1; std::find(scope_.begin(), scope_.end(), result) != scope_.end(); ++n)
    result = fmt::format("{}_{}", name, n);
  scope_.push_back(result);
  return result;
}

// The body's own statements never move while it is open: its parent grows only after it is closed.
void KernelBuilder::nested(Stmt s, const std::function<void()>& body) {
  size_t names = scope_.size();
  here().push_back(std::move(s));
  open_.push_back(&here().back().body);
  body();
  open_.pop_back();
  scope_.resize(names);
}

BufferRef KernelBuilder::arg(std::string name, Type type, Space space) {
  POCK_CHECK(space < Space::reg, "argument {} in space {}", name, to_string(space));
  auto buffer = std::make_shared<const Buffer>(Buffer{unique(name), std::move(type), space});
  kernel_.args.push_back(buffer);
  return buffer;
}

static Stmt loop_stmt(Expr lo, Expr hi, int64_t step, bool independent) {
  POCK_CHECK(lo->type == DType::i64 && hi->type == DType::i64 && step > 0, "bounds of a loop");
  Stmt s{.kind = StmtKind::loop};
  s.lo = std::move(lo);
  s.hi = std::move(hi);
  s.step = step;
  s.independent = independent;
  return s;
}

void KernelBuilder::each(const std::string& name, Expr extent, const Body& body) {
  Stmt s = loop_stmt(0, std::move(extent), 1, true);
  size_t names = scope_.size();
  VarRef v = s.var = std::make_shared<const Var>(Var{unique(name)});
  nested(std::move(s), [&] { body(var(v)); });
  scope_.resize(names);
}

void KernelBuilder::each(const Dims& dims, const BodyN& body) {
  std::vector<Expr> index;
  std::function<void()> next = [&] {
    if (index.size() == dims.size()) return body(index);
    size_t axis = index.size();
    each(fmt::format("i{}", axis), dims[axis], [&](Expr i) {
      index.push_back(std::move(i));
      next();
      index.pop_back();
    });
  };
  next();
}

void KernelBuilder::loop(const std::string& name, Expr lo, Expr hi, const Body& body, int64_t step) {
  Stmt s = loop_stmt(std::move(lo), std::move(hi), step, false);
  size_t names = scope_.size();
  VarRef v = s.var = std::make_shared<const Var>(Var{unique(name)});
  nested(std::move(s), [&] { body(var(v)); });
  scope_.resize(names);
}

void KernelBuilder::when(Expr condition, const std::function<void()>& body) {
  POCK_CHECK(condition->type == DType::mask, "condition of type {}", to_string(condition->type));
  Stmt s{.kind = StmtKind::when};
  s.value = std::move(condition);
  nested(std::move(s), body);
}

BufferRef KernelBuilder::reg(const std::string& name, DType type, Dims dims) {
  Stmt s{.kind = StmtKind::reg};
  BufferRef buffer =
      std::make_shared<const Buffer>(Buffer{unique(name), {type, std::move(dims)}, Space::reg});
  s.buffer = buffer;
  here().push_back(std::move(s));
  return buffer;
}

BufferRef KernelBuilder::reg(const std::string& name, Expr initial) {
  BufferRef buffer = reg(name, initial->type);
  set(buffer, std::move(initial));
  return buffer;
}

void KernelBuilder::store(const BufferRef& buffer, std::vector<Expr> index, Expr value) {
  POCK_CHECK(static_cast<int>(index.size()) == buffer->type.rank(), "{} indices for {}: {}", index.size(),
             buffer->name, to_string(buffer->type));
  POCK_CHECK(value->type == buffer->type.dtype, "{} stored into {}: {}", to_string(value->type), buffer->name,
             to_string(buffer->type));
  Stmt s{.kind = StmtKind::store};
  s.buffer = buffer;
  s.index = std::move(index);
  s.value = std::move(value);
  here().push_back(std::move(s));
}

}  // namespace pock::loop
