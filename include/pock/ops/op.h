// An operator is one OpDef: everything that pock knows of it. See docs/add-an-operator.md.
//
//   const OpDef kRelu{
//       .name = "relu",
//       .doc = "x < 0 ? 0 : x",
//       .inputs = 1,
//       .infer = [](const InferArgs& a) { return same_as(a.in(0)); },
//       .gradient = Gradient([](GradArgs& g) { g.add(0, g.b.value("relu_grad", {g.out(0), g.dout()})); }),
//       .lower = Scalar([](const ScalarArgs& a) { return select(a.in(0) < lit(0), lit(0), a.in(0)); }),
//       .in_place = 1,
//   };
//
// Fields without a default are of types that cannot be default-made, so a forgotten one does not compile.
#pragma once

#include <algorithm>
#include <climits>
#include <optional>
#include <span>
#include <unordered_set>
#include <variant>

#include "pock/ir/builder.h"
#include "pock/ir/graph.h"
#include "pock/loop/build.h"

namespace pock {

// A string that must be given.
struct Text {
  Text(const char* t) : text(t) {}
  operator std::string_view() const { return text; }
  const char* text;
};

struct AttrDef {
  enum Kind : uint8_t { integer, number, string, integers } kind;
  const char* name;
  std::optional<Attr> standard = {};  // value where none is given; without one the attribute must be given
};

// What a shape rule sees.
class InferArgs {
 public:
  InferArgs(std::span<Value* const> in, const Attrs& attrs, const Loc& loc)
      : in_(in), attrs_(attrs), loc_(loc) {
    for (const Value* v : in) types_.push_back(v->type.row_major());
  }
  int count() const { return static_cast<int>(in_.size()); }
  const Type& in(int i) const { return types_[i]; }  // row-major: rules know of no layout
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& string(std::string_view name) const;
  const std::vector<int64_t>& integers(std::string_view name) const;
  // An Error at the node, with a note that names each input and its type.
  template <class... Args>
  Error fail(fmt::format_string<Args...> format, Args&&... args) const {
    return with_inputs(Error(loc_, format, std::forward<Args>(args)...));
  }

 private:
  Error with_inputs(Error) const;
  std::span<Value* const> in_;
  std::vector<Type> types_;
  const Attrs& attrs_;
  const Loc& loc_;
};
using Types = std::vector<Type>;
inline Types same_as(const Type& t) { return {t}; }
// numpy's broadcasting of all inputs; throws a.fail where they do not fit.
Types broadcast_all(const InferArgs& a);

// What a gradient rule sees. It adds, for every input that has one, the gradient in terms of operators; what
// nobody wants is removed afterwards.
class GradArgs {
 public:
  Builder& b;
  Node& node;
  std::vector<Value*> douts;                   // per result; null where nothing flows back
  std::vector<std::vector<Value*>> gradients;  // per input: what was added
  std::vector<bool> wanted;                    // per input: a gradient is needed

  Value* in(int i) const { return node.in(i); }
  Value* out(int i = 0) const { return node.out(i); }
  Value* dout(int i = 0) const { return douts[i]; }
  bool wants(int i) const { return wanted[i]; }
  void add(int i, Value* gradient) { gradients[i].push_back(gradient); }
};

// One element of every result from one element of each input (broadcast to the results' common shape). Fuses
// for free.
class ScalarArgs {
 public:
  ScalarArgs(const Node& n, std::vector<loop::Expr> in) : node(n), in_(std::move(in)) {}
  const Node& node;
  const loop::Expr& in(int i) const { return in_[i]; }
  double number(std::string_view name) const { return node.number(name); }

 private:
  std::vector<loop::Expr> in_;
};
struct Exprs : std::vector<loop::Expr> {  // one a result
  Exprs(loop::Expr e) : vector{std::move(e)} {}
  Exprs(std::initializer_list<loop::Expr> l) : vector(l) {}
};

// Plain loops. Types are row-major and indices those of the shape: where an element lies in memory is not the
// operator's business.
class NestArgs : public loop::KernelBuilder {
 public:
  NestArgs(const Node& n, std::string name);
  const Node& node;
  const Type& in_type(int i) const { return ins_[i].shape; }
  const Type& out_type(int i = 0) const { return outs_[i].shape; }
  loop::Expr in(int i, std::vector<loop::Expr> index) const { return ins_[i].at(std::move(index)); }
  // What was stored into result i before.
  loop::Expr made(int i, std::vector<loop::Expr> index) const { return outs_[i].at(std::move(index)); }
  void out(int i, std::vector<loop::Expr> index, loop::Expr value);

 private:
  struct Tensor {
    const Type& type;
    Type shape;  // row-major
    loop::BufferRef buffer;
    loop::Expr at(std::vector<loop::Expr> index) const;
  };
  std::vector<Tensor> ins_, outs_;
};

struct Gradient {
  explicit Gradient(void (*rule)(GradArgs&)) : rule(rule) {}
  // No gradient, and why ("its input is not a float"): shown to the person whose model needs it.
  static Gradient none(const char* reason) { return Gradient(reason); }
  void (*rule)(GradArgs&) = nullptr;
  const char* reason = nullptr;

