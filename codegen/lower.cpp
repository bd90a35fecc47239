// Graphs to kernels, plans and block layouts.
#include <map>

#include "place.h"
#include "pock/codegen/compile.h"
#include "pock/ir/storage.h"
#include "pock/ops/op.h"
#include "pock/support/diag.h"

namespace pock {
namespace {

constexpr int64_t kAlignment = 64;

void append(BlockLayout& block, const Value* v) {
  block.offset[v] = block.bytes;
  block.bytes += (v->type.bytes() + kAlignment - 1) / kAlignment * kAlignment;
}

bool in_params(const Value* v) {
  return v->kind == ValueKind::statistic || (v->kind == ValueKind::param && v->trained);
}

// Two frozen tensors or constants with the same elements.
bool same_data(const Value* a, const Value* b) {
  return a->type == b->type && (a->data == b->data || (a->data && b->data && *a->data == *b->data));
}

class Frozen {
 public:
  explicit Frozen(BlockLayout& weights) : weights_(weights) {}
  void add(const Value* v) {
    for (const Value* there : list_)
      if (same_data(there, v)) {
        weights_.offset[v] = weights_.offset.at(there);
        return;
      }
    append(weights_, v);
    list_.push_back(v);
  }

 private:
  BlockLayout& weights_;
  std::vector<const Value*> list_;
};

void lay_out(Program& p) {
  for (const Value* v : p.train->params()) {
    if (in_params(v)) append(p.params, v);
    if (v->owner) append(p.state, v);
  }
  p.weights.bytes = p.params.bytes;
  Frozen frozen(p.weights);
  for (const Graph* g : {p.train, p.infer}) {
    for (const Value* v : g->leaves()) {
      if (v->kind != ValueKind::param && v->kind != ValueKind::statistic && v->kind != ValueKind::constant)
        continue;
      if (g == p.train && in_params(v)) continue;
      const Value* trained =
          g == p.infer && v->kind != ValueKind::constant ? p.train->find(v->name) : nullptr;
      if (trained && in_params(trained)) {
        POCK_CHECK(trained->type == v->type, "{} is {} in training and {} in inference", v->name,
                   to_string(trained->type), to_string(v->type));
        p.params.offset[v] = p.params.offset.at(trained);
      } else {
        frozen.add(v);
      }
    }
  }
}

// The runtime fills every input sample by sample.
int64_t batch_of(const Graph& train) {
  const std::vector<Value*>& inputs = train.inputs();
  if (inputs.empty()) return 1;
  for (const Value* v : inputs)
    if (v->type.rank() == 0)
      throw Error(v->loc(), "is {}: it has no axis for the samples", to_string(v->type));
  const Value* first = inputs[0];
  const int64_t batch = first->type.dim(0);
  for (const Value* v : inputs)
    if (v->type.dim(0) != batch)
      throw Error(v->loc(), "is {} and holds {} samples", to_string(v->type), v->type.dim(0))
          .note(first->loc(), "is {} and holds {}", to_string(first->type), batch);
  if (batch > INT32_MAX)
    throw Error(first->loc(), "a step may have at most {} samples, not {}", INT32_MAX, batch);
  return batch;
}

class KernelTable {
 public:
  explicit KernelTable(Program& p) : p_(p) {}

  void lower(const Graph& g, std::vector<KernelUse>& uses, Plan& plan) {
    std::unordered_map<const Node*, int64_t> workspace;
    for (const std::vector<Node*>& nodes : kernels(g)) {
      const Node* n = nodes[0];
      if (n->op->is_view()) continue;
      KernelUse use{.nodes = {nodes.begin(), nodes.end()}};
      if (n->op->has_effect()) {
        if (stores_nothing(p_, g, *n)) continue;
        use.kernel = add(lower_update(*n));
        use.args.assign(n->inputs().begin() + 1, n->inputs().end());
        use.args.push_back(n->in(0));
      } else {
        std::optional<JoinedKernel> joined = lower_nodes(g, nodes);
        POCK_CHECK(joined, "the {} nodes of kernel {} cannot be one", nodes.size(), n->kernel);
        use.kernel = add(std::move(joined->kernel));
        use.args = std::move(joined->args);
      }
      size_t tensors = 0;
      for (const loop::BufferRef& b : p_.kernels[use.kernel].scheduled.args) {
        if (b->space == loop::Space::workspace)
          workspace[n] += workspace_bytes(*b);
        else
          ++tensors;
      }
      POCK_CHECK(tensors == use.args.size(), "kernel of {} takes {} tensors, node has {}", n->op->name.text,
                 tensors, use.args.size());
      uses.push_back(std::move(use));
    }
    PlanOptions options = p_.options.plan;
    options.workspace = [&](const Node& n) {
      auto found = workspace.find(&n);
      return found == workspace.end() ? int64_t{0} : found->second;
    };
    plan = plan_memory(g, options);
    check_plan(g, plan, options);
  }

 private:
  int add(loop::Kernel plain) {
    const int fresh = static_cast<int>(p_.kernels.size());
    if (p_.options.share_kernels) {
      auto [found, is_new] = by_text_.try_emplace(loop::print(plain), fresh);
      if (!is_new) return found->second;
    }
    CompiledKernel k;
    if (p_.options.schedule) k.schedule = schedule_for(plain, p_.options.target);
    k.scheduled = loop::apply(plain, k.schedule);
    loop::verify(k.scheduled);
    k.cost = loop::cost(plain);
    k.plain = std::move(plain);
    p_.kernels.push_back(std::move(k));
    return fresh;
  }

  Program& p_;
  std::map<std::string, int> by_text_;
};

}  // namespace

Program lower(const Graph& train, const Graph& infer, const CompileOptions& options) {
  Program p{.train = &train, .infer = &infer, .options = options};
  p.batch = batch_of(train);
  lay_out(p);
  KernelTable lowering(p);
  lowering.lower(train, p.train_uses, p.train_plan);
  lowering.lower(infer, p.infer_uses, p.infer_plan);
  return p;
}

}  // namespace pock
