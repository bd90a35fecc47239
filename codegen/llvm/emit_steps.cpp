#include "llvm/emit_steps.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <span>

#include "llvm/emit_expr.h"
#include "llvm/float_mode.h"
#include "llvm/machine.h"
#include "place.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"
#include "pock/support/diag.h"

namespace pock {
namespace {

using llvm::BasicBlock;
using llvm::Function;
using llvm::Value;

class StepEmitter {
 public:
  StepEmitter(llvm::Module& module, const Program& program, const std::vector<Phases>& phases)
      : module_(module), p_(program), phases_(phases), b_(module.getContext()) {}

  EntryPoints run() {
    need_late_updates();
    const StepParts parts = step_parts(*p_.train);
    POCK_CHECK(!parts.sums || !parts.norm ||
                   positions(*p_.train).at(parts.sums) < positions(*p_.train).at(parts.norm),
               "the gradient is measured before it is whole in graph {}", p_.train->name);
    spread_ = spread_over_threads();
    EntryPoints e{};
    e.scalars = scalars();
    e.forward = part("forward", parts.loss);
    e.backward = parts.sums ? part("backward", parts.sums) : null();
    e.norm = parts.norm ? part("norm", parts.norm) : null();
    e.update = part("update", nullptr);
    e.infer = step("infer", *p_.infer, p_.infer_uses);
    return e;
  }

 private:
  Function* function(const std::string& name, std::vector<llvm::Type*> args, llvm::Type* result) {
    auto* f = Function::Create(llvm::FunctionType::get(result, args, false), Function::InternalLinkage,
                               "pock_" + name, module_);
    set_attributes(*f, p_.options.target);
    b_.SetInsertPoint(BasicBlock::Create(module_.getContext(), "entry", f));
    return f;
  }

  // A function that runs `body` with the float mode that kernels need and gives the caller's mode back.
  Function* with_float_mode(const std::string& name, Function* body) {
    body->addFnAttr(llvm::Attribute::NoInline);  // so that no arithmetic crosses the switch
    Function* f = function(name, body->getFunctionType()->params(), b_.getVoidTy());
    Value* before = set_float_mode(b_);
    std::vector<Value*> args;
    for (llvm::Argument& a : f->args()) args.push_back(&a);
    b_.CreateCall(body, args);
    restore_float_mode(b_, before);
    b_.CreateRetVoid();
    return f;
  }

  Value* field(Value* record, unsigned index) {
    return b_.CreateLoad(b_.getPtrTy(), b_.CreateConstGEP1_64(b_.getPtrTy(), record, index));
  }

  // --- steps

  // A result that is written straight into what it updates must not be made too early either.
  void need_late_updates() {
    const Graph& g = *p_.train;
    const Positions position = positions(g);
    const StepParts parts = step_parts(g);
    for (const Node* n : g.nodes()) {
      if (!n->op->has_effect()) continue;
      const int earliest = position.at(parts.earliest(*n));
      const Node* writer = stores_nothing(p_, g, *n) ? n->in(1)->node : n;
      POCK_CHECK(position.at(writer) > earliest, "{} is changed too early in graph {}", n->in(0)->name,
                 g.name);
    }
  }

  // The kernels of the training graph that are not in a part yet, up to those of `last`, or all.
  llvm::Constant* part(const std::string& name, const Node* last) {
    const std::vector<KernelUse>& uses = p_.train_uses;
    const size_t first = used_;
    if (!last) used_ = uses.size();
    for (const Node* n : p_.train->nodes()) {
      if (!last) break;
      if (used_ < uses.size() && uses[used_].nodes[0] == n) ++used_;
      if (n == last) break;
    }
    return step(name, *p_.train, std::span(uses).subspan(first, used_ - first));
  }

  llvm::Constant* null() { return llvm::ConstantPointerNull::get(b_.getPtrTy()); }

  Function* step(const std::string& name, const Graph& g, std::span<const KernelUse> uses) {
    llvm::Type* pointer = b_.getPtrTy();
    Function* body = function(name + "_kernels", {pointer, pointer}, b_.getVoidTy());
    for (unsigned i = 0; i < std::size(bases_); ++i) bases_[i] = field(body->getArg(0), i);
    size_t longest = 0;
    for (const KernelUse& use : uses)
      longest = std::max(longest, p_.kernels[use.kernel].scheduled.args.size());
    Value* args = b_.CreateAlloca(llvm::ArrayType::get(pointer, longest + 1));
    for (const KernelUse& use : uses) {
      store_arguments(g, use, args);
      const Phases& phases = phases_[use.kernel];
      const auto once = [&] {
        for (const Phase& phase : phases) call(phase, args, body->getArg(1));
      };
      if (phases.times == 1)
        once();
      else
        repeat(phases.times, args, p_.kernels[use.kernel].scheduled.args.size(), once);
    }
    b_.CreateRetVoid();
    return with_float_mode(name, body);
  }

