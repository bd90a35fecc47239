// Two loops and the axes they run along as one: where every access inside uses the variables side by side.
#include <algorithm>
#include <map>

#include "detail.h"
#include "pock/support/diag.h"

namespace pock::loop {
namespace {

bool is_var(const Expr& e, const VarRef& v) { return e->op == ScalarOp::var && e->var == v; }

// Finds out at which axis of each buffer the pair stands.
class Pairs {
 public:
  Pairs(const Stmt& outer) : i_(outer.var), j_(outer.body[0].var), length_(trips(outer.body[0])) {
    body(outer.body[0].body);
  }
  bool good() const { return good_ && !at_.empty(); }
  // Whether no buffer has another axis there.
  bool fits(const std::map<const Buffer*, size_t>& there) const {
    return std::all_of(at_.begin(), at_.end(), [&](const auto& pair) {
      const auto other = there.find(pair.first);
      return other == there.end() || other->second == pair.second;
    });
  }
  const std::map<const Buffer*, size_t>& at() const { return at_; }

 private:
  void body(const std::vector<Stmt>& stmts) {
    for (const Stmt& s : stmts) {
      for (const Expr* e : {&s.lo, &s.hi, &s.value})
        if (e->get()) expr(*e);
      if (s.kind == StmtKind::store) access(s.buffer, s.index);
      body(s.body);
    }
  }
  void expr(const Expr& e) {
    if (e->op == ScalarOp::var && (e->var == i_ || e->var == j_)) good_ = false;
    if (e->op == ScalarOp::load) return access(e->buffer, e->args);
    for (const Expr& a : e->args) expr(a);
  }
  void access(const BufferRef& b, const std::vector<Expr>& index) {
    for (size_t axis = 0; axis < index.size(); ++axis) {
      const bool pair = axis + 1 < index.size() && is_var(index[axis], i_) && is_var(index[axis + 1], j_);
      if (!pair) {
        expr(index[axis]);
        continue;
      }
      const bool memory = b->space < Space::reg && b->type.dtype != DType::mask;
      auto [place, fresh] = at_.emplace(b.get(), axis);
      good_ &= memory && b->type.dims[axis + 1] == length_ && place->second == axis;
      ++axis;
    }
  }

  const VarRef i_, j_;
  const int64_t length_;
  bool good_ = true;
  std::map<const Buffer*, size_t> at_;
};

bool counts_up(const Stmt& s) { return s.independent && s.step == 1 && is_constant(s.lo, 0) && trips(s) > 0; }

const Stmt* find(const std::vector<Stmt>& body, const std::string& i, const std::string& j) {
  for (const Stmt& s : body) {
    if (s.kind == StmtKind::loop && s.var->name == i && s.body.size() == 1 &&
        s.body[0].kind == StmtKind::loop && s.body[0].var->name == j && counts_up(s) && counts_up(s.body[0]))
      return &s;
    if (const Stmt* inside = find(s.body, i, j)) return inside;
  }
  return nullptr;
}

// Among the loops around everything in a statement, the pair that runs along an axis of a workspace and the next one.
const Stmt* filling_loops(const Stmt& nest, const std::map<const Buffer*, size_t>& at) {
  for (const Stmt* outer = &nest; outer->kind == StmtKind::loop && outer->body.size() == 1;
       outer = &outer->body[0]) {
    const Stmt& inner = outer->body[0];
    if (inner.kind != StmtKind::loop || !counts_up(*outer) || !counts_up(inner)) continue;
    const Pairs own(*outer);
    const bool fills = std::any_of(own.at().begin(), own.at().end(), [&](const auto& pair) {
      return pair.first->space == Space::workspace && at.count(pair.first);
    });
    if (fills && own.good() && own.fits(at)) return outer;
  }
  return nullptr;
}

// Whether the first nest has no loops inside and stores what is no workspace.
bool stores_elements(const std::vector<Stmt>& body) {
  const std::vector<Stmt> first{body[0]};
  const std::optional<Elements> e = elements(first);
  return e && std::any_of(e->body->begin(), e->body->end(), [](const Stmt& s) {
           return s.kind == StmtKind::store &&
                  (s.buffer->space == Space::out || s.buffer->space == Space::inout);
         });
}

class Merging {
 public:
  Merging(const Kernel& k, const Stmt& outer, const Pairs& pairs) : kernel_(k), at_(pairs.at()) {
    add(outer);
    for (const Stmt& nest : k.body)
      if (const Stmt* filling = filling_loops(nest, at_); filling && filling != &outer) {
        const Pairs own(*filling);
        add(*filling);
        at_.insert(own.at().begin(), own.at().end());
      }
    for (const auto& [buffer, axis] : at_) {
      auto merged = std::make_shared<Buffer>(*buffer);
      merged->type.dims[axis] *= merged->type.dims[axis + 1];
      merged->type.dims.erase(merged->type.dims.begin() + static_cast<ptrdiff_t>(axis) + 1);
      buffers_[buffer] = merged;
    }
  }

