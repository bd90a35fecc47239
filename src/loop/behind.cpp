// A nest behind the one whose elements it sums up, in parts: each part of the sums as soon as what it reads is made.
#include <algorithm>
#include <numeric>

#include "detail.h"
#include "pock/support/diag.h"

namespace pock::loop {
namespace {

using Stmts = std::vector<Stmt>;

bool counts_up(const Stmt& s) {
  return s.kind == StmtKind::loop && s.step == 1 && is_constant(s.lo, 0) && trips(s) > 0;
}

bool uses_any(const Expr& e, const std::vector<const Buffer*>& buffers) {
  return std::find(buffers.begin(), buffers.end(), e->buffer.get()) != buffers.end() ||
         std::any_of(e->args.begin(), e->args.end(), [&](const Expr& a) { return uses_any(a, buffers); });
}
bool uses_any(const Stmt& s, const std::vector<const Buffer*>& buffers) {
  for (const Expr* e : {&s.lo, &s.hi, &s.value})
    if (e->get() && uses_any(*e, buffers)) return true;
  return (s.kind == StmtKind::store &&
          std::find(buffers.begin(), buffers.end(), s.buffer.get()) != buffers.end()) ||
         std::any_of(s.index.begin(), s.index.end(), [&](const Expr& e) { return uses_any(e, buffers); }) ||
         std::any_of(s.body.begin(), s.body.end(), [&](const Stmt& b) { return uses_any(b, buffers); });
}

void stored_in(const Stmts& body, std::vector<BufferRef>& found) {
  for (const Stmt& s : body) {
    if (s.kind == StmtKind::store && std::find(found.begin(), found.end(), s.buffer) == found.end())
      found.push_back(s.buffer);
    stored_in(s.body, found);
  }
}

size_t size(const Stmts& body) {
  return std::accumulate(body.begin(), body.end(), body.size(),
                         [](size_t n, const Stmt& s) { return n + size(s.body); });
}

// Registers that nothing reads go, with what only they read.
void drop_unread(Stmts& body, const Stmts& all) {
  for (Stmt& s : body) drop_unread(s.body, all);
  std::erase_if(body, [&](const Stmt& s) {
    const bool of_register =
        s.kind == StmtKind::reg || (s.kind == StmtKind::store && s.buffer->space == Space::reg);
    return of_register && !reads(all, s.buffer.get());
  });
}
void drop_unread(Stmts& body) {
  for (size_t before = 0; before != size(body);) {
    before = size(body);
    drop_unread(body, Stmts(body));
  }
}

// The axes that have more than one element.
Dims moving(Dims dims) {
  std::erase(dims, 1);
  return dims;
}

// Loads elements from `stored` that were loaded from `loaded`.
void redirect(Stmts& body, const BufferRef& stored, const BufferRef& loaded) {
  Rewriter rewrite([&](const Expr& e) {
    if (e->op != ScalarOp::load || e->buffer != loaded) return e;
    std::vector<Expr> at;
    for (size_t axis = 0; axis < e->args.size(); ++axis)
      if (loaded->type.dims[axis] > 1) at.push_back(e->args[axis]);
    std::vector<Expr> index;
    for (size_t axis = 0, next = 0; axis < stored->type.dims.size(); ++axis)
      index.push_back(stored->type.dims[axis] > 1 ? at[next++] : Expr(0));
    return load(stored, std::move(index));
  });
  for (Stmt& s : body) {
    rewrite_own(s, rewrite);
    redirect(s.body, stored, loaded);
  }
}

// Splits what is around a `for` loop in two nests: what each of its iterations finds out by itself, and what they hand on.
class Parting {
 public:
  Parting(const Kernel& k, const BufferRef& read) {
    if (k.body.size() != 1) return;
    const Stmts* body = &k.body;
    while (body->size() == 1 && (*body)[0].independent && counts_up((*body)[0])) {
      around_.push_back(&(*body)[0]);
      body = &(*body)[0].body;
    }
    const auto sum =
        std::find_if(body->begin(), body->end(), [](const Stmt& s) { return s.kind == StmtKind::loop; });
    if (around_.empty() || sum == body->end() || sum->independent || !counts_up(*sum) || trips(*sum) < 2 ||
        std::count_if(body->begin(), body->end(), [](const Stmt& s) { return s.kind == StmtKind::loop; }) > 1)
      return;
    for (const Stmt& s : *body)
      if (&s != &*sum && reads({s}, read.get())) return;
    // Both nests do what stands in front.
    if (std::any_of(body->begin(), sum, [](const Stmt& s) {
          return s.kind == StmtKind::when || (s.kind == StmtKind::store && s.buffer->space != Space::reg);
        }))
      return;
    sum_ = &*sum;
    before_.assign(body->begin(), sum);
    behind_.assign(sum + 1, body->end());
    part();
  }

