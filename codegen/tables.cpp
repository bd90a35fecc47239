#include "tables.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "pock/ir/storage.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"
#include "pock/support/diag.h"

namespace pock {
namespace {

// Of the model; what follows them are losses.
size_t output_count(const Program& p) { return p.infer->outputs().size() - loss_outputs(p.options.losses); }

// The output that labels belong to: "labels" to the first, "labels.NAME" to NAME.
int64_t judged_output(const Program& p, const Value* label) {
  if (label->name == "labels") return 0;
  for (size_t i = 0; i < output_count(p); ++i)
    if (label->name == "labels." + p.infer->output_name(i)) return static_cast<int64_t>(i);
  POCK_CHECK(false, "input {} belongs to no output", label->name);
}

// For each value, which outputs depend on it, as pock_input::reaches.
std::unordered_map<const Value*, uint64_t> reached_outputs(const Program& p) {
  std::unordered_map<const Value*, uint64_t> reached;
  for (size_t i = 0; i < output_count(p); ++i)
    reached[p.infer->outputs()[i]] |= uint64_t{1} << std::min<size_t>(i, 63);
  for (const Node* n : p.infer->nodes_backward()) {
    uint64_t all = 0;
    for (const Value* v : n->results()) all |= reached[v];
    for (const Value* v : n->inputs()) reached[v] |= all;
  }
  return reached;
}

// What one reader asks of the ids.
void narrow(ClassIds* ids, int64_t lowest, int64_t beyond) {
  ids->lowest = ids->classes ? std::max(ids->lowest, lowest) : lowest;
  ids->classes = ids->classes ? std::min(ids->classes, beyond) : beyond;
}

// What all readers of `v`, and of its elements wherever they are moved to, ask of them.
void find_ids(const Value* v, const Value* output, ClassIds* ids) {
  if (is_float(v->type.dtype)) return;
  for (const Node* n : v->users) {
    const Type& of = n->in(0)->type;
    if (n->op->class_ids >= 0 && n->in(n->op->class_ids) == v) {
      narrow(ids, 0, of.dim(1));
      ids->ignored = n->integer("ignore_index");
      // Along the second axis of the output, as of the scores, or else along its last.
      if (output && output->type.row_major() == of.row_major())
        ids->stride = of.elements() / (of.dim(0) * of.dim(1));
    } else if (n->op->places >= 0 && n->in(n->op->places) == v) {
      const int64_t axis = n->integer("axis"), length = of.dim(static_cast<int>(axis));
      narrow(ids, -length, length);
    } else if (n->op->moves) {
      for (const Value* moved : n->results()) find_ids(moved, output, ids);
    }
  }
}

// Behind which position's scores the label of a position stands.
int64_t label_shift(const Program& p, int64_t output) {
  for (const LossChoice& l : p.options.losses)
    if (l.output.empty() ? output == 0 : l.output == p.infer->output_name(static_cast<size_t>(output)))
      return l.shift();
  return 0;
}

// Sums over batches take the place of an output (passes/update.cpp).
const Value* kept_gradient(const Graph& g, const Value& param) {
  for (size_t i = 1; i < g.outputs().size(); ++i)
    if (g.output_name(i) == gradient_output_name(param)) return g.outputs()[i];
  for (const Value* v : g.params())
    if (v->kind == ValueKind::accumulator && v->owner == &param) return v;
  return nullptr;
}

pock_role role_of(const Value* v) {
  if (v->kind == ValueKind::optimizer) return POCK_OPTIMIZER;
  if (v->kind == ValueKind::statistic) return POCK_STATISTIC;
  return v->trained ? POCK_TRAINED : POCK_FROZEN;
}

}  // namespace

std::vector<TensorRow> tensor_rows(const Program& p) {
  std::vector<TensorRow> saved, optimizer, frozen;
  for (const Value* v : p.train->params()) {
    if (v->kind == ValueKind::accumulator) continue;
    const pock_role role = role_of(v);
    const bool state = role == POCK_OPTIMIZER;
    (state                 ? optimizer
     : role == POCK_FROZEN ? frozen
                           : saved)
        .push_back(
            {v, state ? v->owner->name : v->name, state ? v->slot : "", role, place_of(p, *p.train, v)});
  }
  saved.insert(saved.end(), optimizer.begin(), optimizer.end());
  saved.insert(saved.end(), frozen.begin(), frozen.end());
  return saved;
}

std::vector<TensorRow> gradient_rows(const Program& p) {
  std::vector<TensorRow> rows;
  if (!p.options.recipe.keep_gradients) return rows;
  for (const Value* param : p.train->params()) {
    if (!param->trained) continue;
    const Value* kept = kept_gradient(*p.train, *param);
    POCK_CHECK(kept, "the gradient of {} is not kept", param->name);
    const Place place = place_of(p, *p.train, kept);
    POCK_CHECK(place.base != Base::scalars, "the gradient of {} is a scalar", param->name);
    rows.push_back({kept, param->name, "grad", POCK_GRADIENT + static_cast<int>(place.base), place});
  }
  return rows;
}

std::string slices_json(const Program& p) {
  nlohmann::ordered_json slices = nlohmann::ordered_json::object();
  for (const Value* v : p.train->params())
    if (v->trained && v->slice) slices[v->name] = {{"axis", v->slice->axis}, {"index", v->slice->index}};
  return slices.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<InputRow> input_rows(const Program& p) {
  std::vector<InputRow> data, labels;
  std::unordered_map<const Value*, uint64_t> reached = reached_outputs(p);
  for (const Value* v : p.train->inputs()) {
    const Value* same = p.infer->find(v->name);
    POCK_CHECK(same, "input {} is not in graph {}", v->name, p.infer->name);
    InputRow row{v, same, v->name, is_label(v)};
    row.reaches = reached[same];
    if (row.label) {
      row.output = judged_output(p, v);
      row.name = p.infer->output_name(row.output);
    }
    find_ids(v, row.label ? p.infer->outputs()[row.output] : nullptr, &row.ids);
    if (row.label) row.shift = label_shift(p, row.output);
    (row.label ? labels : data).push_back(row);
  }
  data.insert(data.end(), labels.begin(), labels.end());
  return data;
}

std::vector<OutputRow> output_rows(const Program& p) {
  std::vector<OutputRow> rows;
  for (size_t i = 0; i < output_count(p); ++i) {
    const Value* v = p.infer->outputs()[i];
    POCK_CHECK(v->type.dtype != DType::mask, "output {} has elements of one bit", p.infer->output_name(i));
    bool of_samples = v->type.rank() > 0 && v->type.dim(0) == p.batch && !p.infer->is_whole(i);
    rows.push_back({v, p.infer->output_name(i), place_of(p, *p.infer, v), of_samples});
  }
  return rows;
}

std::vector<LossRow> loss_rows(const Program& p) {
  std::vector<LossRow> rows;
  size_t next = output_count(p);
  auto take = [&] { return p.infer->outputs()[next++]; };
  for (const LossChoice& l : p.options.losses) {
    const Value* losses = take();
    rows.push_back({l.number("weight"), losses, l.weighted() ? take() : nullptr});
  }
  if (rows.empty()) rows.push_back({1, take(), nullptr});
  return rows;
}

}  // namespace pock
