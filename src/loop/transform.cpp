// The steps of a schedule, each a rewrite of the loops that carry a name.
#include "pock/loop/transform.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <span>

#include "detail.h"
#include "pock/loop/range.h"
#include "pock/support/diag.h"

namespace pock::loop {
namespace {

using Stmts = std::vector<Stmt>;

struct StepRow {
  const char* name;
  bool number, other, other_optional;
};
// Indexed by Step::Kind.
constexpr StepRow kRows[Step::parallel + 1] = {
    {"split", true, true, true},     {"fuse", false, true, false},       {"merge", false, true, false},
    {"reorder", false, true, false}, {"hoist", false, false, false},     {"sink", false, false, false},
    {"taps", false, false, false},   {"slide", true, false, false},      {"interchange", false, true, false},
    {"stage", false, true, false},   {"beside", false, true, false},     {"peel", false, false, false},
    {"unroll", false, false, false}, {"vectorize", false, false, false}, {"parallel", false, false, false}};

std::string to_string(const Step& s) {
  const StepRow& row = kRows[s.kind];
  std::string text = fmt::format("{}({}", row.name, s.axis);
  if (row.number) text += fmt::format(",{}", s.number);
  if (row.other && !s.other.empty()) text += "," + s.other;
  return text + ")";
}

bool uses_any(const Expr& e, const std::set<const Buffer*>& buffers) {
  if (buffers.count(e->buffer.get())) return true;
  return std::any_of(e->args.begin(), e->args.end(), [&](const Expr& a) { return uses_any(a, buffers); });
}

class Transform {
 public:
  explicit Transform(const Step& s) : step_(s) {}

  Stmts run(const Stmts& body) {
    Stmts result = walk(body);
    check(found_, "there is no such loop");
    return result;
  }

 private:
  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    POCK_CHECK(condition, "{}: {}", to_string(step_), fmt::format(format, std::forward<Args>(args)...));
  }

  Stmts walk(const Stmts& stmts) {
    Stmts result;
    for (const Stmt& s : stmts) {
      if (s.kind == StmtKind::loop && s.var->name == step_.axis) {
        found_ = true;
        for (Stmt& r : one(s)) result.push_back(std::move(r));
      } else {
        Stmt copy = s;
        copy.body = walk(s.body);
        result.push_back(std::move(copy));
      }
    }
    return result;
  }

  Stmts one(const Stmt& s) {
    switch (step_.kind) {
      case Step::split:
        return split(s);
      case Step::fuse:
        return fuse(s);
      case Step::merge:  // these look at the kernel's arguments too
      case Step::hoist:
      case Step::stage:
      case Step::beside:
        break;
      case Step::reorder:
        return reorder(s);
      case Step::sink:
      case Step::taps:
      case Step::slide:
        return sink(s);
      case Step::interchange:
        return interchange(s);
      case Step::peel:
        return peel(s);
      case Step::unroll:
        return {with_mode(s, LoopMode::unroll)};
      case Step::vectorize:
        return {with_mode(from_zero(s), LoopMode::vector)};
      case Step::parallel:
        check(s.independent, "its iterations are not independent");
        return {with_mode(s, LoopMode::parallel)};
    }
    return {};
  }

  int64_t trips(const Stmt& s) const {
    int64_t n = loop::trips(s);
    check(n >= 0, "{} has no constant extent", s.var->name);
    return n;
  }

  Stmt with_mode(Stmt s, LoopMode mode) const {
    trips(s);
    check(s.independent || mode == LoopMode::unroll, "its iterations are not independent");
    s.mode = mode;
    return s;
  }

  // The same loop over 0..trips.
  Stmt from_zero(const Stmt& s) const {
    if (is_constant(s.lo, 0) && s.step == 1) return s;
    return counted(s, s.var->name, trips(s), Expr(0));
  }

  // A loop `name` over 0..n whose iteration t is iteration first + t of `s`.
  Stmt counted(const Stmt& s, const std::string& name, int64_t n, const Expr& first) const {
    Stmt loop = s;
    loop.var = std::make_shared<const Var>(Var{name});
    loop.lo = 0;
    loop.hi = n;
    loop.step = 1;
    const Expr t = n == 1 ? Expr(0) : var(loop.var);
    loop.body = copy(s.body, {{{s.var.get(), s.lo + (first + t) * Expr(s.step)}}, {}});
    return loop;
  }

