// Two kernels as one: what one stores and the other loads goes through a register.
#include <algorithm>

#include "detail.h"

namespace pock::loop {
namespace {

// The index along the axes that have more than one element.
struct Place {
  Place(const Buffer& b, const std::vector<Expr>& index) {
    for (size_t axis = 0; axis < index.size(); ++axis) {
      if (b.type.dims[axis] == 1) continue;
      at.push_back(index[axis]);
      lengths.push_back(b.type.dims[axis]);
    }
  }
  bool operator==(const Place& other) const {
    return lengths == other.lengths && std::equal(at.begin(), at.end(), other.at.begin(), same);
  }
  std::vector<Expr> at;
  Dims lengths;
};

// Where all accesses of a body without loops to the buffer are; none where there are several places.
std::optional<Place> only_place(const Elements& e, const BufferRef& b) {
  std::vector<Place> found;
  for (const Stmt& s : *e.body) {
    each_load(s, b.get(), [&](const std::vector<Expr>& index) { found.emplace_back(*b, index); });
    if (s.kind == StmtKind::store && s.buffer == b) found.emplace_back(*b, s.index);
  }
  if (found.empty() ||
      std::any_of(found.begin(), found.end(), [&](const Place& p) { return !(p == found[0]); }))
    return {};
  return found[0];
}

// The variables that make the place of an element the other one; each variable must be one of its axes.
std::optional<Replace> moved(const Elements& e, const Place& from, const Place& to) {
  if (from.lengths != to.lengths || from.at.size() != e.vars.size()) return {};
  Replace r;
  for (size_t i = 0; i < from.at.size(); ++i) {
    const Expr& at = from.at[i];
    if (at->op != ScalarOp::var || std::find(e.vars.begin(), e.vars.end(), at->var) == e.vars.end() ||
        !r.vars.emplace(at->var.get(), to.at[i]).second)
      return {};
  }
  return r;
}

// The body that stores the buffer, in `each` loops alone.
std::vector<Stmt>* storing_body(std::vector<Stmt>& body, const Buffer* b) {
  for (Stmt& s : body) {
    if (s.kind == StmtKind::store && s.buffer.get() == b) return &body;
    if (s.kind != StmtKind::loop || !s.independent) continue;
    if (std::vector<Stmt>* inside = storing_body(s.body, b)) return inside;
  }
  return nullptr;
}

Kernel with_args_of(Kernel k, const Kernel& first, const Kernel& second) {
  k.name = first.name + "_" + second.name;
  k.args = first.args;
  k.args.insert(k.args.end(), second.args.begin(), second.args.end());
  return k;
}

// Runs the elements' body before what loads them.
class Prepending {
 public:
  Prepending(const Elements& e, const Place& stored, const BufferRef& loaded)
      : elements_(e), stored_(stored), loaded_(loaded) {}

  bool run(std::vector<Stmt>& body) {
    std::vector<Place> there;
    for (size_t i = 0; i < body.size(); ++i) {
      std::vector<Place> wanted;
      each_load(body[i], loaded_.get(),
                [&](const std::vector<Expr>& index) { wanted.emplace_back(*loaded_, index); });
      if (!wanted.empty() && body[i].kind == StmtKind::loop) return false;
      for (const Place& p : wanted) {
        if (std::find(there.begin(), there.end(), p) != there.end()) continue;
        const std::optional<Replace> r = moved(elements_, stored_, p);
        if (!r || std::any_of(p.at.begin(), p.at.end(), has_load)) return false;
        std::vector<Stmt> made = copy(*elements_.body, *r);
        body.insert(body.begin() + static_cast<ptrdiff_t>(i), made.begin(), made.end());
        i += made.size();
        there.push_back(p);
      }
      if (!run(body[i].body)) return false;
    }
    return true;
  }

 private:
  const Elements& elements_;
  const Place& stored_;
  const BufferRef& loaded_;
};

class Forwarding {
 public:
  Forwarding(const BufferRef& stored, const BufferRef& loaded) : stored_(stored), loaded_(loaded) {}

  void run(std::vector<Stmt>& body) {
    for (size_t i = 0; i < body.size(); ++i) {
      run(body[i].body);
      if (body[i].kind != StmtKind::store || body[i].buffer != stored_) continue;
      const Place place(*stored_, body[i].index);
      const Expr value = kept(body, &i);
      for (size_t k = i + 1; k < body.size(); ++k) replace_loads(body[k], place, value);
    }
  }

 private:
  // A register that holds what statement *i stores.
  Expr kept(std::vector<Stmt>& body, size_t* i) {
    const Expr value = body[*i].value;
    const bool stays =
        value->op == ScalarOp::load && value->buffer->space == Space::reg && value->args.empty() &&
        stores({body.begin() + static_cast<ptrdiff_t>(*i), body.end()}, value->buffer.get()) == 0;
    if (stays) return value;
    auto reg = std::make_shared<const Buffer>(Buffer{"kept", {value->type, {}}, Space::reg});
    body[*i].value = load(reg);
    Stmt declare{.kind = StmtKind::reg, .buffer = reg},
        set{.kind = StmtKind::store, .buffer = reg, .value = value};
    body.insert(body.begin() + static_cast<ptrdiff_t>(*i), {std::move(declare), std::move(set)});
    *i += 2;
    return load(reg);
  }

