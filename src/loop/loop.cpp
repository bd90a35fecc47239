#include "pock/loop/loop.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "detail.h"
#include "pock/support/diag.h"

namespace pock::loop {
namespace {

// Indexed by ScalarOp.
constexpr OpRow kRows[] = {
    {"constant", 0}, {"var", 0},        {"load", -1},    {"+", 2, true},  {"-", 2, true},  {"*", 2, true},
    {"/", 2, true},  {"neg", 1},        {"abs", 1},      {"min", 2},      {"max", 2},      {"fma", 3},
    {"sqrt", 1},     {"round_even", 1}, {"exp", 1},      {"log", 1},      {"tanh", 1},     {"erf", 1},
    {"sin", 1},      {"cos", 1},        {"pow", 2},      {"floordiv", 2}, {"mod", 2},      {"<", 2, true},
    {"<=", 2, true}, {"==", 2, true},   {"!=", 2, true}, {"&&", 2, true}, {"||", 2, true}, {"not", 1},
    {"select", 3},   {"cast", 1},       {"bitcast", 1},  {"bit_and", 2},  {"bit_or", 2},   {"bit_xor", 2},
    {"shl", 2},      {"shr", 2}};
static_assert(std::size(kRows) == static_cast<size_t>(ScalarOp::shr) + 1);

using Op = ScalarOp;

Expr node(Op op, std::vector<Expr> args, DType type) {
  auto n = std::make_shared<ExprNode>();
  n->op = op;
  n->type = type;
  n->args = std::move(args);
  return Expr(n);
}

bool is_int(DType t) { return !is_float(t) && t != DType::mask; }

// Two's complement of the type's width.
int64_t wrap(int64_t v, DType t) {
  switch (t) {
    case DType::i8:
      return static_cast<int8_t>(v);
    case DType::u8:
      return static_cast<uint8_t>(v);
    case DType::i32:
      return static_cast<int32_t>(v);
    case DType::mask:
      return v != 0;
    default:
      return v;
  }
}

int64_t wrapping(Op op, int64_t a, int64_t b) {
  uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  if (op == Op::add) return static_cast<int64_t>(x + y);
  if (op == Op::sub) return static_cast<int64_t>(x - y);
  return static_cast<int64_t>(x * y);
}

bool fold_compare(Op op, int64_t a, int64_t b) {
  switch (op) {
    case Op::lt:
      return a < b;
    case Op::le:
      return a <= b;
    case Op::eq:
      return a == b;
    default:
      return a != b;
  }
}

}  // namespace

bool fold(Op op, const std::array<int64_t, 3>& args, DType type, int64_t* out) {
  auto arg = [&](int i) { return args[i]; };
  switch (op) {
    case Op::add:
    case Op::sub:
    case Op::mul:
      *out = wrapping(op, arg(0), arg(1));
      break;
    case Op::neg:
      *out = wrapping(Op::sub, 0, arg(0));
      break;
    case Op::abs:
      *out = arg(0) < 0 ? wrapping(Op::sub, 0, arg(0)) : arg(0);
      break;
    case Op::min:
      *out = std::min(arg(0), arg(1));
      break;
    case Op::max:
      *out = std::max(arg(0), arg(1));
      break;
    case Op::floordiv:
      *out = floor_div(arg(0), arg(1));
      break;
    case Op::mod:
      *out = floor_mod(arg(0), arg(1));
      break;
    case Op::lt:
    case Op::le:
    case Op::eq:
    case Op::ne:
      *out = fold_compare(op, arg(0), arg(1));
      break;
    case Op::logical_and:
      *out = arg(0) && arg(1);
      break;
    case Op::logical_or:
      *out = arg(0) || arg(1);
      break;
    case Op::logical_not:
      *out = !arg(0);
      break;
    case Op::bit_and:
      *out = arg(0) & arg(1);
      break;
    case Op::bit_or:
      *out = arg(0) | arg(1);
      break;
    case Op::bit_xor:
      *out = arg(0) ^ arg(1);
      break;
    case Op::shl:
      *out = static_cast<int64_t>(static_cast<uint64_t>(arg(0)) << (arg(1) & 63));
      break;
    case Op::shr:
      *out = arg(0) >> (arg(1) & 63);
      break;
    case Op::cast:
      if (is_float(type)) return false;
      if (type == DType::mask) return false;
      *out = arg(0);
      break;
    default:
      return false;
  }
  *out = wrap(*out, type);
  return true;
}

namespace {

// The same of constants.
bool fold(Op op, const std::vector<Expr>& args, DType type, int64_t* out) {
  std::array<int64_t, 3> numbers{};
  if (args.size() > numbers.size()) return false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!is_constant(args[i]) || is_float(args[i]->type)) return false;
    numbers[i] = args[i]->integer;
  }
  return fold(op, numbers, type, out);
}

