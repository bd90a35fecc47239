#include "llvm/emit_expr.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>
#include <llvm/TargetParser/Triple.h>

#include "pock/support/diag.h"

namespace pock {

using llvm::CmpInst;
using llvm::IRBuilderBase;
using llvm::Value;
using loop::ExprNode;
using loop::ScalarOp;

llvm::Type* element_type(llvm::LLVMContext& context, DType t) {
  switch (t) {
    case DType::f32:
      return llvm::Type::getFloatTy(context);
    case DType::f64:
      return llvm::Type::getDoubleTy(context);
    case DType::i8:
    case DType::u8:
      return llvm::Type::getInt8Ty(context);
    case DType::i32:
      return llvm::Type::getInt32Ty(context);
    case DType::i64:
      return llvm::Type::getInt64Ty(context);
    case DType::mask:
      return llvm::Type::getInt1Ty(context);
  }
  POCK_CHECK(false, "element type {}", static_cast<int>(t));
}

unsigned lanes_of(const Value* v) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return vector ? vector->getNumElements() : 0;
}

Value* spread(IRBuilderBase& b, Value* v, unsigned lanes) {
  return lanes == 0 || lanes_of(v) == lanes ? v : b.CreateVectorSplat(lanes, v);
}

Value* emit_constant(IRBuilderBase& b, const ExprNode& e) {
  llvm::Type* type = element_type(b.getContext(), e.type);
  if (is_float(e.type)) return llvm::ConstantFP::get(type, e.number);
  return llvm::ConstantInt::get(type, e.integer, /*IsSigned=*/true);
}

namespace {

bool is_signed(DType t) { return t != DType::u8 && t != DType::mask; }

Value* emit_compare(IRBuilderBase& b, ScalarOp op, DType t, Value* x, Value* y) {
  // Only != holds for a NaN.
  switch (op) {
    case ScalarOp::lt:
      return is_float(t)    ? b.CreateFCmpOLT(x, y)
             : is_signed(t) ? b.CreateICmpSLT(x, y)
                            : b.CreateICmpULT(x, y);
    case ScalarOp::le:
      return is_float(t)    ? b.CreateFCmpOLE(x, y)
             : is_signed(t) ? b.CreateICmpSLE(x, y)
                            : b.CreateICmpULE(x, y);
    case ScalarOp::eq:
      return is_float(t) ? b.CreateFCmpOEQ(x, y) : b.CreateICmpEQ(x, y);
    default:
      return is_float(t) ? b.CreateFCmpUNE(x, y) : b.CreateICmpNE(x, y);
  }
}

// (x > y or x is NaN) ? x : y, and the mirror image. llvm.maximum and llvm.maxnum differ on zeros and NaN.
Value* emit_extreme(IRBuilderBase& b, bool largest, DType t, Value* x, Value* y) {
  if (!is_float(t))
    return b.CreateSelect(
        largest ? emit_compare(b, ScalarOp::lt, t, y, x) : emit_compare(b, ScalarOp::lt, t, x, y), x, y);
  Value* wins = nullptr;
  bool y_is_number = false;
  if (auto* c = llvm::dyn_cast<llvm::Constant>(y)) {
    if (c->getType()->isVectorTy()) c = c->getSplatValue();
    auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
    y_is_number = number && !number->isNaN();
  }
  if (y_is_number) {  // one comparison does it: unordered can only mean that x is NaN
    wins = largest ? b.CreateFCmpUGT(x, y) : b.CreateFCmpULT(x, y);
  } else {
    wins = b.CreateOr(largest ? b.CreateFCmpOGT(x, y) : b.CreateFCmpOLT(x, y), b.CreateFCmpUNO(x, x));
  }
  return b.CreateSelect(wins, x, y);
}

Value* emit_cast(IRBuilderBase& b, DType from, DType to, Value* x) {
  if (from == to) return x;
  llvm::Type* type = element_type(b.getContext(), to);
  if (unsigned lanes = lanes_of(x)) type = llvm::FixedVectorType::get(type, lanes);
  if (to == DType::mask)
    return is_float(from) ? b.CreateFCmpUNE(x, llvm::ConstantFP::getZero(x->getType()))
                          : b.CreateIsNotNull(x);
  if (is_float(from) && is_float(to)) return b.CreateFPCast(x, type);
  if (is_float(from))
    return b.CreateIntrinsic(is_signed(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat,
                             {type, x->getType()}, {x});
  if (is_float(to)) return is_signed(from) ? b.CreateSIToFP(x, type) : b.CreateUIToFP(x, type);
  return b.CreateIntCast(x, type, is_signed(from));
}

// Rounds to minus infinity; the divisor is positive.
Value* emit_floor_division(IRBuilderBase& b, bool quotient, DType t, Value* x, Value* y) {
  if (!is_signed(t)) return quotient ? b.CreateUDiv(x, y) : b.CreateURem(x, y);
  Value* rest = b.CreateSRem(x, y);
  Value* below = b.CreateICmpSLT(rest, llvm::Constant::getNullValue(rest->getType()));
  if (!quotient) return b.CreateSelect(below, b.CreateAdd(rest, y), rest);
  return b.CreateAdd(b.CreateSDiv(x, y), b.CreateSExt(below, rest->getType()));
}

// Without an instruction for it a number that leaves no room for fractions is added and taken away.
Value* emit_round_even(IRBuilderBase& b, const Target& target, DType t, Value* x) {
  if (target.rounds) return b.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x);
  Value* whole = llvm::ConstantFP::get(x->getType(), t == DType::f32 ? 0x1p23 : 0x1p52);
  Value* size = b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  Value* rounded = b.CreateFSub(b.CreateFAdd(size, whole), whole);
  return b.CreateSelect(b.CreateFCmpOLT(size, whole),
                        b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, rounded, x), x);
}

}  // namespace

