// Writes kernels with lambdas for loop bodies. Operators' Nest lowerings use it through NestArgs (ops/op.h).
//
//   KernelBuilder k("row_sums");
//   BufferRef x = k.arg("x", {DType::f32, {32, 784}}, Space::in);
//   BufferRef y = k.arg("y", {DType::f32, {32}}, Space::out);
//   k.each("i", 32, [&](Expr i) {
//     BufferRef acc = k.reg("acc", lit(0));
//     k.loop("j", 0, 784, [&](Expr j) { k.set(acc, load(acc) + load(x, {i, j})); });
//     k.store(y, {i}, load(acc));
//   });
//   Kernel kernel = k.take();
#pragma once

#include <functional>
#include <string>

#include "pock/loop/loop.h"

namespace pock::loop {

using Body = std::function<void(Expr)>;
using BodyN = std::function<void(const std::vector<Expr>&)>;

class KernelBuilder {
 public:
  explicit KernelBuilder(std::string name) { kernel_.name = std::move(name); }
  KernelBuilder(const KernelBuilder&) = delete;
  BufferRef arg(std::string name, Type, Space);

  void each(const std::string& name, Expr extent, const Body&);  // independent iterations 0..extent
  void each(const Dims& dims, const BodyN&);                     // a perfect nest, named i0, i1, ...
  void loop(const std::string& name, Expr lo, Expr hi, const Body&, int64_t step = 1);  // in order
  void when(Expr condition, const std::function<void()>&);
  BufferRef reg(const std::string& name, DType, Dims = {});  // undefined content
  BufferRef reg(const std::string& name, Expr initial);      // rank 0, of the value's type
  void store(const BufferRef&, std::vector<Expr> index, Expr value);
  void set(const BufferRef& r, Expr value) { store(r, {}, std::move(value)); }

  Kernel take() { return std::move(kernel_); }

 private:
  std::vector<Stmt>& here();
  std::string unique(const std::string& name);  // not in scope yet: loops side by side may share a name
  void nested(Stmt, const std::function<void()>& body);
  Kernel kernel_;
  std::vector<std::vector<Stmt>*> open_;
  std::vector<std::string> scope_;
};

}  // namespace pock::loop