bool is_sum(const Expr& e) {
  if (e->type != DType::i64) return false;
  switch (e->op) {
    case Op::add:
    case Op::sub:
    case Op::neg:
    case Op::constant:
      return true;
    case Op::mul:
      return is_constant(e->args[0]) || is_constant(e->args[1]);
    default:
      return false;
  }
}

// Name order of atoms; equal only for those that print alike.
int compare(const Expr& a, const Expr& b) {
  if (a.get() == b.get()) return 0;
  if (a->op == Op::var && b->op == Op::var) return a->var->name.compare(b->var->name);
  return to_string(a).compare(to_string(b));
}

// floordiv or mod of a sum: what divides comes out, common factors cancel.
Expr divide(Op op, const Expr& x, int64_t d) {
  POCK_CHECK(d > 0, "divisor {}", d);
  if (d == 1) return op == Op::floordiv ? x : Expr(0);
  Linear whole, rest;
  Linear all = linear(x);
  int64_t common = d;
  for (const auto& [atom, times] : all.terms) {
    if (times % d == 0) {
      whole.add(atom, times / d);
    } else {
      rest.add(atom, times);
      common = std::gcd(common, times);
    }
  }
  whole.constant = floor_div(all.constant, d);
  rest.constant = floor_mod(all.constant, d);
  if (rest.terms.empty()) return op == Op::floordiv ? from_linear(whole) : Expr(rest.constant);
  int64_t left = rest.constant % common;  // below the common factor: never reaches the next multiple
  if (op == Op::floordiv) {
    for (auto& term : rest.terms) term.second /= common;
    rest.constant = floor_div(rest.constant, common);
    Expr inner = from_linear(rest);
    int64_t divisor = d / common;
    if (inner->op == Op::floordiv)
      whole.add(linear(divide(op, inner->args[0], inner->args[1]->integer * divisor)), 1);
    else
      whole.add(node(op, {inner, Expr(divisor)}, DType::i64), 1);
    return from_linear(whole);
  }
  if (common == 1) return node(op, {from_linear(rest), Expr(d)}, DType::i64);
  for (auto& term : rest.terms) term.second /= common;
  rest.constant = floor_div(rest.constant, common);
  Linear result;
  result.constant = left;
  Linear inner = linear(divide(op, from_linear(rest), d / common));
  result.add(inner, common);
  return from_linear(result);
}

Expr min_max(Op op, Expr a, Expr b) {
  if (same(a, b)) return a;
  if (a->type == DType::i64) {
    Linear difference = linear(a);
    difference.add(linear(b), -1);
    if (difference.terms.empty()) return (difference.constant < 0) == (op == Op::min) ? a : b;
  }
  if (is_constant(a)) std::swap(a, b);
  if (is_constant(b) && a->op == op && is_constant(a->args[1])) {
    int64_t inner = a->args[1]->integer, outer = b->integer;
    return min_max(op, a->args[0],
                   int_lit(op == Op::min ? std::min(inner, outer) : std::max(inner, outer), a->type));
  }
  if (!is_constant(b) && compare(b, a) < 0) std::swap(a, b);
  return node(op, {a, b}, a->type);
}

