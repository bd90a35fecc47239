#include <unordered_map>

#include "rules.h"

namespace pock {

const std::vector<const OpDef*>& all_ops() {
  static const OpList ops = [] {
    OpList all;
    for (auto family : {pointwise_ops, activation_ops, reduce_ops, norm_ops, contraction_ops, winograd_ops,
                        window_ops, resize_ops, movement_ops, random_ops, loss_ops, update_ops}) {
      OpList list = family();
      all.insert(all.end(), list.begin(), list.end());
    }
    return all;
  }();
  return ops;
}

const OpDef* find_op(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const OpDef*> map;
    for (const OpDef* op : all_ops()) POCK_CHECK(map.emplace(op->name, op).second, "{} twice", op->name.text);
    return map;
  }();
  auto it = by_name.find(name);
  return it == by_name.end() ? nullptr : it->second;
}

const OpDef& get_op(std::string_view name) {
  const OpDef* op = find_op(name);
  POCK_CHECK(op, "there is no operator '{}'", name);
  return *op;
}

}  // namespace pock