  void replace_loads(Stmt& s, const Place& place, const Expr& value) const {
    Rewriter rewrite([&](const Expr& e) {
      const bool here = e->op == ScalarOp::load && e->buffer == loaded_ && Place(*loaded_, e->args) == place;
      return here ? value : e;
    });
    rewrite_own(s, rewrite);
    for (Stmt& inner : s.body) replace_loads(inner, place, value);
  }

  const BufferRef &stored_, &loaded_;
};

// The elements' nest, with what goes to `stored` in `z`, and with loops of its own names; none where the axes differ.
std::vector<Stmt> filling(const std::vector<Stmt>& nest, const Elements& e, const BufferRef& stored,
                          const BufferRef& z) {
  Dims moving = z->type.dims;
  std::erase(moving, 1);
  Replace r;
  std::vector<Stmt> body = nest;
  std::vector<Stmt>* inside = &body;
  for (size_t i = 0; i < e.vars.size(); ++i) {
    Stmt& loop = (*inside)[0];
    loop.var = std::make_shared<const Var>(Var{"z." + loop.var->name});
    r.vars[e.vars[i].get()] = var(loop.var);
    inside = &loop.body;
  }
  *inside = copy(*inside, r);
  for (Stmt& s : *inside) {
    if (s.kind != StmtKind::store || s.buffer != stored) continue;
    const Place at(*stored, s.index);
    if (at.lengths != moving) return {};
    s.buffer = z;
    s.index.clear();
    for (size_t axis = 0, next = 0; axis < z->type.dims.size(); ++axis)
      s.index.push_back(z->type.dims[axis] == 1 ? Expr(0) : at.at[next++]);
  }
  return body;
}

void drop_stores(std::vector<Stmt>& body, const Buffer* b) {
  std::erase_if(body, [&](const Stmt& s) { return s.kind == StmtKind::store && s.buffer.get() == b; });
  for (Stmt& s : body) drop_stores(s.body, b);
}

}  // namespace

std::optional<Elements> elements(const std::vector<Stmt>& nest) {
  Elements e;
  const std::vector<Stmt>* body = &nest;
  while (body->size() == 1 && (*body)[0].kind == StmtKind::loop) {
    const Stmt& s = (*body)[0];
    if (!s.independent || s.step != 1 || !is_constant(s.lo, 0) || trips(s) < 1) return {};
    e.vars.push_back(s.var);
    body = &s.body;
  }
  if (std::any_of(body->begin(), body->end(),
                  [](const Stmt& s) { return s.kind != StmtKind::reg && s.kind != StmtKind::store; }))
    return {};
  e.body = body;
  return e;
}

std::optional<Kernel> append(const Kernel& first, const BufferRef& stored, const Kernel& second,
                             const BufferRef& with) {
  const std::optional<Elements> e = elements(second.body);
  const std::optional<Place> from = e ? only_place(*e, with) : std::nullopt;
  Kernel k = with_args_of(first, first, second);
  std::vector<Stmt>* body = storing_body(repeated(k) ? k.body[0].body : k.body, stored.get());
  if (!from || !body || stores(k.body, stored.get()) != 1) return {};
  const auto store = std::find_if(body->begin(), body->end(), [&](const Stmt& s) {
    return s.kind == StmtKind::store && s.buffer == stored;
  });
  const std::optional<Replace> r = moved(*e, *from, Place(*stored, store->index));
  if (!r) return {};
  std::vector<Stmt> more = copy(*e->body, *r);
  body->insert(body->end(), more.begin(), more.end());
  return k;
}

std::optional<Kernel> prepend(const Kernel& first, const BufferRef& stored, const Kernel& second,
                              const BufferRef& loaded) {
  const std::optional<Elements> e = elements(first.body);
  const std::optional<Place> at = e ? only_place(*e, stored) : std::nullopt;
  Kernel k = with_args_of(second, first, second);
  if (!at || !Prepending(*e, *at, loaded).run(k.body)) return {};
  return k;
}

std::optional<Kernel> in_front(const Kernel& first, const BufferRef& stored, const Kernel& second,
                               const BufferRef& loaded) {
  const std::optional<Elements> e = elements(first.body);
  if (!e || !only_place(*e, stored)) return {};
  auto z = std::make_shared<Buffer>(*loaded);
  z->space = Space::workspace;
  Kernel k = with_args_of(second, first, second);
  std::erase(k.args, stored);
  std::erase(k.args, loaded);
  k.args.push_back(z);
  std::vector<Stmt> fill = filling(first.body, *e, stored, z);
  if (fill.empty()) return {};
  k.body = copy(second.body, {{}, {{loaded.get(), z}}});
  k.body.insert(k.body.begin(), fill.begin(), fill.end());
  return k;
}

std::optional<Kernel> forward(Kernel k, const BufferRef& stored, const BufferRef& loaded) {
  Forwarding(stored, loaded).run(k.body);
  if (reads(k.body, loaded.get())) return {};
  std::erase(k.args, loaded);
  return k;
}

Kernel drop(Kernel k, const BufferRef& stored) {
  drop_stores(k.body, stored.get());
  std::erase(k.args, stored);
  return k;
}

}  // namespace pock::loop
