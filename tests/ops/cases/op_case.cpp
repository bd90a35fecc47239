#include "ops/cases/op_case.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "pock/ops/op.h"

namespace pock::test {
namespace {

std::vector<OpCase>& registered() {
  static std::vector<OpCase> cases;
  return cases;
}

}  // namespace

In In::between(double l, double h) const {
  In i = *this;
  i.low = l;
  i.high = h;
  return i;
}
In In::is(Numbers v) const {
  In i = *this;
  i.values = std::move(v);
  return i;
}
In In::without_gradient() const {
  In i = *this;
  i.differentiable = false;
  return i;
}
In In::spaced() const {
  In i = *this;
  i.spaced_out = true;
  return i;
}

const std::vector<OpCase>& all_cases() { return registered(); }
int register_case(OpCase c) {
  registered().push_back(std::move(c));
  return static_cast<int>(registered().size());
}

std::string case_place(const std::string& file, int line) {
  size_t start = file.find_last_of('/') + 1;
  return file.substr(start, file.rfind('.') - start) + "_" + std::to_string(line);
}

Numbers random_numbers(int64_t count, double low, double high, uint64_t seed) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u + 1);
  Numbers numbers(count);
  for (double& n : numbers) n = low + (high - low) * (static_cast<double>(random() >> 11) * 0x1p-53);
  return numbers;
}

std::vector<Numbers> OpCase::data() const {
  std::vector<Numbers> all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const In& in = inputs[i];
    int64_t count = in.type.elements();
    Numbers numbers = in.values;
    if (numbers.empty()) {
      bool whole = !is_float(in.type.dtype);
      numbers = random_numbers(count, in.low, whole ? in.high + 1 : in.high, i + 1);
      if (in.spaced_out) {
        for (int64_t k = 0; k < count; ++k) numbers[k] = 0.05 * static_cast<double>(k - count / 2);
        std::shuffle(numbers.begin(), numbers.end(), std::mt19937_64(i + 1));
      }
      for (double& n : numbers) n = whole ? std::floor(n) : static_cast<double>(static_cast<float>(n));
    }
    POCK_CHECK(static_cast<int64_t>(numbers.size()) == count, "case {} at {}: values of input {}", op, place,
               i);
    all.push_back(std::move(numbers));
  }
  return all;
}

namespace {

void add_gradient(CaseGraph& c, size_t which) {
  Node* n = c.nodes[which];
  Builder b(*c.graph);
  Value* up = c.graph->add_input("up" + std::to_string(which), n->out(0)->type);
  c.upstream.push_back(up);
  if (!is_float(up->type.dtype)) return;
  GradArgs args{b, *n, {}, {}, {}};
  args.douts.assign(n->results().size(), nullptr);
  args.douts[0] = up;
  args.gradients.resize(n->inputs().size());
  args.wanted.assign(n->inputs().size(), true);
  n->op->gradient.rule(args);
  for (size_t i = 0; i < n->inputs().size(); ++i)
    for (Value* g : args.gradients[i]) {
      POCK_CHECK(g->type == n->in(i)->type, "gradient of {} for input {} is {}, not {}", n->op->name.text, i,
                 to_string(g->type), to_string(n->in(i)->type));
      auto at = std::find(c.inputs.begin(), c.inputs.end(), n->in(i)) - c.inputs.begin();
      c.gradients[at].push_back(g);
    }
}

Node* add_case_node(CaseGraph& c, const OpCase& from, std::vector<Value*> inputs) {
  Loc loc;
  loc.name = from.op;
  return c.nodes.emplace_back(c.graph->add_node(get_op(from.op), std::move(inputs), from.attrs, loc));
}

}  // namespace

CaseGraph case_graph(const OpCase& from, bool with_gradient) {
  CaseGraph c;
  c.graph = std::make_unique<Graph>(from.op);
  for (size_t i = 0; i < from.inputs.size(); ++i)
    c.inputs.push_back(c.graph->add_input("x" + std::to_string(i), from.inputs[i].type));
  add_case_node(c, from, c.inputs);
  c.gradients.resize(c.inputs.size());
  if (with_gradient) add_gradient(c, 0);
  return c;
}

