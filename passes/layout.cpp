// Puts the channels of images last in memory, from the first convolution to the last gradient, and filters in the
// order in which kernels read them: vectors then run along neighbours, and no activation is ever packed.
//
// An operator says which layouts suit it (OpDef::layouts); what has no opinion keeps the layout of what it reads.
// Where the two disagree, and before views and outputs, a `relayout` stands in between. Gradients that are kept are read
// as the optimizer's state is, in any layout.
#include <algorithm>
#include <map>

#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

// Widest block of a filter's last axis: a register tile.
constexpr int64_t kWidestBlock = 64;
constexpr int64_t kFewChannels = 16;

class Layouts {
 public:
  Layouts(Graph& g, bool inference) : g_(g), inference_(inference) {}

  int run() {
    filters();
    for (Node* n : g_.nodes()) node(n);
    for (size_t i = 0; i < g_.outputs().size(); ++i)
      if (inference_ || !is_gradient_output(g_, i)) g_.set_output(i, as(g_.outputs()[i], {}, nullptr));
    return changed_;
  }

 private:
  // Filters live in the order that their first reader wants, and with them what belongs to them. Their elements keep
  // the model's order in every file.
  void filters() {
    for (Value* v : g_.leaves()) {
      if (v->type.dtype != DType::f32) continue;
      if (v->kind == ValueKind::param || v->kind == ValueKind::constant)
        if (auto [reader, best] = first_wish(v); reader) keep(v, layout(*reader, *v, best));
    }
    for (Value* v : g_.params())
      if (v->owner) keep(v, if_fits(v->owner->type.layout, *v));
  }

  std::pair<const Node*, Best> first_wish(const Value* v) const {
    for (const Node* n : g_.nodes())
      for (size_t i = 0; i < n->inputs().size(); ++i)
        if (n->in(static_cast<int>(i)) == v && best(*n, i) != Best::any) return {n, best(*n, i)};
    return {};
  }

  void keep(Value* v, Layout layout) {
    v->type = laid_out(v->type, std::move(layout));
    changed_ += !v->type.layout.empty();
  }

  void node(Node* n) {
    if (n->op->has_effect())
      return g_.set_input(n, 1, as(n->in(1), if_fits(n->in(0)->type.layout, *n->in(1)), n));
    if (n->op->is_view()) return g_.set_input(n, 0, as(n->in(0), {}, n));
    for (size_t i = 0; i < n->inputs().size(); ++i) {
      Value* v = n->in(static_cast<int>(i));
      if (best(*n, i) != Best::any && worth(*v))
        g_.set_input(n, static_cast<int>(i), as(v, layout(*n, *v, best(*n, i)), n));
    }
    for (size_t i = 0; i < n->results().size(); ++i) {
      Value* v = n->out(static_cast<int>(i));
      Best wanted = best(*n, n->inputs().size() + i);
      v->type = laid_out(v->type, wanted == Best::any ? inherited(*n, *v) : layout(*n, *v, wanted));
      changed_ += !v->type.layout.empty();
    }
  }

  // A slice may be too small for the blocks of the whole.
  static Layout if_fits(const Layout& layout, const Value& v) {
    return fits(layout, v.type.dims) ? layout : Layout{};
  }

  static Best best(const Node& n, size_t i) {
    return i < n.op->layouts.size() ? n.op->layouts[i] : Best::any;
  }

  // Few channels of what is fed in are not worth a copy: they are read one by one anyway.
  static bool worth(const Value& v) {
    return v.kind != ValueKind::input || (v.type.rank() > 1 && v.type.dim(1) >= kFewChannels);
  }

  // Of a tensor of `n`.
  static Layout layout(const Node& n, const Value& v, Best best) {
    const Type& t = v.type;
    Layout parts;
    if (t.rank() < 3) return parts;
    if (best == Best::channels_last) parts.push_back({0});
    for (int axis = 2; axis < t.rank(); ++axis) parts.push_back({axis});
    if (best == Best::channels_last) {
      parts.push_back({1});
    } else {
      // A filter of one channel a group has nothing but outputs to run along.
      const int last = best == Best::outputs_last || t.dim(1) == 1 ? 0 : 1;
      parts.push_back({1 - last});
      // Nor is one of several groups cut: a block would belong to two of them.
      auto groups = n.attrs.find("groups");
      const bool whole = groups != n.attrs.end() && groups->second != Attr(int64_t{1});
      const int64_t size = whole ? t.dim(last) : block(t.dim(last));
      if (size < t.dim(last)) parts.insert(parts.begin(), {last, Part::block, size});
      parts.push_back(size < t.dim(last) ? Part{last, Part::within, size} : Part{last});
    }
    return parts;
  }

  // The largest divisor that makes whole vectors; else the largest; the whole axis where that is short.
  static int64_t block(int64_t extent) {
    if (extent <= kWidestBlock) return extent;
    for (int64_t lanes : {16, 8, 4})
      for (int64_t size = kWidestBlock; size >= lanes; size -= lanes)
        if (extent % size == 0) return size;
    return extent;
  }

  // Of the first input that has one and is as large, or as the input in the same order of axes.
  static Layout inherited(const Node& n, const Value& v) {
    for (const Value* in : n.inputs())
      if (!in->type.layout.empty() && in->type.rank() == v.type.rank() && fits(in->type.layout, v.type.dims))
        return in->type.layout;
    return {};
  }

  // `v` in this layout, for `before` to read.
  Value* as(Value* v, Layout layout, Node* before) {
    const Type wanted = laid_out(v->type, std::move(layout));
    if (v->type == wanted) return v;
    Value*& there = relayouts_[{v, to_string(wanted)}];
    if (!there) {
      there = g_.add_node(get_op("relayout"), {v}, {}, v->loc(), before)->out();
      there->type = wanted;
      ++changed_;
    }
    return there;
  }

  Graph& g_;
  const bool inference_;
  int changed_ = 0;
  std::map<std::pair<const Value*, std::string>, Value*> relayouts_;
};

}  // namespace

int layout(Graph& g, const PassOptions& options) { return Layouts(g, options.inference).run(); }

}  // namespace pock
