#include "call.h"

#include <algorithm>
#include <cstring>

#include "fold.h"
#include "pock/ops/evaluate.h"
#include "pock/ops/op.h"

namespace pock::onnx_frontend {
namespace {
std::string describe(const Entry& e) {
  if (e.truth) return "bool" + to_string(e.value->type.dims);
  if (e.value && !(e.known && !e.known->is_float)) return to_string(e.value->type);
  if (e.known) return type_name(e.known->type) + to_string(e.known->dims);
  if (e.stored)
    return type_name(e.stored->data_type()) +
           to_string(Dims(e.stored->dims().begin(), e.stored->dims().end()));
  return "unknown";
}

// Of the types that an input of the graph can have (see import.cpp).
int onnx_type(DType t) {
  switch (t) {
    case DType::i64:
      return onnx::TensorProto::INT64;
    case DType::i32:
      return onnx::TensorProto::INT32;
    case DType::i8:
      return onnx::TensorProto::INT8;
    case DType::u8:
      return onnx::TensorProto::UINT8;
    default:
      return onnx::TensorProto::FLOAT;
  }
}

template <class T>
int64_t element(const std::byte* data, int64_t i) {
  T x;
  std::memcpy(&x, data + i * sizeof x, sizeof x);
  return x;
}

int64_t whole_at(DType type, const std::byte* data, int64_t i) {
  switch (type) {
    case DType::i64:
      return element<int64_t>(data, i);
    case DType::i32:
      return element<int32_t>(data, i);
    case DType::i8:
      return element<int8_t>(data, i);
    default:
      POCK_CHECK(type == DType::u8, "a constant of {}", to_string(type));
      return element<uint8_t>(data, i);
  }
}

Tensor tensor_of(const Type& type, const Data& data) {
  Tensor t;
  t.dims = type.dims;
  if (is_float(type.dtype)) {
    t.floats = data;
    return t;
  }
  t.type = onnx_type(type.dtype);
  t.is_float = false;
  for (int64_t i = 0; i < type.elements(); ++i) t.ints.push_back(whole_at(type.dtype, data->data(), i));
  return t;
}

Data run_node(const Node& n, const std::vector<Data>& inputs, int result) {
  return n.op->is_view() ? inputs[0] : evaluate_node(n, inputs)[result];
}

// The nodes that `v` is computed by, where parameters and constants are all that they read and all is small.
std::optional<std::set<const Node*>> nodes_of_constants(const Value& v) {
  std::set<const Node*> nodes;
  std::vector<const Value*> open = {&v};
  while (!open.empty()) {
    const Value* next = open.back();
    open.pop_back();
    if (next->type.elements() > kMostFolded) return {};
    if (next->kind == ValueKind::param || next->kind == ValueKind::constant) continue;
    if (next->kind != ValueKind::result) return {};
    if (nodes.insert(next->node).second)
      open.insert(open.end(), next->node->inputs().begin(), next->node->inputs().end());
  }
  return nodes;
}

// nullptr where `v` depends on more than that.
Data compute_elements(const Graph& g, const Value& v) {
  if (v.kind != ValueKind::result || (!is_float(v.type.dtype) && v.type.dtype != DType::i64)) return nullptr;
  auto nodes = nodes_of_constants(v);
  if (!nodes) return nullptr;
  std::map<const Value*, Data> done;
  for (const Node* n : g.nodes()) {
    if (!nodes->count(n)) continue;
    std::vector<Data> inputs;
    for (const Value* in : n->inputs()) inputs.push_back(in->node ? done.at(in) : in->data);
    for (const Value* out : n->results()) done[out] = run_node(*n, inputs, out->index);
  }
  return done.at(&v);
}
}  // namespace

Entry* Scope::find(const std::string& name) {
  auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : &it->second;
}

Entry& Scope::define(const std::string& name, Loc loc) {
  Entry& e = entries_[name];
  e.name = name;
  e.loc = std::move(loc);
  return e;
}

const Dims& Scope::shape(Entry& e) { return e.value ? e.value->type.dims : contents(e)->dims; }

const Tensor* Scope::contents(Entry& e) {
  if (!e.known && e.stored) {
    try {
      e.known = std::make_shared<Tensor>(read_tensor(file, *e.stored, e.loc));
    } catch (const Error&) {
      e.failed = true;
      throw;
    }
  }
  return e.known.get();
}

const Tensor* Scope::compute(Entry& e) {
  if (const Tensor* t = contents(e)) return t;
  if (e.computable || !e.value) return e.computable.get();
  Data data = compute_elements(graph, *e.value);
  if (data) e.computable = std::make_shared<Tensor>(tensor_of(e.value->type, data));
  return e.computable.get();
}

Value* Scope::value(Entry& e) {
  if (e.value) return e.value;
  if (auto copy = tied.find(e.name); copy != tied.end()) {
    const auto& [table, transposed] = copy->second;
    Value* v = value(*find(table));
    said.insert(
        fmt::format("{}: '{}' is a copy of '{}'{}, as exporters write a head that shares its weight with an "
                    "embedding: they are one "
                    "parameter",
                    file.name, e.name, table, transposed ? ", transposed" : ""));
    return e.value = transposed ? Builder(graph, e.loc).transpose(v, {1, 0}) : v;
  }
  const Tensor* t = contents(e);
  POCK_CHECK(t, "'{}' has no contents", e.name);
  if (!t->is_float)
    return e.value = graph.add_constant({DType::i64, t->dims},
                                        make_data(t->ints.data(), t->ints.size() * sizeof(int64_t)));
  if (std::count(t->dims.begin(), t->dims.end(), 0)) {
    e.failed = true;
    throw Error(e.loc, "has shape {}: an axis has length 0", to_string(t->dims));
  }
  Type type{DType::f32, t->dims};
  // A number without axes is as likely an exponent, a scale or a bound as a weight.
  if (t->dims.empty() && !e.computed && e.loc.what == "initializer" && !numbers++) number_example = e.name;
  if (e.computed || t->dims.empty()) return e.value = graph.add_constant(type, t->floats);
  narrow(t->type, e.name);
  return e.value = graph.add_param(e.name, type, t->floats, {file.name, e.name, "", "parameter"});
}

Value* Scope::statistic(Entry& e, const std::string& name, const Loc& loc) {
  const Tensor* t = contents(e);
  if (!t || !t->is_float) throw Error(loc, "running statistic '{}' is not a float initializer", e.name);
  if (name != e.name) ++shared_statistics;
  narrow(t->type, e.name);
  return graph.add_statistic(name, {DType::f32, t->dims}, t->floats, {file.name, name, "", "statistic"});
}

void Scope::narrow(int type, const std::string& name) {
  if (type == onnx::TensorProto::FLOAT) return;
  if (!narrowed++) narrowed_example = fmt::format("'{}' is {}", name, type_name(type));
}

std::vector<std::string> Scope::notes() const {
  std::vector<std::string> notes;
  if (narrowed)
    notes.push_back(fmt::format("{}: {} tensor{} not float ({}): computed in f32", file.name, narrowed,
                                narrowed > 1 ? "s are" : " is", narrowed_example));
  if (copies)
    notes.push_back(fmt::format(
        "{}: {} tensor{} as a copy of another initializer ({}): each is one of its own from there on",
        file.name, copies, copies > 1 ? "s start" : " starts", copy_example));
  if (numbers)
    notes.push_back(fmt::format("{}: {} initializer{} without an axis ('{}'): constant, not trained",
                                file.name, numbers, numbers > 1 ? "s are numbers" : " is a number",
                                number_example));
  if (shared_statistics)
    notes.push_back(
        fmt::format("{}: {} running statistic{} an initializer with another node: each is updated on its own",
                    file.name, shared_statistics, shared_statistics > 1 ? "s share" : " shares"));
  notes.insert(notes.end(), said.begin(), said.end());
  return notes;
}

Call::Call(Scope& scope, const Statement& s, int since, Loc loc)
    : since(since),
      opset(s.opset),
      scope_(scope),
      statement_(s),
      node_(*s.node),
      loc_(std::move(loc)),
      b_(scope.graph, loc_) {}

Entry& Call::entry(int i) {
  if (!has(i)) throw Error(loc_, "input {} is missing", i);
  read_inputs_.insert(i);
  Entry* e = scope_.find(node_.input(i));
  POCK_CHECK(e && !e->failed, "input '{}' was not checked", node_.input(i));
  return *e;
}

Value* Call::any(int i) { return scope_.value(entry(i)); }

Value* Call::in(int i) {
  Value* v = any(i);
  if (entry(i).truth)
    throw fail("input '{}' is {}; pock computes {} on floats", node_.input(i), describe(entry(i)), loc_.op);
  if (v->type.dtype != DType::f32 && v->kind == ValueKind::constant)
    throw fail("input '{}' is {}; pock computes on float tensors, and integers are constants of shapes only",
               node_.input(i), describe(entry(i)));
  if (v->type.dtype != DType::f32)
    throw fail("input '{}' is {}; pock computes {} on floats", node_.input(i),
               type_name(onnx_type(v->type.dtype)), loc_.op);
  return v;
}

Value* Call::truth(int i) {
  const Tensor* t = known(i);
  if (t && t->type == onnx::TensorProto::BOOL) return value("cast", {any(i)}, {{"to", std::string("f32")}});
  if (!entry(i).truth)
    throw fail("input '{}' must hold booleans, but is {}", node_.input(i), describe(entry(i)));
  return any(i);
}

bool Call::is_whole(int i) {
  if (const Tensor* t = known(i)) return !t->is_float && t->type != onnx::TensorProto::BOOL;
  return !is_float(any(i)->type.dtype);
}

Value* Call::whole(int i) {
  if (!is_whole(i))
    throw fail("input '{}' must hold integers, but is {}", node_.input(i), describe(entry(i)));
  Value* v = any(i);
  return v->type.dtype == DType::i64 ? v : value("cast", {v}, {{"to", std::string("i64")}});
}

const Dims& Call::shape(int i) { return scope_.shape(entry(i)); }

std::optional<Call> Call::before() const {
  Scope* before = scope_.before;
  for (const std::string& name : node_.input())
    if (const Entry* e = !before || name.empty() ? nullptr : before->find(name);
        !name.empty() && (!e || e->failed))
      return {};
  if (!before) return {};
  return std::optional<Call>(std::in_place, *before, statement_, since, loc_);
}

const Tensor* Call::known(int i) { return scope_.contents(entry(i)); }

const Tensor* Call::computed(int i) { return scope_.compute(entry(i)); }

const Tensor& Call::constant(int i) {
  const Tensor* t = computed(i);
  if (!t) throw fail("input '{}' must be a constant: pock has to know it when it compiles", node_.input(i));
  return *t;
}

std::vector<int64_t> Call::integers(int i) {
  const Tensor& t = constant(i);
  if (t.is_float || t.dims.size() > 1) throw fail("input '{}' must be a list of integers", node_.input(i));
  return t.ints;
}

std::vector<float> Call::floats(int i) {
  const Tensor& t = constant(i);
  if (!t.is_float || t.dims.size() > 1) throw fail("input '{}' must be a list of floats", node_.input(i));
  std::vector<float> list(t.floats->size() / sizeof(float));
  if (!list.empty()) std::memcpy(list.data(), t.floats->data(), t.floats->size());
  return list;
}

float Call::scalar(int i) {
  const Tensor& t = constant(i);
  if (checked_elements(t.dims, loc_) != 1) throw fail("input '{}' must have one element", node_.input(i));
  return t.scalar();
}

bool Call::all_integers() {
  for (int i = 0; i < inputs(); ++i)
    if (const Tensor* t = has(i) ? known(i) : nullptr; !t || t->is_float) return false;
  return inputs() > 0;
}

int Call::element_type(int i) {
  if (entry(i).truth) return onnx::TensorProto::BOOL;
  const Tensor* t = known(i);
  return t ? t->type : onnx_type(any(i)->type.dtype);
}

Value* Call::statistic(int i) {
  const std::string& name = scope_.statistic_names.at({&node_, i});
  if (statement_.inside && name != node_.input(i))
    throw fail(
        "running statistic '{}' has other readers, and a node of a function cannot be given one of its own: "
        "export "
        "the model with its functions inlined",
        node_.input(i));
  return scope_.statistic(entry(i), name, loc_);
}

const onnx::AttributeProto* Call::attribute(const char* name) {
  read_attributes_.insert(name);
  for (const auto& a : node_.attribute())
    if (a.name() == name) return &a;
  return nullptr;
}

bool Call::has(const char* name) const {
  return std::any_of(node_.attribute().begin(), node_.attribute().end(),
                     [&](auto& a) { return a.name() == name; });
}

namespace {
const onnx::AttributeProto* typed(Call& c, const char* name, onnx::AttributeProto::AttributeType type,
                                  const char* word, bool needed) {
  const onnx::AttributeProto* a = c.attribute(name);
  if (!a && needed) throw Error(c.loc(), "attribute '{}' is missing", name);
  // Files older than IR 2 leave the type out.
  if (a && a->type() != onnx::AttributeProto::UNDEFINED && a->type() != type)
    throw Error(c.loc(), "attribute '{}' must be {}", name, word);
  return a;
}
}  // namespace

int64_t Call::integer(const char* name, std::optional<int64_t> standard) {
  auto* a = typed(*this, name, onnx::AttributeProto::INT, "an integer", !standard);
  return a ? a->i() : *standard;
}

float Call::number(const char* name, std::optional<float> standard) {
  auto* a = typed(*this, name, onnx::AttributeProto::FLOAT, "a float", !standard);
  return a ? a->f() : *standard;
}

std::string Call::string(const char* name, const char* standard) {
  auto* a = typed(*this, name, onnx::AttributeProto::STRING, "a string", false);
  return a ? a->s() : standard;
}

std::vector<int64_t> Call::integers(const char* name, std::optional<std::vector<int64_t>> standard) {
  auto* a = typed(*this, name, onnx::AttributeProto::INTS, "a list of integers", !standard);
  return a ? std::vector<int64_t>(a->ints().begin(), a->ints().end()) : *standard;
}

std::vector<float> Call::numbers(const char* name) {
  auto* a = typed(*this, name, onnx::AttributeProto::FLOATS, "a list of floats", true);
  return {a->floats().begin(), a->floats().end()};
}

int64_t Call::axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) throw Error(loc_, "axis {} is outside a tensor of rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> Call::axes(std::vector<int64_t> axes, int64_t rank) const {
  for (int64_t& a : axes) a = axis(a, rank);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    throw Error(loc_, "axes {} name an axis twice", to_string(axes));
  return axes;
}

