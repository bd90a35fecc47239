// A graph: values and the nodes that make them. SSA, static shapes; the order of the nodes is the order of
// execution.
//
//   Graph g("fit");
//   Value* x = g.add_input("x", {DType::f32, {32, 784}});
//   Value* w = g.add_param("w", {DType::f32, {784, 10}}, data);
//   Builder b(g);
//   g.add_output(b.matmul(x, w));
//   fmt::print("{}", print(g));
//
// A parameter changes only through an `update` node: it stores a new value into the parameter, and every
// reader of the old value stands before it.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pock/ir/type.h"
#include "pock/support/diag.h"

namespace pock {

struct OpDef;
class Node;
class Graph;

// Raw little-endian elements, shared and never changed.
using Data = std::shared_ptr<const std::vector<std::byte>>;

Data make_data(const std::vector<float>&);
Data make_data(const void* bytes, size_t size);

// What a node is told beside its inputs. The names and types that an operator takes are in its OpDef.
using Attr = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using Attrs = std::map<std::string, Attr, std::less<>>;
// POCK_CHECK that it is there and of this kind.
template <class T>
const T& get_attr(const Attrs& attrs, std::string_view name) {
  auto it = attrs.find(name);
  POCK_CHECK(it != attrs.end(), "no attribute '{}'", name);
  const T* value = std::get_if<T>(&it->second);
  POCK_CHECK(value, "attribute '{}' is of another kind", name);
  return *value;
}

enum class ValueKind : uint8_t {
  input,        // fed for every step
  param,        // a weight of the model; trained or frozen
  statistic,    // a running statistic: changed by updates, saved, never trained
  optimizer,    // optimizer state, all elements `initial` at start; `slot` and `owner` say whose
  accumulator,  // what a step with several batches makes of `owner`'s gradient, or of a statistic; never saved
  constant,     // known at compile time
  scalar,       // what the runtime computes for every step: numbers of the optimizer (lr, ...), f32, and the
                // words that random numbers come from (seed_low, ...), i32
  result        // made by a node
};
const char* to_string(ValueKind);
// The scalars of random numbers: the two halves of the trainer's seed, and the number of the micro-batch, which
// counts from 1.
inline constexpr const char* kRandomWords[] = {"seed_low", "seed_high", "micro_step"};

// Elements along an axis.
struct Slice {
  int axis = 0;
  std::vector<int64_t> index = {};  // ascending
  bool operator==(const Slice&) const = default;
};
bool is_slice_of(const Slice&, const Type&);  // some of its elements along an axis that it has
Type slice_type(const Slice&, Type);          // row-major

struct Value {
  int id = 0;  // unique in the graph, never reused
  ValueKind kind = ValueKind::result;
  Type type;
  std::string name;                 // model name; for a result usually empty (printed as %id)
  Node* node = nullptr;             // result: who makes it
  int index = 0;                    // result: which of the node's results
  Data data;                        // param, statistic, constant: initial elements; null: zeros
  bool trained = false;             // param
  std::optional<Slice> slice = {};  // param: what of it is trained; none: all
  std::string slot;                 // optimizer: "exp_avg"; scalar: its formula
  Value* owner = nullptr;    // optimizer: the parameter it belongs to; accumulator: that, or a statistic
  float initial = 0;         // optimizer: every element at start; no denormal
  Loc origin;                // not for results: those have their node's
  std::vector<Node*> users;  // in no order; a node that reads it twice is there twice

  const Loc& loc() const;
  Type trained_type() const;  // param: of what is trained of it
  // It outlives a run of the graph, and an `update` may store into it.
  bool persistent() const { return kind == ValueKind::param || kind == ValueKind::statistic || owner; }
};

// The elements of a constant list of i64 or i32.
std::vector<int64_t> index_of(const Value& list);

class Node {
 public:
  const OpDef* op = nullptr;
  Attrs attrs;
  Loc loc;
  bool recomputed = false;  // a copy made to save memory: never merged with its original
  int in_place = -1;        // index of the input whose storage result 0 takes over, or -1
  int kernel = 0;           // nodes next to each other with the same number run as one; 0: alone