CaseGraph joined_case_graph(const OpCase& from, Beside where, uint64_t seed) {
  CaseGraph c;
  c.graph = std::make_unique<Graph>(from.op);
  Graph& g = *c.graph;
  for (size_t i = 0; i < from.inputs.size(); ++i)
    c.inputs.push_back(g.add_input("x" + std::to_string(i), from.inputs[i].type));
  const OpDef& op = get_op(from.op);
  if (!std::holds_alternative<Scalar>(op.lower) && !std::holds_alternative<Nest>(op.lower)) return {};
  std::vector<Value*> inputs = c.inputs;
  std::vector<size_t> floats;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]->type.dtype == DType::f32) floats.push_back(i);
  if (where == Beside::before) {
    if (floats.empty()) return {};
    Value*& in = inputs[floats[seed % floats.size()]];
    in = Builder(g).mul(in, g.add_input("beside", in->type));
  }
  Node* n = add_case_node(c, from, inputs);
  if (where == Beside::behind) {
    Value* out = n->out();
    const bool mask = out->type.dtype == DType::mask;
    if (!mask && out->type.dtype != DType::f32) return {};
    Builder b(g);
    Value* beside = g.add_input("beside", {DType::f32, out->type.dims});
    g.add_output(mask ? b.value("where", {out, beside, b.constant(0)}) : b.sub(beside, out));
  }
  for (Value* v : n->results())
    if (where == Beside::before || seed % 2) g.add_output(v);
  for (Node* node : g.nodes()) node->kernel = 1;
  if (!lower_nodes(g, g.nodes())) return {};
  return c;
}

CaseGraph case_graph_sharing(const OpCase& from) {
  CaseGraph c;
  c.graph = std::make_unique<Graph>(from.op);
  for (size_t i = 0; i < from.inputs.size(); ++i)
    c.inputs.push_back(c.graph->add_input("x" + std::to_string(i), from.inputs[i].type));
  std::vector<Value*> values;
  for (size_t i = 0; i < from.inputs.size(); ++i) {
    // The one whose elements suit all: with the highest lower bound (a divisor, a variance).
    size_t owner = i;
    for (size_t j = 0; j < from.inputs.size(); ++j) {
      const In &a = from.inputs[j], &b = from.inputs[owner];
      bool alike = a.differentiable && b.differentiable && a.type == b.type && is_float(a.type.dtype);
      if (alike && (a.low > b.low || (a.low == b.low && j < owner))) owner = j;
    }
    values.push_back(c.inputs[owner]);
  }
  c.gradients.resize(c.inputs.size());
  for (size_t which : {0, 1}) {
    add_case_node(c, from, values);
    add_gradient(c, which);
  }
  return c;
}

