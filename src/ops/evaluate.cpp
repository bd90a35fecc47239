#include "pock/ops/evaluate.h"

#include <algorithm>
#include <cstring>

#include "pock/ops/op.h"

namespace pock {
namespace {

using loop::Precision;

// How elements of a type are held.
DType held_as(DType t, Precision p) { return t == DType::f32 && p == Precision::f64 ? DType::f64 : t; }

Type held(const Type& t, Precision p) { return {held_as(t.dtype, p), t.dims, t.layout}; }
int64_t held_bytes(const Type& t, Precision p) { return held(t, p).bytes(); }

// Calls `f` with a null pointer of the C++ type of an element.
template <class F>
void with_type(DType t, F f) {
  switch (t) {
    case DType::f32:
      return f(static_cast<float*>(nullptr));
    case DType::f64:
      return f(static_cast<double*>(nullptr));
    case DType::i8:
      return f(static_cast<int8_t*>(nullptr));
    case DType::u8:
      return f(static_cast<uint8_t*>(nullptr));
    case DType::i32:
      return f(static_cast<int32_t*>(nullptr));
    case DType::i64:
      return f(static_cast<int64_t*>(nullptr));
    case DType::mask:
      POCK_CHECK(false, "masks have no elements of their own");
  }
}

std::vector<double> to_doubles(const void* from, DType t, int64_t count) {
  std::vector<double> numbers(count);
  with_type(t, [&](auto* type) {
    auto* elements = static_cast<decltype(type)>(const_cast<void*>(from));
    for (int64_t i = 0; i < count; ++i) numbers[i] = static_cast<double>(elements[i]);
  });
  return numbers;
}

void from_doubles(const std::vector<double>& numbers, DType t, void* to) {
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for (size_t i = 0; i < numbers.size(); ++i) {
      T element = static_cast<T>(numbers[i]);
      if constexpr (std::is_same_v<T, float>) element = flushed(element);
      static_cast<T*>(to)[i] = element;
    }
  });
}

void copy_elements(Memory& m, const Value* from, const Value* to) {
  int64_t bytes = held_bytes(from->type, m.precision);
  POCK_CHECK(bytes == held_bytes(to->type, m.precision), "{} copied to {}", to_string(from->type),
             to_string(to->type));
  void* into = m.at(to);
  if (bytes) std::memcpy(into, m.at(from), bytes);
}

// Runs an Expand operator in a graph of its own.
void run_expanded(const Node& n, const Expand& expand, Memory& m) {
  Graph g(std::string(n.op->name));
  std::vector<Value*> inputs;
  for (size_t i = 0; i < n.inputs().size(); ++i)
    inputs.push_back(g.add_input(fmt::format("in{}", i), n.in(i)->type));
  Node* copy = g.add_node(*n.op, inputs, n.attrs, n.loc);
  Builder b(g, n.loc);
  std::vector<Value*> results = expand.rule(b, *copy);
  POCK_CHECK(results.size() == n.results().size(), "{} expands to {} results", n.op->name.text,
             results.size());
  g.erase(copy);

  Memory inner(m.precision);
  auto copy_across = [&](Memory& from_memory, const Value* from, Memory& to_memory, const Value* to) {
    POCK_CHECK(from->type == to->type, "{} meets {}", to_string(from->type), to_string(to->type));
    void* into = to_memory.at(to);
    if (int64_t bytes = held_bytes(from->type, m.precision)) std::memcpy(into, from_memory.at(from), bytes);
  };
  for (const Value* c : g.constants()) inner.set(c, c->data);
  for (size_t i = 0; i < inputs.size(); ++i) copy_across(m, n.in(i), inner, inputs[i]);
  for (const Node* node : g.nodes()) evaluate(*node, inner);
  for (size_t i = 0; i < results.size(); ++i) copy_across(inner, results[i], m, n.out(i));
}

}  // namespace

void evaluate(const Node& n, Memory& m) {
  for (const Value* v : n.inputs())
    POCK_CHECK(m.has(v), "{} reads a value that nobody set: {} '{}'", n.op->name.text, v->id, v->name);
  if (n.op->is_view()) return copy_elements(m, n.in(0), n.out());
  if (auto* expand = std::get_if<Expand>(&n.op->lower)) return run_expanded(n, *expand, m);
  std::vector<void*> args;
  for (const Value* v : n.inputs()) args.push_back(m.at(v));
  for (const Value* v : n.results()) args.push_back(m.at(v));
  if (n.op->has_effect()) std::rotate(args.begin(), args.begin() + 1, args.end());
  const loop::Kernel kernel = n.op->has_effect() ? lower_update(n) : lower_node(n);
  loop::Workspace workspace(kernel, m.precision);
  args.insert(args.end(), workspace.pointers.begin(), workspace.pointers.end());
  interpret(kernel, args, m.precision);
}