  const std::vector<Value*>& inputs() const { return inputs_; }
  const std::vector<Value*>& results() const { return results_; }
  Value* in(int i) const { return inputs_[i]; }
  Value* out(int i = 0) const { return results_[i]; }
  int64_t integer(std::string_view name) const;  // attributes; POCK_CHECK that they are there
  double number(std::string_view name) const;
  const std::string& string(std::string_view name) const;
  const std::vector<int64_t>& integers(std::string_view name) const;

 private:
  friend class Graph;
  std::vector<Value*> inputs_, results_;
  std::list<std::unique_ptr<Node>>::iterator position_;
};

class Graph {
 public:
  explicit Graph(std::string name = "g") : name(std::move(name)) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::string name;
  std::string model_file;  // of the imported model, for people
  std::string producer;    // "pytorch" where the file says so, else as the file says
  std::string model_hash;  // 16 hex digits over the model's bytes

  Value* add_input(std::string name, Type, Loc = {});
  Value* add_param(std::string name, Type, Data, Loc = {});
  Value* add_statistic(std::string name, Type, Data, Loc = {});
  Value* add_optimizer_state(Value* owner, std::string slot, Type, float initial = 0);
  Value* add_accumulator(Value* owner);
  Value* add_constant(Type, Data);
  Value* add_scalar(std::string name, DType = DType::f32);
  void add_output(Value*, std::string name = "");
  void remove_output(size_t i);
  // The output's first axis is not that of the samples, though it is as long.
  void set_whole(size_t i) { output_infos_[i].whole = true; }

  // Makes a node at the end, or before `before`. Types of the results come from the OpDef's shape rule;
  // defaults of missing attributes are filled in. Throws Error where the operator refuses its inputs.
  Node* add_node(const OpDef&, std::vector<Value*> inputs, Attrs, Loc, Node* before = nullptr);

  void set_input(Node*, int index, Value*);
  void replace_uses(Value* old, Value* by);  // in nodes and outputs
  void move_before(Node*, Node* before);     // before == nullptr: to the end
  void erase(Node*);                         // its results must be unread
  // Parameters, statistics and state in the order of `rank`, equals as they were.
  void sort_params(const std::function<int64_t(const Value&)>& rank);
  void erase_unused_values();  // constants, and frozen params that nothing reads

  std::vector<Node*> nodes() const;  // a snapshot in order: safe to change the graph while walking it
  std::vector<Node*> nodes_backward() const;
  Node* next(Node*) const;  // nullptr at the end
  size_t node_count() const { return nodes_.size(); }
  const std::vector<Value*>& inputs() const { return inputs_; }
  const std::vector<Value*>& outputs() const { return outputs_; }
  const std::string& output_name(size_t i) const { return output_infos_[i].name; }
  bool is_whole(size_t i) const { return output_infos_[i].whole; }
  void set_output(size_t i, Value* v) { outputs_[i] = v; }
  bool is_output(const Value*) const;
  // Params, statistics, optimizer state and accumulators in the order they were added (the model file's).
  const std::vector<Value*>& params() const { return params_; }
  const std::vector<Value*>& scalars() const { return scalars_; }
  std::vector<Value*> constants() const;
  // Everything that is not a node's result, in order of creation.
  std::vector<Value*> leaves() const;
  Value* find(std::string_view name) const;  // a leaf by name, or nullptr
  std::unique_ptr<Graph> clone() const;      // same order, ids and data

 private:
  Value* new_value(ValueKind, Type, std::string name);
  Value* add_leaf(ValueKind, Type, std::string name, Data, Loc);
  std::list<std::unique_ptr<Node>> nodes_;
  std::map<int, std::unique_ptr<Value>> values_;
  std::vector<Value*> inputs_, outputs_, params_, scalars_;
  struct OutputInfo {
    std::string name;
    bool whole = false;
  };
  std::vector<OutputInfo> output_infos_;  // one for each of outputs_
  int next_id_ = 0;
};

}  // namespace pock