namespace {

enum class Layouts { row_major, shuffled, channels_last };
constexpr const char* kSuffix[] = {"", "_shuffled", "_channels_last"};

// What an operator with windows reads and makes, in the order that suits it.
void put_channels_last(Graph& g) {
  for (Node* n : g.nodes())
    for (size_t i = 0; i < n->op->layouts.size(); ++i) {
      const bool is_input = i < n->inputs().size();
      Value* v = is_input ? n->in(static_cast<int>(i)) : n->out(static_cast<int>(i - n->inputs().size()));
      const Best best = n->op->layouts[i];
      if (best == Best::any || v->type.rank() < 3 || !v->type.layout.empty()) continue;
      const int last =
          best == Best::outputs_last || (best == Best::inputs_last && v->type.dim(1) == 1) ? 0 : 1;
      Layout parts;
      if (best == Best::channels_last) parts.push_back({0});
      for (int axis = 2; axis < v->type.rank(); ++axis) parts.push_back({axis});
      if (best != Best::channels_last) parts.push_back({1 - last});
      parts.push_back({last});
      v->type = laid_out(v->type, parts);
    }
}

// The kernels of a case and its gradient; with shuffled layouts those of the case alone.
void add_case_kernels(const OpCase& from, Layouts layouts, std::vector<CaseKernel>& kernels) {
  const bool shuffled = layouts == Layouts::shuffled;
  CaseGraph c = case_graph(from, !shuffled && get_op(from.op).gradient.rule);
  expand_nodes(*c.graph);
  if (shuffled) shuffle_layouts(*c.graph, kernels.size());
  if (layouts == Layouts::channels_last) put_channels_last(*c.graph);
  Memory m = initial_memory(*c.graph);
  std::vector<Numbers> data = from.data();
  for (size_t i = 0; i < c.inputs.size(); ++i) m.set(c.inputs[i], data[i]);
  for (Value* up : c.upstream) m.set(up, random_numbers(up->type.elements(), -1, 1, 99));
  evaluate(*c.graph, m);
  for (Node* n : c.graph->nodes()) {
    if (n->op->is_view() || n->op->has_effect()) continue;
    CaseKernel k{
        fmt::format("{}_{}{}", from.op, from.place, kSuffix[static_cast<int>(layouts)]), lower_node(*n), {}};
    for (const Value* v : n->inputs()) k.args.push_back(*m.raw(v));
    for (const Value* v : n->results()) k.args.emplace_back(v->type.bytes(), std::byte{0xff});
    kernels.push_back(std::move(k));
  }
}

// One beside the other, the nodes in one kernel.
void add_joined_kernel(const OpCase& from, std::vector<CaseKernel>& kernels) {
  const Beside where = kernels.size() % 2 ? Beside::before : Beside::behind;
  CaseGraph c = joined_case_graph(from, where, kernels.size() / 2);
  if (!c.graph) return;
  Memory m = initial_memory(*c.graph);
  std::vector<Numbers> data = from.data();
  for (size_t i = 0; i < c.inputs.size(); ++i) m.set(c.inputs[i], data[i]);
  const Value* beside = c.graph->find("beside");
  const double low = where == Beside::before ? 1 : -1;
  m.set(beside, random_numbers(beside->type.elements(), low, 1, 98));
  JoinedKernel joined = *lower_nodes(*c.graph, c.graph->nodes());
  CaseKernel k{fmt::format("{}_{}_joined", from.op, from.place), std::move(joined.kernel), {}};
  for (const Value* v : joined.args)
    k.args.push_back(v->node ? std::vector(v->type.bytes(), std::byte{0xff}) : *m.raw(v));
  kernels.push_back(std::move(k));
}

}  // namespace

void shuffle_layouts(Graph& g, uint64_t seed) {
  std::mt19937_64 random(seed);
  auto shuffle = [&](Value* v) {
    Layout parts;
    for (int axis = 0; axis < v->type.rank(); ++axis) {
      std::vector<int64_t> sizes;
      for (int64_t size = 2; size < v->type.dim(axis); ++size)
        if (v->type.dim(axis) % size == 0) sizes.push_back(size);
      if (sizes.empty() || random() % 2) {
        parts.push_back({axis});
      } else {
        int64_t size = sizes[random() % sizes.size()];
        parts.push_back({axis, Part::block, size});
        parts.push_back({axis, Part::within, size});
      }
    }
    for (size_t i = parts.size(); i > 1; --i) std::swap(parts[i - 1], parts[random() % i]);
    v->type = laid_out(v->type, parts);
  };
  auto row_major = [](const Node* n) { return n && (n->op->is_view() || n->op->has_effect()); };
  auto may_move = [&](const Value* v) {
    return !row_major(v->node) && std::none_of(v->users.begin(), v->users.end(), row_major);
  };
  for (Value* v : g.leaves())
    if (may_move(v)) shuffle(v);
  for (Node* n : g.nodes())
    for (Value* v : n->results())
      if (may_move(v)) shuffle(v);
}

std::vector<CaseKernel> all_case_kernels() {
  std::vector<CaseKernel> kernels;
  for (const OpCase& from : all_cases()) {
    const OpDef& op = get_op(from.op);
    if (op.has_effect()) continue;
    for (Layouts layouts : {Layouts::row_major, Layouts::shuffled}) add_case_kernels(from, layouts, kernels);
    if (!op.layouts.empty()) add_case_kernels(from, Layouts::channels_last, kernels);
    add_joined_kernel(from, kernels);
  }
  return kernels;
}

}  // namespace pock::test