  bool good() const { return good_; }

  // The first nest, and then the second.
  Stmts run(std::vector<BufferRef>& args) const {
    std::vector<BufferRef> spaces;
    for (const BufferRef& b : crossing_) {
      auto space = std::make_shared<Buffer>(*b);
      space->space = Space::workspace;
      space->type.dims = {trips(*sum_)};
      for (const Stmt* s : around_) space->type.dims.push_back(trips(*s));
      spaces.push_back(space);
    }
    args.insert(args.end(), spaces.begin(), spaces.end());
    Stmts early = before_, late = before_, handed = late_;
    early.insert(early.end(), early_.begin(), early_.end());
    for (size_t i = 0; i < crossing_.size(); ++i) {
      early.push_back(
          {.kind = StmtKind::store, .buffer = spaces[i], .index = place(), .value = load(crossing_[i])});
      Rewriter from_space([&](const Expr& e) {
        return e->op == ScalarOp::load && e->buffer == crossing_[i] ? load(spaces[i], place()) : e;
      });
      for (Stmt& s : handed) rewrite_own(s, from_space);
    }
    Stmt sum = *sum_;
    sum.body = handed;
    late.push_back(sum);
    late.insert(late.end(), behind_.begin(), behind_.end());
    // The loop of the parts goes outermost: their bounds do not depend on the loops around.
    Stmt parts = *sum_;
    parts.independent = true;
    parts.body = nest(early);
    Stmts result = renamed({parts}, "p."), second = renamed(nest(late), "q.");
    drop_unread(result);
    drop_unread(second);
    result.insert(result.end(), second.begin(), second.end());
    return result;
  }

 private:
  void part() {
    std::vector<BufferRef> stored;
    stored_in(sum_->body, stored);
    std::vector<const Buffer*> late, found_out;  // registers
    for (const BufferRef& b : stored) {
      const auto is_declared = [&](const Stmt& s) { return s.kind == StmtKind::reg && s.buffer == b; };
      if (std::any_of(before_.begin(), before_.end(), is_declared)) late.push_back(b.get());
      if (b->space != Space::reg) return;
    }
    for (const Stmt& s : sum_->body) {
      if (s.kind == StmtKind::reg) continue;
      if (s.kind != StmtKind::store && s.kind != StmtKind::loop) return;
      std::vector<BufferRef> to;
      stored_in({s}, to);
      if (uses_any(s, late)) {
        if (s.kind != StmtKind::store) return;
        late.push_back(s.buffer.get());
        late_.push_back(s);
      } else if (s.kind == StmtKind::store && !has_argument(s.value) && !uses_any(s, found_out)) {
        early_.push_back(s);  // of the iteration's number alone: both find it out
        late_.push_back(s);
      } else {
        for (const BufferRef& b : to) found_out.push_back(b.get());
        early_.push_back(s);
      }
    }
    Stmts early, late_ones;  // declarations
    for (const Stmt& s : sum_->body) {
      if (s.kind != StmtKind::reg) continue;
      const bool is_found_out =
          std::find(found_out.begin(), found_out.end(), s.buffer.get()) != found_out.end();
      const bool is_late = std::find(late.begin(), late.end(), s.buffer.get()) != late.end();
      if (is_found_out && is_late) return;
      if (is_found_out && reads(late_, s.buffer.get())) crossing_.push_back(s.buffer);
      if (!is_late) early.push_back(s);
      if (!is_found_out) late_ones.push_back(s);
    }
    early_.insert(early_.begin(), early.begin(), early.end());
    late_.insert(late_.begin(), late_ones.begin(), late_ones.end());
    for (const BufferRef& b : crossing_)
      if (!b->type.dims.empty()) return;
    good_ = !crossing_.empty();
  }

  static bool has_argument(const Expr& e) {
    return (e->op == ScalarOp::load && e->buffer->space != Space::reg) ||
           std::any_of(e->args.begin(), e->args.end(), has_argument);
  }

  std::vector<Expr> place() const {
    std::vector<Expr> at{var(sum_->var)};
    for (const Stmt* s : around_) at.push_back(var(s->var));
    return at;
  }

  Stmts nest(Stmts body) const {
    for (size_t i = around_.size(); i-- > 0;) {
      Stmt loop = *around_[i];
      loop.body = std::move(body);
      body = {std::move(loop)};
    }
    return body;
  }