  // The number of the time goes behind the arguments.
  void repeat(int64_t times, Value* args, uint64_t behind, const std::function<void()>& body) {
    BasicBlock* before = b_.GetInsertBlock();
    BasicBlock* top = BasicBlock::Create(module_.getContext(), "time", before->getParent());
    b_.CreateBr(top);
    b_.SetInsertPoint(top);
    llvm::PHINode* time = b_.CreatePHI(b_.getInt64Ty(), 2);
    time->addIncoming(b_.getInt64(0), before);
    b_.CreateStore(b_.CreateIntToPtr(time, b_.getPtrTy()),
                   b_.CreateConstGEP1_64(b_.getPtrTy(), args, behind));
    body();
    Value* next = b_.CreateAdd(time, b_.getInt64(1));
    time->addIncoming(next, b_.GetInsertBlock());
    BasicBlock* after = BasicBlock::Create(module_.getContext(), "after", before->getParent());
    b_.CreateCondBr(b_.CreateICmpSLT(next, b_.getInt64(times)), top, after);
    b_.SetInsertPoint(after);
  }

  void store_arguments(const Graph& g, const KernelUse& use, Value* args) {
    unsigned index = 0;
    for (const Place& place : argument_places(p_, g, use)) {
      Value* base = bases_[static_cast<int>(place.base)];
      b_.CreateStore(b_.CreateConstGEP1_64(b_.getInt8Ty(), base, place.offset),
                     b_.CreateConstGEP1_64(b_.getPtrTy(), args, index++));
    }
  }

  void call(const Phase& phase, Value* args, Value* threads) {
    Value* n = b_.getInt64(phase.iterations);
    if (phase.iterations == 1)
      b_.CreateCall(phase.function, {args, b_.getInt64(0), n});
    else
      b_.CreateCall(spread_, {threads, phase.function, args, n});
  }

  // Runs a kernel by struct pock_threads, or without one on the calling thread.
  Function* spread_over_threads() {
    llvm::Type* pointer = b_.getPtrTy();
    Function* f = function("spread", {pointer, pointer, pointer, b_.getInt64Ty()}, b_.getVoidTy());
    Value *threads = f->getArg(0), *kernel = f->getArg(1), *args = f->getArg(2), *n = f->getArg(3);
    BasicBlock* alone = BasicBlock::Create(module_.getContext(), "alone", f);
    BasicBlock* together = BasicBlock::Create(module_.getContext(), "together", f);
    b_.CreateCondBr(b_.CreateIsNull(threads), alone, together);
    b_.SetInsertPoint(alone);
    b_.CreateCall(llvm::FunctionType::get(b_.getVoidTy(), {pointer, b_.getInt64Ty(), b_.getInt64Ty()}, false),
                  kernel, {args, b_.getInt64(0), n});
    b_.CreateRetVoid();
    b_.SetInsertPoint(together);  // parallel_for, context
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, pointer, b_.getInt64Ty()}, false);
    b_.CreateCall(type, field(threads, 0), {field(threads, 1), kernel, args, n});
    b_.CreateRetVoid();
    return f;
  }

  // --- scalars