namespace {

// A mask as bytes, in row-major order.
Type as_bytes(const Type& mask) { return {DType::u8, mask.dims, mask.layout}; }

// Calls f(element, byte, bit) for the elements in the order of memory.
template <class F>
void each_bit(const Type& mask, const F& f) {
  const Dims stored = mask.stored().dims;
  const int64_t row = stored.empty() ? 1 : stored.back(), bytes = (row + 7) / 8;
  for (int64_t i = 0; i < mask.elements(); ++i) f(i, i / row * bytes + i % row / 8, i % row % 8);
}

std::vector<std::byte> to_bits(const Type& mask, const std::vector<std::byte>& stored) {
  std::vector<std::byte> bits(static_cast<size_t>(mask.bytes()));
  each_bit(mask, [&](int64_t i, int64_t byte, int64_t bit) {
    if (stored[static_cast<size_t>(i)] != std::byte{0})
      bits[static_cast<size_t>(byte)] |= std::byte{1} << static_cast<int>(bit);
  });
  return bits;
}

std::vector<std::byte> from_bits(const Type& mask, const std::vector<std::byte>& bits) {
  std::vector<std::byte> stored(static_cast<size_t>(mask.elements()));
  each_bit(mask, [&](int64_t i, int64_t byte, int64_t bit) {
    stored[static_cast<size_t>(i)] = bits[static_cast<size_t>(byte)] >> static_cast<int>(bit) & std::byte{1};
  });
  return stored;
}

}  // namespace

void* Memory::at(const Value* v) {
  auto [it, fresh] = buffers_.try_emplace(v);
  if (fresh) it->second.assign(held_bytes(v->type, precision), std::byte{0xff});
  return it->second.data();
}

void Memory::set(const Value* v, const std::vector<double>& numbers) {
  POCK_CHECK(static_cast<int64_t>(numbers.size()) == v->type.elements(), "{} numbers for {}", numbers.size(),
             to_string(v->type));
  const bool mask = v->type.dtype == DType::mask;
  const Type t = mask ? as_bytes(v->type) : held(v->type, precision);
  std::vector<std::byte> elements(t.bytes());
  from_doubles(numbers, t.dtype, elements.data());
  if (!mask) return pack(t, elements.data(), at(v));
  std::vector<std::byte> stored(elements.size());
  pack(t, elements.data(), stored.data());
  const std::vector<std::byte> bits = to_bits(v->type, stored);
  std::copy(bits.begin(), bits.end(), static_cast<std::byte*>(at(v)));
}

void Memory::set(const Value* v, const Data& data) {
  POCK_CHECK(data && static_cast<int64_t>(data->size()) == v->type.bytes(), "data does not fit {}",
             to_string(v->type));
  if (is_float(v->type.dtype))
    set(v, to_doubles(data->data(), v->type.dtype, v->type.elements()));
  else
    pack(v->type, data->data(), at(v));
}

std::vector<double> Memory::read(const Value* v) const {
  auto it = buffers_.find(v);
  POCK_CHECK(it != buffers_.end(), "value {} '{}' was never set", v->id, v->name);
  const bool mask = v->type.dtype == DType::mask;
  const Type t = mask ? as_bytes(v->type) : held(v->type, precision);
  std::vector<std::byte> elements(t.bytes());
  unpack(t, mask ? from_bits(v->type, it->second).data() : it->second.data(), elements.data());
  return to_doubles(elements.data(), t.dtype, t.elements());
}

Data Memory::raw(const Value* v) const {
  POCK_CHECK(precision == Precision::f32, "raw elements are those of f32");
  auto it = buffers_.find(v);
  POCK_CHECK(it != buffers_.end(), "value {} '{}' was never set", v->id, v->name);
  return make_data(it->second.data(), it->second.size());
}

Memory initial_memory(const Graph& g, Precision precision) {
  Memory m(precision);
  for (const Value* v : g.leaves()) {
    if (v->kind == ValueKind::input || v->kind == ValueKind::scalar) continue;
    if (v->data)
      m.set(v, v->data);
    else if (v->initial != 0)
      m.set(v, std::vector<double>(v->type.elements(), v->initial));
    else if (void* at = m.at(v); int64_t bytes = held_bytes(v->type, precision))
      std::memset(at, 0, bytes);
  }
  return m;
}

void evaluate(const Graph& g, Memory& m) {
  for (const Node* n : g.nodes()) evaluate(*n, m);
}

std::vector<Data> evaluate_node(const Node& n, const std::vector<Data>& inputs) {
  Memory m;
  for (size_t i = 0; i < inputs.size(); ++i) m.set(n.in(i), inputs[i]);
  evaluate(n, m);
  std::vector<Data> results;
  for (const Value* v : n.results()) {
    std::vector<std::byte> elements(m.raw(v)->size());
    unpack(v->type, m.raw(v)->data(), elements.data());
    results.push_back(make_data(elements.data(), elements.size()));
  }
  return results;
}

}  // namespace pock
