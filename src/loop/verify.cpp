// The rules of loop.h, and what a kernel costs.
#include <unordered_map>
#include <unordered_set>

#include "detail.h"
#include "pock/support/diag.h"

namespace pock::loop {
namespace {

using Op = ScalarOp;

class Verifier {
 public:
  explicit Verifier(const Kernel& k) : kernel_(k) {
    for (const BufferRef& b : k.args) {
      POCK_CHECK(b->space < Space::reg, "kernel {}: argument {} in space {}", k.name, b->name,
                 to_string(b->space));
      buffers_.insert(b.get());
    }
  }

  void body(const std::vector<Stmt>& stmts) {
    std::vector<const Buffer*> declared;
    for (const Stmt& s : stmts) {
      if (s.kind == StmtKind::reg) declared.push_back(s.buffer.get());
      stmt(s);
    }
    for (const Buffer* b : declared) {
      buffers_.erase(b);
      block_.erase(b);
    }
  }

 private:
  void stmt(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::loop:
        return loop(s);
      case StmtKind::when:
        POCK_CHECK(s.value->type == DType::mask, "kernel {}: condition of type {}", kernel_.name,
                   to_string(s.value->type));
        expr(s.value);
        nested(s);
        break;
      case StmtKind::store:
        POCK_CHECK(buffers_.count(s.buffer.get()), "kernel {}: {} is not in scope", kernel_.name,
                   s.buffer->name);
        POCK_CHECK(s.buffer->space != Space::in, "kernel {}: a store to the input {}", kernel_.name,
                   s.buffer->name);
        POCK_CHECK(static_cast<int>(s.index.size()) == s.buffer->type.rank() &&
                       s.value->type == s.buffer->type.dtype,
                   "kernel {}: a store to {}: {}", kernel_.name, s.buffer->name, to_string(s.buffer->type));
        POCK_CHECK(s.buffer->space != Space::reg || threads_.empty() || block_.count(s.buffer.get()),
                   "kernel {}: threads store to {}, which is not their own", kernel_.name, s.buffer->name);
        is_reached(*s.buffer);
        for (const Expr& i : s.index) index(i);
        expr(s.value);
        break;
      case StmtKind::reg:
        POCK_CHECK(s.buffer->space != Space::shared || threads_.empty(),
                   "kernel {}: shared {} declared by a single thread", kernel_.name, s.buffer->name);
        POCK_CHECK(s.buffer->space >= Space::reg, "kernel {}: {} declared in space {}", kernel_.name,
                   s.buffer->name, to_string(s.buffer->space));
        POCK_CHECK(buffers_.insert(s.buffer.get()).second, "kernel {}: {} declared twice", kernel_.name,
                   s.buffer->name);
        if (s.buffer->space == Space::shared || !threads_.empty()) block_.insert(s.buffer.get());
        break;
      case StmtKind::barrier:
        POCK_CHECK(!threads_.empty(), "kernel {}: a barrier outside of thread loops", kernel_.name);
        POCK_CHECK(uneven_.empty(), "kernel {}: a barrier that {} may keep threads from", kernel_.name,
                   uneven_);
        break;
    }
  }

  // Shared memory is seen by the threads that stand beside its declaration.
  void is_reached(const Buffer& b) const {
    POCK_CHECK(b.space != Space::shared || (!threads_.empty() && block_.count(&b)),
               "kernel {}: shared {} is used outside of its block's threads", kernel_.name, b.name);
  }

