// Several nodes as one kernel: pointwise nodes, and one nest among them.
#include <algorithm>
#include <functional>
#include <optional>

#include "../loop/detail.h"
#include "pock/ir/storage.h"
#include "pock/ops/op.h"

namespace pock {
namespace {

using loop::BufferRef;
using loop::Kernel;
using Inside = std::function<bool(const Value*)>;

constexpr int64_t kMostLoads = 2;  // of each element by the nest that makes it itself

bool is_among(const std::vector<Node*>& nodes, const Node* n) {
  return std::find(nodes.begin(), nodes.end(), n) != nodes.end();
}

// Each step returns false where the nodes cannot share a kernel.
class Joining {
 public:
  Joining(const std::vector<Node*>& nodes, const Inside& inside) : nodes_(nodes), inside_(inside) {}

  bool run() {
    if (std::count_if(nodes_.begin(), nodes_.end(), [](const Node* n) { return !n->op->pointwise(); }) > 1)
      return false;
    kernel_ = lowered(*nodes_[0]);
    for (size_t i = 1; i < nodes_.size(); ++i)
      if (!(nodes_[i]->op->pointwise() ? append(*nodes_[i]) : prepend(*nodes_[i]))) return false;
    for (const Node* n : nodes_)
      for (const Value* v : n->results())
        if (inside_(v)) kernel_ = loop::drop(std::move(kernel_), result_buffer(v));
    return true;
  }

  // The kernel of `sums` behind this one, of which it reads one result.
  bool behind(const Joining& sums) {
    bool joined = false;
    for (const auto& [read, v] : sums.bound_) {
      if (read->space != loop::Space::in || !made(v) ||
          std::find(sums.kernel_.args.begin(), sums.kernel_.args.end(), read) == sums.kernel_.args.end())
        continue;
      std::optional<Kernel> both;
      if (!joined && !inside_(v)) both = loop::behind(kernel_, result_buffer(v), sums.kernel_, read);
      if (!both) return false;
      kernel_ = std::move(*both);
      joined = true;
    }
    bound_.insert(bound_.end(), sums.bound_.begin(), sums.bound_.end());
    return joined;
  }

  JoinedKernel take() {
    share_arguments();
    std::stable_partition(kernel_.args.begin(), kernel_.args.end(),
                          [](const BufferRef& b) { return b->space != loop::Space::workspace; });
    JoinedKernel joined;
    for (const BufferRef& b : kernel_.args)
      if (b->space != loop::Space::workspace) joined.args.push_back(value_of(b));
    kernel_ = loop::merged(std::move(kernel_));
    name_arguments();
    loop::tidy_names(kernel_);
    joined.kernel = std::move(kernel_);
    return joined;
  }

 private:
  Kernel lowered(const Node& n) {
    Kernel k = lower_unmerged(n);
    size_t i = 0;
    for (const Value* v : n.inputs()) bound_.emplace_back(k.args[i++], v);
    for (const Value* v : n.results()) bound_.emplace_back(k.args[i++], v);
    return k;
  }

  // A pointwise node, where one of its inputs is stored or, if it reads nothing of what was made, beside a value of the
  // same type.
  bool append(const Node& n) {
    const Kernel more = lowered(n);
    const size_t inputs = n.inputs().size();
    const bool reads =
        std::any_of(n.inputs().begin(), n.inputs().end(), [&](const Value* v) { return made(v); });
    for (const Node* before : nodes_) {
      if (before == &n) return false;
      for (const Value* v : before->results()) {
        size_t with = reads ? 0 : inputs;
        while (with < inputs && n.in(static_cast<int>(with)) != v) ++with;
        if (with == inputs && (reads || v->type != n.out()->type)) continue;
        std::optional<Kernel> joined = loop::append(kernel_, result_buffer(v), more, more.args[with]);
        if (!joined) continue;
        kernel_ = std::move(*joined);
        return forward(n, more);
      }
    }
    return false;
  }

  // A nest that reads what pointwise nodes have made, all of which then stays inside: in a register where it is read
  // once or twice, else in a stage in front.
  bool prepend(const Node& n) {
    const Kernel nest = lowered(n);
    for (const Node* before : nodes_) {
      if (before == &n) break;
      for (const Value* v : before->results())
        if (!inside_(v)) return false;
    }
    for (size_t i = 0; i < n.inputs().size(); ++i) {
      const Value* v = n.in(static_cast<int>(i));
      if (!made(v)) continue;
      const bool often = loads_often(nest, nest.args[i]);
      std::optional<Kernel> joined =
          (often ? loop::in_front : loop::prepend)(kernel_, result_buffer(v), nest, nest.args[i]);
      if (!joined) return false;
      kernel_ = std::move(*joined);
      if (!often) return forward(n, nest);
      return std::count_if(n.inputs().begin(), n.inputs().end(), [&](const Value* in) { return made(in); }) ==
             1;
    }
    return false;
  }