Expr simplified(Op op, std::vector<Expr> args, DType type) {
  int64_t folded;
  if (fold(op, args, type, &folded)) return int_lit(folded, type);
  auto arg = [&](int i) -> const Expr& { return args[i]; };
  switch (op) {
    case Op::add:
    case Op::sub:
    case Op::neg: {
      if (op == Op::neg && is_float(type) && is_constant(arg(0))) return lit(-arg(0)->number, type);
      if (type != DType::i64) break;
      Linear sum;
      if (op == Op::neg) {
        sum.add(linear(arg(0)), -1);
      } else {
        sum = linear(arg(0));
        sum.add(linear(arg(1)), op == Op::add ? 1 : -1);
      }
      return from_linear(std::move(sum));
    }
    case Op::mul: {
      if (type != DType::i64) break;
      for (int side : {0, 1})
        if (is_constant(arg(side))) {
          Linear sum;
          sum.add(linear(arg(1 - side)), arg(side)->integer);
          return from_linear(std::move(sum));
        }
      if (compare(arg(1), arg(0)) < 0) std::swap(args[0], args[1]);
      break;
    }
    case Op::floordiv:
    case Op::mod:
      if (type == DType::i64) return divide(op, arg(0), arg(1)->integer);
      break;
    case Op::min:
    case Op::max:
      if (is_int(type)) return min_max(op, arg(0), arg(1));
      break;
    case Op::lt:
    case Op::le:
    case Op::eq:
    case Op::ne:
      if (arg(0)->type == DType::i64) {
        Linear difference = linear(arg(0));
        difference.add(linear(arg(1)), -1);
        if (difference.terms.empty()) return int_lit(fold_compare(op, difference.constant, 0), DType::mask);
      }
      break;
    case Op::logical_and:
    case Op::logical_or:
      for (int side : {0, 1})
        if (is_constant(arg(side))) {
          bool decides = (arg(side)->integer != 0) == (op == Op::logical_or);
          return decides ? arg(side) : arg(1 - side);
        }
      break;
    case Op::logical_not:
      if (arg(0)->op == Op::logical_not) return arg(0)->args[0];
      break;
    case Op::select:
      if (is_constant(arg(0))) return arg(0)->integer ? arg(1) : arg(2);
      if (!is_float(type) && same(arg(1), arg(2))) return arg(1);
      break;
    case Op::cast:
      if (arg(0)->type == type) return arg(0);
      // Exact, so no rounding is decided here.
      if (is_float(type) && is_constant(arg(0)) && is_int(arg(0)->type) &&
          std::abs(arg(0)->integer) <= 1 << 24)
        return lit(static_cast<double>(arg(0)->integer), type);
      break;
    case Op::bitcast:
      if (arg(0)->type == type) return arg(0);
      break;
    default:
      break;
  }
  return node(op, std::move(args), type);
}

// A plain C++ integer beside a narrower operand takes its type.
void adapt(Expr& a, Expr& b) {
  if (a->type == b->type) return;
  for (auto [constant, other] : {std::pair{&a, &b}, std::pair{&b, &a}})
    if (is_constant(*constant) && (*constant)->type == DType::i64 && is_int((*other)->type)) {
      *constant = int_lit((*constant)->integer, (*other)->type);
      return;
    }
}

Expr binary(Op op, Expr a, Expr b) {
  POCK_CHECK(a.get() && b.get(), "{} of an empty expression", row(op).name);
  adapt(a, b);
  DType type = op >= Op::lt && op <= Op::logical_or ? DType::mask : a->type;
  return make(op, {std::move(a), std::move(b)}, type);
}

Expr unary(Op op, Expr a) {
  POCK_CHECK(a.get(), "{} of an empty expression", row(op).name);
  DType type = a->type;
  return make(op, {std::move(a)}, type);
}

}  // namespace

const OpRow& row(Op op) { return kRows[static_cast<int>(op)]; }