  Stmts split(const Stmt& s) const {
    int64_t n = step_.number, all = trips(s), blocks = all / n;
    check(n > 0, "blocks of {}", n);
    Stmts result;
    if (blocks) {
      Stmt outer = s;
      outer.var = std::make_shared<const Var>(Var{s.var->name + ".o"});
      outer.lo = 0;
      outer.hi = blocks;
      outer.step = 1;
      outer.body = {counted(s, s.var->name + ".i", n, var(outer.var) * Expr(n))};
      outer.body[0].mode = LoopMode::plain;
      within(outer.body[0].body, outer.body[0].var, n);
      result.push_back(std::move(outer));
    }
    std::string rest = step_.other.empty() ? s.var->name + ".i" : step_.other;
    if (all % n) result.push_back(counted(s, rest, all % n, Expr(blocks * n)));
    return result;
  }

  // Blocks and places of a tensor's layout, where v runs within one.
  static void within(Stmts& body, const VarRef& v, int64_t n) {
    Rewriter rewrite([&](const Expr& e) {
      const bool division = e->op == ScalarOp::floordiv || e->op == ScalarOp::mod;
      if (!division || e->args[0]->op != ScalarOp::var || e->args[0]->var != v || e->args[1]->integer < n)
        return e;
      return e->op == ScalarOp::mod ? e->args[0] : Expr(0);
    });
    for (Stmt& s : body) {
      rewrite_own(s, rewrite);
      within(s.body, v, n);
    }
  }

  // The loop directly inside, independent and the same in every iteration of `s`.
  const Stmt& inner(const Stmt& s) const {
    check(s.body.size() == 1 && s.body[0].kind == StmtKind::loop && s.body[0].var->name == step_.other,
          "{} is not directly inside", step_.other);
    const Stmt& j = s.body[0];
    check(s.independent && j.independent, "the loops' iterations are not independent");
    check(!uses(j.lo, s.var.get()) && !uses(j.hi, s.var.get()), "the bounds of {} depend on {}", step_.other,
          step_.axis);
    return j;
  }

  Stmts fuse(const Stmt& s) const {
    const Stmt& j = inner(s);
    int64_t n = trips(j);
    Stmt loop = s;
    loop.var = std::make_shared<const Var>(*s.var);
    loop.lo = 0;
    loop.hi = trips(s) * n;
    loop.step = 1;
    Expr both = var(loop.var);
    if (n == 0) return {};
    loop.body = copy(j.body, {{{s.var.get(), s.lo + floordiv(both, n) * Expr(s.step)},
                               {j.var.get(), j.lo + mod(both, n) * Expr(j.step)}},
                              {}});
    return {std::move(loop)};
  }

  Stmts reorder(const Stmt& s) const {
    Stmt outer = inner(s), inside = s;
    check(!uses(s.lo, outer.var.get()), "the bounds depend on {}", step_.other);
    inside.body = std::move(outer.body);
    outer.body = {std::move(inside)};
    return {std::move(outer)};
  }

  // What sinking a loop needs to know on the way down.
  struct Sinking {
    const Stmt* loop;
    int64_t extent;
    std::set<const Buffer*> expanded;
    Replace renamed;
    bool in_front = false;  // the registers' new axis

    bool expanded_now(const Buffer* b) const {
      return std::any_of(renamed.buffers.begin(), renamed.buffers.end(),
                         [&](const auto& pair) { return pair.second.get() == b; });
    }
  };

  Stmts sink(const Stmt& given) const {
    check(given.independent, "its iterations are not independent");
    Stmt s = from_zero(given);
    Sinking sinking{&s, trips(s), {}, {}};
    return distribute(s.body, sinking);
  }

  // The sinking loop around statements.
  static Stmt around(const Stmts& body, const Sinking& k) {
    Stmt loop = *k.loop;
    loop.var = std::make_shared<const Var>(*k.loop->var);
    Replace renamed;
    renamed.vars[k.loop->var.get()] = var(loop.var);
    loop.body = copy(body, renamed);
    return loop;
  }

