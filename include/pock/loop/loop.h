// The loop IR: what a kernel computes, element by element, in loops. docs/kernels.md is its tour.
//
// A kernel is a list of statements over buffers. `each` loops have independent iterations, in any order or at
// once; `for` loops run in order. An operator's definition writes the plainest loops that are right; a
// schedule rewrites them (split, sink, unroll, vectorize, parallel, ...) and never changes the arithmetic of
// an element: the same operations on the same operands in the same order (docs/arithmetic.md).
//
//   kernel @matmul(in a: f32[32,784], in b: f32[784,10], out y: f32[32,10]) {
//     each i in 0..32 parallel {
//       each j in 0..10 {
//         reg acc: f32
//         acc = 0
//         for k in 0..784 {
//           acc = fma(a[i,k], b[k,j], acc)
//         }
//         y[i,j] = acc
//       }
//     }
//   }
//
// Rules. Loop bounds and indices are i64 expressions. A store to a rank-0 `reg` buffer is an assignment. A
// `parallel` loop is an outermost `each`; such loops run over threads, one after the other, with all threads
// joined in between. The body of a repeated kernel, which is one `for` around nothing but loops, counts as outermost. A `vector` loop is an `each` with constant bounds 0..W that holds no other one; the
// bounds of loops inside it do not depend on its variable. `reg` buffers live in the loop body that declares
// them.
//
// Blocks of threads, as GPUs have them. A `thread` loop is an `each` over 0..N with constant N; a nest of them, each the
// only statement of the one around, runs over the threads of a block. Threads do not see each other before the next
// `barrier`, where each waits for all: around it stand, inside of the nest, only `for` loops and conditions which are the
// same for every thread, that is, which use no variable of the nest and load nothing. `shared` buffers belong to a block:
// declared beside the nest, used inside of it. Threads store into no `reg` but their own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pock/ir/type.h"

namespace pock::loop {

struct Var {
  std::string name;
};
using VarRef = std::shared_ptr<const Var>;

enum class Space : uint8_t {
  in,
  out,
  inout,      // arguments of the kernel: tensors in memory
  workspace,  // an argument too; planned like any tensor, alive while the kernel runs
  reg,        // declared in a body; registers once its indices are constant
  shared      // declared in a body beside thread loops: one a block of threads
};
const char* to_string(Space);

struct Buffer {
  std::string name;
  Type type;  // logical shape, row-major
  Space space = Space::reg;
};
using BufferRef = std::shared_ptr<const Buffer>;

// Scalar operations, in the order of the table in loop.cpp that gives each its name and arity. Comparisons
// and logic yield DType::mask.
enum class ScalarOp : uint8_t {
  constant,
  var,
  load,
  add,
  sub,
  mul,
  div,  // floats
  neg,
  abs,
  min,
  max,
  fma,
  sqrt,
  round_even,
  exp,  // to pow: names for arithmetic in math.cpp
  log,
  tanh,
  erf,
  sin,
  cos,
  pow,
  floordiv,  // as mod: rounds to minus infinity; the divisor is a positive constant
  mod,
  lt,
  le,
  eq,
  ne,
  logical_and,
  logical_or,
  logical_not,
  select,
  cast,     // to the expression's type; float to integer truncates and saturates
  bitcast,  // between types of equal width
  bit_and,
  bit_or,
  bit_xor,
  shl,
  shr  // arithmetic
};

struct ExprNode;

// A scalar expression: an immutable tree that may share parts. Operators fold constants and simplify index
// arithmetic. `!e` and `e && f` build expressions: that an Expr is empty is told by e.get() == nullptr.
class Expr {
 public:
  Expr() = default;
  Expr(int64_t v);  // i64 constant
  Expr(int v) : Expr(static_cast<int64_t>(v)) {}
  explicit Expr(std::shared_ptr<const ExprNode> n) : node_(std::move(n)) {}
  const ExprNode* operator->() const { return node_.get(); }
  const ExprNode& operator*() const { return *node_; }
  explicit operator bool() const { return node_ != nullptr; }
  const ExprNode* get() const { return node_.get(); }