Value* Call::value(std::string_view op, std::vector<Value*> in, Attrs attrs) {
  Node* n = make(op, std::move(in), std::move(attrs));
  bool known = std::all_of(n->inputs().begin(), n->inputs().end(),
                           [](const Value* v) { return v->kind == ValueKind::constant; });
  if (!known || n->out()->type.elements() > kMostFolded) return n->out();
  std::vector<Data> data;
  for (const Value* v : n->inputs()) data.push_back(v->data);
  Value* result = scope_.graph.add_constant(n->out()->type, run_node(*n, data, 0));
  scope_.graph.erase(n);
  return result;
}

Node* Call::make(std::string_view op, std::vector<Value*> in, Attrs attrs) {
  Node* n = b_.make(op, std::move(in), std::move(attrs));
  for (Value* v : n->results())
    if (checked_elements(v->type.dims, loc_) == 0 && is_float(v->type.dtype))
      throw fail("the result would be {}: an axis of length 0", to_string(v->type));
  return n;
}

Value* Call::reshape(Value* v, Dims shape) {
  return v->type.dims == shape ? v : value("reshape", {v}, {{"shape", shape}});
}

Value* Call::transpose(Value* v, std::vector<int64_t> permutation) {
  return value("transpose", {v}, {{"permutation", std::move(permutation)}});
}

