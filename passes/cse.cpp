// One node where two compute the same: same operator, attributes and inputs. The first one stays. A parameter
// is one value for all who read it, because every reader stands before its update. What was copied on purpose
// stays a copy.
#include <unordered_map>

#include "pock/ir/storage.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

// Equal keys mean equal content.
std::string raw(const void* bytes, size_t size) { return std::string(static_cast<const char*>(bytes), size); }

std::string key_of(const Attr& attr) {
  struct Bytes {
    std::string operator()(int64_t v) const { return raw(&v, sizeof v); }
    std::string operator()(double v) const { return raw(&v, sizeof v); }
    std::string operator()(const std::string& v) const { return v; }
    std::string operator()(const std::vector<int64_t>& v) const {
      return raw(v.data(), v.size() * sizeof v[0]);
    }
  };
  std::string bytes = std::visit(Bytes(), attr);
  return fmt::format("{}:{}:", attr.index(), bytes.size()) + bytes;
}

std::string key_of(const Node& n) {
  std::string key = n.op->name.text;
  for (const Value* v : n.inputs()) key += fmt::format(",{}", v->id);
  for (const auto& [name, attr] : n.attrs) key += " " + name + key_of(attr);
  return key;
}

std::string key_of(const Value& constant) {
  return to_string(constant.type) + raw(constant.data->data(), constant.data->size());
}

}  // namespace

int cse(Graph& g, const PassOptions&) {
  // A merged value lives longer, and memory that was given away cannot be read again.
  if (shares_memory(g)) return 0;
  std::vector<Node*> nodes = g.nodes();
  int merged = 0;
  std::unordered_map<std::string, Value*> constants;
  for (Value* v : g.constants()) {
    if (!v->data || v->users.empty()) continue;
    auto [first, fresh] = constants.emplace(key_of(*v), v);
    if (fresh) continue;
    g.replace_uses(v, first->second);
    ++merged;
  }
  std::unordered_map<std::string, Node*> seen;
  for (Node* n : nodes) {
    if (n->op->has_effect() || n->recomputed) continue;
    auto [first, fresh] = seen.emplace(key_of(*n), n);
    if (fresh) continue;
    for (size_t i = 0; i < n->results().size(); ++i)
      g.replace_uses(n->results()[i], first->second->results()[i]);
    g.erase(n);
    ++merged;
  }
  return merged;
}

}  // namespace pock
