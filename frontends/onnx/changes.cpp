#include "changes.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <optional>
#include <set>

#include "leaves.h"

namespace pock::onnx_frontend {
namespace {
using onnx::AttributeProto;
using onnx::NodeProto;
using onnx::TensorProto;

// A float constant of the file.
struct Source {
  std::string name;
  const TensorProto* tensor = nullptr;
  const AttributeProto* list = nullptr;  // instead of a tensor: floats in an attribute
  std::optional<Tensor> original;        // once somebody asked

  int type() const { return tensor ? tensor->data_type() : int{TensorProto::FLOAT}; }
  std::string bytes() const {
    if (tensor) return stored_bytes(*tensor);
    std::string bytes(list->floats_size() * sizeof(float), '\0');
    for (int i = 0; i < list->floats_size(); ++i)
      store_float(TensorProto::FLOAT, list->floats(i), bytes.data(), i);
    return bytes;
  }
};

// What a name stands for in the tuned model.
struct Named {
  Source* source = nullptr;            // where its original elements are
  const StoredTensor* want = nullptr;  // null: the original ones
};

const AttributeProto* attribute(const NodeProto& node, std::string_view name) {
  for (const AttributeProto& a : node.attribute())
    if (a.name() == name) return &a;
  return nullptr;
}

class Finder {
 public:
  Finder(const ModelFile& file, const Tuning& tuning)
      : file_(file), graph_(file.model.graph()), tuning_(tuning) {}

  Changes run() {
    std::set<std::string> read;
    for (const NodeProto& node : graph_.node()) read.insert(node.input().begin(), node.input().end());
    for (const auto& info : graph_.output()) read.insert(info.name());

    for (const TensorProto& t : graph_.initializer()) add_source({t.name(), &t});
    for (const NodeProto& node : graph_.node()) {
      if (node.output_size() != 1 || !is_standard(node.domain())) continue;
      if (node.op_type() == "Constant") add_constant(node);
      if (node.op_type() == "Identity") add_copy(node, read);
    }
    Body body = inline_functions(file_);
    for (const auto& [where, name] : statistic_names(graph_, body))
      add_statistic(*where.first, where.second, name);
    for (const auto& [name, t] : tuning_.tensors) check(name, t.dtype, t.dims);
    for (const auto& [name, sum] : tuning_.added) check(name, "F32", sum.dims);
    report_.throw_if_any();
    for (const auto& [name, copy] : tied_copies(file_, body)) tie(name, copy);
    for (Source& s : sources_) report_.collect([&] { change(s); });
    for (const auto& [node, copy] : copies_)
      report_.collect([&, node = node, &copy = copy] { make_constant(*node, copy); });
    for (const auto& s : split_) report_.collect([&] { split(s); });
    report_.throw_if_any();
    say_rounded();
    return std::move(result_);
  }

 private:
  Loc place(const std::string& name) const { return {file_.name, name, "", "tensor"}; }

  // Of the tensor whose original elements are those of `s`.
  const StoredTensor* wanted(const std::string& name, Source& s) {
    auto found = tuning_.tensors.find(name);
    if (found != tuning_.tensors.end()) return &found->second;
    auto sum = tuning_.added.find(name);
    return sum == tuning_.added.end() ? nullptr : with_sum(s, sum->second);
  }

  const StoredTensor* with_sum(Source& s, const Tuning::Sum& sum) {
    const Tensor& before = original(s);
    if (before.dims != sum.dims) return nullptr;  // which check() says
    std::string& bytes = made_.emplace_back(before.floats->size(), '\0');
    for (size_t i = 0; i < sum.elements.size(); ++i) {
      float x = 0;
      std::memcpy(&x, before.floats->data() + i * sizeof x, sizeof x);
      x = flushed(static_cast<float>(x + sum.elements[i]));
      std::memcpy(bytes.data() + i * sizeof x, &x, sizeof x);
    }
    return &stored_.emplace_back(StoredTensor{"F32", sum.dims, bytes});
  }

  // ---- What each name stands for

  void add_source(Source s) {
    if (names_.count(s.name) || !is_float_type(s.type())) return;
    sources_.push_back(std::move(s));
    names_[sources_.back().name] = {&sources_.back(), wanted(sources_.back().name, sources_.back())};
  }

  void add_constant(const NodeProto& node) {
    const AttributeProto *value = attribute(node, "value"), *list = attribute(node, "value_floats");
    if (value && value->has_t())
      add_source({node.output(0), &value->t()});
    else if (list)
      add_source({node.output(0), nullptr, list});
  }

  // A copy is a tensor of its own: either may have been trained, or both.
  void add_copy(const NodeProto& node, const std::set<std::string>& read) {
    const std::string& name = node.output(0);
    auto from = node.input_size() == 1 ? names_.find(node.input(0)) : names_.end();
    if (from == names_.end() || names_.count(name)) return;
    Named copy{from->second.source, wanted(name, *from->second.source)};
    if (read.count(name) && !same(copy, from->second)) copies_.emplace_back(&node, copy);
    names_[name] = copy;
  }

  void add_statistic(const NodeProto& node, int input, const std::string& name) {
    auto from = names_.find(node.input(input));
    if (name == node.input(input) || from == names_.end()) return;
    Named own{from->second.source, wanted(name, *from->second.source)};
    if (!same(own, from->second)) split_.push_back({&node, input, name, own});
    names_[name] = own;
  }

