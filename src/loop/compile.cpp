// From loops to the interpreter's instructions. Index arithmetic without loads moves out to the innermost
// loop that it depends on; everything else stays where it stands.
#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>

#include "bytecode.h"
#include "detail.h"
#include "pock/loop/transform.h"
#include "pock/support/diag.h"

namespace pock::loop {
namespace {

using Op = ScalarOp;

class Compiler {
 public:
  Compiler(Precision p, bool reverse) : precision_(p), reverse_(reverse) {}

  Program run(const Kernel& k) {
    for (size_t i = 0; i < k.args.size(); ++i) declare(k.args[i].get(), static_cast<int>(i));
    levels_.emplace_back();
    body(k.body);
    emit({.code = Code::halt});
    program_.code = std::move(levels_.back().code);
    return std::move(program_);
  }

 private:
  // A loop body or the body of a condition: what is cached holds while it runs.
  struct Level {
    std::vector<Instruction> code;
    std::vector<std::pair<Expr, uint32_t>> known;  // hoisted integer expressions
  };
  struct Address {
    uint32_t base, variable;
    int64_t scale;
  };

  uint32_t slot() {
    program_.slots.push_back(Slot{});
    return static_cast<uint32_t>(program_.slots.size() - 1);
  }

  uint32_t constant(Slot value) {
    auto [found, is_new] = constants_.try_emplace(value.i, 0);
    if (is_new) {
      found->second = slot();
      program_.slots[found->second] = value;
    }
    return found->second;
  }
  uint32_t integer(int64_t v) { return constant(Slot{.i = v}); }

  uint32_t constant(const ExprNode& n) {
    if (!is_float(n.type)) return integer(n.integer);
    Slot s{};
    if (real(n.type))
      s.f = static_cast<float>(n.number);
    else
      s.d = n.number;
    return constant(s);
  }

  // f32 held as float: its own instructions.
  bool real(DType t) const { return t == DType::f32 && precision_ == Precision::f32; }

  void emit(Instruction i) { levels_.back().code.push_back(i); }

  void declare(const Buffer* b, int argument) {
    if (b->space >= Space::reg && b->type.rank() == 0) {
      registers_.try_emplace(b, slot());
      return;
    }
    Program::Memory m{.argument = argument, .elements = b->type.elements()};
    if (b->type.dtype == DType::mask) {
      m.elements = b->type.bytes();
      m.last = b->type.rank() ? b->type.dims.back() : 1;
    }
    bool wide = b->type.dtype == DType::f32 && precision_ == Precision::f64;
    m.bytes = static_cast<size_t>(b->type.bytes()) * (wide ? 2 : 1);
    buffers_[b] = static_cast<uint32_t>(program_.buffers.size());
    program_.buffers.push_back(m);
  }

  void body(const std::vector<Stmt>& stmts) {
    for (const Stmt& s : stmts) stmt(s);
  }

  void stmt(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::loop:
        return loop(s);
      case StmtKind::when: {
        values_.clear();
        uint32_t condition = value(precise(s.value));
        levels_.emplace_back();
        body(s.body);
        close({.code = Code::skip_unless, .a = condition}, std::nullopt);
        return;
      }
      case StmtKind::store:
        return store(s);
      case StmtKind::reg:
        return declare(s.buffer.get(), -1);
      case StmtKind::barrier:
        return emit({.code = Code::barrier});
    }
  }

  // Puts the finished level behind `before`, which jumps over it, and closes it with `after`, which jumps
  // back.
  void close(Instruction before, std::optional<Instruction> after) {
    std::vector<Instruction> inner = std::move(levels_.back().code);
    levels_.pop_back();
    auto length = static_cast<int64_t>(inner.size());
    before.imm = length + (after ? 2 : 1);
    emit(before);
    std::vector<Instruction>& code = levels_.back().code;
    code.insert(code.end(), inner.begin(), inner.end());
    if (!after) return;
    after->imm = -length;
    emit(*after);
  }

  static bool is_thread(const Stmt& s) { return s.kind == StmtKind::loop && s.mode == LoopMode::thread; }

