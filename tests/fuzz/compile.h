// What `pockc compile` does with a graph, up to the memory plan.
#pragma once

#include "pock/passes/passes.h"
#include "pock/plan/plan.h"
#include "target.h"

namespace pock::fuzz {

inline void compile(const Graph& model) {
  PassOptions options;
  if (!accepted([&] { options.losses = derive_losses(model, {}); })) options.losses = {parse_loss("mse")};
  for (bool inference : {false, true}) {
    options.inference = inference;
    std::unique_ptr<Graph> g = model.clone();
    accepted([&] {
      run_passes(*g, inference ? inference_pipeline() : training_pipeline(), options);
      check_plan(*g, plan_memory(*g));
    });
  }
}

}  // namespace pock::fuzz
