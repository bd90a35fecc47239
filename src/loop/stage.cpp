// A nest that fills a buffer, moved to where the buffer is read: each iteration of a loop there makes for itself what it
// reads.
#include <algorithm>

#include "detail.h"
#include "pock/support/diag.h"

namespace pock::loop {
namespace {

using Stmts = std::vector<Stmt>;
using Ranges = std::unordered_map<const Var*, Range>;

// The places along one axis that an iteration reads: first .. first + size - 1.
struct Part {
  Expr first;
  int64_t size;
};

class Staging {
 public:
  Staging(const Kernel& k, const std::string& loop, const std::string& buffer) : kernel_(k), loop_(loop) {
    find_filler(buffer);
    if (problem_.empty()) result_ = walk(behind_, {}, true);
    if (problem_.empty() && !bytes_) problem_ = "there is no such loop behind";
  }

  const std::string& problem() const { return problem_; }
  int64_t bytes() const { return bytes_; }

  Kernel run() const {
    Kernel k = kernel_;
    std::erase(k.args, z_);
    k.body = before_;
    k.body.insert(k.body.end(), result_.begin(), result_.end());
    return k;
  }

 private:
  void refuse(const std::string& why) {
    if (problem_.empty()) problem_ = why;
  }

  void find_filler(const std::string& buffer) {
    auto arg = std::find_if(kernel_.args.begin(), kernel_.args.end(), [&](const BufferRef& b) {
      return b->space == Space::workspace && b->name == buffer;
    });
    if (arg == kernel_.args.end()) return refuse("there is no such workspace");
    z_ = *arg;
    size_t at = 0;
    while (at < kernel_.body.size() && !stores({kernel_.body[at]}, z_.get())) ++at;
    if (at == kernel_.body.size()) return refuse("nothing fills it");
    filler_ = {kernel_.body[at]};
    before_.assign(kernel_.body.begin(), kernel_.body.begin() + static_cast<ptrdiff_t>(at));
    behind_.assign(kernel_.body.begin() + static_cast<ptrdiff_t>(at) + 1, kernel_.body.end());
    elements_ = elements(filler_);
    const Stmts& body = elements_ ? *elements_->body : filler_;
    if (!elements_ || stores(body, z_.get()) != 1 || stores(behind_, z_.get()) || reads(before_, z_.get()))
      return refuse("no nest in front of its readers stores each element once");
    for (const Stmt& s : body)
      if (s.kind == StmtKind::store && s.buffer != z_ && s.buffer->space != Space::reg)
        return refuse("what fills it stores something else, too");
    if (!reads_inputs(body)) return refuse("what fills it reads what the kernel stores");
    find_axes(body);
  }

  // Which of the nest's loops runs along each axis.
  void find_axes(const Stmts& body) {
    const auto store = std::find_if(
        body.begin(), body.end(), [&](const Stmt& s) { return s.kind == StmtKind::store && s.buffer == z_; });
    const Stmt* loop = &filler_[0];
    for (const VarRef& v : elements_->vars) {
      const auto at = std::find_if(store->index.begin(), store->index.end(),
                                   [&](const Expr& e) { return e->op == ScalarOp::var && e->var == v; });
      if (at == store->index.end() || trips(*loop) != z_->type.dims[at - store->index.begin()])
        return refuse("what fills it does not go along its axes");
      axes_.push_back(at - store->index.begin());
      if (!loop->body.empty()) loop = &loop->body[0];
    }
    for (size_t axis = 0; axis < store->index.size(); ++axis)
      if (z_->type.dims[axis] > 1 && std::count(axes_.begin(), axes_.end(), axis) == 0)
        return refuse("what fills it does not go along its axes");
  }

  static bool reads_inputs(const Expr& e) {
    if (e->op == ScalarOp::load && e->buffer->space != Space::in && e->buffer->space != Space::reg)
      return false;
    return std::all_of(e->args.begin(), e->args.end(), [](const Expr& a) { return reads_inputs(a); });
  }
  static bool reads_inputs(const Stmts& body) {
    return std::all_of(body.begin(), body.end(),
                       [](const Stmt& s) { return !s.value.get() || reads_inputs(s.value); });
  }