Value* emit_operation(IRBuilderBase& b, const Target& target, const ExprNode& e, std::vector<Value*> v) {
  unsigned lanes = 0;
  for (Value* x : v) lanes = std::max(lanes, lanes_of(x));
  if (e.op == ScalarOp::select && lanes_of(v[0]) == 0) {  // a scalar condition may choose between vectors
    for (size_t i = 1; i < v.size(); ++i) v[i] = spread(b, v[i], lanes);
  } else {
    for (Value*& x : v) x = spread(b, x, lanes);
  }
  const DType in = e.args[0]->type;
  const bool fp = is_float(in);
  auto intrinsic = [&](llvm::Intrinsic::ID id) { return b.CreateIntrinsic(id, {v[0]->getType()}, v); };
  switch (e.op) {
    case ScalarOp::constant:
    case ScalarOp::var:
    case ScalarOp::load:
      break;
    case ScalarOp::add:
      return fp ? b.CreateFAdd(v[0], v[1]) : b.CreateAdd(v[0], v[1]);
    case ScalarOp::sub:
      return fp ? b.CreateFSub(v[0], v[1]) : b.CreateSub(v[0], v[1]);
    case ScalarOp::mul:
      return fp ? b.CreateFMul(v[0], v[1]) : b.CreateMul(v[0], v[1]);
    case ScalarOp::div:
      POCK_CHECK(fp, "integers divide by floordiv");
      return b.CreateFDiv(v[0], v[1]);
    case ScalarOp::neg:
      return fp ? b.CreateFNeg(v[0]) : b.CreateNeg(v[0]);
    case ScalarOp::abs:
      if (fp) return intrinsic(llvm::Intrinsic::fabs);
      return b.CreateIntrinsic(llvm::Intrinsic::abs, {v[0]->getType()}, {v[0], b.getFalse()});
    case ScalarOp::min:
      return emit_extreme(b, false, in, v[0], v[1]);
    case ScalarOp::max:
      return emit_extreme(b, true, in, v[0], v[1]);
    case ScalarOp::fma:
      return intrinsic(llvm::Intrinsic::fma);
    case ScalarOp::sqrt:
      return intrinsic(llvm::Intrinsic::sqrt);
    case ScalarOp::round_even:
      return emit_round_even(b, target, in, v[0]);
    case ScalarOp::exp:
    case ScalarOp::log:
    case ScalarOp::tanh:
    case ScalarOp::erf:
    case ScalarOp::sin:
    case ScalarOp::cos:
    case ScalarOp::pow:
      break;
    case ScalarOp::floordiv:
      return emit_floor_division(b, true, in, v[0], v[1]);
    case ScalarOp::mod:
      return emit_floor_division(b, false, in, v[0], v[1]);
    case ScalarOp::lt:
    case ScalarOp::le:
    case ScalarOp::eq:
    case ScalarOp::ne:
      return emit_compare(b, e.op, in, v[0], v[1]);
    case ScalarOp::logical_and:
      return b.CreateAnd(v[0], v[1]);
    case ScalarOp::logical_or:
      return b.CreateOr(v[0], v[1]);
    case ScalarOp::logical_not:
      return b.CreateNot(v[0]);
    case ScalarOp::select:
      return b.CreateSelect(v[0], v[1], v[2]);
    case ScalarOp::cast:
      return emit_cast(b, in, e.type, v[0]);
    case ScalarOp::bitcast: {
      llvm::Type* type = element_type(b.getContext(), e.type);
      return b.CreateBitCast(v[0], lanes ? llvm::FixedVectorType::get(type, lanes) : type);
    }
    case ScalarOp::bit_and:
      return b.CreateAnd(v[0], v[1]);
    case ScalarOp::bit_or:
      return b.CreateOr(v[0], v[1]);
    case ScalarOp::bit_xor:
      return b.CreateXor(v[0], v[1]);
    case ScalarOp::shl:
      return b.CreateShl(v[0], v[1]);
    case ScalarOp::shr:
      return is_signed(in) ? b.CreateAShr(v[0], v[1]) : b.CreateLShr(v[0], v[1]);
  }
  POCK_CHECK(false, "no instruction for scalar operation {}", static_cast<int>(e.op));
}

Value* emit_byte_dot(IRBuilderBase& b, Value* sum, Value* unsigned_bytes, Value* signed_bytes) {
  const unsigned lanes = lanes_of(sum);
  const llvm::Intrinsic::ID id = lanes == 16  ? llvm::Intrinsic::x86_avx512_vpdpbusd_512
                                 : lanes == 8 ? llvm::Intrinsic::x86_avx512_vpdpbusd_256
                                              : llvm::Intrinsic::x86_avx512_vpdpbusd_128;
  return b.CreateIntrinsic(id, {}, {sum, unsigned_bytes, signed_bytes});
}

}  // namespace pock