  Stmts interchange(const Stmt& given) const {
    check(given.independent, "its iterations are not independent");
    const Stmt s = from_zero(given);
    Sinking k{&s, trips(s), {}, {}, true};
    const auto sum = std::find_if(s.body.begin(), s.body.end(), [&](const Stmt& inner) {
      return inner.kind == StmtKind::loop && inner.var->name == step_.other;
    });
    check(sum != s.body.end(), "{} is not directly inside", step_.other);
    check(!depends(*sum, k), "the bounds of {} depend on it", step_.other);
    Stmts result, before, inside, behind;
    for (auto at = s.body.begin(); at != sum; ++at)
      if (at->kind == StmtKind::reg)
        result.push_back(expanded(*at, k));
      else
        before.push_back(expand(*at, k));
    for (const Stmt& inner : sum->body) inside.push_back(expand(inner, k));
    for (auto at = sum + 1; at != s.body.end(); ++at) behind.push_back(expand(*at, k));
    if (!before.empty()) result.push_back(around(before, k));
    result.push_back(*sum);
    result.back().body = {around(inside, k)};
    if (!behind.empty()) result.push_back(around(behind, k));
    return result;
  }

  // A register with an axis for the sinking loop.
  static Stmt expanded(const Stmt& declaration, Sinking& k) {
    auto buffer = std::make_shared<Buffer>(*declaration.buffer);
    Dims& dims = buffer->type.dims;
    dims.insert(k.in_front ? dims.begin() : dims.end(), k.extent);
    Stmt declared = declaration;
    declared.buffer = buffer;
    k.expanded.insert(declaration.buffer.get());
    k.renamed.buffers[declaration.buffer.get()] = buffer;
    return declared;
  }

  static void add_axis(std::vector<Expr>& index, const Sinking& k) {
    index.insert(k.in_front ? index.begin() : index.end(), var(k.loop->var));
  }

  Stmts distribute(const Stmts& body, Sinking& k) const {
    Stmts result;
    Stmts pending;  // run one after the other by a common loop
    auto flush = [&] {
      if (!pending.empty()) result.push_back(around(pending, k));
      pending.clear();
    };
    for (const Stmt& s : body) {
      if (s.kind == StmtKind::reg) {
        Stmt declared = expanded(s, k);
        flush();
        result.push_back(std::move(declared));
      } else if (s.kind == StmtKind::barrier) {
        flush();
        result.push_back(s);
      } else if (s.kind != StmtKind::store && !depends(s, k)) {
        flush();
        Stmt outer = s;
        outer.body = distribute(s.body, k);
        result.push_back(std::move(outer));
      } else if (const Expr all = holds_for_all(s, k); all.get()) {
        flush();
        Stmt together{.kind = StmtKind::when, .value = all}, apart{.kind = StmtKind::when, .value = !all};
        apart.body = {around({expand(s, k)}, k)};  // before more registers get the axis
        together.body = distribute(s.body, k);
        result.push_back(std::move(together));
        result.push_back(std::move(apart));
      } else if (const std::vector<Part> parts = parts_of(s, k); !parts.empty()) {
        flush();
        for (size_t at = 0, end = 0; at < parts.size(); at = end) {
          for (end = at + 1; end < parts.size() && goes_with(parts[end - 1], parts[end]); ++end) {
          }
          result.push_back(clipped(s, k, std::span(parts).subspan(at, end - at)));
        }
      } else {
        pending.push_back(expand(s, k));
      }
    }
    flush();
    return result;
  }

  // That a condition holds in all iterations of the sinking loop: it does if it does in the one that comes closest. Empty
  // where none is known to, or memory has a say.
  Expr holds_for_all(const Stmt& s, const Sinking& k) const {
    if (step_.kind == Step::sink || s.kind != StmtKind::when || has_load(s.value)) return {};
    return holds_for_all(s.value, k);
  }
  static Expr holds_for_all(const Expr& e, const Sinking& k) {
    if (e->op == ScalarOp::logical_and) {
      const Expr a = holds_for_all(e->args[0], k), b = holds_for_all(e->args[1], k);
      return a.get() && b.get() ? a && b : Expr();
    }
    if (e->op != ScalarOp::lt && e->op != ScalarOp::le) return {};
    int64_t stride = 0;  // of how far the left side is above the right one
    if (!linear_stride(e->args[0] - e->args[1], k.loop->var, &stride)) return {};
    return replace(e, {{{k.loop->var.get(), Expr(stride > 0 ? k.extent - 1 : 0)}}, {}});
  }

  // Iteration t of a `for` loop, in which iterations first, first + step, ... of the sinking loop take part.
  struct Part {
    int64_t t, first, step, count;
  };

