#include "losses.h"

#include <limits>

#include "elementwise.h"
#include "pock/ir/storage.h"

namespace pock::onnx_frontend {
namespace {

// Class ids are an input of the model, which the trainer checks, or constants, which are checked here.
Value* class_ids(Call& c, int i, int64_t classes, std::optional<int64_t> ignored) {
  if (const Tensor* known = c.known(i)) {
    if (known->is_float) throw c.fail("input {} must hold class ids, which are integers", i);
    for (int64_t id : known->ints)
      if ((id < 0 || id >= classes) && id != ignored)
        throw c.fail("input {} holds class {}, but there are {}", i, id, classes);
    return c.any(i);
  }
  Value* ids = c.any(i);
  if (storage_owner(ids)->kind != ValueKind::input)
    throw c.fail("input {} must be an input of the model or constant, so that its class ids can be checked",
                 i);
  return ids;
}

}  // namespace

void loss(Call& c, const char* op) {
  Value* scores = c.in(0);
  int64_t rank = scores->type.rank();
  if (rank < 2) throw c.fail("input 0 has shape {}, but it wants [N,C,...]", to_string(scores->type.dims));
  Attrs attrs;
  std::optional<int64_t> ignored;
  if (c.has("ignore_index")) attrs["ignore_index"] = *(ignored = c.integer("ignore_index"));
  if (ignored == std::numeric_limits<int64_t>::min())  // stands for none
    throw c.fail("ignore_index is {}, the one number that it cannot be; give another, such as -1", *ignored);
  std::string reduction = c.string("reduction", "mean");
  std::vector<Value*> inputs = {scores, class_ids(c, 1, scores->type.dim(1), ignored)}, weigh = {inputs[1]};
  if (c.has(2)) {
    inputs.push_back(c.in(2));
    weigh.push_back(inputs[2]);
  }
  Value* losses = c.value(op, inputs, attrs);
  auto sum = [&](Value* v) { return c.value("reduce_sum", {v}, {{"axes", std::vector<int64_t>{}}}); };
  if (reduction == "none")
    c.out(0, losses);
  else if (reduction == "sum")
    c.out(0, sum(losses));
  else if (reduction == "mean")
    c.out(0, c.value("div_or_zero", {sum(losses), sum(c.value("label_weights", weigh, attrs))}));
  else
    throw c.fail("attribute 'reduction' is '{}'; there are none, sum and mean", reduction);
  if (c.wants(1)) c.out(1, along(c, scores, 1, "log_softmax"));
}

}  // namespace pock::onnx_frontend
