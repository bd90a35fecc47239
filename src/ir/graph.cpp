#include "pock/ir/graph.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <unordered_map>

#include "pock/ops/op.h"

namespace pock {
namespace {

void remove_user(Value* v, Node* user) {
  auto it = std::find(v->users.begin(), v->users.end(), user);
  POCK_CHECK(it != v->users.end(), "users of value {} lack a reader", v->id);
  v->users.erase(it);
}

const char* to_string(AttrDef::Kind kind) {
  switch (kind) {
    case AttrDef::integer:
      return "an integer";
    case AttrDef::number:
      return "a number";
    case AttrDef::string:
      return "a string";
    case AttrDef::integers:
      return "a list of integers";
  }
  return "";
}

AttrDef::Kind kind_of(const Attr& a) { return static_cast<AttrDef::Kind>(a.index()); }

// Attributes with defaults filled in; an integer given for a number becomes one.
Attrs complete(const OpDef& op, Attrs attrs, const Loc& loc) {
  for (auto& [name, attr] : attrs) {
    auto def =
        std::find_if(op.attrs.begin(), op.attrs.end(), [&](const AttrDef& d) { return name == d.name; });
    if (def == op.attrs.end()) throw Error(loc, "{} has no attribute '{}'", op.name.text, name);
    if (def->kind == AttrDef::number && kind_of(attr) == AttrDef::integer)
      attr = static_cast<double>(std::get<int64_t>(attr));
    if (kind_of(attr) != def->kind)
      throw Error(loc, "attribute '{}' of {} is {}, given is {}", name, op.name.text, to_string(def->kind),
                  to_string(kind_of(attr)));
    // Rules add them to sizes and multiply the two, after they have refused negative ones.
    auto check = [&](int64_t n) {
      if (n > kMostElements)
        throw Error(loc, "attribute '{}' of {} is {}, beyond 2^40", name, op.name.text, n);
    };
    if (const int64_t* n = std::get_if<int64_t>(&attr)) check(*n);
    if (const auto* list = std::get_if<std::vector<int64_t>>(&attr))
      std::for_each(list->begin(), list->end(), check);
  }
  for (const AttrDef& def : op.attrs) {
    if (attrs.count(def.name)) continue;
    if (!def.standard) throw Error(loc, "{} needs the attribute '{}'", op.name.text, def.name);
    attrs.emplace(def.name, *def.standard);
  }
  return attrs;
}

const char* what(ValueKind kind) { return kind == ValueKind::param ? "parameter" : to_string(kind); }

}  // namespace

Data make_data(const void* bytes, size_t size) {
  auto data = std::make_shared<std::vector<std::byte>>(size);
  if (size) std::memcpy(data->data(), bytes, size);
  return data;
}

Data make_data(const std::vector<float>& elements) {
  return make_data(elements.data(), elements.size() * sizeof(float));
}

const char* to_string(ValueKind kind) {
  switch (kind) {
    case ValueKind::input:
      return "input";
    case ValueKind::param:
      return "param";
    case ValueKind::statistic:
      return "statistic";
    case ValueKind::optimizer:
      return "optimizer";
    case ValueKind::accumulator:
      return "accumulator";
    case ValueKind::constant:
      return "constant";
    case ValueKind::scalar:
      return "scalar";
    case ValueKind::result:
      return "result";
  }
  return "";
}

bool is_slice_of(const Slice& s, const Type& t) {
  return s.axis >= 0 && s.axis < t.rank() && !s.index.empty() && s.index.front() >= 0 &&
         s.index.back() < t.dims[static_cast<size_t>(s.axis)] &&
         std::adjacent_find(s.index.begin(), s.index.end(), std::greater_equal<>()) == s.index.end();
}

Type slice_type(const Slice& s, Type t) {
  t.dims[static_cast<size_t>(s.axis)] = std::ssize(s.index);
  t.layout.clear();
  return t;
}

std::vector<int64_t> index_of(const Value& list) {
  POCK_CHECK(list.kind == ValueKind::constant && list.data, "{} is no constant", list.name);
  const auto count = static_cast<size_t>(list.type.elements());
  std::vector<int64_t> index(count);
  if (list.type.dtype == DType::i64) {
    std::memcpy(index.data(), list.data->data(), count * sizeof(int64_t));
  } else {
    POCK_CHECK(list.type.dtype == DType::i32, "a list of {}", to_string(list.type.dtype));
    std::vector<int32_t> narrow(count);
    std::memcpy(narrow.data(), list.data->data(), count * sizeof(int32_t));
    index.assign(narrow.begin(), narrow.end());
  }
  return index;
}

Type Value::trained_type() const { return slice ? slice_type(*slice, type) : type; }

const Loc& Value::loc() const { return node ? node->loc : origin; }

int64_t Node::integer(std::string_view name) const { return get_attr<int64_t>(attrs, name); }
double Node::number(std::string_view name) const { return get_attr<double>(attrs, name); }
const std::string& Node::string(std::string_view name) const { return get_attr<std::string>(attrs, name); }
const std::vector<int64_t>& Node::integers(std::string_view name) const {
  return get_attr<std::vector<int64_t>>(attrs, name);
}

Value* Graph::new_value(ValueKind kind, Type type, std::string name) {
  auto v = std::make_unique<Value>();
  v->id = next_id_++;
  v->kind = kind;
  v->type = std::move(type);
  v->name = std::move(name);
  if (kind != ValueKind::result) {
    v->origin.what = what(kind);
    v->origin.name = v->name;
  }
  return values_.emplace_hint(values_.end(), v->id, std::move(v))->second.get();
}

Value* Graph::add_leaf(ValueKind kind, Type type, std::string name, Data data, Loc loc) {
  POCK_CHECK(!data || static_cast<int64_t>(data->size()) == type.bytes(), "{} has {} bytes of data for {}",
             name, data->size(), pock::to_string(type));
  Value* v = new_value(kind, std::move(type), std::move(name));
  v->data = std::move(data);
  if (!loc.file.empty() || !loc.name.empty()) v->origin = std::move(loc);
  return v;
}

Value* Graph::add_input(std::string name, Type type, Loc loc) {
  return inputs_.emplace_back(
      add_leaf(ValueKind::input, std::move(type), std::move(name), {}, std::move(loc)));
}

Value* Graph::add_param(std::string name, Type type, Data data, Loc loc) {
  return params_.emplace_back(
      add_leaf(ValueKind::param, std::move(type), std::move(name), std::move(data), std::move(loc)));
}

Value* Graph::add_statistic(std::string name, Type type, Data data, Loc loc) {
  return params_.emplace_back(
      add_leaf(ValueKind::statistic, std::move(type), std::move(name), std::move(data), std::move(loc)));
}

Value* Graph::add_optimizer_state(Value* owner, std::string slot, Type type, float initial) {
  std::string name = owner->name + "." + slot;
  while (find(name)) name += "_";
  Value* v = params_.emplace_back(add_leaf(ValueKind::optimizer, std::move(type), std::move(name), {}, {}));
  v->owner = owner;
  v->initial = initial;
  v->slot = std::move(slot);
  return v;
}

Value* Graph::add_accumulator(Value* owner) {
  std::string name = owner->name + ".accumulator";
  while (find(name)) name += "_";
  Value* v =
      params_.emplace_back(add_leaf(ValueKind::accumulator, owner->trained_type(), std::move(name), {}, {}));
  v->owner = owner;
  return v;
}

Value* Graph::add_constant(Type type, Data data) {
  return add_leaf(ValueKind::constant, std::move(type), "", std::move(data), {});
}

Value* Graph::add_scalar(std::string name, DType dtype) {
  std::string free = name;
  while (find(free)) free += "_";
  Value* v = scalars_.emplace_back(add_leaf(ValueKind::scalar, Type{dtype, {}}, std::move(free), {}, {}));
  v->slot = std::move(name);
  return v;
}

void Graph::add_output(Value* v, std::string name) {
  outputs_.push_back(v);
  output_infos_.push_back({std::move(name)});
}

void Graph::remove_output(size_t i) {
  outputs_.erase(outputs_.begin() + static_cast<std::ptrdiff_t>(i));
  output_infos_.erase(output_infos_.begin() + static_cast<std::ptrdiff_t>(i));
}

Node* Graph::add_node(const OpDef& op, std::vector<Value*> inputs, Attrs attrs, Loc loc, Node* before) {
  int count = static_cast<int>(inputs.size());
  if (op.variadic ? count < op.inputs : count != op.inputs)
    throw Error(loc, "{} takes {}{} input{}, given {}", op.name.text, op.inputs,
                op.variadic ? " or more" : "", op.inputs == 1 && !op.variadic ? "" : "s", count);
  for (Value* v : inputs) POCK_CHECK(v, "an input of {} is null", op.name.text);
  attrs = complete(op, std::move(attrs), loc);
  Types types = op.infer(InferArgs(inputs, attrs, loc));
  POCK_CHECK(static_cast<int>(types.size()) == op.results, "shape rule of {} gives {} results, not {}",
             op.name.text, types.size(), op.results);
  for (const Type& type : types)
    if (!are_possible(type.dims))
      throw Error(loc, "the result {} of {} has more than 2^40 elements", to_string(type), op.name.text);

  auto owned = std::make_unique<Node>();
  Node* n = owned.get();
  n->op = &op;
  n->attrs = std::move(attrs);
  n->loc = std::move(loc);
  n->inputs_ = std::move(inputs);
  for (Value* v : n->inputs_) v->users.push_back(n);
  for (Type& type : types) {
    Value* v = new_value(ValueKind::result, std::move(type), "");
    v->node = n;
    v->index = static_cast<int>(n->results_.size());
    n->results_.push_back(v);
  }
  n->position_ = nodes_.insert(before ? before->position_ : nodes_.end(), std::move(owned));
  return n;
}

void Graph::set_input(Node* n, int index, Value* v) {
  remove_user(n->inputs_[index], n);
  n->inputs_[index] = v;
  v->users.push_back(n);
}

void Graph::replace_uses(Value* old, Value* by) {
  if (old == by) return;
  for (Node* user : old->users) {
    *std::find(user->inputs_.begin(), user->inputs_.end(), old) = by;
    by->users.push_back(user);
  }
  old->users.clear();
  std::replace(outputs_.begin(), outputs_.end(), old, by);
}

void Graph::move_before(Node* n, Node* before) {
  nodes_.splice(before ? before->position_ : nodes_.end(), nodes_, n->position_);
}

void Graph::erase(Node* n) {
  for (Value* v : n->results_)
    POCK_CHECK(v->users.empty() && !is_output(v), "erasing {}, whose result is read", n->op->name.text);
  for (Value* v : n->inputs_) remove_user(v, n);
  for (Value* v : n->results_) values_.erase(v->id);
  nodes_.erase(n->position_);
}

void Graph::sort_params(const std::function<int64_t(const Value&)>& rank) {
  // They share out the ids that they have: ids tell the order everywhere else.
  std::vector<int> ids;
  std::vector<std::unique_ptr<Value>> taken;
  std::stable_sort(params_.begin(), params_.end(), [&](Value* a, Value* b) { return rank(*a) < rank(*b); });
  for (Value* v : params_) {
    ids.push_back(v->id);
    taken.push_back(std::move(values_.extract(v->id).mapped()));
  }
  std::sort(ids.begin(), ids.end());
  for (size_t i = 0; i < ids.size(); ++i) {
    taken[i]->id = ids[i];
    values_[ids[i]] = std::move(taken[i]);
  }
}

void Graph::erase_unused_values() {
  for (auto it = values_.begin(); it != values_.end();) {
    Value* v = it->second.get();
    bool may_go = v->kind == ValueKind::constant || (v->kind == ValueKind::param && !v->trained);
    if (may_go && v->users.empty() && !is_output(v)) {
      std::erase(params_, v);
      it = values_.erase(it);
    } else {
      ++it;
    }
  }
}

std::vector<Node*> Graph::nodes() const {
  std::vector<Node*> list;
  list.reserve(nodes_.size());
  for (const auto& n : nodes_) list.push_back(n.get());
  return list;
}

std::vector<Node*> Graph::nodes_backward() const {
  std::vector<Node*> list = nodes();
  std::reverse(list.begin(), list.end());
  return list;
}

Node* Graph::next(Node* n) const {
  auto it = std::next(n->position_);
  return it == nodes_.end() ? nullptr : it->get();
}

bool Graph::is_output(const Value* v) const {
  return std::find(outputs_.begin(), outputs_.end(), v) != outputs_.end();
}

std::vector<Value*> Graph::constants() const {
  std::vector<Value*> list;
  for (const auto& [id, v] : values_)
    if (v->kind == ValueKind::constant) list.push_back(v.get());
  return list;
}

std::vector<Value*> Graph::leaves() const {
  std::vector<Value*> list;
  for (const auto& [id, v] : values_)
    if (v->kind != ValueKind::result) list.push_back(v.get());
  return list;
}

Value* Graph::find(std::string_view name) const {
  if (name.empty()) return nullptr;
  for (const auto& [id, v] : values_)
    if (v->kind != ValueKind::result && v->name == name) return v.get();
  return nullptr;
}

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>(name);
  copy->model_file = model_file;
  copy->model_hash = model_hash;
  copy->producer = producer;
  copy->next_id_ = next_id_;
  std::unordered_map<const Value*, Value*> values;
  std::unordered_map<const Node*, Node*> nodes;
  for (const auto& n : nodes_) {
    auto owned = std::make_unique<Node>(*n);
    nodes[n.get()] = owned.get();
    owned->position_ = copy->nodes_.end();
    Node* made = copy->nodes_.emplace_back(std::move(owned)).get();
    made->position_ = std::prev(copy->nodes_.end());
  }
  for (const auto& [id, v] : values_)
    values[v.get()] = copy->values_.emplace(id, std::make_unique<Value>(*v)).first->second.get();
  auto translate = [&](std::vector<Value*>& list) {
    for (Value*& v : list) v = values.at(v);
  };
  for (auto& [original, v] : values) {
    if (v->node) v->node = nodes.at(v->node);
    if (v->owner) v->owner = values.at(v->owner);
    for (Node*& user : v->users) user = nodes.at(user);
  }
  for (auto& [original, n] : nodes) {
    translate(n->inputs_);
    translate(n->results_);
  }
  copy->inputs_ = inputs_;
  copy->outputs_ = outputs_;
  copy->params_ = params_;
  copy->scalars_ = scalars_;
  copy->output_infos_ = output_infos_;
  for (auto* list : {&copy->inputs_, &copy->outputs_, &copy->params_, &copy->scalars_}) translate(*list);
  return copy;
}

}  // namespace pock