  // `plain`: no loop around runs over lanes or threads.
  Stmts walk(const Stmts& body, Ranges around, bool plain) {
    Stmts result;
    for (Stmt s : body) {
      each_load(s, z_.get(), [&](const auto&) { refuse("it is read outside of that loop"); });
      const Ranges inside = within(s, around);
      const bool is_plain = plain && s.mode != LoopMode::vector && s.mode != LoopMode::thread;
      if (s.kind == StmtKind::loop && s.var->name == loop_ && reads(s.body, z_.get())) {
        if (!is_plain) refuse("lanes and threads share what they read");
        s.body = staged(s.body, inside);
      } else {
        s.body = walk(s.body, inside, is_plain);
      }
      result.push_back(std::move(s));
    }
    return result;
  }

  static Range range(const Expr& e, const Ranges& known) {
    return range_of(e, [&](const Var& v) {
      auto found = known.find(&v);
      return found == known.end() ? Range{} : found->second;
    });
  }
  static Ranges within(const Stmt& s, Ranges around) {
    if (s.kind == StmtKind::loop) {
      const Range hi = range(s.hi, around);
      around[s.var.get()] = {range(s.lo, around).lo, hi.known_hi() ? hi.hi - 1 : hi.hi};
    }
    return around;
  }

  Stmts staged(const Stmts& body, const Ranges& around) {
    std::vector<std::pair<Expr, Range>>
        parts;  // of each axis: what moves with the loops around, and what inside of them
    collect(body, around, around, parts);
    if (!problem_.empty()) return body;
    std::vector<Part> read;
    auto small = std::make_shared<Buffer>(*z_);
    small->space = Space::reg;
    for (size_t axis = 0; axis < parts.size(); ++axis) {
      const auto& [base, inner] = parts[axis];
      const int64_t all = z_->type.dims[axis], size = inner.hi - inner.lo + 1;
      read.push_back(size < all ? Part{base + Expr(inner.lo), size} : Part{Expr(0), all});
      small->type.dims[axis] = read.back().size;
    }
    bytes_ = std::max(bytes_, small->type.bytes());
    Stmts result = {{.kind = StmtKind::reg, .buffer = small}};
    result.push_back(filled(read, small, around));
    for (const Stmt& s : redirected(body, read, small)) result.push_back(s);
    return result;
  }

  void collect(const Stmts& body, const Ranges& around, const Ranges& known,
               std::vector<std::pair<Expr, Range>>& parts) {
    for (const Stmt& s : body) {
      each_load(s, z_.get(), [&](const std::vector<Expr>& index) { add(index, around, known, parts); });
      collect(s.body, around, within(s, known), parts);
    }
  }

  void add(const std::vector<Expr>& index, const Ranges& around, const Ranges& known,
           std::vector<std::pair<Expr, Range>>& parts) {
    const bool first = parts.empty();
    for (size_t axis = 0; axis < index.size(); ++axis) {
      const Linear all = linear(index[axis]);
      Linear outer, inner;
      inner.constant = all.constant;
      for (const auto& term : all.terms)
        (moves_with(term.first, around) ? outer : inner).terms.push_back(term);
      const Expr base = from_linear(outer);
      const Range r = range(from_linear(inner), known);
      if (!r.known()) return refuse("what is read has no known bounds");
      if (first) {
        parts.emplace_back(base, r);
        continue;
      }
      auto& [there, span] = parts[axis];
      if (!same(there, base)) return refuse("it is read at places apart");
      span = {std::min(span.lo, r.lo), std::max(span.hi, r.hi)};
    }
  }
  static bool moves_with(const Expr& e, const Ranges& around) {
    if (e->op == ScalarOp::load) return false;
    if (e->op == ScalarOp::var) return around.count(e->var.get()) > 0;
    return std::all_of(e->args.begin(), e->args.end(), [&](const Expr& a) { return moves_with(a, around); });
  }