  // Of a loop whose bounds depend on nothing but the sinking loop; none where it is another, or where those that take
  // part are not evenly spaced.
  std::vector<Part> parts_of(const Stmt& s, const Sinking& k) const {
    if (step_.kind == Step::sink || s.kind != StmtKind::loop || s.independent) return {};
    std::map<int64_t, std::vector<int64_t>> who_of;  // an iteration
    for (int64_t i = 0; i < k.extent; ++i) {
      Expr lo = replace(s.lo, {{{k.loop->var.get(), Expr(i)}}, {}}),
           hi = replace(s.hi, {{{k.loop->var.get(), Expr(i)}}, {}});
      if (!is_constant(lo) || !is_constant(hi)) return {};
      for (int64_t t = lo->integer; t < hi->integer; t += s.step) who_of[t].push_back(i);
    }
    std::vector<Part> parts;
    for (const auto& [t, who] : who_of) {
      const int64_t step = who.size() > 1 ? who[1] - who[0] : 1;
      for (size_t n = 1; n < who.size(); ++n)
        if (who[n] - who[n - 1] != step) return {};
      parts.push_back({t, who.front(), step, std::ssize(who)});
    }
    return parts;
  }

  // Whether one loop goes over both iterations.
  bool goes_with(const Part& one, const Part& next) const {
    if (next.t != one.t + 1 || next.step != one.step) return false;
    if (step_.kind == Step::slide) return blocks(next) == blocks(one);
    return next.first == one.first && next.count == one.count;
  }

  int64_t blocks(const Part& p) const { return p.count / step_.number; }

  static bool has_sum(const Stmts& body) {
    return std::any_of(body.begin(), body.end(), [](const Stmt& s) {
      return (s.kind == StmtKind::loop && !s.independent) || has_sum(s.body);
    });
  }

  // Iterations of the `for` loop, each around those that take part. What these sum up in registers of the sinking loop
  // is held in one of their own meanwhile, where there are loops inside.
  Stmt clipped(const Stmt& s, const Sinking& k, std::span<const Part> parts) const {
    Stmts inside;
    for (const Stmt& b : s.body) inside.push_back(expand(b, k));
    if (has_sum(inside)) hold(inside, k);
    Stmt loop = s;
    loop.var = std::make_shared<const Var>(*s.var);
    loop.lo = parts.front().t;
    loop.hi = parts.back().t + 1;
    loop.step = 1;
    const Expr t = var(loop.var), first = sequence(parts, t, [](const Part&p) { return p.first; });
    // The elements from `done` on: n of them.
    auto each = [&](const std::string& suffix, const Expr& done, int64_t n) {
      Stmt part = *k.loop;
      part.var = std::make_shared<const Var>(Var{k.loop->var->name + suffix});
      part.hi = n;
      const Expr i = first + (done + var(part.var)) * Expr(parts.front().step);
      part.body = copy(inside, {{{k.loop->var.get(), i}, {s.var.get(), t}}, {}});
      return part;
    };
    loop.body =
        step_.kind == Step::slide ? in_blocks(k, parts, t, each) : Stmts{each("", 0, parts.front().count)};
    return loop;
  }

  // As split() has it, but that there may be more than one remainder.
  Stmts in_blocks(const Sinking& k, std::span<const Part> parts, const Expr& t, const auto& each) const {
    const int64_t n = step_.number, whole = blocks(parts.front());
    Stmts result;
    if (whole) {
      Stmt outer = *k.loop;
      outer.var = std::make_shared<const Var>(Var{k.loop->var->name + ".o"});
      outer.hi = whole;
      outer.body = {each(".i", var(outer.var) * Expr(n), n)};
      result.push_back(std::move(outer));
    }
    const Expr rest = sequence(parts, t, [&](const Part& p) { return p.count - whole * n; });
    std::set<int64_t> rests;
    for (const Part& p : parts) rests.insert(p.count - whole * n);
    for (const int64_t count : rests) {
      if (count == 0) continue;
      Stmt when{.kind = StmtKind::when, .value = rest == Expr(count)};
      when.body = {each(".i", Expr(whole * n), count)};
      result.push_back(std::move(when));
    }
    return result;
  }

  // What `of` gives for the part at t, in straight pieces.
  static Expr sequence(std::span<const Part> parts, const Expr& t, const auto& of) {
    std::vector<std::pair<int64_t, Expr>> pieces;  // from where on
    for (size_t at = 0, end = 0; at < parts.size(); at = end) {
      end = at + 1;
      const int64_t slope = end < parts.size() ? of(parts[end]) - of(parts[at]) : 0;
      while (end < parts.size() && of(parts[end]) - of(parts[end - 1]) == slope) ++end;
      pieces.emplace_back(parts[at].t, (t - parts[at].t) * Expr(slope) + of(parts[at]));
    }
    Expr result = pieces.back().second;
    for (size_t i = pieces.size() - 1; i > 0; --i)
      result = select(t < Expr(pieces[i].first), pieces[i - 1].second, result);
    return result;
  }