 private:
  std::shared_ptr<const ExprNode> node_;
};

struct ExprNode {
  ScalarOp op;
  DType type;              // i64 for index arithmetic; f32 float arithmetic is f64 when interpreted in double
  std::vector<Expr> args;  // load: the indices
  double number = 0;       // constant of a float type
  int64_t integer = 0;     // constant of an integer type or mask
  VarRef var;              // var
  BufferRef buffer;        // load
};

Expr lit(double, DType = DType::f32);  // float constant, rounded to f32 and flushed where it is denormal
Expr int_lit(int64_t, DType = DType::i64);
Expr var(const VarRef&);
Expr load(const BufferRef&, std::vector<Expr> index = {});
// Builds any operation, checking operand types; constant operands fold (integers always, floats never:
// rounding belongs to the machine that runs the kernel).
Expr make(ScalarOp, std::vector<Expr> args, DType type);

Expr operator+(Expr, Expr);
Expr operator-(Expr, Expr);
Expr operator*(Expr, Expr);
Expr operator/(Expr, Expr);  // floats; integers use floordiv
Expr operator-(Expr);
Expr operator<(Expr, Expr);
Expr operator<=(Expr, Expr);
Expr operator>(Expr, Expr);
Expr operator>=(Expr, Expr);
Expr operator==(Expr, Expr);
Expr operator!=(Expr, Expr);
Expr operator&&(Expr, Expr);
Expr operator||(Expr, Expr);
Expr operator!(Expr);
Expr fma(Expr a, Expr b, Expr c);  // a*b + c, rounded once
Expr min(Expr, Expr);              // integers, or floats: (a < b or a is NaN) ? a : b
Expr max(Expr, Expr);              // integers, or floats: (a > b or a is NaN) ? a : b
Expr abs(Expr);
Expr sqrt(Expr);
Expr round_even(Expr);
Expr exp(Expr);
Expr log(Expr);
Expr tanh(Expr);
Expr erf(Expr);
Expr sin(Expr);
Expr cos(Expr);
Expr pow(Expr base, Expr exponent);
Expr floordiv(Expr, int64_t);
Expr mod(Expr, int64_t);
Expr ceildiv(Expr, int64_t);  // floordiv(a + d - 1, d)
Expr select(Expr condition, Expr then, Expr otherwise);
Expr cast(Expr, DType);
Expr bitcast(Expr, DType);

std::string to_string(const Expr&);

enum class StmtKind : uint8_t { loop, store, reg, when, barrier };
enum class LoopMode : uint8_t { plain, parallel, unroll, vector, thread };

struct Stmt {
  StmtKind kind;
  // loop: [lo, hi) by step
  VarRef var;
  Expr lo, hi;
  int64_t step = 1;
  bool independent = false;  // `each`
  LoopMode mode = LoopMode::plain;
  std::vector<Stmt> body;  // loop, when
  // store
  BufferRef buffer;  // also reg: what is declared
  std::vector<Expr> index;
  Expr value;  // also when: the condition
};

struct Kernel {
  std::string name;
  std::vector<BufferRef> args;  // in, out, inout, workspace, in call order
  std::vector<Stmt> body;
};

// The loop of a repeated kernel, over 0..N with constant N; else null.
const Stmt* repeated(const Kernel&);

std::string print(const Kernel&);
// Throws Error with line and column. print(parse_kernel(t)) == t for printed text.
Kernel parse_kernel(const std::string& text, const std::string& file = "");
// Throws std::logic_error where the rules above are broken.
void verify(const Kernel&);

// Floating-point operations and bytes of arguments touched, counted on the loops (padding left out); for
// reports.
struct Cost {
  int64_t flop = 0;
  int64_t bytes = 0;
};
Cost cost(const Kernel&);
int64_t loads(const Kernel&, const BufferRef&);  // how often stores load an element of the argument

}  // namespace pock::loop
