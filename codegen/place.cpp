#include "place.h"

#include <cstring>

#include "pock/ir/storage.h"
#include "pock/support/diag.h"

namespace pock {

bool is_label(const Value* input) { return input->name == "labels" || input->name.starts_with("labels."); }

bool stores_nothing(const Program& p, const Graph& g, const Node& update) {
  return p.options.plan.updates_in_place && update_target(g, update.in(1)) == update.in(0);
}

Place place_of(const Program& p, const Graph& g, const Value* v) {
  const Plan& plan = &g == p.train ? p.train_plan : p.infer_plan;
  if (auto found = plan.offset.find(v); found != plan.offset.end()) return {Base::arena, found->second};
  // A view or an in-place result of something outside the arena.
  const Value* owner = v;
  for (const Value* source = v; source; source = storage_source(source)) {
    owner = source;
    if (!source->node || !p.options.plan.updates_in_place) continue;
    if (const Value* target = update_target(g, source)) {
      owner = target;
      break;
    }
  }
  if (owner->kind == ValueKind::scalar) {
    const std::vector<Value*>& scalars = g.scalars();
    for (size_t i = 0; i < scalars.size(); ++i)
      if (scalars[i] == owner) return {Base::scalars, static_cast<int64_t>((1 + i) * sizeof(float))};
  }
  if (auto found = p.params.offset.find(owner); found != p.params.offset.end())
    return {Base::params, found->second};
  if (auto found = p.state.offset.find(owner); found != p.state.offset.end())
    return {Base::state, found->second};
  auto found = p.weights.offset.find(owner);
  POCK_CHECK(found != p.weights.offset.end(), "value %{} ({}) of graph {} has no place", v->id, v->name,
             g.name);
  return {Base::weights, found->second};
}

int64_t workspace_bytes(const loop::Buffer& b) { return (b.type.bytes() + 63) / 64 * 64; }

std::vector<Place> argument_places(const Program& p, const Graph& g, const KernelUse& use) {
  const Plan& plan = &g == p.train ? p.train_plan : p.infer_plan;
  auto workspace = plan.workspace_offset.find(use.nodes[0]);
  int64_t next_workspace = workspace == plan.workspace_offset.end() ? 0 : workspace->second;
  std::vector<Place> places;
  auto tensor = use.args.begin();
  for (const loop::BufferRef& b : p.kernels[use.kernel].scheduled.args) {
    if (b->space == loop::Space::workspace) {
      places.push_back({Base::arena, next_workspace});
      next_workspace += workspace_bytes(*b);
    } else {
      places.push_back(place_of(p, g, *tensor++));
    }
  }
  return places;
}

std::string weights_section(const Program& p) {
  std::string bytes(p.weights.bytes, '\0');
  auto put = [&](const Value* v, int64_t offset) {
    if (!v->data) return;
    POCK_CHECK(static_cast<int64_t>(v->data->size()) == v->type.bytes(), "{} holds {} bytes, its type {}",
               v->name, v->data->size(), v->type.bytes());
    char* to = bytes.data() + offset;
    pack(v->type, v->data->data(), to);
    if (v->type.dtype != DType::f32) return;
    for (char* end = to + v->data->size(); to < end; to += sizeof(float)) {
      float x;
      std::memcpy(&x, to, sizeof x);
      x = flushed(x);
      std::memcpy(to, &x, sizeof x);
    }
  };
  for (const auto& [v, offset] : p.weights.offset) put(v, offset);
  // The inference graph's parameters are the training graph's, which hold the data.
  for (const Value* v : p.train->params())
    if (auto found = p.params.offset.find(v); found != p.params.offset.end()) put(v, found->second);
  return bytes;
}

}  // namespace pock
