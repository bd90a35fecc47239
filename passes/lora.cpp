#include "pock/passes/lora.h"

#include <cmath>

#include "pock/ir/builder.h"
#include "pock/ops/op.h"
#include "pock/support/philox.h"

namespace pock {
namespace {

// The layer that PEFT would find: a parameter's name without what it is of the layer.
std::string layer_name(const std::string& weight) {
  constexpr std::string_view kWeight = ".weight";
  return weight.ends_with(kWeight) ? weight.substr(0, weight.size() - kWeight.size()) : weight;
}

// Elements with the same chance everywhere from -bound to bound, element i from word i mod 4 of counter (0, id, i div
// 4): micro-steps, and with them what drops, count from 1.
Data uniform(const Type& type, double bound, uint64_t seed, int64_t id) {
  std::vector<float> elements(static_cast<size_t>(type.elements()));
  std::array<uint64_t, 4> words{};
  for (size_t i = 0; i < elements.size(); ++i) {
    if (i % 4 == 0)
      words = philox({0, static_cast<uint64_t>(id), i / 4 & 0xffffffff, i / 4 >> 32},
                     {seed & 0xffffffff, seed >> 32});
    elements[i] = static_cast<float>(((static_cast<double>(words[i % 4]) + 0.5) * 0x1p-31 - 1) * bound);
  }
  return make_data(elements);
}

// One that no random node has.
int64_t free_id(const Graph& g) {
  int64_t id = 0;
  for (const Node* n : g.nodes())
    if (n->attrs.count("id")) id = std::max(id, n->integer("id") + 1);
  return id;
}

class Adding {
 public:
  Adding(Graph& g, const Adapter& adapter, uint64_t seed, int64_t id)
      : g_(g), adapter_(adapter), l_(adapter.layer), id_(id), b_(g, l_.node->loc, g.next(l_.node)) {
    b_.loc.op.clear();
    const Type& w = l_.weight->type;
    const bool images = l_.node->op->channel_weight >= 0;
    const int64_t out = w.dim(images ? 0 : 1 - l_.input_channels);
    Dims a = w.dims, b(w.dims.size(), 1);
    if (!images) a[1] = w.dim(l_.input_channels);
    a[0] = b[1] = adapter.rank;
    b[0] = out;
    const LoraNames names = lora_names(l_.weight->name);
    const double fan_in = static_cast<double>(Type{DType::f32, a}.elements()) / static_cast<double>(a[0]);
    const Type type{DType::f32, a};
    factor_a_ = add(names.a, type, uniform(type, 1 / std::sqrt(fan_in), seed, id));
    factor_b_ = add(names.b, {DType::f32, b}, {});
  }

  void run() {
    Value* y = l_.node->out();
    Value* x = dropped(l_.node->in(1 - l_.operand));
    Value* more = l_.node->op->channel_weight >= 0 ? convolved(x) : multiplied(x);
    name("lora");
    Node* sum = b_.make("add", {y, more});
    g_.replace_uses(y, sum->out());
    g_.set_input(sum, 0, y);
  }

  Value *factor_a_, *factor_b_;

 private:
  Value* add(const std::string& name, const Type& type, Data data) {
    if (g_.find(name))
      throw Error(
          l_.weight->loc(),
          "its adapter would have a tensor '{}', but there is one of this name, of the model or of another "
          "adapter (a layer's name goes without '.weight'); rename one of them",
          name);
    Loc loc = l_.weight->loc();
    loc.name = name;
    return g_.add_param(name, type, std::move(data), loc);
  }

  void name(const char* part) { b_.loc.name = layer_name(l_.weight->name) + "." + part; }

  Value* dropped(Value* x) {
    if (adapter_.dropout == 0) return x;
    name("lora_dropout");
    return b_.value("dropout", {x}, {{"ratio", adapter_.dropout}, {"id", id_}, {"active", int64_t{1}}});
  }

  // Of few channels, so that little is multiplied.
  Value* scaled(Value* x) {
    const double scale = adapter_.alpha / static_cast<double>(adapter_.rank);
    return scale == 1 ? x : b_.mul(x, b_.constant(static_cast<float>(scale)));
  }

  Value* multiplied(Value* x) {
    name("lora_A");
    const bool left = l_.operand == 0, transposed = l_.node->integer(left ? "transpose_b" : "transpose_a");
    x = scaled(left ? b_.matmul(factor_a_, x, false, transposed) : b_.matmul(x, factor_a_, transposed, true));
    name("lora_B");
    return left ? b_.matmul(factor_b_, x) : b_.matmul(x, factor_b_, false, true);
  }

  Value* convolved(Value* x) {
    name("lora_A");
    x = scaled(b_.value("conv", {x, factor_a_}, l_.node->attrs));
    name("lora_B");
    return b_.value("conv", {x, factor_b_});
  }

  Graph& g_;
  const Adapter& adapter_;
  const Layer& l_;
  const int64_t id_;
  Builder b_;
};

}  // namespace

LoraNames lora_names(const std::string& weight) {
  const std::string layer = kPeftModel + layer_name(weight);
  return {layer + ".lora_A.weight", layer + ".lora_B.weight"};
}

LoraForm form_of(const Adapter& a) { return {a.rank, a.alpha, a.layer.input_channels == 0}; }

std::vector<Value*> add_adapters(Graph& g, const std::vector<Adapter>& adapters, uint64_t seed) {
  std::vector<Value*> factors;
  int64_t id = free_id(g);
  Report report;
  for (const Adapter& a : adapters)
    report.collect([&] {
      Adding adding(g, a, seed, id++);
      adding.run();
      factors.insert(factors.end(), {adding.factor_a_, adding.factor_b_});
    });
  report.throw_if_any();
  return factors;
}

}  // namespace pock