  // The nest, for what is read of the buffer as far as there is such an element.
  Stmt filled(const std::vector<Part>& read, const BufferRef& small, const Ranges& around) const {
    Replace r;
    std::vector<Stmt> loops;
    const Stmt* from = &filler_[0];
    for (size_t i = 0; i < axes_.size(); ++i) {
      const Part& part = read[axes_[i]];
      Stmt loop = *from;
      loop.var = std::make_shared<const Var>(*from->var);
      const Range first = range(part.first, around);
      const int64_t all = z_->type.dims[axes_[i]];
      if (!(first.lo >= 0)) loop.lo = max(Expr(0), -part.first);
      loop.hi = part.size;
      if (!(first.known_hi() && first.hi + part.size <= all))
        loop.hi = min(Expr(part.size), all - part.first);
      r.vars[from->var.get()] = part.first + var(loop.var);
      if (!from->body.empty()) from = &from->body[0];
      loops.push_back(std::move(loop));
    }
    Stmts body = copy(*elements_->body, r);
    for (Stmt& s : body) {
      if (s.kind != StmtKind::store || s.buffer != z_) continue;
      s.buffer = small;
      for (size_t axis = 0; axis < s.index.size(); ++axis) s.index[axis] = s.index[axis] - read[axis].first;
    }
    for (size_t i = loops.size(); i-- > 0;) {
      loops[i].body = std::move(body);
      body = {std::move(loops[i])};
    }
    return body[0];
  }

  Stmts redirected(const Stmts& body, const std::vector<Part>& read, const BufferRef& small) const {
    Rewriter rewrite([&](const Expr& e) {
      if (e->op != ScalarOp::load || e->buffer != z_) return e;
      std::vector<Expr> index = e->args;
      for (size_t axis = 0; axis < index.size(); ++axis) index[axis] = index[axis] - read[axis].first;
      return load(small, std::move(index));
    });
    Stmts result;
    for (Stmt s : body) {
      rewrite_own(s, rewrite);
      s.body = redirected(s.body, read, small);
      result.push_back(std::move(s));
    }
    return result;
  }

  const Kernel& kernel_;
  const std::string& loop_;
  std::string problem_;
  BufferRef z_;
  Stmts filler_, before_, behind_, result_;
  std::optional<Elements> elements_;
  std::vector<size_t> axes_;  // of the buffer, for each loop of the nest
  int64_t bytes_ = 0;
};

// Whether loads of the buffer have along each axis a variable that runs over all of it. `summed`: how many elements those
// of `for` loops run over.
class Rows {
 public:
  explicit Rows(const BufferRef& b) : buffer_(b) {}

  bool look(const Stmts& body) {
    return std::all_of(body.begin(), body.end(), [&](const Stmt& s) {
      bool good = true;
      each_load(s, buffer_.get(), [&](const std::vector<Expr>& index) { good &= is_row(index); });
      if (s.kind == StmtKind::loop) loops_[s.var.get()] = &s;
      return good && look(s.body);
    });
  }
  int64_t summed = 1;

 private:
  bool is_row(const std::vector<Expr>& index) {
    summed = 1;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      const int64_t length = buffer_->type.dims[axis];
      if (length == 1) continue;
      const auto found =
          index[axis]->op == ScalarOp::var ? loops_.find(index[axis]->var.get()) : loops_.end();
      if (found == loops_.end()) return false;
      const Stmt& loop = *found->second;
      if (!is_constant(loop.lo, 0) || !is_constant(loop.hi, length) || loop.step != 1) return false;
      if (!loop.independent) summed *= length;
    }
    return true;
  }

  const BufferRef& buffer_;
  std::unordered_map<const Var*, const Stmt*> loops_;
};

}  // namespace

int64_t row_elements(const Kernel& k, const BufferRef& b) {
  Rows rows(b);
  return rows.look(k.body) ? rows.summed : 0;
}

int64_t staged_bytes(const Kernel& k, const std::string& i, const std::string& z) {
  const Staging staging(k, i, z);
  return staging.problem().empty() ? staging.bytes() : -1;
}

Kernel stage(const Kernel& k, const std::string& i, const std::string& z) {
  const Staging staging(k, i, z);
  POCK_CHECK(staging.problem().empty(), "stage({},{}): {}", i, z, staging.problem());
  return staging.run();
}

}  // namespace pock::loop
