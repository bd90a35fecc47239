#include "pock/passes/layers.h"

#include <algorithm>

#include "pock/ops/op.h"

namespace pock {
namespace {

bool is(const Node* n, std::string_view op) { return n && std::string_view(n->op->name) == op; }

const Value* behind_views(const Value* v) {
  while (v->node && (v->node->op->is_view() || is(v->node, "broadcast_to"))) v = v->node->in(0);
  return v;
}

// The parameter that `v` is, perhaps under another shape, and where axis `*axis` of `v` lies in it: -1 where it is none of
// its axes.
Value* parameter(Value* v, int* axis) {
  while (v->node) {
    if (is(v->node, "transpose")) {
      if (*axis >= 0) *axis = static_cast<int>(v->node->integers("permutation")[static_cast<size_t>(*axis)]);
    } else if (v->node->op->is_view()) {
      *axis = -1;
    } else {
      return nullptr;
    }
    v = v->node->in(0);
  }
  return v->kind == ValueKind::param ? v : nullptr;
}
Value* parameter(Value* v) {
  int axis = -1;
  while (is(v->node, "broadcast_to")) v = v->node->in(0);
  return parameter(v, &axis);
}

// What a node multiplies by a number, as a Gemm does with alpha and beta; null where it is another.
Value* numbered(const Node* n) {
  if (!is(n, "mul")) return nullptr;
  for (int i : {0, 1})
    if (n->in(i)->kind == ValueKind::constant && n->in(i)->type.rank() == 0) return n->in(1 - i);
  return nullptr;
}

// The node behind `v`, views and numbers aside, that combines it with a parameter, which must fit; null where there is
// none.
template <class Fits>
const Node* combined(const Value* v, std::string_view op, const Fits& fits, Value** with) {
  for (const Node* user : v->users) {
    if ((user->op->is_view() && user->in(0) == v) || (numbered(user) == v && op == "add"))
      if (const Node* n = combined(user->out(), op, fits, with)) return n;
    if (!is(user, op)) continue;
    for (int i : {0, 1}) {
      if (user->in(i) != v) continue;
      Value* other = user->in(1 - i);
      Value* p = parameter(numbered(other->node) ? numbered(other->node) : other);
      if (!p || !fits(*p)) continue;
      *with = p;
      return user;
    }
  }
  return nullptr;
}

// x / root, or x times 1 / root.
const Value* normalised(const Node* n) {
  auto root = [](const Value* v) {
    v = behind_views(v);
    return is(v->node, "sqrt");
  };
  auto inverse_root = [&](const Value* v) {
    v = behind_views(v);
    if (is(v->node, "reciprocal")) return root(v->node->in(0));
    return is(v->node, "div") && root(v->node->in(1)) &&
           behind_views(v->node->in(0))->kind == ValueKind::constant;
  };
  if (is(n, "div") && root(n->in(1))) return n->in(0);
  if (is(n, "mul") && inverse_root(n->in(1))) return n->in(0);
  if (is(n, "mul") && inverse_root(n->in(0))) return n->in(1);
  return nullptr;
}

class Finding {
 public:
  explicit Finding(const Graph& g) : g_(g) {}

  Layers run() {
    for (Node* n : g_.nodes()) {
      layer(n);
      norm(n);
    }
    return std::move(found_);
  }

 private:
  void layer(Node* n) {
    for (int i = 0; n->op->input_channels && i < static_cast<int>(n->inputs().size()); ++i) {
      int axis = n->op->input_channels(*n, i);
      if (axis < 0) continue;
      Value* weight = parameter(n->in(i), &axis);
      if (!weight || !is_float(weight->type.dtype)) continue;
      Layer layer{n, i, weight, axis, earlier_biases(weight), n->out()};
      const bool images = !n->op->layouts.empty();
      const int64_t channels = n->out()->type.dim(images ? 1 : -1);
      auto fits = [&](const Value& p) { return p.type.elements() == channels; };
      Value* bias = nullptr;
      if (const Node* sum = combined(n->out(), "add", fits, &bias)) layer.out = sum->out();
      if (bias && std::find(layer.biases.begin(), layer.biases.end(), bias) == layer.biases.end())
        layer.biases.push_back(bias);
      found_.layers.push_back(layer);
      return;
    }
  }

  // Of a layer that used the weight already, which it counts as no longer.
  std::vector<Value*> earlier_biases(const Value* weight) {
    for (size_t i = 0; i < found_.layers.size(); ++i)
      if (found_.layers[i].weight == weight) {
        std::vector<Value*> biases = std::move(found_.layers[i].biases);
        found_.erase_layer(i);
        return biases;
      }
    return {};
  }

  void norm(const Node* n) {
    Norm norm{n, nullptr, nullptr, nullptr, found_.layers.size()};
    if (n->op->norm_scale >= 0) {
      norm.scale = parameter(n->in(n->op->norm_scale));
      norm.shift = parameter(n->in(n->op->norm_scale + 1));
      norm.x = n->in(0);
    } else if ((norm.x = normalised(n))) {
      const Value* y = n->out();
      // The same for every sample, be there one or many.
      auto fits = [&](const Value& p) {
        return y->type.rank() > 0 && p.type.elements() * y->type.dim(0) <= y->type.elements();
      };
      if (const Node* scaled = combined(y, "mul", fits, &norm.scale)) y = scaled->out();
      combined(y, "add", fits, &norm.shift);
    }
    if (norm.scale || norm.shift) found_.norms.push_back(norm);
  }

  const Graph& g_;
  Layers found_;
};

}  // namespace

void Layers::erase_layer(size_t i) {
  layers.erase(layers.begin() + static_cast<ptrdiff_t>(i));
  for (Norm& norm : norms) norm.before -= norm.before > i;
}

Layers find_layers(const Graph& g) { return Finding(g).run(); }

}  // namespace pock