  void loop(const Stmt& s) {
    index(s.lo);
    index(s.hi);
    const std::string& name = s.var->name;
    POCK_CHECK(s.step > 0, "kernel {}: loop {} has step {}", kernel_.name, name, s.step);
    if (s.mode == LoopMode::parallel) {
      const int outermost = repeated(kernel_) ? 1 : 0;
      POCK_CHECK(s.independent && depth_ == outermost,
                 "kernel {}: parallel loop {} is not an outermost `each`", kernel_.name, name);
    }
    if (s.mode == LoopMode::unroll)
      POCK_CHECK(is_constant(s.lo) && is_constant(s.hi),
                 "kernel {}: unrolled loop {} without constant bounds", kernel_.name, name);
    if (s.mode == LoopMode::vector)
      POCK_CHECK(s.independent && is_constant(s.lo, 0) && is_constant(s.hi) && s.hi->integer > 0 &&
                     s.step == 1 && !lane_,
                 "kernel {}: vector loop {} is not an innermost `each` over 0..W", kernel_.name, name);
    if (s.mode == LoopMode::thread)
      POCK_CHECK(s.independent && is_constant(s.lo, 0) && is_constant(s.hi) && s.hi->integer > 0 &&
                     s.step == 1 && !lane_ && (threads_.empty() || is_only_),
                 "kernel {}: thread loop {} is not an `each` over 0..N, alone in the one around",
                 kernel_.name, name);
    POCK_CHECK(vars_.insert(s.var.get()).second, "kernel {}: loop {} inside itself", kernel_.name, name);
    const Var* outer = lane_;
    if (s.mode == LoopMode::vector) lane_ = s.var.get();
    if (s.mode == LoopMode::thread) threads_.push_back(s.var.get());
    nested(s);
    if (s.mode == LoopMode::thread) threads_.pop_back();
    lane_ = outer;
    vars_.erase(s.var.get());
  }

  // Whether all threads come by what is inside equally often.
  bool is_even(const Stmt& s) const {
    if (s.mode == LoopMode::thread) return true;
    if (s.kind == StmtKind::loop && s.independent) return false;
    for (const Expr* e : {&s.lo, &s.hi, &s.value})
      if (e->get() && differs(*e)) return false;
    return true;
  }
  bool differs(const Expr& e) const {
    if (e->op == Op::load) return true;
    return std::any_of(threads_.begin(), threads_.end(), [&](const Var* v) { return e->var.get() == v; }) ||
           std::any_of(e->args.begin(), e->args.end(), [&](const Expr& a) { return differs(a); });
  }

  void nested(const Stmt& s) {
    const std::string uneven = uneven_;
    if (!threads_.empty() && !is_even(s))
      uneven_ = s.kind == StmtKind::loop ? "loop " + s.var->name : "a condition";
    const bool was_only = std::exchange(is_only_, s.mode == LoopMode::thread && s.body.size() == 1);
    // Shared memory stays behind on the way to other blocks.
    const bool leaves = threads_.empty();
    std::unordered_set<const Buffer*> block;
    if (leaves) block.swap(block_);
    ++depth_;
    if (s.kind == StmtKind::loop && lane_ && s.var.get() != lane_)
      for (const Expr& bound : {s.lo, s.hi})
        POCK_CHECK(!uses(bound, lane_), "kernel {}: bounds of {} differ between the lanes of {}",
                   kernel_.name, s.var->name, lane_->name);
    body(s.body);
    --depth_;
    if (leaves) block_.swap(block);
    is_only_ = was_only;
    uneven_ = uneven;
  }

  void index(const Expr& e) {
    POCK_CHECK(e.get() && e->type == DType::i64, "kernel {}: an index or bound that is not i64",
               kernel_.name);
    expr(e);
  }

  void expr(const Expr& e) {
    std::unordered_set<const ExprNode*> seen;
    visit(e, seen);
  }

  void visit(const Expr& e, std::unordered_set<const ExprNode*>& seen) {
    if (!seen.insert(e.get()).second) return;
    if (e->op == Op::var)
      POCK_CHECK(vars_.count(e->var.get()), "kernel {}: variable {} is not in scope", kernel_.name,
                 e->var->name);
    if (e->op == Op::load) {
      POCK_CHECK(buffers_.count(e->buffer.get()), "kernel {}: {} is not in scope", kernel_.name,
                 e->buffer->name);
      POCK_CHECK(static_cast<int>(e->args.size()) == e->buffer->type.rank(), "kernel {}: indices of {}",
                 kernel_.name, e->buffer->name);
      is_reached(*e->buffer);
    }
    for (const Expr& a : e->args) visit(a, seen);
  }

