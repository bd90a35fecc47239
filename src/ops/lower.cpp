#include <algorithm>

#include "pock/loop/transform.h"
#include "pock/ops/op.h"

namespace pock {
namespace {

using loop::Expr;
using loop::Space;

// Which block, or which place within it, a place along an axis is.
Expr part_of(const Part& p, const Expr& place) {
  if (p.kind == Part::whole) return place;
  return p.kind == Part::block ? floordiv(place, p.size) : mod(place, p.size);
}

std::vector<Expr> stored_index(const Type& t, std::vector<Expr> index) {
  if (t.layout.empty()) return index;
  std::vector<Expr> stored;
  for (const Part& p : t.layout) stored.push_back(part_of(p, index[p.axis]));
  return stored;
}

// The axes of a tensor in memory that have more than one place, numbered as those of a result of this rank.
Layout moving_parts(const Type& t, int rank) {
  Layout parts = t.layout;
  if (parts.empty())
    for (int axis = 0; axis < t.rank(); ++axis) parts.push_back({axis});
  // Rows of bits are padded, those of one as well.
  const std::optional<Part> row =
      t.dtype == DType::mask && !parts.empty() ? std::optional(parts.back()) : std::nullopt;
  std::erase_if(parts, [&](const Part& p) { return t.extent(p) == 1 && !(row && p == *row); });
  for (Part& p : parts) p.axis += rank - t.rank();
  return parts;
}

// The loops of a Scalar: the axes of result 0 in memory.
class ScalarLoops {
 public:
  explicit ScalarLoops(const Node& n) : out_(n.out(0)->type), loops_(moving_parts(out_, out_.rank())) {
    for (const std::vector<Value*>* list : {&n.inputs(), &n.results()})
      for (const Value* v : *list) tensors_.push_back(moving_parts(v->type, out_.rank()));
  }

  Dims dims() const { return extents(loops_); }

  // The axes of a tensor (inputs, then results) in its buffer: lengths, and indices for the loops' variables.
  Dims dims_of(size_t tensor) const { return extents(tensors_[tensor]); }
  std::vector<Expr> index_of(size_t tensor, const std::vector<Expr>& vars) const {
    std::vector<Expr> index;
    for (const Part& p : tensors_[tensor]) {
      const auto loop = std::find(loops_.begin(), loops_.end(), p);
      index.push_back(loop == loops_.end() ? part_of(p, along(p.axis, vars)) : vars[loop - loops_.begin()]);
    }
    return index;
  }

 private:
  Dims extents(const Layout& parts) const {
    Dims dims;
    for (const Part& p : parts) dims.push_back(out_.extent(p));
    return dims;
  }

  // The place along an axis of the shape.
  Expr along(int axis, const std::vector<Expr>& vars) const {
    Expr place = 0;
    for (size_t l = 0; l < loops_.size(); ++l)
      if (loops_[l].axis == axis)
        place = place + vars[l] * Expr(loops_[l].kind == Part::block ? loops_[l].size : 1);
    return place;
  }

