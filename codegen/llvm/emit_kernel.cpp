#include "llvm/emit_kernel.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_map>

#include "llvm/emit_expr.h"
#include "llvm/machine.h"
#include "pock/loop/range.h"
#include "pock/loop/transform.h"
#include "pock/support/diag.h"

namespace pock {

using llvm::BasicBlock;
using llvm::Value;
using loop::BufferRef;
using loop::Expr;
using loop::LoopMode;
using loop::Range;
using loop::ScalarOp;
using loop::Space;
using loop::Stmt;
using loop::StmtKind;
using loop::Var;

namespace {

// Neighbours that load_turned takes at once: what a vector register's quarter holds.
constexpr int kTurned = 4;
// Products of bytes that one instruction adds to a word.
constexpr int kDot = 4;
// Bytes that come from memory together.
constexpr int64_t kLine = 64;
// Bytes of buffers that are in the nearest cache anyway.
constexpr int64_t kNear = 32 << 10;

bool is_argument(const BufferRef& b) { return b->space < Space::reg; }

// Whether what the loop's iterations load, one after the other, are neighbours in memory.
bool are_neighbours(const Expr& load, const Stmt& loop) {
  for (size_t axis = 0; axis < load->args.size(); ++axis) {
    int64_t stride = 0;
    if (!loop::linear_stride(load->args[axis], loop.var, &stride)) return false;
    if (stride * loop.step != (axis + 1 == load->args.size())) return false;
  }
  return true;
}

bool loads_anything(const std::vector<Expr>& index) {
  return std::any_of(index.begin(), index.end(),
                     [](const Expr& e) { return e->op == ScalarOp::load || loads_anything(e->args); });
}

// sum + i32(unsigned_byte) * i32(signed_byte)
struct ByteProduct {
  Expr sum, unsigned_byte, signed_byte;  // loads
};

// What the loop's iterations add to a register, where the bytes of one iteration are neighbours of the next one's.
std::optional<ByteProduct> byte_product(const Stmt& s, const Stmt& loop) {
  if (s.kind != StmtKind::store || s.buffer->space != Space::reg || s.value->op != ScalarOp::add ||
      s.value->type != DType::i32 || loads_anything(s.index))
    return std::nullopt;
  const Expr sum = loop::load(s.buffer, s.index);
  if (uses(sum, loop.var.get())) return std::nullopt;
  for (int first : {0, 1}) {
    const Expr& product = s.value->args[1 - first];
    if (!loop::same(s.value->args[first], sum) || product->op != ScalarOp::mul) continue;
    ByteProduct found{sum, {}, {}};
    for (const Expr& factor : product->args) {
      if (factor->op != ScalarOp::cast) continue;
      const Expr& byte = factor->args[0];
      if (byte->op != ScalarOp::load || !is_argument(byte->buffer) || loads_anything(byte->args) ||
          !are_neighbours(byte, loop))
        continue;
      if (byte->type == DType::u8) found.unsigned_byte = byte;
      if (byte->type == DType::i8) found.signed_byte = byte;
    }
    if (found.unsigned_byte.get() && found.signed_byte.get()) return found;
  }
  return std::nullopt;
}

// What a loop variable stands for while its body is emitted.
struct Binding {
  Value* value = nullptr;  // null: the lanes of the vector loop, 0, 1, ...
  int depth = 0;           // loops around it
  Range range;
};

// Where an element is: a constant, multiples of scalar values, a step per lane, and what varies otherwise.
struct Position {
  struct Term {
    Value* value;
    int64_t times;
    int depth;
  };
  int64_t constant = 0;
  int64_t lane = 0;  // elements between the positions of neighbouring lanes
  std::vector<Term> terms;
  Value* scattered = nullptr;  // vector of i64, added lane by lane

  void add(Value* v, int64_t times, int depth) {
    for (Term& t : terms)
      if (t.value == v) {
        t.times += times;
        return;
      }
    terms.push_back({v, times, depth});
  }
};

class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, const Target& target, const loop::Kernel& kernel,
                const std::string& name)
      : module_(module), target_(target), kernel_(kernel), name_(name), b_(module.getContext()) {}

  Phases run() {
    const std::vector<Stmt>* body = &kernel_.body;
    if (const Stmt* s = loop::repeated(kernel_); s && has_parallel(s->body)) {
      around_ = s;
      body = &s->body;
      phases_.times = loop::trips(*s);
    }
    std::vector<Stmt> serial;
    auto flush = [&] {
      if (!serial.empty()) phase(1, [&] { statements(serial); });
      serial.clear();
    };
    for (const Stmt& s : *body) {
      if (s.kind != StmtKind::loop || s.mode != LoopMode::parallel) {
        serial.push_back(s);
        continue;
      }
      flush();
      POCK_CHECK(s.lo->op == ScalarOp::constant && s.hi->op == ScalarOp::constant,
                 "bounds of parallel loop {} in {}", s.var->name, kernel_.name);
      const int64_t lo = s.lo->integer, hi = s.hi->integer;
      const int64_t iterations = std::max<int64_t>(0, (hi - lo + s.step - 1) / s.step);
      if (iterations > 0) phase(iterations, [&] { parallel_loop(s); });
    }
    flush();
    return phases_;
  }