  static Stmts renamed(const Stmts& body, const std::string& prefix) {
    Stmts result;
    for (const Stmt& from : copy(body, {})) {
      Stmt s = from;
      if (s.kind == StmtKind::loop) {
        s.var = std::make_shared<const Var>(Var{prefix + from.var->name});
        s.body = copy(s.body, {{{from.var.get(), var(s.var)}}, {}});
      }
      s.body = renamed(s.body, prefix);
      result.push_back(std::move(s));
    }
    return result;
  }

  std::vector<const Stmt*> around_;
  const Stmt* sum_ = nullptr;
  Stmts before_, behind_, early_, late_;
  std::vector<BufferRef> crossing_;  // what is found out for each iteration and handed on
  bool good_ = false;
};

// Where a body accesses a buffer, in elements from its start: `times` for each iteration of a loop, and `inside`.
struct Span {
  int64_t times;
  Range inside;
};

class Spans {
 public:
  Spans(const Stmt& loop, const Buffer* b, bool of_stores) : loop_(loop), buffer_(b), of_stores_(of_stores) {
    look(loop.body, {});
  }
  // None where there is no access, or one whose place is not known.
  std::optional<Span> span() const { return known_ ? span_ : std::nullopt; }

 private:
  // A variable inside: a multiple of the loop's, and a range.
  struct Place {
    int64_t times;
    Range range;
  };
  using Places = std::unordered_map<const Var*, Place>;

  void look(const Stmts& body, const Places& around) {
    for (const Stmt& s : body) {
      if (of_stores_) {
        if (s.kind == StmtKind::store && s.buffer.get() == buffer_) add(s.index, around);
      } else {
        each_load(s, buffer_, [&](const std::vector<Expr>& index) { add(index, around); });
      }
      Places inside = around;
      if (s.kind == StmtKind::loop) {
        const std::optional<Place> lo = place(s.lo, around);
        const std::optional<int64_t> most = length(s, around);
        if (lo && most && lo->range.known())
          inside[s.var.get()] = {lo->times, {lo->range.lo, lo->range.hi + std::max<int64_t>(*most - 1, 0)}};
      }
      look(s.body, inside);
    }
  }

  // The most iterations of a loop that ends at one of two places, say.
  std::optional<int64_t> length(const Stmt& s, const Places& around) const {
    if (s.hi->op == ScalarOp::min) {
      std::optional<int64_t> least;
      for (const Expr& end : s.hi->args) {
        Stmt one = s;
        one.hi = end;
        if (const std::optional<int64_t> n = length(one, around); n && (!least || *n < *least)) least = n;
      }
      return least;
    }
    const std::optional<Place> n = place(s.hi - s.lo, around);
    if (!n || n->times != 0 || !n->range.known()) return {};
    return n->range.hi;
  }

  std::optional<Place> place(const Expr& e, const Places& around) const {
    Place sum{0, {0, 0}};
    const Linear parts = linear(e);
    sum.range = {parts.constant, parts.constant};
    for (const auto& [atom, n] : parts.terms) {
      Place p{0, {}};
      if (atom->op == ScalarOp::var && atom->var == loop_.var)
        p = {1, {0, 0}};
      else if (const auto found = around.find(atom->op == ScalarOp::var ? atom->var.get() : nullptr);
               found != around.end())
        p = found->second;
      else
        p.range = range_of(atom, [&](const Var& v) {
          if (&v == loop_.var.get()) return Range{0, trips(loop_) - 1};
          const auto inner = around.find(&v);
          return inner == around.end() || inner->second.times ? Range{} : inner->second.range;
        });
      if (!p.range.known()) return {};
      sum.times += n * p.times;
      sum.range.lo += n * (n > 0 ? p.range.lo : p.range.hi);
      sum.range.hi += n * (n > 0 ? p.range.hi : p.range.lo);
    }
    return sum;
  }

  void add(const std::vector<Expr>& index, const Places& around) {
    Expr at = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) at = at * Expr(buffer_->type.dims[axis]) + index[axis];
    const std::optional<Place> p = place(at, around);
    known_ &= p && (!span_ || span_->times == p->times);
    if (!known_) return;
    if (!span_) span_ = Span{p->times, p->range};
    span_->inside = {std::min(span_->inside.lo, p->range.lo), std::max(span_->inside.hi, p->range.hi)};
  }

  const Stmt& loop_;
  const Buffer* buffer_;
  const bool of_stores_;
  bool known_ = true;
  std::optional<Span> span_;
};

// Two nests one behind the other, the outermost loops of which go together.
class Beside {
 public:
  Beside(const Kernel& k, const std::string& part, const std::string& loop) : kernel_(k) { look(part, loop); }