Value* Call::number_value(float x) { return b_.constant(x); }

Value* Call::index_value(const std::vector<int64_t>& index) {
  return scope_.graph.add_constant({DType::i64, {std::ssize(index)}},
                                   make_data(index.data(), index.size() * sizeof(int64_t)));
}

Entry& Call::result(int i) { return scope_.define(node_.output(i), loc_); }

void Call::out(int i, Value* v, int like) {
  if (!wants(i)) return;
  const bool modelled = like >= 0 && like < inputs() && has(like);
  if (v->kind != ValueKind::constant) {
    const bool truth = modelled && entry(like).truth;
    result(i).value = v;
    result(i).truth = truth;
    return;
  }
  Tensor t = tensor_of(v->type, v->data);
  const Tensor* model = !t.is_float && modelled ? known(like) : nullptr;
  if (model && !model->is_float) t.type = model->type;
  out(i, std::move(t));
  result(i).value = v;
}

void Call::out_truth(int i, Value* v) {
  if (!wants(i)) return;
  if (v->kind != ValueKind::constant) {
    result(i).value = v;
    result(i).truth = true;
    return;
  }
  Tensor t;
  t.is_float = false;
  t.type = onnx::TensorProto::BOOL;
  t.dims = v->type.dims;
  for (int64_t k = 0; k < v->type.elements(); ++k) {
    float x = 0;
    std::memcpy(&x, v->data->data() + k * sizeof x, sizeof x);
    t.ints.push_back(x != 0);
  }
  out(i, std::move(t));
}