 private:
  llvm::LLVMContext& context() { return module_.getContext(); }
  Value* integer(int64_t v) { return b_.getInt64(v); }

  void phase(int64_t iterations, const std::function<void()>& body) {
    llvm::Type* pointer = b_.getPtrTy();
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {pointer, b_.getInt64Ty(), b_.getInt64Ty()}, false);
    const std::string name = phases_.empty() ? name_ : fmt::format("{}.{}", name_, phases_.size());
    function_ = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, module_);
    set_attributes(*function_, target_);
    function_->addFnAttr(llvm::Attribute::NoInline);
    function_->addFnAttr(llvm::Attribute::NoRecurse);
    // Entry holds nothing but arguments and registers, so that both can be added while the body grows.
    entry_ = BasicBlock::Create(context(), "entry", function_);
    BasicBlock* first = BasicBlock::Create(context(), "body", function_);
    slots_.clear();
    stack_bytes_ = 0;
    b_.SetInsertPoint(first);
    if (around_) bind_time();
    body();
    b_.CreateRetVoid();
    b_.SetInsertPoint(entry_);
    b_.CreateBr(first);
    phases_.push_back({function_, iterations});
  }

  static bool has_parallel(const std::vector<Stmt>& body) {
    return std::any_of(body.begin(), body.end(), [](const Stmt& s) { return s.mode == LoopMode::parallel; });
  }

  void bind_time() {
    Value* where = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), function_->getArg(0), kernel_.args.size());
    Value* number = b_.CreatePtrToInt(b_.CreateLoad(b_.getPtrTy(), where), b_.getInt64Ty());
    env_[around_->var.get()] = {.value = number, .depth = 0, .range = {0, phases_.times - 1}};
  }

  // --- memory

  // In memory a mask is bits; in registers it is a byte an element, and what a vector loop declares has a
  // lane axis.
  struct Slot {
    Value* pointer = nullptr;
    const Var* lanes = nullptr;  // the vector loop that declares it
    int64_t width = 1;
  };

  const Slot& slot(const BufferRef& buffer) {
    auto found = slots_.find(buffer.get());
    if (found != slots_.end()) return found->second;
    auto arg = std::find(kernel_.args.begin(), kernel_.args.end(), buffer);
    POCK_CHECK(arg != kernel_.args.end(), "{} is not visible here in kernel {}", buffer->name, kernel_.name);
    llvm::IRBuilder<> entry(entry_);
    Value* where =
        entry.CreateConstInBoundsGEP1_64(entry.getPtrTy(), function_->getArg(0), arg - kernel_.args.begin());
    auto* pointer = entry.CreateLoad(entry.getPtrTy(), where, buffer->name);
    mark_invariant(pointer);
    return slots_[buffer.get()] = {pointer};
  }

  void declare(const BufferRef& buffer) {
    if (buffer->space == Space::shared) refuse_blocks("shared " + buffer->name);
    Slot s;
    if (lanes_) s.lanes = vector_var_, s.width = lanes_;
    llvm::Type* type = storage_type(buffer);
    stack_bytes_ += buffer->type.elements() * s.width * static_cast<int64_t>(alignment(buffer).value());
    POCK_CHECK(stack_bytes_ <= kMostStack, "registers of kernel {} take {} bytes of a thread's stack",
               kernel_.name, stack_bytes_);
    llvm::IRBuilder<> entry(entry_, entry_->begin());
    auto* room = entry.CreateAlloca(llvm::ArrayType::get(type, buffer->type.elements() * s.width), nullptr,
                                    buffer->name);
    // A stack that had to be aligned further would be deeper than its frames.
    room->setAlignment(llvm::Align(target_.bare() ? 8 : 64));
    s.pointer = room;
    slots_[buffer.get()] = s;
  }

  llvm::Type* storage_type(const BufferRef& buffer) {
    return buffer->type.dtype == DType::mask ? b_.getInt8Ty() : element_type(context(), buffer->type.dtype);
  }
  bool is_bits(const BufferRef& b) { return b->type.dtype == DType::mask && is_argument(b); }

  // Of an element, counted in elements (bits for a mask in memory).
  Position position(const BufferRef& buffer, const std::vector<Expr>& index) {
    const Slot& s = slot(buffer);
    Position p;
    int64_t stride = s.width;
    if (s.lanes) locate_variable(s.lanes, 1, p);
    for (int axis = buffer->type.rank() - 1; axis >= 0; --axis) {
      locate(index[axis], stride, p);
      const bool rows_of_bits = is_bits(buffer) && axis == buffer->type.rank() - 1;
      stride *= rows_of_bits ? (buffer->type.dim(axis) + 7) / 8 * 8 : buffer->type.dim(axis);
    }
    return p;
  }

  void locate_variable(const Var* v, int64_t times, Position& p) {
    const Binding& binding = bound(v);
    if (!binding.value)
      p.lane += times;
    else if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(binding.value))
      p.constant += times * c->getSExtValue();
    else
      p.add(binding.value, times, binding.depth);
  }

  void locate(const Expr& e, int64_t times, Position& p) {
    switch (e->op) {
      case ScalarOp::constant:
        p.constant += times * e->integer;
        return;
      case ScalarOp::var:
        locate_variable(e->var.get(), times, p);
        return;
      case ScalarOp::add:
      case ScalarOp::sub:
        locate(e->args[0], times, p);
        locate(e->args[1], e->op == ScalarOp::add ? times : -times, p);
        return;
      case ScalarOp::neg:
        locate(e->args[0], -times, p);
        return;
      case ScalarOp::mul:
        for (int side : {0, 1})
          if (Range r = range(e->args[side]); r.single()) {
            locate(e->args[1 - side], times * r.lo, p);
            return;
          }
        break;
      default:
        break;
    }
    if (Range r = range(e); r.single()) {
      p.constant += times * r.lo;
      return;
    }
    Value* v = emit_place(e);
    if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(v)) {
      p.constant += times * c->getSExtValue();
    } else if (lanes_of(v) == 0) {
      p.add(v, times, depth_ + 1);
    } else {
      Value* scaled = b_.CreateMul(v, spread(b_, integer(times), lanes_));
      p.scattered = p.scattered ? b_.CreateAdd(p.scattered, scaled) : scaled;
    }
  }

  // One value for the iterations of an unrolled loop that it does not depend on: so that equal positions are seen to be
  // equal.
  Value* emit_place(const Expr& e) {
    std::vector<Value*> variables;
    if (varies(e, variables)) return emit(e);
    if (places_in_ != b_.GetInsertBlock()) places_.clear();
    places_in_ = b_.GetInsertBlock();
    Place& known = places_[e.get()];
    if (!known.value || known.variables != variables) known = {emit(e), std::move(variables), e};
    return known.value;
  }

  // Whether there is more to a value than those of its variables, which it appends.
  bool varies(const Expr& e, std::vector<Value*>& variables) {
    if (e->op == ScalarOp::load) return true;
    if (e->op == ScalarOp::var) {
      variables.push_back(bound(e->var.get()).value);
      return !variables.back();  // lanes
    }
    return std::any_of(e->args.begin(), e->args.end(), [&](const Expr& a) { return varies(a, variables); });
  }

  // The scalar part of a position: outer loops first, so that partial sums move out of inner loops. In numbers of the width
  // of addresses, as none is larger: narrower ones would not be found again behind the last sum.
  Value* variable_part(Position& p) {
    std::stable_sort(p.terms.begin(), p.terms.end(),
                     [](const auto& a, const auto& b) { return a.depth < b.depth; });
    llvm::IntegerType* word = module_.getDataLayout().getIntPtrType(context());
    Value* sum = nullptr;
    for (const Position::Term& t : p.terms) {
      if (t.times == 0) continue;
      Value* scaled = b_.CreateSExtOrTrunc(t.value, word);
      if (t.times != 1) scaled = b_.CreateNSWMul(scaled, llvm::ConstantInt::getSigned(word, t.times));
      sum = sum ? b_.CreateNSWAdd(sum, scaled) : scaled;
    }
    return sum ? b_.CreateSExt(sum, b_.getInt64Ty()) : nullptr;
  }

  // Element 0 of a vector access, or the only one. The constant stands last and becomes a displacement.
  Value* address(const BufferRef& buffer, Value* variable, int64_t constant) {
    llvm::Type* type = storage_type(buffer);
    Value* p = slot(buffer).pointer;
    if (variable) p = b_.CreateGEP(type, p, variable);
    return constant ? b_.CreateGEP(type, p, integer(constant)) : p;
  }

  Value* lane_offset(const Position& p, Value* variable, unsigned lane) {
    Value* at = integer(p.constant + p.lane * lane);
    if (variable) at = b_.CreateNSWAdd(variable, at);
    if (p.scattered) at = b_.CreateNSWAdd(at, b_.CreateExtractElement(p.scattered, lane));
    return at;
  }

  llvm::Align alignment(const BufferRef& b) {
    return llvm::Align(b->type.dtype == DType::mask ? 1 : size_of(b->type.dtype));
  }

  void mark_invariant(llvm::LoadInst* load) {
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context(), {}));
  }

  // A result can only lie where an input of its own size does.
  bool is_stored_over(const BufferRef& buffer) const {
    return buffer->space != Space::in ||
           std::any_of(kernel_.args.begin(), kernel_.args.end(), [&](const BufferRef& other) {
             return other->space != Space::in && other->type.bytes() == buffer->type.bytes();
           });
  }

  Value* load_from(const BufferRef& buffer, llvm::Type* type, Value* where) {
    llvm::LoadInst* v = b_.CreateAlignedLoad(type, where, alignment(buffer));
    if (!is_stored_over(buffer)) mark_invariant(v);
    return v;
  }

  Value* load_element(const BufferRef& buffer, Value* offset) {
    if (!is_bits(buffer)) {
      Value* v = load_from(buffer, storage_type(buffer), address(buffer, offset, 0));
      return buffer->type.dtype == DType::mask ? b_.CreateIsNotNull(v) : v;
    }
    Value* byte = b_.CreateLoad(b_.getInt8Ty(), address(buffer, b_.CreateLShr(offset, 3), 0));
    Value* bit = b_.CreateTrunc(b_.CreateAnd(offset, 7), b_.getInt8Ty());
    return b_.CreateTrunc(b_.CreateLShr(byte, bit), b_.getInt1Ty());
  }

  void store_element(const BufferRef& buffer, Value* offset, Value* v) {
    if (!is_bits(buffer)) {
      if (buffer->type.dtype == DType::mask) v = b_.CreateZExt(v, b_.getInt8Ty());
      b_.CreateAlignedStore(v, address(buffer, offset, 0), alignment(buffer));
      return;
    }
    Value* where = address(buffer, b_.CreateLShr(offset, 3), 0);
    Value* shift = b_.CreateTrunc(b_.CreateAnd(offset, 7), b_.getInt8Ty());
    Value* keep = b_.CreateNot(b_.CreateShl(b_.getInt8(1), shift));
    Value* bit = b_.CreateShl(b_.CreateZExt(v, b_.getInt8Ty()), shift);
    b_.CreateStore(b_.CreateOr(b_.CreateAnd(b_.CreateLoad(b_.getInt8Ty(), where), keep), bit), where);
  }

  // Lanes beside each other in memory, so that one instruction moves them all.
  bool contiguous(const BufferRef& buffer, const Position& p) {
    if (p.lane != 1 || p.scattered) return false;
    if (!is_bits(buffer)) return true;
    bool whole_bytes = lanes_ % 8 == 0 && p.constant % 8 == 0;
    for (const Position::Term& t : p.terms) whole_bytes = whole_bytes && t.times % 8 == 0;
    return whole_bytes;
  }
  Value* byte_of_bits(Value* variable) { return variable ? b_.CreateAShr(variable, 3) : nullptr; }

  Value* emit_load(const Expr& e) {
    const BufferRef& buffer = e->buffer;
    Position p = position(buffer, e->args);
    Value* variable = variable_part(p);
    const bool in_bits = is_bits(buffer);
    if (p.lane == 0 && !p.scattered && in_bits) return load_element(buffer, lane_offset(p, variable, 0));
    const bool together = contiguous(buffer, p);
    if (together && in_bits) {
      Value* where = address(buffer, byte_of_bits(variable), p.constant / 8);
      Value* bits = b_.CreateAlignedLoad(b_.getIntNTy(lanes_), where, llvm::Align(1));
      return b_.CreateBitCast(bits, llvm::FixedVectorType::get(b_.getInt1Ty(), lanes_));
    }
    if (together || (p.lane == 0 && !p.scattered)) {
      llvm::Type* type = storage_type(buffer);
      if (together) type = llvm::FixedVectorType::get(type, lanes_);
      Value* v = load_from(buffer, type, address(buffer, variable, p.constant));
      return buffer->type.dtype == DType::mask ? b_.CreateIsNotNull(v) : v;
    }
    if (Value* turned = load_turned(e, p, variable)) return turned;
    Value* result =
        llvm::PoisonValue::get(llvm::FixedVectorType::get(element_type(context(), e->type), lanes_));
    for (unsigned lane = 0; lane < lanes_; ++lane)
      result = b_.CreateInsertElement(result, load_element(buffer, lane_offset(p, variable, lane)), lane);
    return result;
  }

  // Lanes far apart, of which the unrolled loop around reads kTurned neighbours one after the other: those come at once
  // from every lane, and are turned into vectors of lanes. Null where it is not so.
  Value* load_turned(const Expr& e, const Position& p, Value* variable) {
    const BufferRef& buffer = e->buffer;
    // A result that lies over an input overwrites what nobody reads later, so loads may come early.
    if (e->type != DType::f32 || p.scattered || lanes_ < kTurned || (lanes_ & (lanes_ - 1)) != 0 ||
        buffer->space != Space::in)
      return nullptr;
    if (turned_in_ != b_.GetInsertBlock()) turned_.clear();
    turned_in_ = b_.GetInsertBlock();
    for (const Turned& t : turned_)
      if (t.buffer == buffer.get() && same_place(t.position, p)) return t.value;
    if (!reads_neighbours(e)) return nullptr;
    // Part r of four holds the lanes r, 4 + r, 8 + r, ...: turning each four by four puts all lanes in order.
    Value* part[kTurned];
    for (unsigned r = 0; r < kTurned; ++r) {
      std::vector<Value*> pieces;
      for (unsigned lane = r; lane < lanes_; lane += kTurned)
        pieces.push_back(load_from(buffer, llvm::FixedVectorType::get(b_.getFloatTy(), kTurned),
                                   address(buffer, variable, p.constant + p.lane * lane)));
      part[r] = concatenated(std::move(pieces));
    }
    auto pick = [&](Value* x, Value* y,
                    std::array<int, kTurned> from) {  // 0..3 of x's, 4..7 of y's, in every four
      std::vector<int> mask;
      for (int four = 0; four < static_cast<int>(lanes_); four += kTurned)
        for (int i : from)
          mask.push_back(i < kTurned ? four + i : static_cast<int>(lanes_) + four + i - kTurned);
      return b_.CreateShuffleVector(x, y, mask);
    };
    Value *low01 = pick(part[0], part[1], {0, 4, 1, 5}), *high01 = pick(part[0], part[1], {2, 6, 3, 7});
    Value *low23 = pick(part[2], part[3], {0, 4, 1, 5}), *high23 = pick(part[2], part[3], {2, 6, 3, 7});
    Value* columns[kTurned] = {pick(low01, low23, {0, 1, 4, 5}), pick(low01, low23, {2, 3, 6, 7}),
                               pick(high01, high23, {0, 1, 4, 5}), pick(high01, high23, {2, 3, 6, 7})};
    for (int i = 0; i < kTurned; ++i) {
      turned_.push_back({buffer.get(), p, columns[i]});
      turned_.back().position.constant += i;
    }
    return columns[0];
  }

  // Whether the load and those of the next iterations of an unrolled loop, all of which run, are neighbours. Of the loops
  // around it is the innermost that the load depends on: rows share what they are multiplied with.
  bool reads_neighbours(const Expr& e) const {
    const Unrolled* u = unrolled_;
    while (target_.turns_shared && u && u->block == b_.GetInsertBlock() && !uses(e, u->loop->var.get()))
      u = u->around;
    return u && u->left >= kTurned && u->block == b_.GetInsertBlock() && are_neighbours(e, *u->loop);
  }

  static bool same_place(const Position& a, const Position& b) {
    return a.constant == b.constant && a.lane == b.lane &&
           std::equal(a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(),
                      [](const auto& x, const auto& y) { return x.value == y.value && x.times == y.times; });
  }

  // Pieces of equal width behind one another; a power of two of them.
  Value* concatenated(std::vector<Value*> pieces) {
    while (pieces.size() > 1) {
      std::vector<Value*> pairs;
      std::vector<int> all(2 * lanes_of(pieces[0]));
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
      for (size_t i = 0; i < pieces.size(); i += 2)
        pairs.push_back(b_.CreateShuffleVector(pieces[i], pieces[i + 1], all));
      pieces = std::move(pairs);
    }
    return pieces[0];
  }

  void emit_store(const Stmt& s) {
    begin_statement();
    Value* v = dot_ ? emit_dot(*byte_product(s, *dot_)) : emit(expanded(s.value));
    Position p = position(s.buffer, s.index);
    Value* variable = variable_part(p);
    const DType type = s.buffer->type.dtype;
    if (p.lane == 0 && !p.scattered) {  // one place; of several lanes the last one stays
      if (lanes_of(v)) v = b_.CreateExtractElement(v, lanes_ - 1);
      if (is_bits(s.buffer)) return store_element(s.buffer, lane_offset(p, variable, 0), v);
      if (type == DType::mask) v = b_.CreateZExt(v, b_.getInt8Ty());
      b_.CreateAlignedStore(v, address(s.buffer, variable, p.constant), alignment(s.buffer));
      return;
    }
    v = spread(b_, v, lanes_);
    if (!contiguous(s.buffer, p)) {
      for (unsigned lane = 0; lane < lanes_; ++lane)
        store_element(s.buffer, lane_offset(p, variable, lane), b_.CreateExtractElement(v, lane));
    } else if (is_bits(s.buffer)) {
      Value* where = address(s.buffer, byte_of_bits(variable), p.constant / 8);
      b_.CreateAlignedStore(b_.CreateBitCast(v, b_.getIntNTy(lanes_)), where, llvm::Align(1));
    } else {
      if (type == DType::mask) v = b_.CreateZExt(v, llvm::FixedVectorType::get(b_.getInt8Ty(), lanes_));
      b_.CreateAlignedStore(v, address(s.buffer, variable, p.constant), alignment(s.buffer));
    }
  }

  // --- dot products of bytes

  // An unrolled loop that does nothing but to add kDot products of neighbouring bytes to the words of a vector. Words
  // wrap around, so their sum is the same in any order.
  bool is_dot(const Stmt& s) const {
    if (!target_.byte_dots || dot_ || s.mode != LoopMode::unroll || s.step != 1 || loop::trips(s) != kDot)
      return false;
    const Stmt* inner = &s;
    int64_t lanes = lanes_;
    while (inner->body.size() == 1 && inner->body[0].kind == StmtKind::loop) {
      inner = &inner->body[0];
      if (inner->lo->op != ScalarOp::constant || inner->hi->op != ScalarOp::constant) return false;
      if (inner->mode == LoopMode::vector) lanes = loop::trips(*inner);
    }
    const bool fits = (lanes == 4 || lanes == 8 || lanes == 16) && lanes <= target_.vector_bits / 32;
    return fits && inner->body.size() == 1 && byte_product(inner->body[0], s).has_value();
  }

  void emit_dots(const Stmt& s, int64_t first) {
    bind_constant(s.var.get(), first);
    dot_ = &s;
    statements(s.body);
    dot_ = nullptr;
    env_.erase(s.var.get());
  }

  Value* emit_dot(const ByteProduct& p) {
    Value* sum = spread(b_, emit(p.sum), lanes_);
    Value* a = load_words(p.unsigned_byte);
    return emit_byte_dot(b_, sum, a, load_words(p.signed_byte));
  }

  // For every lane the kDot bytes from the load's place on, as a word.
  Value* load_words(const Expr& e) {
    const BufferRef& buffer = e->buffer;
    Position p = position(buffer, e->args);
    Value* variable = variable_part(p);
    llvm::Type *word = b_.getInt32Ty(), *words = llvm::FixedVectorType::get(word, lanes_);
    if (!p.scattered && p.lane == kDot)
      return load_from(buffer, words, address(buffer, variable, p.constant));
    if (!p.scattered && p.lane == 0)
      return spread(b_, load_from(buffer, word, address(buffer, variable, p.constant)), lanes_);
    Value* result = llvm::PoisonValue::get(words);
    for (unsigned lane = 0; lane < lanes_; ++lane) {
      Value* where = address(buffer, lane_offset(p, variable, lane), 0);
      result = b_.CreateInsertElement(result, load_from(buffer, word, where), lane);
    }
    return result;
  }

  // --- expressions

  // Values that the current statement has computed. Loads are among them: nothing is stored before its end.
  void begin_statement() { cache_.clear(), owned_.clear(); }
  const Expr& expanded(const Expr& e) {
    return target_.vectors ? owned_.emplace_back(loop::expand_math(e)) : e;
  }

  // exp and the like are many instructions. Where no vectors compute several at once all kernels call one function, which
  // the module has already or gets. Null for other operations.
  llvm::Function* math_function(const Expr& e) {
    if (target_.vectors || e->type != DType::f32 || e->args.empty() || e->op == ScalarOp::load)
      return nullptr;
    std::vector<Expr> args;  // loads that stand for the parameters
    for (const Expr& a : e->args)
      args.push_back(loop::load(std::make_shared<loop::Buffer>(loop::Buffer{"x", Type{a->type, {}}}), {}));
    const Expr plain = loop::make(e->op, args, e->type), arithmetic = loop::expand_math(plain);
    if (arithmetic.get() == plain.get()) return nullptr;
    const std::string name = fmt::format("pock_{}_f32", static_cast<int>(e->op));
    if (llvm::Function* known = module_.getFunction(name)) return known;
    return KernelEmitter(module_, target_, kernel_, name).function_of(args, arithmetic);
  }

  llvm::Function* function_of(const std::vector<Expr>& args, const Expr& value) {
    const std::vector<llvm::Type*> types(args.size(), b_.getFloatTy());
    function_ = llvm::Function::Create(llvm::FunctionType::get(b_.getFloatTy(), types, false),
                                       llvm::Function::InternalLinkage, name_, module_);
    set_attributes(*function_, target_);
    function_->addFnAttr(llvm::Attribute::NoInline);
    function_->setDoesNotAccessMemory();
    b_.SetInsertPoint(BasicBlock::Create(context(), "entry", function_));
    for (size_t i = 0; i < args.size(); ++i)
      cache_[args[i].get()] = function_->getArg(static_cast<unsigned>(i));
    b_.CreateRet(emit(value));
    return function_;
  }

  Value* call_math(llvm::Function* function, const std::vector<Value*>& operands) {
    if (lanes_of(operands[0]) == 0) return b_.CreateCall(function, operands);
    Value* result = llvm::PoisonValue::get(operands[0]->getType());
    for (unsigned lane = 0; lane < lanes_; ++lane) {
      std::vector<Value*> of_lane;
      for (Value* v : operands) of_lane.push_back(b_.CreateExtractElement(v, lane));
      result = b_.CreateInsertElement(result, b_.CreateCall(function, of_lane), lane);
    }
    return result;
  }

  const Binding& bound(const Var* v) {
    auto found = env_.find(v);
    POCK_CHECK(found != env_.end(), "variable {} is not bound in kernel {}", v->name, kernel_.name);
    return found->second;
  }

  Value* emit(const Expr& e) {
    switch (e->op) {
      case ScalarOp::constant:
        return emit_constant(b_, *e);
      case ScalarOp::var: {
        const Binding& binding = bound(e->var.get());
        if (binding.value) return binding.value;
        std::vector<llvm::Constant*> numbers;
        for (unsigned i = 0; i < lanes_; ++i) numbers.push_back(b_.getInt64(i));
        return llvm::ConstantVector::get(numbers);
      }
      default:
        break;
    }
    if (auto found = cache_.find(e.get()); found != cache_.end()) return found->second;
    Value* v = emit_uncached(e);
    cache_[e.get()] = v;
    return v;
  }

  Value* emit_uncached(const Expr& e) {
    std::vector<Value*> v;
    switch (e->op) {
      case ScalarOp::load:
        return emit_load(e);
      case ScalarOp::floordiv:
      case ScalarOp::mod:
        for (const Expr& a : e->args) v.push_back(emit(a));
        if (range(e->args[0]).lo >= 0) {
          if (lanes_of(v[0])) v[1] = spread(b_, v[1], lanes_);
          return e->op == ScalarOp::floordiv ? b_.CreateUDiv(v[0], v[1]) : b_.CreateURem(v[0], v[1]);
        }
        break;
      default:
        for (const Expr& a : e->args) v.push_back(emit(a));
        if (llvm::Function* function = math_function(e)) {
          const bool wide = std::any_of(v.begin(), v.end(), [](Value* x) { return lanes_of(x) > 0; });
          for (Value*& x : v)
            if (wide) x = spread(b_, x, lanes_);
          return call_math(function, v);
        }
    }
    return emit_operation(b_, target_, *e, std::move(v));
  }

  Range range(const Expr& e) {
    return loop::range_of(e, [&](const Var& v) { return bound(&v).range; });
  }

  // --- statements

  void statements(const std::vector<Stmt>& body) {
    for (size_t i = 0; i < body.size(); ++i) {
      if (is_long_sum(body[i])) prefetch({body.begin() + static_cast<ptrdiff_t>(i) + 1, body.end()});
      statement(body[i]);
    }
  }

  // --- prefetches: what is read behind a sum is asked for in front of it

  bool is_long_sum(const Stmt& s) {
    return s.kind == StmtKind::loop && !s.independent && sums_ == 0 && s.mode == LoopMode::plain &&
           !runs_once(s);
  }

  void prefetch(const std::vector<Stmt>& body) {
    std::vector<std::pair<const loop::Buffer*, Position>> asked;
    for (const Stmt& s : body) prefetch(s, asked);
  }

  void prefetch(const Stmt& s, std::vector<std::pair<const loop::Buffer*, Position>>& asked) {
    if (s.kind == StmtKind::store) {
      begin_statement();
      return prefetch(s.value, asked);
    }
    const bool written_out = s.mode == LoopMode::unroll || s.mode == LoopMode::vector;
    if (s.kind != StmtKind::loop || !s.independent || !written_out) return;
    const Range lo = range(s.lo), hi = range(s.hi);
    if (!lo.single() || !hi.single()) return;
    const int64_t step = s.mode == LoopMode::vector ? kLine / 4 /* of f32 a line */ : s.step;
    for (int64_t i = lo.lo; i < hi.hi; i += step) {
      bind_constant(s.var.get(), i);
      for (const Stmt& inner : s.body) prefetch(inner, asked);
    }
    env_.erase(s.var.get());
  }

  void prefetch(const Expr& e, std::vector<std::pair<const loop::Buffer*, Position>>& asked) {
    if (e->op == ScalarOp::load && is_argument(e->buffer) && e->buffer->type.bytes() > kNear &&
        !loads_anything(e->args)) {  // what says where may not be there yet
      const int64_t line = kLine / static_cast<int64_t>(size_of(e->buffer->type.dtype));
      Position p = position(e->buffer, e->args);
      Value* variable = variable_part(p);
      p.constant = p.constant / line * line;
      for (const auto& [buffer, position] : asked)
        if (buffer == e->buffer.get() && same_place(position, p)) return;
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                         {address(e->buffer, variable, p.constant), b_.getInt32(0 /* to read */),
                          b_.getInt32(3 /* into every cache */), b_.getInt32(1 /* data */)});
      asked.emplace_back(e->buffer.get(), std::move(p));
      return;
    }
    for (const Expr& a : e->args) prefetch(a, asked);
  }

  [[noreturn]] void refuse_blocks(const std::string& what) const {
    throw error("kernel {}: {} is for blocks of threads, which target {} does not have", kernel_.name, what,
                target_.name);
  }

  void statement(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::loop:
        return emit_loop(s);
      case StmtKind::store:
        return emit_store(s);
      case StmtKind::reg:
        return declare(s.buffer);
      case StmtKind::when:
        return emit_when(s);
      case StmtKind::barrier:
        refuse_blocks("a barrier");
    }
  }

  Value* emit_index(const Expr& e) {
    begin_statement();
    Value* v = emit(e);
    POCK_CHECK(lanes_of(v) == 0, "bound {} differs between lanes in kernel {}", loop::to_string(e),
               kernel_.name);
    return v;
  }

  bool runs_once(const Stmt& s) {
    const Range lo = range(s.lo), hi = range(s.hi);
    return lo.single() && hi.single() && lo.lo < hi.hi && lo.lo + s.step >= hi.hi;
  }

  void emit_loop(const Stmt& s) {
    if (s.mode == LoopMode::thread) refuse_blocks("thread loop " + s.var->name);
    const Range lo = range(s.lo), hi = range(s.hi);
    const bool fixed = lo.single() && hi.single();
    if (fixed && lo.lo >= hi.hi) return;
    const bool once = runs_once(s);
    if (s.mode == LoopMode::vector && !once) return vector_loop(s, lo, hi);
    if (is_dot(s)) return emit_dots(s, lo.lo);
    if (once || (fixed && s.mode == LoopMode::unroll)) {
      const Unrolled* around = unrolled_;
      for (int64_t i = lo.lo; i < hi.hi; i += s.step) {
        bind_constant(s.var.get(), i);
        const Unrolled now{&s, (hi.hi - i + s.step - 1) / s.step, b_.GetInsertBlock(), around};
        if (lanes_ == 0) unrolled_ = &now;
        statements(s.body);
      }
      unrolled_ = around;
      env_.erase(s.var.get());
      return;
    }
    Binding binding{.depth = depth_, .range = {lo.lo, hi.known_hi() ? hi.hi - 1 : hi.hi}};
    Value* begin = emit_index(s.lo);
    Value* end = emit_index(s.hi);
    sums_ += !s.independent;
    counted_loop(begin, end, s.step, [&](Value* i) {
      binding.value = i;
      env_[s.var.get()] = binding;
      statements(s.body);
      env_.erase(s.var.get());
    });
    sums_ -= !s.independent;
  }

  void bind_constant(const Var* v, int64_t i) {
    env_[v] = {.value = integer(i), .depth = depth_, .range = {i, i}};
  }

  void vector_loop(const Stmt& s, const Range& lo, const Range& hi) {
    POCK_CHECK(lanes_ == 0 && lo.single() && lo.lo == 0 && hi.single() && s.step == 1,
               "vector loop {} in kernel {}", s.var->name, kernel_.name);
    vector_var_ = s.var.get();
    lanes_ = hi.hi;
    env_[vector_var_] = {.depth = depth_, .range = {0, hi.hi - 1}};
    statements(s.body);
    env_.erase(vector_var_);
    lanes_ = 0;
    vector_var_ = nullptr;
  }

  // for (i = begin; i < end; i += step), tested at the bottom. No loop is longer than there are addresses, so it counts in
  // numbers of their width.
  void counted_loop(Value* begin, Value* end, int64_t step, const std::function<void(Value*)>& body) {
    llvm::IntegerType* word = module_.getDataLayout().getIntPtrType(context());
    begin = b_.CreateSExtOrTrunc(begin, word);
    end = b_.CreateSExtOrTrunc(end, word);
    BasicBlock* before = b_.GetInsertBlock();
    BasicBlock* top = BasicBlock::Create(context(), "loop", function_);
    BasicBlock* after = BasicBlock::Create(context(), "after", function_);
    b_.CreateCondBr(b_.CreateICmpSLT(begin, end), top, after);
    b_.SetInsertPoint(top);
    llvm::PHINode* i = b_.CreatePHI(word, 2);
    i->addIncoming(begin, before);
    ++depth_;
    body(b_.CreateSExt(i, b_.getInt64Ty()));
    --depth_;
    Value* next = b_.CreateNSWAdd(i, llvm::ConstantInt::getSigned(word, step));
    i->addIncoming(next, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpSLT(next, end), top, after);
    b_.SetInsertPoint(after);
  }

  void parallel_loop(const Stmt& s) {
    const int64_t lo = s.lo->integer, hi = s.hi->integer;
    counted_loop(function_->getArg(1), function_->getArg(2), 1, [&](Value* t) {
      Value* i = t;
      if (s.step != 1) i = b_.CreateNSWMul(i, integer(s.step));
      if (lo != 0) i = b_.CreateNSWAdd(i, integer(lo));
      env_[s.var.get()] = {.value = i, .depth = 0, .range = {lo, hi - 1}};
      statements(s.body);
      env_.erase(s.var.get());
    });
  }

  void emit_when(const Stmt& s) {
    begin_statement();
    Value* condition = emit(expanded(s.value));
    if (lanes_of(condition) == 0) return branch(condition, [&] { statements(s.body); });
    // Lanes disagree: one after the other.
    const Var* v = vector_var_;
    const Binding lanes_binding = env_[v];
    const unsigned lanes = lanes_;
    lanes_ = 0;
    vector_var_ = nullptr;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      bind_constant(v, lane);
      branch(b_.CreateExtractElement(condition, lane), [&] { statements(s.body); });
    }
    lanes_ = lanes;
    vector_var_ = v;
    env_[v] = lanes_binding;
  }

  void branch(Value* condition, const std::function<void()>& body) {
    BasicBlock* then = BasicBlock::Create(context(), "then", function_);
    BasicBlock* after = BasicBlock::Create(context(), "after", function_);
    b_.CreateCondBr(condition, then, after);
    b_.SetInsertPoint(then);
    body();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
  }

  llvm::Module& module_;
  const Target& target_;
  const loop::Kernel& kernel_;
  const std::string name_;
  llvm::IRBuilder<> b_;
  llvm::Function* function_ = nullptr;
  BasicBlock* entry_ = nullptr;
  Phases phases_;
  const Stmt* around_ = nullptr;  // the loop of a repeated kernel
  std::unordered_map<const loop::Buffer*, Slot> slots_;
  int64_t stack_bytes_ = 0;
  std::unordered_map<const Var*, Binding> env_;
  const Var* vector_var_ = nullptr;
  unsigned lanes_ = 0;  // of the vector loop around, else 0
  int depth_ = 0;
  int sums_ = 0;  // of the loops around, those that add up

  // An unrolled loop, its iterations from this one on, and where this one starts.
  struct Unrolled {
    const Stmt* loop;
    int64_t left;
    BasicBlock* block;
    const Unrolled* around;  // or null
  };
  const Unrolled* unrolled_ = nullptr;  // the innermost one
  const Stmt* dot_ = nullptr;           // the loop whose iterations the next store adds up at once
  // What load_turned has loaded in this block.
  struct Turned {
    const loop::Buffer* buffer;
    Position position;
    Value* value;
  };
  std::vector<Turned> turned_;
  BasicBlock* turned_in_ = nullptr;
  // What positions in this block are made of.
  struct Place {
    Value* value = nullptr;
    std::vector<Value*> variables;
    Expr keep;  // the key's owner
  };
  std::unordered_map<const loop::ExprNode*, Place> places_;
  BasicBlock* places_in_ = nullptr;
  // Of the current statement:
  std::unordered_map<const loop::ExprNode*, Value*> cache_;
  std::vector<Expr> owned_;  // keeps the keys of the cache alive
};

}  // namespace

Phases emit_kernel(llvm::Module& module, const Target& target, const loop::Kernel& kernel,
                   const std::string& name) {
  return KernelEmitter(module, target, kernel, name).run();
}

}  // namespace pock