  const Kernel& kernel_;
  std::unordered_set<const Buffer*> buffers_;
  std::unordered_set<const Var*> vars_;
  const Var* lane_ = nullptr;
  int depth_ = 0;
  std::vector<const Var*> threads_;          // the variables of the thread loops around
  std::unordered_set<const Buffer*> block_;  // the block's shared memory and the threads' registers, in scope
  std::string uneven_;                       // what may keep threads from coming here
  bool is_only_ = false;                     // directly inside a thread loop that holds nothing else
};

// Counts by running the loops, but a loop whose variable decides no bound or condition inside runs once.
class Counter {
 public:
  // Counts operations, or loads of a buffer.
  explicit Counter(const Buffer* loaded = nullptr) : loaded_(loaded) {}
  int64_t body(const std::vector<Stmt>& stmts) {
    int64_t flop = 0;
    for (const Stmt& s : stmts) flop += stmt(s);
    return flop;
  }

 private:
  int64_t stmt(const Stmt& s) {
    if (s.kind == StmtKind::store)
      return once(s, [&] {
        std::unordered_set<const ExprNode*> seen;
        return operations(s.value, seen);
      });
    if (s.kind == StmtKind::when) {
      int64_t condition = 1;
      return !value(s.value, &condition) || condition ? body(s.body) : 0;
    }
    if (s.kind != StmtKind::loop) return 0;
    int64_t lo, hi;
    if (!value(s.lo, &lo) || !value(s.hi, &hi) || lo >= hi) return 0;
    int64_t trips = (hi - lo + s.step - 1) / s.step;
    int64_t& v = values_[s.var.get()];
    if (!once(s, [&] { return clips(s.body, s.var.get()); })) {
      v = lo;
      return trips * body(s.body);
    }
    int64_t flop = 0;
    for (int64_t i = lo; i < hi; i += s.step) {
      values_[s.var.get()] = i;
      flop += body(s.body);
    }
    return flop;
  }

  // A fact of a statement that does not depend on variables: a loop may come by it millions of times.
  template <class F>
  int64_t once(const Stmt& s, const F& fact) {
    auto it = facts_.find(&s);
    if (it == facts_.end()) it = facts_.emplace(&s, fact()).first;
    return it->second;
  }

  // False where the value depends on data.
  bool value(const Expr& e, int64_t* out) {
    if (is_float(e->type) || e->op == Op::load) return false;
    if (e->op == Op::constant) return *out = e->integer, true;
    if (e->op == Op::var) return *out = values_[e->var.get()], true;
    std::array<int64_t, 3> args{};
    if (e->args.size() > args.size()) return false;
    for (size_t i = 0; i < e->args.size(); ++i)
      if (!value(e->args[i], &args[i])) return false;
    if (e->op == Op::select) return *out = args[0] ? args[1] : args[2], true;
    return fold(e->op, args, e->type, out);
  }

  int64_t operations(const Expr& e, std::unordered_set<const ExprNode*>& seen) const {
    if (!seen.insert(e.get()).second) return 0;
    int64_t n = loaded_ && e->op == Op::load && e->buffer.get() == loaded_;
    if (!loaded_ && is_float(e->type) && e->op >= Op::add && e->op <= Op::pow) n = e->op == Op::fma ? 2 : 1;
    for (const Expr& a : e->args) n += operations(a, seen);
    return n;
  }

  const Buffer* loaded_;
  std::unordered_map<const Var*, int64_t> values_;
  std::unordered_map<const Stmt*, int64_t> facts_;
};

}  // namespace

void verify(const Kernel& k) { Verifier(k).body(k.body); }

Cost cost(const Kernel& k) {
  Cost c;
  c.flop = Counter().body(k.body);
  for (const BufferRef& b : k.args)
    if (b->space != Space::workspace) c.bytes += b->type.bytes() * (b->space == Space::inout ? 2 : 1);
  return c;
}

int64_t loads(const Kernel& k, const BufferRef& b) { return Counter(b.get()).body(k.body); }

}  // namespace pock::loop
