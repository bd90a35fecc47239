#include "pock/ir/verify.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "pock/ir/storage.h"
#include "pock/ir/text.h"
#include "pock/ops/op.h"

namespace pock {
namespace {

// Says what is broken by throwing; caught in find_fault.
struct Fault {
  std::string text;
};
template <class... Args>
[[noreturn]] void fault(fmt::format_string<Args...> format, Args&&... args) {
  throw Fault{fmt::format(format, std::forward<Args>(args)...)};
}

class Checker {
 public:
  explicit Checker(const Graph& g) : g_(g), names_(g), at_(positions(g)) {}

  void run() {
    leaves();
    for (const Node* n : g_.nodes()) node(*n);
    for (const auto& [v, count] : reads_) user_count(v, count);
    for (const Value* v : g_.outputs())
      if (!known_.count(v)) fault("output {} is not of this graph", v->id);
    for (const Value* p : g_.params()) updates(p);
    kernels_of_nodes();
    for (const Node* n : g_.nodes())
      if (n->in_place >= 0) in_place(*n);
  }

 private:
  std::string show(const Node& n) {
    std::string text = n.op->name.text;
    if (!n.results().empty()) text = names_(n.out()) + " = " + text;
    return n.loc.name.empty() ? text : text + " @ '" + n.loc.name + "'";
  }

  void leaves() {
    std::unordered_set<std::string> names;
    for (const Value* v : g_.leaves()) {
      known_.insert(v);
      reads_[v];
      if (v->kind != ValueKind::constant || !v->name.empty())
        if (!names.insert(v->name).second) fault("two values have the name '{}'", v->name);
      if (v->data && static_cast<int64_t>(v->data->size()) != v->type.bytes())
        fault("{} is {} and has {} bytes", names_(v), to_string(v->type), v->data->size());
      const bool owned = v->kind == ValueKind::optimizer || v->kind == ValueKind::accumulator;
      if (owned != (v->owner != nullptr)) fault("{} has {} owner", names_(v), v->owner ? "an" : "no");
      if (v->trained && v->kind != ValueKind::param) fault("{} is trained, but no parameter", names_(v));
      if (v->slice && !(v->trained && is_slice_of(*v->slice, v->type)))
        fault("{} is {}, a slice of it along axis {} cannot be trained", names_(v), to_string(v->type),
              v->slice->axis);
    }
  }

  void node(const Node& n) {
    for (Value* v : n.inputs()) {
      if (!known_.count(v)) fault("{} reads a value that is not defined above it", show(n));
      ++reads_[v];
      bool listed = std::find(v->users.begin(), v->users.end(), &n) != v->users.end();
      if (!listed) fault("{} is not among the users of {}", show(n), names_(v));
    }
    if (n.op->has_effect()) {
      if (!n.in(0)->persistent())
        fault("{} stores into {}, which is {}", show(n), names_(n.in(0)), to_string(n.in(0)->kind));
      if (n.inputs().size() > 2)
        stores_slice(n);
      else if (n.in(0)->type != n.in(1)->type)
        fault("{} stores {} into {}", show(n), to_string(n.in(1)->type), to_string(n.in(0)->type));
    }
    if (n.op->is_view() && !(n.in(0)->type.layout.empty() && n.out()->type.layout.empty()))
      fault("{} is a view and wants row-major order, it has {} of {}", show(n), to_string(n.out()->type),
            to_string(n.in(0)->type));
    std::vector<Type> types;
    try {
      types = n.op->infer(InferArgs(n.inputs(), n.attrs, n.loc));
    } catch (const Error& e) {
      fault("{} is refused by its shape rule: {}", show(n), e.what());
    }
    if (types.size() != n.results().size()) fault("{} has {} results", show(n), n.results().size());
    for (size_t i = 0; i < types.size(); ++i) {
      const Value* v = n.out(static_cast<int>(i));
      if (v->node != &n || v->index != static_cast<int>(i) || v->kind != ValueKind::result)
        fault("result {} of {} does not know its node", i, show(n));
      if (v->type.row_major() != types[i] || !is_layout_of(v->type))
        fault("result {} of {} is {}, its shape rule gives {}", i, show(n), to_string(v->type),
              to_string(types[i]));
      known_.insert(v);
      reads_[v];
    }
  }

  void stores_slice(const Node& n) {
    if (n.in(2)->kind != ValueKind::constant || !n.in(2)->data)
      fault("{} stores at {}, which is no constant", show(n), names_(n.in(2)));
    if (!is_slice_of(*stored_slice(n), n.in(0)->type))
      fault("{} stores at no elements of {} in ascending order", show(n), to_string(n.in(0)->type));
  }

  static bool is_layout_of(const Type& t) { return t.layout.empty() || fits(t.layout, t.dims); }

  void user_count(const Value* v, size_t reads) {
    if (v->users.size() != reads)
      fault("{} has {} users and is read {} times", names_(v), v->users.size(), reads);
  }

  void updates(const Value* p) {
    const Node* update = nullptr;
    for (const Node* user : p->users) {
      if (!user->op->has_effect() || user->in(0) != p) continue;
      if (update && update != user) fault("{} is updated twice", names_(p));
      update = user;
    }
    if (!update) return;
    // A view of the parameter is as much a reader's way to it as the parameter itself.
    for (const Value* alias : aliases(p)) {
      if (g_.is_output(alias)) fault("output {} is a parameter that is updated", names_(alias));
      for (const Node* user : alias->users)
        if (at_.at(user) > at_.at(update)) fault("{} reads {} after its update", show(*user), names_(p));
    }
  }

  void kernels_of_nodes() {
    std::unordered_set<int> numbers;
    for (const std::vector<Node*>& nodes : kernels(g_)) {
      if (!nodes[0]->kernel) continue;
      if (!numbers.insert(nodes[0]->kernel).second)
        fault("the nodes of kernel {} are not together", nodes[0]->kernel);
      if (!lower_nodes(g_, nodes))
        fault("{} and {} more cannot be one kernel", show(*nodes[0]), nodes.size() - 1);
    }
  }

  void in_place(const Node& n) {
    if (n.in_place >= static_cast<int>(n.inputs().size()) || !may_take_over(g_, at_, n, n.in_place))
      fault("{} may not take over the memory of input {}", show(n), n.in_place);
  }

  const Graph& g_;
  Names names_;
  Positions at_;
  std::unordered_set<const Value*> known_;
  std::unordered_map<const Value*, size_t> reads_;
};

}  // namespace

std::string find_fault(const Graph& g) {
  try {
    Checker(g).run();
    return "";
  } catch (const Fault& f) {
    return f.text;
  }
}

void verify(const Graph& g, const std::string& after) {
  std::string text = find_fault(g);
  if (!text.empty())
    throw std::logic_error(fmt::format("pock has a bug: the graph is broken after {}: {}", after, text));
}

}  // namespace pock