  bool forward(const Node& n, const Kernel& more) {
    for (size_t i = 0; i < n.inputs().size(); ++i) {
      const Value* v = n.in(static_cast<int>(i));
      if (!made(v)) continue;
      std::optional<Kernel> joined = loop::forward(std::move(kernel_), result_buffer(v), more.args[i]);
      if (!joined) return false;
      kernel_ = std::move(*joined);
    }
    return true;
  }

  bool made(const Value* v) const { return v->node && is_among(nodes_, v->node); }

  BufferRef result_buffer(const Value* v) const {
    for (const auto& [b, value] : bound_)
      if (value == v && b->space != loop::Space::in) return b;
    POCK_CHECK(false, "no kernel stores {}", v->id);
  }
  const Value* value_of(const BufferRef& b) const {
    for (const auto& [buffer, value] : bound_)
      if (buffer == b) return value;
    POCK_CHECK(false, "argument {} is no value", b->name);
  }

  // One argument for each value, where the nodes see it with the same axes.
  void share_arguments() {
    loop::Replace r;
    std::vector<BufferRef> args;
    for (const BufferRef& b : kernel_.args) {
      auto there = std::find_if(args.begin(), args.end(), [&](const BufferRef& a) {
        return b->space != loop::Space::workspace && a->space == b->space && a->type == b->type &&
               value_of(a) == value_of(b);
      });
      if (there == args.end())
        args.push_back(b);
      else
        r.buffers[b.get()] = *there;
    }
    kernel_.args = std::move(args);
    kernel_.body = loop::copy(kernel_.body, r);
  }

  void name_arguments() {
    loop::Replace r;
    int ins = 0, outs = 0, spaces = 0;
    for (BufferRef& b : kernel_.args) {
      auto named = std::make_shared<loop::Buffer>(*b);
      named->name = b->space == loop::Space::workspace ? fmt::format("z{}", spaces++)
                    : b->space == loop::Space::in      ? fmt::format("in{}", ins++)
                                                       : fmt::format("out{}", outs++);
      r.buffers[b.get()] = named;
      b = std::move(named);
    }
    kernel_.body = loop::copy(kernel_.body, r);
  }

  const std::vector<Node*>& nodes_;
  const Inside& inside_;
  Kernel kernel_;
  std::vector<std::pair<BufferRef, const Value*>> bound_;  // arguments of the kernels of single nodes
};

// Where the last nest reads what others in front of it store: its nodes, with those that make inputs for it alone and those
// that read its results. Else empty.
std::vector<Node*> second_nest(const std::vector<Node*>& nodes, const Inside& inside) {
  const auto last =
      std::find_if(nodes.rbegin(), nodes.rend(), [](const Node* n) { return !n->op->pointwise(); });
  if (last == nodes.rend()) return {};
  std::vector<Node*> second{*last};
  const auto is_second = [&](const Node* n) { return is_among(second, n); };
  bool others = false;
  for (auto n = last + 1; n != nodes.rend(); ++n) {
    const bool its_own =
        (*n)->op->pointwise() &&
        std::all_of((*n)->results().begin(), (*n)->results().end(), [&](const Value* v) {
          return inside(v) && std::all_of(v->users.begin(), v->users.end(), [&](const Node* user) {
                   return is_second(user) || !is_among(nodes, user);
                 });
        });
    others |= !its_own;
    if (its_own) second.insert(second.begin(), *n);
  }
  if (!others) return {};
  for (auto n = last.base(); n != nodes.end(); ++n)
    if (std::any_of((*n)->inputs().begin(), (*n)->inputs().end(),
                    [&](const Value* v) { return v->node && is_second(v->node); }))
      second.push_back(*n);
  return second;
}

}  // namespace

bool loads_often(const loop::Kernel& nest, const BufferRef& b) {
  return loop::loads(nest, b) > kMostLoads * b->type.elements();
}

std::optional<JoinedKernel> lower_nodes(const std::vector<Node*>& nodes, const Inside& inside) {
  if (nodes.size() == 1) {
    JoinedKernel alone{lower_node(*nodes[0]), {}};
    alone.args.assign(nodes[0]->inputs().begin(), nodes[0]->inputs().end());
    alone.args.insert(alone.args.end(), nodes[0]->results().begin(), nodes[0]->results().end());
    return alone;
  }
  for (const Node* n : nodes)
    if (n->op->is_view() || n->op->has_effect() || n->results().empty()) return {};
  const std::vector<Node*> second = second_nest(nodes, inside);
  std::vector<Node*> first = nodes;
  std::erase_if(first, [&](Node* n) { return is_among(second, n); });
  Joining joining(first, inside);
  if (!joining.run()) return {};
  if (second.empty()) return joining.take();
  Joining sums(second, inside);
  if (!sums.run() || !joining.behind(sums)) return {};
  return joining.take();
}

std::optional<JoinedKernel> lower_nodes(const Graph& g, const std::vector<Node*>& nodes) {
  return lower_nodes(nodes, [&](const Value* v) { return inside_kernel(g, v); });
}

}  // namespace pock