  Function* scalars() {
    const ScalarFormulas formulas = scalar_formulas(p_.options.recipe);
    Function* power = integer_power();
    llvm::Type *real = b_.getDoubleTy(), *whole = b_.getInt64Ty(), *pointer = b_.getPtrTy();
    Function* body =
        function("scalars_formulas", {pointer, real, real, whole, whole, pointer}, b_.getVoidTy());
    formulas_ = &formulas;
    hypers_ = body->getArg(0);
    step_ = body->getArg(1);
    batch_ = body->getArg(2);
    power_ = power;
    const std::vector<pock::Value*>& wanted = p_.train->scalars();
    Value *seed = body->getArg(3), *micro_step = body->getArg(4), *out = body->getArg(5);
    auto number = [&](const loop::Expr& e) { return b_.CreateFPTrunc(formula_value(e), b_.getFloatTy()); };
    b_.CreateStore(number(formulas.lr), out);                      // for people
    Value* words[] = {seed, b_.CreateLShr(seed, 32), micro_step};  // in the order of kRandomWords
    for (size_t i = 0; i < wanted.size(); ++i) {
      Value* to = b_.CreateConstGEP1_64(b_.getFloatTy(), out, 1 + i);
      if (wanted[i]->type.dtype == DType::i32) {
        auto* name = std::find(std::begin(kRandomWords), std::end(kRandomWords), wanted[i]->slot);
        POCK_CHECK(name != std::end(kRandomWords), "there is no word {}", wanted[i]->slot);
        b_.CreateStore(b_.CreateTrunc(words[name - kRandomWords], b_.getInt32Ty()), to);
        continue;
      }
      auto formula = std::find_if(formulas.formulas.begin(), formulas.formulas.end(),
                                  [&](const auto& f) { return f.first == wanted[i]->slot; });
      POCK_CHECK(formula != formulas.formulas.end(), "there is no formula for {}", wanted[i]->name);
      b_.CreateStore(number(formula->second), to);
    }
    b_.CreateRetVoid();
    return with_float_mode("scalars", body);
  }

  Value* formula_value(const loop::Expr& e) {
    if (e->op == loop::ScalarOp::constant) return emit_constant(b_, *e);
    if (e->op == loop::ScalarOp::load) {
      POCK_CHECK(e->buffer == formulas_->buffer && e->args[0]->op == loop::ScalarOp::constant,
                 "formula reads {}", e->buffer->name);
      const int64_t i = e->args[0]->integer, count = static_cast<int64_t>(formulas_->hypers.size());
      if (i >= count) return i == count ? step_ : batch_;
      return b_.CreateLoad(b_.getDoubleTy(), b_.CreateConstGEP1_64(b_.getDoubleTy(), hypers_, i));
    }
    std::vector<Value*> operands;
    for (const loop::Expr& a : e->args) operands.push_back(formula_value(a));
    if (e->op == loop::ScalarOp::pow) return b_.CreateCall(power_, operands);
    return emit_operation(b_, p_.options.target, *e, operands);
  }

  // base^n for a whole n >= 0, by squaring.
  Function* integer_power() {
    llvm::Type *real = b_.getDoubleTy(), *whole = b_.getInt64Ty();
    Function* f = function("power", {real, real}, real);
    BasicBlock* entry = b_.GetInsertBlock();
    BasicBlock* loop = BasicBlock::Create(module_.getContext(), "loop", f);
    BasicBlock* more = BasicBlock::Create(module_.getContext(), "more", f);
    BasicBlock* done = BasicBlock::Create(module_.getContext(), "done", f);
    Value* count = b_.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {whole, real}, {f->getArg(1)});
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    llvm::PHINode* result = b_.CreatePHI(real, 2);
    llvm::PHINode* square = b_.CreatePHI(real, 2);
    llvm::PHINode* left = b_.CreatePHI(whole, 2);
    result->addIncoming(llvm::ConstantFP::get(real, 1), entry);
    square->addIncoming(f->getArg(0), entry);
    left->addIncoming(count, entry);
    b_.CreateCondBr(b_.CreateICmpSGT(left, b_.getInt64(0)), more, done);
    b_.SetInsertPoint(more);
    Value* odd = b_.CreateTrunc(left, b_.getInt1Ty());
    result->addIncoming(b_.CreateSelect(odd, b_.CreateFMul(result, square), result), more);
    square->addIncoming(b_.CreateFMul(square, square), more);
    left->addIncoming(b_.CreateLShr(left, 1), more);
    b_.CreateBr(loop);
    b_.SetInsertPoint(done);
    b_.CreateRet(result);
    return f;
  }

  llvm::Module& module_;
  const Program& p_;
  const std::vector<Phases>& phases_;
  llvm::IRBuilder<> b_;
  size_t used_ = 0;  // of the training graph's kernels, by parts
  Function* spread_ = nullptr;
  Value* bases_[5] = {};  // by Base
  const ScalarFormulas* formulas_ = nullptr;
  Value *hypers_ = nullptr, *step_ = nullptr, *batch_ = nullptr;
  Function* power_ = nullptr;
};

}  // namespace

EntryPoints emit_entry_points(llvm::Module& module, const Program& program,
                              const std::vector<Phases>& phases) {
  return StepEmitter(module, program, phases).run();
}

}  // namespace pock