  const std::string& problem() const { return problem_; }

  Kernel run() const {
    Kernel k = kernel_;
    Stmt first = k.body[at_], second = k.body[at_ + 1];
    const Expr from = var(second.var) * Expr(per_part_);
    first.hi = min(from + Expr(per_part_), Expr(trips(first)));
    first.lo = from;
    first.mode = LoopMode::plain;
    second.body.insert(second.body.begin(), std::move(first));
    k.body[at_] = std::move(second);
    k.body.erase(k.body.begin() + static_cast<ptrdiff_t>(at_) + 1);
    return k;
  }

 private:
  void refuse(const std::string& why) {
    if (problem_.empty()) problem_ = why;
  }

  void look(const std::string& part, const std::string& loop) {
    const Kernel& k = kernel_;
    auto is = [](const std::string& name) {
      return [&name](const Stmt& s) { return s.kind == StmtKind::loop && s.var->name == name; };
    };
    at_ = static_cast<size_t>(std::find_if(k.body.begin(), k.body.end(), is(loop)) - k.body.begin());
    if (at_ + 1 >= k.body.size() || !is(part)(k.body[at_ + 1]))
      return refuse("they are not one behind the other");
    const Stmt &first = k.body[at_], &second = k.body[at_ + 1];
    if (!counts_up(first) || !counts_up(second) || !first.independent || !second.independent)
      return refuse("they are not `each` from 0");
    std::vector<BufferRef> made, summed;
    stored_in({first}, made);
    stored_in({second}, summed);
    for (const BufferRef& b : summed)
      if (b->space < Space::reg && (reads({first}, b.get()) || stores({first}, b.get())))
        return refuse("the first uses what the second stores");
    for (const BufferRef& b : made)
      if (b->space < Space::reg && reads({second}, b.get())) match(*b, first, second);
    if (problem_.empty() && !per_part_) refuse("the second reads nothing of the first");
  }

  // Each iteration of the first makes elements of its own, all from one place to another: as it makes every element of
  // the result, a part has all that it reads when those of its place have run.
  void match(const Buffer& b, const Stmt& first, const Stmt& second) {
    const std::optional<Span> made = Spans(first, &b, true).span(), read = Spans(second, &b, false).span();
    if (!made || !read) return refuse("not every place of " + b.name + " is known");
    const int64_t own = made->times, part = read->times;
    const bool apart = own > 0 && made->inside.lo == 0 && made->inside.hi < own && read->inside.lo >= 0 &&
                       read->inside.hi < part && own * trips(first) == b.type.elements() &&
                       part * trips(second) >= b.type.elements();
    if (!apart || part % own) return refuse("parts of " + b.name + " are no whole iterations");
    if (per_part_ && per_part_ != part / own) return refuse("what is made differs in its parts");
    per_part_ = part / own;
  }

  const Kernel& kernel_;
  std::string problem_;
  size_t at_ = 0;
  int64_t per_part_ = 0;  // iterations of the first
};

}  // namespace

std::optional<Kernel> behind(const Kernel& first, const BufferRef& stored, const Kernel& second,
                             const BufferRef& loaded) {
  const Parting parts(second, loaded);
  if (repeated(first) || !parts.good() || moving(stored->type.dims) != moving(loaded->type.dims)) return {};
  Kernel k{first.name + "_" + second.name, first.args, first.body};
  for (const BufferRef& b : second.args)
    if (b != loaded) k.args.push_back(b);
  Stmts sums = parts.run(k.args);
  redirect(sums, stored, loaded);
  k.body.insert(k.body.end(), sums.begin(), sums.end());
  return k;
}

Parts parts_read(const Kernel& first, const Kernel& second) {
  const Stmt& nest = second.body.back();
  if (counts_up(nest))
    for (const BufferRef& b : first.args) {
      if (b->space != Space::out || !stores(first.body, b.get()) || !reads({nest}, b.get())) continue;
      const std::optional<Span> span = Spans(nest, b.get(), false).span();
      if (span && span->inside.lo >= 0 && span->inside.hi < span->times)
        return {span->times, b->type.elements()};
    }
  return {};
}

bool go_beside(const Kernel& k, const std::string& part, const std::string& loop) {
  return Beside(k, part, loop).problem().empty();
}

Kernel beside(const Kernel& k, const std::string& part, const std::string& loop) {
  const Beside both(k, part, loop);
  POCK_CHECK(both.problem().empty(), "beside({},{}): {}", part, loop, both.problem());
  return both.run();
}

}  // namespace pock::loop