  const Type& out_;
  const Layout loops_;
  std::vector<Layout> tensors_;
};

bool contains(const Expr& e, const Expr& part) {
  return same(e, part) ||
         std::any_of(e->args.begin(), e->args.end(), [&](const Expr& a) { return contains(a, part); });
}

Expr with(const Expr& e, const Expr& part, const Expr& by) {
  if (same(e, part)) return by;
  if (e->args.empty() || e->op == loop::ScalarOp::load) return e;
  std::vector<Expr> args;
  for (const Expr& a : e->args) args.push_back(with(a, part, by));
  return loop::make(e->op, std::move(args), e->type);
}

// Computes all results before the first is stored, as a result may stand in an input's memory; one that is part of
// others in front of them.
void keep(loop::KernelBuilder& k, Exprs& values) {
  std::vector<Expr*> left;
  for (Expr& v : values) left.push_back(&v);
  while (!left.empty()) {
    const auto innermost = std::find_if(left.begin(), left.end(), [&](const Expr* v) {
      return std::none_of(left.begin(), left.end(),
                          [&](const Expr* other) { return contains(*v, *other) && !same(*v, *other); });
    });
    const Expr value = **innermost;
    left.erase(innermost);
    const Expr kept = load(k.reg("r", value));
    for (Expr& v : values) v = with(v, value, kept);
  }
}

loop::Kernel lower_scalar(const Node& n, const Scalar& scalar) {
  loop::KernelBuilder k{std::string(n.op->name)};
  ScalarLoops loops(n);
  std::vector<loop::BufferRef> ins, outs;
  for (size_t i = 0; i < n.inputs().size(); ++i)
    ins.push_back(k.arg(fmt::format("in{}", i), {n.in(i)->type.dtype, loops.dims_of(i)}, Space::in));
  for (size_t i = 0; i < n.results().size(); ++i) {
    const Type& t = n.out(i)->type;
    POCK_CHECK(t.dims == n.out(0)->type.dims, "results of {} differ in shape", n.op->name.text);
    outs.push_back(k.arg(fmt::format("out{}", i), {t.dtype, loops.dims_of(ins.size() + i)}, Space::out));
  }
  k.each(loops.dims(), [&](const std::vector<Expr>& vars) {
    std::vector<Expr> elements;
    for (size_t i = 0; i < ins.size(); ++i) elements.push_back(load(ins[i], loops.index_of(i, vars)));
    Exprs values = scalar.rule(ScalarArgs(n, std::move(elements)));
    POCK_CHECK(values.size() == outs.size(), "{} gave {} values", n.op->name.text, values.size());
    if (outs.size() > 1) keep(k, values);
    for (size_t i = 0; i < outs.size(); ++i)
      k.store(outs[i], loops.index_of(ins.size() + i, vars), values[i]);
  });
  return k.take();
}

}  // namespace

NestArgs::NestArgs(const Node& n, std::string name) : KernelBuilder(std::move(name)), node(n) {
  auto tensors = [&](const std::vector<Value*>& values, const char* prefix, Space space) {
    std::vector<Tensor> list;
    for (size_t i = 0; i < values.size(); ++i) {
      const Type& t = values[i]->type;
      list.push_back({t, t.row_major(), arg(fmt::format("{}{}", prefix, i), t.stored(), space)});
    }
    return list;
  };
  ins_ = tensors(n.inputs(), "in", Space::in);
  outs_ = tensors(n.results(), "out", Space::out);
}

Expr NestArgs::Tensor::at(std::vector<Expr> index) const {
  return load(buffer, stored_index(type, std::move(index)));
}

void NestArgs::out(int i, std::vector<Expr> index, Expr value) {
  store(outs_[i].buffer, stored_index(outs_[i].type, std::move(index)), std::move(value));
}

loop::Kernel lower_unmerged(const Node& n) {
  if (auto* scalar = std::get_if<Scalar>(&n.op->lower)) return lower_scalar(n, *scalar);
  auto* nest = std::get_if<Nest>(&n.op->lower);
  POCK_CHECK(nest, "{} has no kernel", n.op->name.text);
  NestArgs args(n, std::string(n.op->name));
  nest->rule(args);
  return args.take();
}

loop::Kernel lower_node(const Node& n) {
  return n.op->pointwise() ? loop::merged(lower_unmerged(n)) : lower_unmerged(n);
}

loop::Kernel lower_update(const Node& n) {
  const Type &to = n.in(0)->type, &by = n.in(1)->type;
  loop::KernelBuilder k("store");
  const loop::BufferRef from = k.arg("in0", by.stored(), Space::in);
  if (n.inputs().size() == 2) {
    const loop::BufferRef into = k.arg("out0", to.stored(), Space::out);
    k.each(to.stored().dims, [&](const std::vector<Expr>& i) { k.store(into, i, load(from, i)); });
    return loop::merged(k.take());
  }
  const loop::BufferRef index = k.arg("in1", n.in(2)->type, Space::in);
  const loop::BufferRef into = k.arg("out0", to.stored(), Space::out);
  const auto axis = static_cast<size_t>(n.integer("axis"));
  k.loop("k", 0, by.dims[axis], [&](const Expr& place) {
    Dims others = by.dims;
    others[axis] = 1;
    k.each(others, [&](std::vector<Expr> at) {
      at[axis] = place;
      Expr value = load(from, stored_index(by, at));
      at[axis] = cast(load(index, {place}), DType::i64);
      k.store(into, stored_index(to, std::move(at)), std::move(value));
    });
  });
  return k.take();
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
