#include "pock/ops/op.h"

namespace pock {
namespace {

using loop::Expr;
using loop::Space;

// The axes of a Scalar's loops: neighbouring axes merged where every input either runs along all or none of
// them.
struct MergedAxes {
  Dims dims;
  std::vector<std::vector<bool>> moves;  // [axis][input]: whether the input runs along it
};

MergedAxes merge_axes(const Node& n) {
  const Dims& out = n.out(0)->type.dims;
  MergedAxes merged;
  for (size_t axis = 0; axis < out.size(); ++axis) {
    if (out[axis] == 1) continue;
    std::vector<bool> moves;
    for (const Value* v : n.inputs()) {
      const Dims& in = v->type.dims;
      size_t missing = out.size() - in.size();
      moves.push_back(axis >= missing && in[axis - missing] != 1);
    }
    if (!merged.dims.empty() && merged.moves.back() == moves) {
      merged.dims.back() *= out[axis];
    } else {
      merged.dims.push_back(out[axis]);
      merged.moves.push_back(moves);
    }
  }
  return merged;
}

loop::Kernel lower_scalar(const Node& n, const Scalar& scalar) {
  loop::KernelBuilder k{std::string(n.op->name)};
  MergedAxes axes = merge_axes(n);
  // The part of `all` (dimensions or loop variables) that input i runs along.
  auto along = [&](size_t i, const auto& all) {
    std::decay_t<decltype(all)> part;
    for (size_t axis = 0; axis < all.size(); ++axis)
      if (axes.moves[axis][i]) part.push_back(all[axis]);
    return part;
  };
  std::vector<loop::BufferRef> ins, outs;
  for (size_t i = 0; i < n.inputs().size(); ++i)
    ins.push_back(k.arg(fmt::format("in{}", i), {n.in(i)->type.dtype, along(i, axes.dims)}, Space::in));
  for (size_t i = 0; i < n.results().size(); ++i) {
    const Type& t = n.out(i)->type;
    POCK_CHECK(t.dims == n.out(0)->type.dims, "results of {} differ in shape", n.op->name.text);
    outs.push_back(k.arg(fmt::format("out{}", i), {t.dtype, axes.dims}, Space::out));
  }
  k.each(axes.dims, [&](const std::vector<Expr>& index) {
    std::vector<Expr> elements;
    for (size_t i = 0; i < ins.size(); ++i) elements.push_back(load(ins[i], along(i, index)));
    Exprs values = scalar.rule(ScalarArgs(n, std::move(elements)));
    POCK_CHECK(values.size() == outs.size(), "{} gave {} values", n.op->name.text, values.size());
    // A result may stand in an input's memory, so all are computed before the first is stored.
    if (outs.size() > 1)
      for (Expr& v : values) v = load(k.reg("r", v));
    for (size_t i = 0; i < outs.size(); ++i) k.store(outs[i], index, values[i]);
  });
  return k.take();
}

}  // namespace

NestArgs::NestArgs(const Node& n, std::string name) : KernelBuilder(std::move(name)), node(n) {
  for (size_t i = 0; i < n.inputs().size(); ++i)
    ins_.push_back(arg(fmt::format("in{}", i), n.in(i)->type, Space::in));
  for (size_t i = 0; i < n.results().size(); ++i)
    outs_.push_back(arg(fmt::format("out{}", i), n.out(i)->type, Space::out));
}

loop::Kernel lower_node(const Node& n) {
  if (auto* scalar = std::get_if<Scalar>(&n.op->lower)) return lower_scalar(n, *scalar);
  auto* nest = std::get_if<Nest>(&n.op->lower);
  POCK_CHECK(nest, "{} has no kernel", n.op->name.text);
  NestArgs args(n, std::string(n.op->name));
  nest->rule(args);
  return args.take();
}

int expand_nodes(Graph& g, bool (*wanted)(const OpDef&)) {
  int count = 0;
  for (bool again = true; again;) {
    again = false;
    for (Node* n : g.nodes()) {
      const auto* rule = std::get_if<Expand>(&n->op->lower);
      if (!rule || !wanted(*n->op)) continue;
      Builder b(g, n->loc, n);
      std::vector<Value*> by = rule->rule(b, *n);
      for (size_t i = 0; i < by.size(); ++i) g.replace_uses(n->out(static_cast<int>(i)), by[i]);
      g.erase(n);
      ++count;
      again = true;
    }
  }
  return count;
}

}  // namespace pock