void Call::out_whole(int i, Value* v, int like) {
  DType type = known(like) ? DType::i64 : any(like)->type.dtype;
  if (type != v->type.dtype) v = value("cast", {v}, {{"to", std::string(to_string(type))}});
  out(i, v, like);
}

void Call::out(int i, Tensor t, bool computed) {
  if (!wants(i)) return;
  Entry& e = result(i);
  e.known = std::make_shared<Tensor>(std::move(t));
  e.computed = computed || statement_.inside;
}

void Call::out(int i, const onnx::TensorProto& t) {
  if (!wants(i)) return;
  Entry& e = result(i);
  e.stored = &t;
  e.computed = statement_.inside;
}

void Call::out_same(int i, int input) {
  if (!wants(i)) return;
  Value* v = any(input);
  Entry& from = entry(input);
  Entry& to = result(i);
  to.value = v;
  to.known = from.known;
  to.computed = from.computed;
  to.truth = from.truth;
}

void Call::out_copy(int i, int input) {
  if (!wants(i)) return;
  if (statement_.inside) return out_same(i, input);  // code: the file has no place for a copy of its own
  const Entry& from = entry(input);
  scope_.contents(entry(input));
  Entry& to = result(i);
  to.computed = from.computed;
  to.known = from.known;
  if (!from.known) to.value = from.value;
  to.truth = from.truth;
  if (from.known && from.known->is_float && !from.known->dims.empty() && !from.computed && !scope_.copies++)
    scope_.copy_example = fmt::format("'{}' of '{}'", to.name, from.name);
}

void Call::check_complete() const {
  for (const auto& a : node_.attribute())
    if (!read_attributes_.count(a.name())) throw Error(loc_, "attribute '{}' is not supported", a.name());
  for (int i = 0; i < inputs(); ++i)
    if (has(i) && !read_inputs_.count(i))
      throw Error(loc_, "input {} ('{}') is one too many", i, node_.input(i));
  for (int i = 0; i < node_.output_size(); ++i)
    if (reads(i) && !scope_.find(node_.output(i)))
      throw Error(loc_, "output {} ('{}') is not supported", i, node_.output(i));
}

Error Call::with_inputs(Error e) {
  for (const std::string& name : node_.input())
    if (const Entry* in = name.empty() ? nullptr : scope_.find(name)) {
      if (in->loc.name == name)
        e.note(in->loc, "is {}", describe(*in));
      else
        e.note(in->loc, "'{}' is {}", name, describe(*in));
    }
  return e;
}

}  // namespace pock::onnx_frontend
