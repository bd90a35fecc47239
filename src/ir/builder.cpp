#include "pock/ir/builder.h"

#include "pock/ops/op.h"

namespace pock {

Node* Builder::make(std::string_view op, std::vector<Value*> inputs, Attrs attrs) {
  return graph.add_node(get_op(op), std::move(inputs), std::move(attrs), loc, before);
}

Value* Builder::constant(float number) { return constant(Type{DType::f32, {}}, {number}); }

Value* Builder::constant(Type type, const std::vector<float>& elements) {
  POCK_CHECK(type.dtype == DType::f32, "a constant of floats is not {}", to_string(type));
  return graph.add_constant(std::move(type), make_data(elements));
}

Value* Builder::zeros(const Type& type) {
  return graph.add_constant(type, std::make_shared<std::vector<std::byte>>(type.bytes()));
}

static Value* index_constant(Graph& g, const Slice& slice) {
  const std::vector<int32_t> index(slice.index.begin(), slice.index.end());
  const Data data = make_data(index.data(), index.size() * sizeof(int32_t));
  const Type type{DType::i32, {std::ssize(index)}};
  for (Value* c : g.constants())
    if (c->type == type && *c->data == *data) return c;
  return g.add_constant(type, data);
}

void Builder::update(Value* param, const Slice& slice, Value* by) {
  make("update", {param, by, index_constant(graph, slice)}, {{"axis", int64_t{slice.axis}}});
}

Value* Builder::take(Value* v, const Slice& slice) {
  const int64_t first = slice.index.front(), count = std::ssize(slice.index);
  if (slice.index.back() - first + 1 == count)
    return value("slice", {v}, {{"axis", int64_t{slice.axis}}, {"start", first}, {"end", first + count}});
  return value("gather", {v, index_constant(graph, slice)}, {{"axis", int64_t{slice.axis}}});
}

Value* Builder::reshape(Value* a, Dims shape) {
  return a->type.dims == shape ? a : value("reshape", {a}, {{"shape", std::move(shape)}});
}

Value* Builder::transpose(Value* a, std::vector<int64_t> permutation) {
  return value("transpose", {a}, {{"permutation", std::move(permutation)}});
}

Value* Builder::reduce_sum(Value* a, std::vector<int64_t> axes, bool keep) {
  return value("reduce_sum", {a}, {{"axes", std::move(axes)}, {"keep", int64_t{keep}}});
}

Value* Builder::reduce_mean(Value* a, std::vector<int64_t> axes, bool keep) {
  return value("reduce_mean", {a}, {{"axes", std::move(axes)}, {"keep", int64_t{keep}}});
}

Value* Builder::broadcast_to(Value* a, Dims shape) {
  return a->type.dims == shape ? a : value("broadcast_to", {a}, {{"shape", std::move(shape)}});
}

Value* Builder::running_average(Value* running, Value* batch, double momentum, double factor) {
  Value* kept = mul(running, constant(static_cast<float>(momentum)));
  return add(kept, mul(batch, constant(static_cast<float>((1 - momentum) * factor))));
}

Value* Builder::sum_to(Value* a, const Dims& shape) {
  if (a->type.dims == shape) return a;
  int added = a->type.rank() - static_cast<int>(shape.size());
  POCK_CHECK(added >= 0, "{} does not broadcast to {}", to_string(shape), to_string(a->type));
  std::vector<int64_t> axes;
  for (int i = 0; i < a->type.rank(); ++i)
    if (i < added || (shape[i - added] == 1 && a->type.dims[i] != 1)) axes.push_back(i);
  Value* sum = axes.empty() ? a : reduce_sum(a, axes, true);
  return reshape(sum, shape);  // drops the axes that broadcasting put in front
}

}  // namespace pock