  Kernel run() {
    Kernel result = kernel_;
    for (BufferRef& b : result.args) b = replaced(b);
    result.body = body(kernel_.body);
    return result;
  }

 private:
  // A pair of loops, and what counts in the place of both.
  struct Site {
    const Stmt* outer;
    VarRef both;
  };
  void add(const Stmt& outer) { sites_.push_back({&outer, std::make_shared<const Var>(*outer.var)}); }

  BufferRef replaced(const BufferRef& b) const {
    auto found = buffers_.find(b.get());
    return found == buffers_.end() ? b : found->second;
  }

  std::vector<Expr> index(const Buffer* b, std::vector<Expr> index) const {
    auto found = at_.find(b);
    if (found == at_.end()) return index;
    const size_t axis = found->second;
    const auto site = std::find_if(sites_.begin(), sites_.end(), [&](const Site& s) {
      return is_var(index[axis], s.outer->var) && is_var(index[axis + 1], s.outer->body[0].var);
    });
    index[axis] =
        site != sites_.end() ? var(site->both) : index[axis] * Expr(b->type.dims[axis + 1]) + index[axis + 1];
    index.erase(index.begin() + static_cast<ptrdiff_t>(axis) + 1);
    return index;
  }

  std::vector<Stmt> body(const std::vector<Stmt>& stmts) {
    std::vector<Stmt> result;
    for (const Stmt& from : stmts) {
      Stmt s = from;
      const auto site =
          std::find_if(sites_.begin(), sites_.end(), [&](const Site& at) { return at.outer == &from; });
      if (site != sites_.end()) {
        s.var = site->both;
        s.hi = trips(from) * trips(from.body[0]);
        s.body = body(from.body[0].body);
      } else {
        rewrite_own(s, rewrite_);
        if (s.kind == StmtKind::store) {
          s.index = index(s.buffer.get(), s.index);
          s.buffer = replaced(s.buffer);
        }
        s.body = body(from.body);
      }
      result.push_back(std::move(s));
    }
    return result;
  }

  const Kernel& kernel_;
  std::map<const Buffer*, size_t> at_;
  std::vector<Site> sites_;
  std::map<const Buffer*, BufferRef> buffers_;
  Rewriter rewrite_{[this](const Expr& e) {
    return e->op == ScalarOp::load ? load(replaced(e->buffer), index(e->buffer.get(), e->args)) : e;
  }};
};

}  // namespace

bool mergeable(const Kernel& k, const std::string& i, const std::string& j) {
  const Stmt* outer = find(k.body, i, j);
  return outer && Pairs(*outer).good();
}

Kernel merge(const Kernel& k, const std::string& i, const std::string& j) {
  const Stmt* outer = find(k.body, i, j);
  POCK_CHECK(outer, "merge({},{}): no such loops, one directly inside the other", i, j);
  Pairs pairs(*outer);
  POCK_CHECK(pairs.good(), "merge({},{}): not all accesses have them side by side", i, j);
  return Merging(k, *outer, pairs).run();
}

Kernel merged(Kernel k) {
  for (bool again = true; again;) {
    again = false;
    if (k.body.size() != 1 && !stores_elements(k.body)) return k;
    for (const Stmt* outer = &k.body[0]; outer->kind == StmtKind::loop && outer->body.size() == 1;
         outer = &outer->body[0]) {
      if (outer->body[0].kind != StmtKind::loop) break;
      const std::string i = outer->var->name, j = outer->body[0].var->name;
      again = mergeable(k, i, j);
      if (again) {
        k = merge(k, i, j);
        break;
      }
    }
  }
  return k;
}

}  // namespace pock::loop