bool operands_fit(Op op, const std::vector<Expr>& args, DType type) {
  auto all = [&](DType t) {
    for (const Expr& a : args)
      if (a->type != t) return false;
    return true;
  };
  switch (op) {
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::neg:
    case Op::abs:
    case Op::min:
    case Op::max:
      return type != DType::mask && all(type);
    case Op::div:
    case Op::fma:
    case Op::sqrt:
    case Op::round_even:
    case Op::exp:
    case Op::log:
    case Op::tanh:
    case Op::erf:
    case Op::sin:
    case Op::cos:
    case Op::pow:
      return is_float(type) && all(type);
    case Op::floordiv:
    case Op::mod:
      return is_int(type) && all(type) && is_constant(args[1]) && args[1]->integer > 0;
    case Op::lt:
    case Op::le:
    case Op::eq:
    case Op::ne:
      return type == DType::mask && args[0]->type != DType::mask && all(args[0]->type);
    case Op::logical_and:
    case Op::logical_or:
    case Op::logical_not:
      return type == DType::mask && all(type);
    case Op::select:
      return args[0]->type == DType::mask && args[1]->type == type && args[2]->type == type;
    case Op::cast:
      return true;
    case Op::bitcast:
      return size_of(type) == size_of(args[0]->type) && type != DType::mask;
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor:
    case Op::shl:
    case Op::shr:
      return is_int(type) && all(type);
    default:
      return false;
  }
}