  // Thread loops directly inside each other. What is computed of their variables alone, each thread computes.
  void threads(const Stmt& outermost) {
    values_.clear();
    Program::Block block{.first = program_.buffers.size()};
    levels_.emplace_back();
    const Stmt* s = &outermost;
    for (;; s = &s->body[0]) {
      const uint32_t variable = slot();
      vars_[s->var.get()] = {variable, levels_.size() - 1};
      block.axes.emplace_back(variable, s->hi->integer);
      if (s->body.size() != 1 || !is_thread(s->body[0])) break;
    }
    body(s->body);
    block.last = program_.buffers.size();
    close({.code = Code::threads, .a = static_cast<uint32_t>(program_.blocks.size())},
          Instruction{.code = Code::halt});
    program_.blocks.push_back(std::move(block));
  }

  void loop(const Stmt& s) {
    if (is_thread(s)) return threads(s);
    values_.clear();
    uint32_t lo = value(s.lo), hi = value(s.hi), variable = slot();
    if (level(s.hi) < 0) {  // the body may change what it was read from
      uint32_t copy = slot();
      emit({.code = Code::move, .dst = copy, .a = hi});
      hi = copy;
    }
    auto step = static_cast<uint32_t>(integer(s.step));
    levels_.emplace_back();
    vars_[s.var.get()] = {variable, levels_.size() - 1};
    body(s.body);
    vars_.erase(s.var.get());
    bool backwards = reverse_ && s.independent;
    Instruction begin{.code = backwards ? Code::loop_begin_reverse : Code::loop_begin,
                      .dst = variable,
                      .a = lo,
                      .b = hi,
                      .c = step};
    if (s.step == 1 && !backwards && sum_of_products(begin)) return;
    Instruction end = begin;
    end.code = backwards ? Code::loop_end_reverse : Code::loop_end;
    close(begin, end);
  }

  // A loop of exactly load, load, fma into an accumulator becomes one instruction followed by the three, as
  // operands.
  bool sum_of_products(Instruction begin) {
    const std::vector<Instruction>& c = levels_.back().code;
    if (precision_ != Precision::f32 || c.size() != 3) return false;
    if (c[0].code != Code::load_r || c[1].code != Code::load_r || c[2].code != Code::fma_r) return false;
    if (c[2].dst != c[2].c || c[2].a != c[0].dst || c[2].b != c[1].dst) return false;
    for (int i : {0, 1})
      if (c[i].b != begin.dst || c[i].a == begin.dst) return false;
    begin.code = Code::multiply_accumulate;
    close(begin, std::nullopt);
    return true;
  }

  void store(const Stmt& s) {
    values_.clear();
    if (auto r = registers_.find(s.buffer.get()); r != registers_.end()) {
      uint32_t v = value(precise(s.value));
      if (v != r->second) {
        // The last instruction may write the register itself, unless something else wants its result.
        std::vector<Instruction>& code = levels_.back().code;
        if (fresh_ == v && !code.empty() && code.back().dst == v && code.back().code < Code::store_r)
          code.back().dst = r->second;
        else
          emit({.code = Code::move, .dst = r->second, .a = v});
      }
      return;
    }
    uint32_t v = value(precise(s.value));
    access(Code::store_r, s.buffer.get(), s.index, v);
  }

  // In float, exp and its like are arithmetic; in double they are instructions.
  Expr precise(const Expr& e) const { return precision_ == Precision::f32 ? expand_math(e) : e; }

  static int type_offset(DType t) {
    switch (t) {
      case DType::f32:
        return 0;
      case DType::f64:
        return 1;
      case DType::i8:
        return 2;
      case DType::u8:
        return 3;
      case DType::i32:
        return 4;
      case DType::i64:
        return 5;
      default:
        return 6;
    }
  }

  void access(Code first, const Buffer* b, const std::vector<Expr>& index, uint32_t value_slot) {
    DType type = b->type.dtype;
    Instruction i{.code = static_cast<Code>(static_cast<int>(first) + type_offset(type)),
                  .dst = value_slot,
                  .c = buffers_.at(b)};
    bool wide = type == DType::f32 && precision_ == Precision::f64;
    if (wide) i.code = first == Code::load_r ? Code::load_f64 : Code::store_f64;
    Expr flat(0);
    int64_t stride = 1;
    size_t rank = index.size();
    bool bits = type == DType::mask;
    for (size_t axis = rank - (bits && rank ? 1 : 0); axis-- > 0;) {
      flat = flat + index[axis] * Expr(stride);
      stride *= b->type.dims[axis];
    }
    if (bits) {
      i.a = integer_value(flat);
      i.b = rank ? integer_value(index.back()) : integer(0);
    } else {
      Address at = address(flat);
      i.a = at.base;
      i.b = at.variable;
      i.imm = at.scale;
    }
    emit(i);
  }