 private:
  explicit Gradient(const char* reason) : reason(reason) {}
};

struct Scalar {
  // `F` is a lambda without captures that returns an Expr or Exprs.
  template <class F>
  explicit Scalar(F) : rule([](const ScalarArgs& a) -> Exprs { return F{}(a); }) {}
  Exprs (*rule)(const ScalarArgs&);
};
struct Nest {
  explicit Nest(void (*f)(NestArgs&)) : rule(f) {}
  void (*rule)(NestArgs&);
};
// Other operators; returns one value a result. Expanded before autodiff where the operator has no gradient of
// its own, after it otherwise.
struct Expand {
  explicit Expand(std::vector<Value*> (*f)(Builder&, const Node&)) : rule(f) {}
  std::vector<Value*> (*rule)(Builder&, const Node&);
};
struct View {};    // result 0 is input 0's memory under another shape
struct Effect {};  // no results: stores input 1 into the parameter that is input 0
using Lowering = std::variant<Scalar, Nest, Expand, View, Effect>;

// The layout that suits an operator's kernels: of images [N,C,...], of filters [O,C/groups,...].
enum class Best : uint8_t { any, channels_last, outputs_last, inputs_last };

enum class Probability : uint8_t { none, of_classes /* along the last axis */, of_each };

struct OpDef {
  Text name;
  Text doc;
  int inputs;
  int results = 1;
  std::vector<AttrDef> attrs = {};
  Types (*infer)(const InferArgs&);
  Gradient gradient;
  Lowering lower;
  int in_place = 0;    // result 0 may take over the memory of one of so many first inputs (equal types)
  bool cheap = false;  // pointwise and cheap enough to be computed anew by every kernel that reads the result
  bool variadic = false;    // `inputs` or more
  int channel_weight = -1;  // convolutions: the input whose first axis makes the result's channels
  // Layers: along which axis of the weight that is input `i` its input channels lie; -1 where no weight can be there.
  int (*input_channels)(const Node&, int i) = nullptr;
  // From which elements of each input (none: all) those of result 0 are made that a slice takes; `attrs` are changed to
  // make just these. Empty where it cannot be said. Pointwise operators need no rule.
  std::vector<std::optional<Slice>> (*slices)(const Node&, const Slice&, Attrs* attrs) = nullptr;
  // Of input 0 only this mask counts: the result is input 1 where it holds, else input 2, or 0 where there is none.
  Value* (*test)(Builder&, const Node&) = nullptr;
  // The same value by fewer products, where that pays; it is rounded differently. Else null.
  Value* (*fewer_products)(Builder&, const Node&) = nullptr;
  int norm_scale = -1;  // normalisations: the input that scales; behind it stands the one that shifts
  // The result holds probabilities, or their logarithms: the loss that fits wants input 0, the logits, instead.
  Probability probability = Probability::none;
  std::vector<Best> layouts = {};  // of inputs, then results; none: any
  int gradients = INT_MAX;         // only so many first inputs have one
  int class_ids = -1;  // the input whose elements are class ids: below dim 1 of input 0, or `ignore_index`
  int places =
      -1;  // the input whose elements number places along `axis` of input 0, negative ones from the end
  bool moves = false;  // the results' elements are those of the inputs, or known ones

  bool is_view() const { return std::holds_alternative<View>(lower); }
  bool has_effect() const { return std::holds_alternative<Effect>(lower); }
  bool pointwise() const { return std::holds_alternative<Scalar>(lower); }
};

// The inputs that a gradient may flow into; none where the operator has no gradient.
inline std::span<Value* const> differentiable_inputs(const Node& n) {
  bool any = n.op->gradient.rule || std::holds_alternative<Expand>(n.op->lower);
  return std::span(n.inputs()).first(any ? std::min<size_t>(n.inputs().size(), n.op->gradients) : 0);
}

// The float values that a gradient of any of `ends` may flow into, and these.
std::unordered_set<const Value*> differentiable_ancestors(const Graph&, std::span<Value* const> ends);

// The list of every operator (ops/registry.cpp).
const std::vector<const OpDef*>& all_ops();
const OpDef* find_op(std::string_view name);  // nullptr if there is none
const OpDef& get_op(std::string_view name);   // POCK_CHECK

// Puts other operators in the place of all Expand operators that are `wanted`, those in expansions too.
// Returns how many there were.
int expand_nodes(
    Graph&, bool (*wanted)(const OpDef&) = [](const OpDef&) { return true; });

// The kernel of a node whose operator is Scalar or Nest, unscheduled. Arguments: inputs, then results. A
// Scalar's arguments drop axes along which they are broadcast, and neighbouring axes that no input tells
// apart are merged: the same memory under the plainest shape, so that nodes which compute alike share a
// kernel.
loop::Kernel lower_node(const Node&);
// The same with an axis for each of result 0 that has more than one element, in the order of memory.
loop::Kernel lower_unmerged(const Node&);
// The kernel of an update that is not written in place, from its inputs 1 and following into input 0, its last argument.
loop::Kernel lower_update(const Node&);

struct JoinedKernel {
  loop::Kernel kernel;
  std::vector<const Value*> args;  // what its arguments are but for the workspace behind them
};
// Whether the nest of a node loads each element of an argument more than once or twice: then, if it shares a kernel with
// the pointwise nodes that make them, those fill a workspace in front of it, from where the schedule moves them.
bool loads_often(const loop::Kernel& nest, const loop::BufferRef&);
// The kernel of nodes that share a number (Node::kernel), or of one alone. Values that stay inside are not stored. None
// where the nodes cannot be one kernel: all but one are pointwise, and what stands before that one must stay inside; or it
// sums up one value that those before it store, which may have another such node among them (loop::behind).
std::optional<JoinedKernel> lower_nodes(const Graph&, const std::vector<Node*>& nodes);
// The same of nodes that might share one, with these values inside.
std::optional<JoinedKernel> lower_nodes(const std::vector<Node*>& nodes,
                                        const std::function<bool(const Value*)>& inside);

}  // namespace pock