const char* to_string(Space s) {
  constexpr const char* kNames[] = {"in", "out", "inout", "workspace", "reg", "shared"};
  return kNames[static_cast<int>(s)];
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

bool same(const Expr& a, const Expr& b) {
  if (a.get() == b.get()) return true;
  if (a->op != b->op || a->type != b->type || a->args.size() != b->args.size()) return false;
  if (a->integer != b->integer || a->var != b->var || a->buffer != b->buffer) return false;
  if (a->number != b->number || std::signbit(a->number) != std::signbit(b->number)) return false;
  for (size_t i = 0; i < a->args.size(); ++i)
    if (!same(a->args[i], b->args[i])) return false;
  return true;
}

void Linear::add(const Expr& atom, int64_t times) {
  for (size_t i = 0; i < terms.size(); ++i)
    if (same(terms[i].first, atom)) {
      terms[i].second += times;
      if (terms[i].second == 0) terms.erase(terms.begin() + static_cast<ptrdiff_t>(i));
      return;
    }
  if (times) terms.emplace_back(atom, times);
}

void Linear::add(const Linear& other, int64_t times) {
  for (const auto& [atom, n] : other.terms) add(atom, n * times);
  constant += other.constant * times;
}

Linear linear(const Expr& e) {
  Linear sum;
  if (!is_sum(e)) {
    sum.add(e, 1);
    return sum;
  }
  switch (e->op) {
    case Op::constant:
      sum.constant = e->integer;
      break;
    case Op::neg:
      sum.add(linear(e->args[0]), -1);
      break;
    case Op::mul: {
      int side = is_constant(e->args[0]) ? 0 : 1;
      sum.add(linear(e->args[1 - side]), e->args[side]->integer);
      break;
    }
    default:
      sum = linear(e->args[0]);
      sum.add(linear(e->args[1]), e->op == Op::add ? 1 : -1);
  }
  return sum;
}

namespace {

// q * (e div d) * d + q * (e mod d) is q * e.
void undivide(Linear& sum) {
  for (const auto& [quotient, n] : sum.terms) {
    if (quotient->op != Op::floordiv) continue;
    const Expr &e = quotient->args[0], &d = quotient->args[1];
    const auto rest = std::find_if(sum.terms.begin(), sum.terms.end(), [&](const auto& term) {
      return term.first->op == Op::mod && term.second * d->integer == n && same(term.first->args[0], e) &&
             same(term.first->args[1], d);
    });
    if (rest == sum.terms.end()) continue;
    const auto [modulus, times] = *rest;
    const auto [whole, many] = std::pair(quotient, n);
    sum.add(whole, -many);
    sum.add(modulus, -times);
    sum.add(linear(whole->args[0]), times);
    return undivide(sum);
  }
}

}  // namespace

Expr from_linear(Linear sum) {
  undivide(sum);
  // Positive terms first, then by size of the coefficient, then by name: reads like a row-major index.
  std::stable_sort(sum.terms.begin(), sum.terms.end(), [](const auto& a, const auto& b) {
    if ((a.second > 0) != (b.second > 0)) return a.second > 0;
    int64_t x = std::abs(a.second), y = std::abs(b.second);
    return x != y ? x > y : compare(a.first, b.first) < 0;
  });
  Expr result;
  int64_t constant = sum.constant;
  auto times = [](const Expr& atom, int64_t n) {
    return n == 1 ? atom : node(Op::mul, {atom, Expr(n)}, DType::i64);
  };
  for (const auto& [atom, n] : sum.terms) {
    if (!result.get() && n < 0 && constant > 0) {
      result = Expr(constant);
      constant = 0;
    }
    if (!result.get())
      result = n == -1 ? node(Op::neg, {atom}, DType::i64) : times(atom, n);
    else
      result = node(n > 0 ? Op::add : Op::sub, {result, times(atom, std::abs(n))}, DType::i64);
  }
  if (!result.get()) return Expr(constant);
  if (constant)
    result = node(constant > 0 ? Op::add : Op::sub, {result, Expr(std::abs(constant))}, DType::i64);
  return result;
}

Expr with_args(const Expr& e, std::vector<Expr> args) {
  if (e->op == Op::constant || e->op == Op::var) return e;
  bool changed = false;
  for (size_t i = 0; i < args.size(); ++i) changed |= args[i].get() != e->args[i].get();
  if (!changed) return e;
  if (e->op == Op::load) return load(e->buffer, std::move(args));
  return make(e->op, std::move(args), e->type);
}

Expr Rewriter::operator()(const Expr& e) {
  if (auto found = done_.find(e.get()); found != done_.end()) return found->second.second;
  std::vector<Expr> args;
  args.reserve(e->args.size());
  for (const Expr& a : e->args) args.push_back((*this)(a));
  Expr result = rule_(with_args(e, std::move(args)));
  done_.emplace(e.get(), std::pair{e, result});
  return result;
}

Expr::Expr(int64_t v) : Expr(int_lit(v)) {}

Expr lit(double v, DType type) {
  POCK_CHECK(is_float(type), "float constant of type {}", to_string(type));
  if (type == DType::f32) v = flushed(static_cast<float>(v));
  auto n = std::make_shared<ExprNode>();
  n->op = Op::constant;
  n->type = type;
  n->number = v;
  return Expr(n);
}

Expr int_lit(int64_t v, DType type) {
  POCK_CHECK(!is_float(type), "integer constant of type {}", to_string(type));
  auto n = std::make_shared<ExprNode>();
  n->op = Op::constant;
  n->type = type;
  n->integer = wrap(v, type);
  return Expr(n);
}

Expr var(const VarRef& v) {
  auto n = std::make_shared<ExprNode>();
  n->op = Op::var;
  n->type = DType::i64;
  n->var = v;
  return Expr(n);
}

Expr load(const BufferRef& buffer, std::vector<Expr> index) {
  POCK_CHECK(static_cast<int>(index.size()) == buffer->type.rank(), "{} indices for {}: {}", index.size(),
             buffer->name, to_string(buffer->type));
  for (const Expr& i : index)
    POCK_CHECK(i.get() && i->type == DType::i64, "index of {} is not i64", buffer->name);
  auto n = std::make_shared<ExprNode>();
  n->op = Op::load;
  n->type = buffer->type.dtype;
  n->args = std::move(index);
  n->buffer = buffer;
  return Expr(n);
}

Expr make(Op op, std::vector<Expr> args, DType type) {
  POCK_CHECK(row(op).arity == static_cast<int>(args.size()) && op > Op::load, "{} with {} operands",
             row(op).name, args.size());
  for (const Expr& a : args) POCK_CHECK(a.get(), "{} of an empty expression", row(op).name);
  std::string types;
  if (!operands_fit(op, args, type)) {
    for (const Expr& a : args) types += std::string(types.empty() ? "" : ", ") + to_string(a->type);
    POCK_CHECK(false, "{} of ({}) giving {}", row(op).name, types, to_string(type));
  }
  return simplified(op, std::move(args), type);
}

Expr operator+(Expr a, Expr b) { return binary(Op::add, std::move(a), std::move(b)); }
Expr operator-(Expr a, Expr b) { return binary(Op::sub, std::move(a), std::move(b)); }
Expr operator*(Expr a, Expr b) { return binary(Op::mul, std::move(a), std::move(b)); }
Expr operator/(Expr a, Expr b) { return binary(Op::div, std::move(a), std::move(b)); }
Expr operator-(Expr a) { return unary(Op::neg, std::move(a)); }
Expr operator<(Expr a, Expr b) { return binary(Op::lt, std::move(a), std::move(b)); }
Expr operator<=(Expr a, Expr b) { return binary(Op::le, std::move(a), std::move(b)); }
Expr operator>(Expr a, Expr b) { return binary(Op::lt, std::move(b), std::move(a)); }
Expr operator>=(Expr a, Expr b) { return binary(Op::le, std::move(b), std::move(a)); }
Expr operator==(Expr a, Expr b) { return binary(Op::eq, std::move(a), std::move(b)); }
Expr operator!=(Expr a, Expr b) { return binary(Op::ne, std::move(a), std::move(b)); }
Expr operator&&(Expr a, Expr b) { return binary(Op::logical_and, std::move(a), std::move(b)); }
Expr operator||(Expr a, Expr b) { return binary(Op::logical_or, std::move(a), std::move(b)); }
Expr operator!(Expr a) { return unary(Op::logical_not, std::move(a)); }
Expr fma(Expr a, Expr b, Expr c) {
  DType type = a->type;
  return make(Op::fma, {std::move(a), std::move(b), std::move(c)}, type);
}
Expr min(Expr a, Expr b) { return binary(Op::min, std::move(a), std::move(b)); }
Expr max(Expr a, Expr b) { return binary(Op::max, std::move(a), std::move(b)); }
Expr abs(Expr a) { return unary(Op::abs, std::move(a)); }
Expr sqrt(Expr a) { return unary(Op::sqrt, std::move(a)); }
Expr round_even(Expr a) { return unary(Op::round_even, std::move(a)); }
Expr exp(Expr a) { return unary(Op::exp, std::move(a)); }
Expr log(Expr a) { return unary(Op::log, std::move(a)); }
Expr tanh(Expr a) { return unary(Op::tanh, std::move(a)); }
Expr erf(Expr a) { return unary(Op::erf, std::move(a)); }
Expr sin(Expr a) { return unary(Op::sin, std::move(a)); }
Expr cos(Expr a) { return unary(Op::cos, std::move(a)); }
Expr pow(Expr base, Expr exponent) { return binary(Op::pow, std::move(base), std::move(exponent)); }
Expr floordiv(Expr a, int64_t d) { return binary(Op::floordiv, std::move(a), Expr(d)); }
Expr mod(Expr a, int64_t d) { return binary(Op::mod, std::move(a), Expr(d)); }
Expr ceildiv(Expr a, int64_t d) { return floordiv(std::move(a) + (d - 1), d); }
Expr select(Expr condition, Expr then, Expr otherwise) {
  adapt(then, otherwise);
  DType type = then->type;
  return make(Op::select, {std::move(condition), std::move(then), std::move(otherwise)}, type);
}
Expr cast(Expr a, DType type) { return make(Op::cast, {std::move(a)}, type); }
Expr bitcast(Expr a, DType type) { return make(Op::bitcast, {std::move(a)}, type); }

}  // namespace pock::loop