  void hold(Stmts& body, const Sinking& k) const {
    std::vector<BufferRef> sums;
    stored(body, sums);
    const std::vector<Expr> place{var(k.loop->var)};
    for (const BufferRef& sum : sums) {
      if (sum->space != Space::reg || sum->type.rank() != 1 || !k.expanded_now(sum.get())) continue;
      auto held = std::make_shared<Buffer>(*sum);
      held->name += ".t";
      held->type.dims.clear();
      body = exchanged(body, sum.get(), held);
      Stmt declare{.kind = StmtKind::reg, .buffer = held};
      Stmt take{.kind = StmtKind::store, .buffer = held, .value = load(sum, place)};
      Stmt give{.kind = StmtKind::store, .buffer = sum, .index = place, .value = load(held)};
      body.insert(body.begin(), {std::move(declare), std::move(take)});
      body.push_back(std::move(give));
    }
  }

  // Buffers that are stored into, in order of appearance.
  static void stored(const Stmts& body, std::vector<BufferRef>& found) {
    for (const Stmt& s : body) {
      if (s.kind == StmtKind::store && std::find(found.begin(), found.end(), s.buffer) == found.end())
        found.push_back(s.buffer);
      stored(s.body, found);
    }
  }

  static Stmts exchanged(const Stmts& body, const Buffer* from, const BufferRef& to) {
    Rewriter rewrite(
        [&](const Expr& e) { return e->op == ScalarOp::load && e->buffer.get() == from ? load(to) : e; });
    Stmts result;
    for (Stmt s : body) {
      for (Expr* e : {&s.lo, &s.hi, &s.value})
        if (e->get()) *e = rewrite(*e);
      if (s.kind == StmtKind::store && s.buffer.get() == from) {
        s.buffer = to;
        s.index.clear();
      }
      s.body = exchanged(s.body, from, to);
      result.push_back(std::move(s));
    }
    return result;
  }

  // Whether the head of a loop or condition differs between iterations of the sinking loop.
  static bool depends(const Stmt& s, const Sinking& k) {
    for (const Expr* e : {&s.lo, &s.hi, &s.value})
      if (e->get() && (uses(*e, k.loop->var.get()) || uses_any(*e, k.expanded))) return true;
    return false;
  }

  // The statement with expanded registers indexed by the sinking loop too.
  Stmt expand(const Stmt& s, const Sinking& k) const {
    Rewriter rewrite([&](const Expr& e) {
      if (e->op != ScalarOp::load || !k.expanded.count(e->buffer.get())) return e;
      std::vector<Expr> index = e->args;
      add_axis(index, k);
      return load(k.renamed.buffers.at(e->buffer.get()), std::move(index));
    });
    return expand(s, k, rewrite);
  }
  Stmt expand(const Stmt& from, const Sinking& k, Rewriter& rewrite) const {
    Stmt s = from;
    rewrite_own(s, rewrite);
    if (s.kind == StmtKind::store && k.expanded.count(s.buffer.get())) {
      s.buffer = k.renamed.buffers.at(s.buffer.get());
      add_axis(s.index, k);
    }
    for (Stmt& inside : s.body) inside = expand(inside, k, rewrite);
    return s;
  }

  using Ranges = std::unordered_map<const Var*, Range>;

  // A bound inside of the loop that is peeled, and the ranges of the loops between the two.
  struct Bound {
    Expr* e;
    Ranges between;

    Expr at(const Var* v, const Expr& i) const {
      const Expr value = replace(*e, {{{v, i}}, {}});
      if (is_constant(value)) return value;
      return simplified(value, [&](const Var& u) {
        auto found = between.find(&u);
        return found == between.end() ? Range{} : found->second;
      });
    }
  };

  static void bounds_of(Stmts& body, const Var* v, const Ranges& between, std::vector<Bound>& out) {
    for (Stmt& s : body) {
      if (s.kind != StmtKind::loop) {
        bounds_of(s.body, v, between, out);
        continue;
      }
      for (Expr* e : {&s.lo, &s.hi})
        if (uses(*e, v)) out.push_back({e, between});
      Ranges inside = between;
      if (is_constant(s.lo) && is_constant(s.hi)) inside[s.var.get()] = {s.lo->integer, s.hi->integer - 1};
      bounds_of(s.body, v, inside, out);
    }
  }