  // The innermost level an expression depends on; -1 where it reads memory.
  int level(const Expr& e) const {
    if (e->op == Op::load) return -1;
    if (e->op == Op::var) return static_cast<int>(vars_.at(e->var.get()).second);
    int deepest = 0;
    for (const Expr& a : e->args) {
      int l = level(a);
      if (l < 0) return -1;
      deepest = std::max(deepest, l);
    }
    return deepest;
  }

  // Splits the term that changes fastest from the rest, which moves out of its loop.
  Address address(const Expr& flat) {
    Linear sum = linear(flat);
    int deepest = -1;
    size_t fastest = 0;
    for (size_t i = 0; i < sum.terms.size(); ++i) {
      int l = level(sum.terms[i].first);
      if (l < 0) return {integer_value(flat), integer(0), 0};
      if (l > deepest) {
        deepest = l;
        fastest = i;
      }
    }
    if (deepest < 0) return {integer(sum.constant), integer(0), 0};
    auto [atom, scale] = sum.terms[fastest];
    sum.terms.erase(sum.terms.begin() + static_cast<ptrdiff_t>(fastest));
    return {integer_value(from_linear(sum)), integer_value(atom), scale};
  }

  uint32_t integer_value(const Expr& e) {
    if (e->op == Op::constant) return integer(e->integer);
    if (e->op == Op::var) return vars_.at(e->var.get()).first;
    int l = level(e);
    if (l < 0) return value(e);
    for (const auto& [known, at] : levels_[static_cast<size_t>(l)].known)
      if (same(known, e)) return at;
    uint32_t result = slot();
    Instruction i{.code = Code::move, .dst = result};
    Linear sum = linear(e);
    if (sum.terms.size() == 1 && sum.constant == 0 && sum.terms[0].second == 1) {
      operation(*e, i, [&](const Expr& a) { return integer_value(a); });
    } else {
      Address at = address(e);
      i.code = Code::scale_add;
      i.a = at.base;
      i.b = at.variable;
      i.imm = at.scale;
    }
    Level& home = levels_[static_cast<size_t>(l)];
    home.code.push_back(i);
    home.known.emplace_back(e, result);
    return result;
  }

  uint32_t value(const Expr& e) {
    fresh_ = kNone;
    if (e->op == Op::constant) return constant(*e);
    if (e->op == Op::var) return vars_.at(e->var.get()).first;
    if (e->type == DType::i64 && level(e) >= 0) return integer_value(e);
    if (auto found = values_.find(e.get()); found != values_.end()) return found->second.second;
    uint32_t result;
    if (e->op == Op::load) {
      if (auto r = registers_.find(e->buffer.get()); r != registers_.end()) return r->second;
      result = slot();
      access(Code::load_r, e->buffer.get(), e->args, result);
    } else {
      Instruction i{.code = Code::move};
      operation(*e, i, [&](const Expr& a) { return value(a); });
      result = i.dst = slot();
      emit(i);
      wrap(e->type, e->op, result);
    }
    values_.emplace(e.get(), std::pair{e, result});
    fresh_ = result;
    return result;
  }

  void wrap(DType t, Op op, uint32_t at) {
    if (op == Op::select || op == Op::min || op == Op::max || op == Op::bit_and || op == Op::bit_or ||
        op == Op::bit_xor || op == Op::shr)
      return;
    if (t == DType::i8 || t == DType::u8 || t == DType::i32)
      emit({.code = t == DType::i8   ? Code::wrap_i8
                    : t == DType::u8 ? Code::wrap_u8
                                     : Code::wrap_i32,
            .dst = at,
            .a = at});
  }

