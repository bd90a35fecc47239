// What the conversion of one ONNX operator sees (Call), and what the names of a model stand for (Scope).
//
//   void flatten(Call& c, const char*) {
//     int64_t axis = c.axis(c.integer("axis", 1), c.shape(0).size() + 1);
//     ...
//     c.out(0, c.reshape(c.any(0), {rows, columns}));
//   }
//
// A conversion asks for each input and attribute that it understands; one that it never asked for is an
// error, so what is not supported is never overlooked.
#pragma once

#include <memory>
#include <optional>
#include <set>

#include "functions.h"
#include "leaves.h"
#include "pock/ir/builder.h"
#include "reader.h"

namespace pock::onnx_frontend {

// What a name stands for.
struct Entry {
  std::string name;
  Loc loc;                                    // who makes it
  Value* value = nullptr;                     // once it is in the graph
  const onnx::TensorProto* stored = nullptr;  // an initializer or a Constant, read at its first use
  std::shared_ptr<const Tensor> known;        // contents known at import
  bool computed = false;                      // `known` was computed from other constants: never a parameter
  std::shared_ptr<const Tensor> computable;   // contents of a value, once Scope::compute was asked for them
  bool truth = false;                         // a boolean that a step computes: floats, 0 and 1
  bool failed = false;                        // its problem has been reported
};

class Scope {
 public:
  Scope(const ModelFile& file, Graph& graph) : file(file), graph(graph) {}
  const ModelFile& file;
  Graph& graph;
  StatisticNames statistic_names;
  TiedCopies tied;
  std::set<std::string> read_names;  // inputs of nodes and outputs of the graph
  // An export of a fixed batch that is read with another.
  struct Rebatch {
    int64_t from, to;
  };
  std::optional<Rebatch> rebatch;
  Scope* before = nullptr;  // of the same model with the file's own batch, where that is replaced

  Entry* find(const std::string& name);
  const Dims& shape(Entry&);
  Entry& define(const std::string& name, Loc);
  // Contents of a constant; nullptr for what only a running step knows.
  const Tensor* contents(Entry&);
  // Also of what is computed of the file's floats alone, which until then are parameters; nullptr for what is not.
  const Tensor* compute(Entry&);
  // A weight becomes a parameter, another constant a const: integers of every width one of i64.
  Value* value(Entry&);
  // A batch norm's own running statistic, starting from the contents.
  Value* statistic(Entry&, const std::string& name, const Loc&);

  int64_t random_nodes = 0;  // so many have an id by now

  // Things the person should hear of once.
  int narrowed = 0, copies = 0, shared_statistics = 0, numbers = 0;
  std::set<std::string> said;  // whole notes
  std::string narrowed_example, copy_example, number_example;
  void narrow(int type, const std::string& name);
  std::vector<std::string> notes() const;

 private:
  std::map<std::string, Entry> entries_;
};

class Call {
 public:
  Call(Scope&, const Statement&, int since, Loc);

  const int since;      // the operator's version that holds here
  const int64_t opset;  // what the file or function says

  // Inputs. A missing one has an empty name or is not listed.
  int inputs() const { return node_.input_size(); }
  bool has(int i) const { return i < inputs() && !node_.input(i).empty(); }
  Value* in(int i);     // f32
  Value* any(int i);    // of any element type; constant integers are i64
  Value* truth(int i);  // of booleans: f32, 0 and 1
  Value* whole(int i);  // of integers: i64
  bool is_whole(int i);
  const Dims& shape(int i);
  const Tensor* known(int i);            // nullptr where the contents are not known at import
  const Tensor* computed(int i);         // nor can be computed then
  const Tensor& constant(int i);         // an Error where they are not
  std::vector<int64_t> integers(int i);  // of a constant
  std::vector<float> floats(int i);      // of a constant
  float scalar(int i);                   // of a constant with one element
  bool all_integers();                   // every input is a known integer tensor
  int element_type(int i);               // ONNX's; of what a step computes, that of pock
  Value* statistic(int i);

  // Attributes. Those without a default must be there.
  bool has(const char* attribute) const;
  int64_t integer(const char* name, std::optional<int64_t> standard = {});
  float number(const char* name, std::optional<float> standard = {});
  std::string string(const char* name, const char* standard);
  std::vector<int64_t> integers(const char* name, std::optional<std::vector<int64_t>> standard = {});
  std::vector<float> numbers(const char* name);
  bool flag(const char* name, bool standard) { return integer(name, standard) != 0; }
  const onnx::AttributeProto* attribute(const char* name);
  Tensor read(const onnx::TensorProto& t) { return read_tensor(scope_.file, t, loc_); }  // of an attribute

  // `axis`, negative ones counted from the end; an Error outside [-rank, rank).
  int64_t axis(int64_t axis, int64_t rank) const;
  std::vector<int64_t> axes(std::vector<int64_t>, int64_t rank) const;

  // Building. Sizes of results are checked. `value` of constants alone is computed at once, and a constant.
  Value* value(std::string_view op, std::vector<Value*> in, Attrs attrs = {});
  Node* make(std::string_view op, std::vector<Value*> in, Attrs attrs = {});
  Value* reshape(Value*, Dims);
  Value* transpose(Value*, std::vector<int64_t> permutation);
  Value* number_value(float);
  Value* index_value(const std::vector<int64_t>&);  // i64, rank 1

  // Results.
  int outputs() const { return node_.output_size(); }
  bool wants(int i) const { return i < node_.output_size() && !node_.output(i).empty(); }
  bool reads(int i) const { return wants(i) && scope_.read_names.count(node_.output(i)) > 0; }  // anyone
  // Constant integers count as of the ONNX type of input `like`, and numbers are booleans where its are; -1: no input.
  void out(int i, Value*, int like = 0);
  void out_truth(int i, Value*);                  // floats, 0 and 1
  void out_whole(int i, Value*, int like = 0);    // i64, as elements of the integer type of input `like`
  void out(int i, Tensor, bool computed = true);  // contents known at import
  void out(int i, const onnx::TensorProto&);      // a Constant's tensor
  void out_same(int i, int input);                // the input itself, its contents still known
  const Dims& made(int i) { return scope_.shape(*scope_.find(node_.output(i))); }
  void out_copy(int i, int input);  // as well, but a weight becomes one of its own

  // After the conversion: everything that was given has been understood, and everything that is read was
  // made.
  void check_complete() const;

  template <class... Args>
  Error fail(fmt::format_string<Args...> format, Args&&... args) {
    return with_inputs(Error(loc_, format, std::forward<Args>(args)...));
  }
  Scope& scope() { return scope_; }
  // To ask for the same node's inputs with the file's own batch, where that is replaced.
  std::optional<Call> before() const;
  const Loc& loc() const { return loc_; }

 private:
  Error with_inputs(Error);
  Entry& entry(int i);
  Entry& result(int i);

  Scope& scope_;
  const Statement statement_;
  const onnx::NodeProto& node_;
  Loc loc_;
  Builder b_;
  std::set<int> read_inputs_;
  std::set<std::string> read_attributes_;
};

}  // namespace pock::onnx_frontend