  // The table's elements, as they lie in the copy.
  void tie(const std::string& name, const TiedCopy& copy) {
    const auto found = tuning_.tensors.find(copy.table);
    if (found == tuning_.tensors.end()) return;
    const StoredTensor* table = &found->second;
    if (!copy.transposed) {
      names_.at(name).want = table;
      return;
    }
    const int64_t rows = table->dims[0], columns = table->dims[1];
    StoredTensor& own = stored_.emplace_back(*table);
    own.dims = {columns, rows};
    std::string& bytes = made_.emplace_back(table->bytes);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        std::memcpy(bytes.data() + (j * rows + i) * sizeof(float),
                    table->bytes.data() + (i * columns + j) * sizeof(float), sizeof(float));
    own.bytes = bytes;
    names_.at(name).want = &own;
  }

  // ---- Elements

  const Tensor& original(Source& s) {
    if (s.original) return *s.original;
    if (s.tensor) return s.original.emplace(read_tensor(file_, *s.tensor, place(s.name)));
    Tensor& t = s.original.emplace();
    t.dims = {s.list->floats_size()};
    std::vector<float> values(s.list->floats().begin(), s.list->floats().end());
    for (float& x : values) x = flushed(x);
    t.floats = make_data(values);
    return t;
  }

  std::string_view elements(const Named& n) {
    if (n.want) return n.want->bytes;
    const Data& floats = original(*n.source).floats;
    return {reinterpret_cast<const char*>(floats->data()), floats->size()};
  }

  bool same(const Named& a, const Named& b) { return a.want == b.want || elements(a) == elements(b); }

  void check(const std::string& name, const std::string& dtype, const Dims& shape) {
    report_.collect([&] {
      auto found = names_.find(name);
      if (found == names_.end())
        throw Error(place(name), "was trained, but the model has no weight or statistic of this name");
      const Dims& dims = original(*found->second.source).dims;
      if (dtype != "F32" || shape != dims)
        throw Error(place(name), "was trained as {}{}, but has shape {} in the model", dtype,
                    to_string(shape), to_string(dims));
    });
  }

  // Elements that are what they were keep their bits: a double its digits, a denormal itself.
  std::string tuned_bytes(const std::string& name, const Named& n) {
    const int type = n.source->type();
    std::string bytes = n.source->bytes();
    std::string_view want = elements(n);
    const std::byte* before = original(*n.source).floats->data();
    for (size_t at = 0; at < want.size(); at += sizeof(float)) {
      if (std::memcmp(before + at, want.data() + at, sizeof(float)) == 0) continue;
      const auto i = static_cast<int64_t>(at / sizeof(float));
      float x = 0;
      std::memcpy(&x, want.data() + at, sizeof x);
      store_float(type, x, bytes.data(), i);
      if (!std::isfinite(load_float(type, bytes.data(), i)))
        throw Error(place(name), "element {} was trained to {}, which {} cannot hold", i, x, type_name(type));
    }
    return bytes;
  }

  // ---- Changes

  void count(const Source& s) {
    ++result_.count;
    if (s.type() != TensorProto::FLOAT) rounded_.insert(s.name);
  }

  void change(Source& s) {
    const Named& now = names_.at(s.name);
    if (!now.want) return;
    std::string bytes = tuned_bytes(s.name, now);
    if (bytes == s.bytes()) return;
    count(s);
    if (s.tensor)
      result_.tensors[s.tensor] = std::move(bytes);
    else
      result_.lists[s.list] = std::move(bytes);
  }

  AttributeProto value_of(const std::string& name, const Named& n) {
    AttributeProto a;
    a.set_name("value");
    a.set_type(AttributeProto::TENSOR);
    TensorProto* t = a.mutable_t();
    t->set_data_type(n.source->type());
    for (int64_t d : original(*n.source).dims) t->add_dims(d);
    t->set_raw_data(tuned_bytes(name, n));
    count(*n.source);
    return a;
  }

  void make_constant(const NodeProto& node, const Named& copy) {
    result_.constants[&node] = value_of(node.output(0), copy);
    result_.notes.push_back(
        fmt::format("'{}' was a copy of '{}' and is one no longer: its Identity is a Constant now",
                    node.output(0), node.input(0)));
  }

  struct Split {
    const NodeProto* node;
    int input;
    std::string name;
    Named own;
  };

  void split(const Split& s) {
    NodeProto constant;
    constant.set_op_type("Constant");
    constant.add_output(s.name);
    *constant.add_attribute() = value_of(s.name, s.own);
    result_.inputs[s.node][s.input] = constant;
    result_.notes.push_back(
        fmt::format("'{}' served several nodes that no longer agree: there is a Constant '{}' now",
                    s.node->input(s.input), s.name));
  }

  void say_rounded() {
    if (rounded_.empty()) return;
    const Source& one = *names_.at(*rounded_.begin()).source;
    result_.notes.push_back(fmt::format("{} tensor{} not float ('{}' is {}): rounded to nearest",
                                        rounded_.size(), rounded_.size() > 1 ? "s are" : " is", one.name,
                                        type_name(one.type())));
  }

  const ModelFile& file_;
  const onnx::GraphProto& graph_;
  const Tuning& tuning_;
  Report report_;
  std::deque<Source> sources_;
  std::deque<StoredTensor> stored_;  // that no checkpoint has as they are
  std::deque<std::string> made_;     // their bytes
  std::map<std::string, Named> names_;
  std::vector<std::pair<const NodeProto*, Named>> copies_;
  std::vector<Split> split_;
  std::set<std::string> rounded_;
  Changes result_;
};

}  // namespace

Changes find_changes(const ModelFile& file, const Tuning& tuning) { return Finder(file, tuning).run(); }

}  // namespace pock::onnx_frontend