  template <class Value>
  void operation(const ExprNode& n, Instruction& i, const Value& value_of) {
    if (n.op == Op::cast) return convert(n.args[0], n.type, i, value_of);
    DType operand = n.args[n.op == Op::select ? 1 : 0]->type;
    if (n.op == Op::bitcast) {
      POCK_CHECK(real(DType::f32) && size_of(n.type) == 4, "bitcast to {} in this precision",
                 to_string(n.type));
      i.code = n.type == DType::f32 ? Code::bits_to_r : Code::r_to_bits;
    } else {
      i.code = is_float(operand) && n.op != Op::select ? float_code(n.op, operand) : integer_code(n.op);
    }
    i.a = value_of(n.args[0]);
    if (n.op == Op::floordiv || n.op == Op::mod) {
      i.imm = n.args[1]->integer;
      return;
    }
    if (n.args.size() > 1) i.b = value_of(n.args[1]);
    if (n.args.size() > 2) i.c = value_of(n.args[2]);
  }

  Code float_code(Op op, DType t) const {
    int first = static_cast<int>(real(t) ? Code::add_r : Code::add_d);
    if (op >= Op::lt && op <= Op::ne)
      return static_cast<Code>(first + static_cast<int>(Code::lt_r) - static_cast<int>(Code::add_r) +
                               static_cast<int>(op) - static_cast<int>(Op::lt));
    POCK_CHECK(op >= Op::add && op <= Op::pow, "{} of floats", row(op).name);
    return static_cast<Code>(first + static_cast<int>(op) - static_cast<int>(Op::add));
  }

  static Code integer_code(Op op) {
    switch (op) {
      case Op::add:
        return Code::add_i;
      case Op::sub:
        return Code::sub_i;
      case Op::mul:
        return Code::mul_i;
      case Op::neg:
        return Code::neg_i;
      case Op::abs:
        return Code::abs_i;
      case Op::min:
        return Code::min_i;
      case Op::max:
        return Code::max_i;
      case Op::floordiv:
        return Code::floordiv;
      case Op::mod:
        return Code::mod;
      case Op::lt:
        return Code::lt_i;
      case Op::le:
        return Code::le_i;
      case Op::eq:
        return Code::eq_i;
      case Op::ne:
        return Code::ne_i;
      case Op::logical_and:
      case Op::bit_and:
        return Code::bit_and;
      case Op::logical_or:
      case Op::bit_or:
        return Code::bit_or;
      case Op::bit_xor:
        return Code::bit_xor;
      case Op::logical_not:
        return Code::logical_not;
      case Op::shl:
        return Code::shl;
      case Op::shr:
        return Code::shr;
      case Op::select:
        return Code::select;
      default:
        POCK_CHECK(false, "{} of integers", row(op).name);
    }
  }

  template <class Value>
  void convert(const Expr& from, DType to, Instruction& i, const Value& value_of) {
    DType t = from->type;
    bool f32_is_double = precision_ == Precision::f64;
    if (to == DType::mask) {
      i.code = is_float(t) ? float_code(Op::ne, t) : Code::ne_i;
      i.b = integer(0);  // the bits of zero in every type
    } else if (is_float(t) && is_float(to)) {
      i.code = f32_is_double || t == to ? Code::move : t == DType::f32 ? Code::r_to_d : Code::d_to_r;
    } else if (is_float(to)) {
      i.code = real(to) ? Code::i_to_r : Code::i_to_d;
    } else if (is_float(t)) {
      i.code = real(t) ? Code::r_to_i : Code::d_to_i;
      auto [lowest, highest] = range(to);
      i.imm = lowest;
      i.c = integer(highest);
    }
    i.a = value_of(from);
  }

  static std::pair<int64_t, int64_t> range(DType t) {
    switch (t) {
      case DType::i8:
        return {-128, 127};
      case DType::u8:
        return {0, 255};
      case DType::i32:
        return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
      default:
        return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
    }
  }

  static constexpr uint32_t kNone = ~0u;

  Precision precision_;
  bool reverse_;
  Program program_;
  std::vector<Level> levels_;
  std::unordered_map<int64_t, uint32_t> constants_;  // by bits
  std::unordered_map<const Buffer*, uint32_t> registers_, buffers_;
  std::unordered_map<const Var*, std::pair<uint32_t, size_t>> vars_;  // slot and level
  std::unordered_map<const ExprNode*, std::pair<Expr, uint32_t>>
      values_;              // of one statement; keeps the keys alive
  uint32_t fresh_ = kNone;  // the slot that the last call of value() filled
};

}  // namespace

Program compile(const Kernel& k, Precision p, bool reverse) {
  Program program = Compiler(p, reverse).run(k);
  if (!program.blocks.empty()) verify(k);  // or threads might miss what others do
  return program;
}

}  // namespace pock::loop