  // The edges keep the name; the interior is called NAME.m.
  Stmts peel(const Stmt& given) const {
    check(given.independent, "its iterations are not independent");
    const Stmt s = from_zero(given);
    const Var* v = s.var.get();
    int64_t n = trips(s), lo = 0, hi = n, middle = n / 2;
    Stmt between = s;
    std::vector<Bound> bounds;
    bounds_of(between.body, v, {}, bounds);
    for (const Bound& bound : bounds) {
      const Expr value = bound.at(v, middle);
      auto equal = [&](int64_t i) { return same(bound.at(v, i), value); };
      if (!is_constant(value) && !equal(middle - 1) && !equal(middle + 1)) continue;  // moves with it
      int64_t from = middle, to = middle + 1;
      while (from > lo && equal(from - 1)) --from;
      while (to < hi && equal(to)) ++to;
      lo = from;
      hi = to;
      *bound.e = value;
    }
    Stmts result;
    if (lo > 0) result.push_back(counted(s, s.var->name, lo, Expr(0)));
    result.push_back(counted(between, s.var->name + ".m", hi - lo, Expr(lo)));
    if (hi < n) result.push_back(counted(s, s.var->name, n - hi, Expr(hi)));
    return result;
  }

  const Step& step_;
  bool found_ = false;
};

}  // namespace

std::string to_string(const Schedule& schedule) {
  std::string text;
  for (const Step& s : schedule) text += (text.empty() ? "" : " ") + to_string(s);
  return text;
}

Schedule parse_schedule(const std::string& text) {
  Schedule schedule;
  size_t at = 0;
  auto word = [&](const char* ends) {
    size_t from = at;
    while (at < text.size() && std::string_view(ends).find(text[at]) == std::string_view::npos) ++at;
    return text.substr(from, at - from);
  };
  for (;;) {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n')) ++at;
    if (at == text.size()) return schedule;
    size_t start = at;
    std::string name = word("(");
    std::vector<std::string> args;
    while (at < text.size() && text[at] != ')') {
      ++at;
      args.push_back(word(",)"));
    }
    if (at == text.size()) throw error("schedule: '{}' is not closed", text.substr(start));
    ++at;
    Step s{};
    bool known = false;
    for (size_t kind = 0; kind < std::size(kRows); ++kind) {
      const StepRow& row = kRows[kind];
      if (name != row.name) continue;
      size_t least = 1u + row.number + (row.other && !row.other_optional), most = 1u + row.number + row.other;
      known = args.size() >= least && args.size() <= most;
      if (!known) break;
      s.kind = static_cast<Step::Kind>(kind);
      s.axis = args[0];
      if (row.number) {
        const std::string& n = args[1];
        auto [end, problem] = std::from_chars(n.data(), n.data() + n.size(), s.number);
        known = problem == std::errc{} && end == n.data() + n.size() && s.number > 0;
      }
      if (args.size() > 1u + row.number) s.other = args.back();
    }
    if (!known) throw error("schedule: '{}' is not a step", text.substr(start, at - start));
    schedule.push_back(std::move(s));
  }
}

// A step on a block's threads could make other threads of them, or part them at a barrier.
static void keep_threads(const Stmts& body, const Step& step) {
  for (const Stmt& s : body) {
    const bool condition = s.mode != LoopMode::thread || s.var->name != step.axis;
    POCK_CHECK(condition, "{}: {} runs over the threads of a block", to_string(step), step.axis);
    keep_threads(s.body, step);
  }
}

Kernel transformed(const Kernel& k, const Schedule& schedule) {
  Kernel result = k;
  for (const Step& s : schedule) {
    keep_threads(result.body, s);
    if (s.kind == Step::merge)
      result = merge(result, s.axis, s.other);
    else if (s.kind == Step::hoist)
      result = hoist(result, s.axis);
    else if (s.kind == Step::stage)
      result = stage(result, s.axis, s.other);
    else if (s.kind == Step::beside)
      result = beside(result, s.axis, s.other);
    else
      result.body = Transform(s).run(result.body);
  }
  return result;
}

Kernel apply(const Kernel& k, const Schedule& schedule) {
  Kernel result = simplify(transformed(k, schedule));
  verify(result);
  return result;
}

}  // namespace pock::loop
