// The one place that knows the order of the passes, and why.
#include <algorithm>
#include <chrono>

#include "pock/ir/verify.h"
#include "pock/passes/passes.h"

namespace pock {

const std::vector<Pass>& training_pipeline() {
  static const std::vector<Pass> passes = {
      {"preprocess", preprocess, "scale and normalise u8 inputs inside the graph", false},
      {"loss", attach_loss, "output 0 becomes the loss, while the model's own outputs are there", false},
      {"select", select, "mark what is trained; all else is frozen from here on", false},
      {"norms", norms, "train, freeze or fold each batch norm, by whether its scale is trained", false},
      {"dropout", dropout, "drops in training where the file or --dropout says so", false},
      {"expand_without_gradient", expand_without_gradient, "becomes operators that have one", false},
      {"autodiff", autodiff, "append gradients, only along paths that reach something trained", false},
      {"update", update, "append the optimizer's step for every trained parameter", false},
      {"expand", expand, "what has served its gradient rule becomes plain operators", false},
      {"prune", dce, "drop gradients and saved values that nobody wants, before others look at them", true},
      {"fold_constants", fold_constants,
       "compute at compile time what depends on constants and frozen weights", true},
      {"cse", cse, "gradient rules ask for the same thing twice", true},
      {"dce", dce, "drop what folding and merging left unread", true},
      {"slices", slices, "of what is trained in part, only that part of the gradient; dce takes the rest",
       true},
      {"winograd", winograd, "3x3 convolutions by fewer products; behind autodiff, before what moves nodes",
       false, true},
      {"immediate_update", immediate_update, "as early as its readers allow: a gradient lives briefly", true},
      {"recompute", recompute, "pointwise results anew in the backward part; cse would merge them", true},
      {"masks", masks, "a bit where only a sign of what is saved counts; behind recompute, which saves less",
       true},
      {"layout", layout, "channels last, filters in panels; when only memory is left to decide", true},
      {"pack_frozen", fold_constants, "frozen weights, in each order in which kernels read them", true},
      {"fuse", fuse, "nodes that pass on elements share a kernel; behind layout, before memory is shared",
       true},
      {"fused_update", fused_update,
       "a gradient goes to the optimizer's step in a register; last of what fuses, as that reads old weights",
       true},
      {"reorder", reorder, "kernels, for fewer bytes alive at once; behind fuse, which makes them", true},
      {"inplace", inplace, "results take over dying inputs; last, for it depends on the order", true},
  };
  return passes;
}

const std::vector<Pass>& inference_pipeline() {
  static const std::vector<Pass> passes = {
      {"preprocess", preprocess, "as in training", false},
      {"loss", attach_loss, "the last output becomes the loss, of each sample where pock adds it", false},
      {"select", select, "as in training: norms ask for it", false},
      {"norms", norms, "folds what training folds, so that both read one copy of the weights", false},
      {"dropout", dropout, "none drops", false},
      {"expand", expand, "batch norm uses its running statistics", false},
      {"fold_constants", fold_constants, "as in training", true},
      {"cse", cse, "as in training", true},
      {"dce", dce, "indices of max pooling and the like", true},
      {"winograd", winograd, "as in training", false, true},
      {"layout", layout, "as in training", true},
      {"pack_frozen", fold_constants, "as in training", true},
      {"fuse", fuse, "as in training", true},
      {"reorder", reorder, "as in training", true},
      {"inplace", inplace, "as in training", true},
  };
  return passes;
}

const Pass& get_pass(const std::string& name) {
  for (const auto* list : {&training_pipeline(), &inference_pipeline()})
    for (const Pass& p : *list)
      if (p.name == name) return p;
  throw error("there is no pass '{}'; the passes are {}", name, pass_names());
}

std::string pass_names() {
  std::vector<std::string> names;
  for (const auto* list : {&training_pipeline(), &inference_pipeline()})
    for (const Pass& p : *list)
      if (std::find(names.begin(), names.end(), p.name) == names.end()) names.push_back(p.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<PassRun> run_passes(Graph& g, const std::vector<Pass>& passes, const PassOptions& options,
                                const RunOptions& run) {
  std::vector<PassRun> runs;
  for (const Pass& pass : passes) {
    if (run.disabled.count(pass.name)) continue;
    auto start = std::chrono::steady_clock::now();
    int changes = pass.run(g, options);
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    verify(g, pass.name);
    if (run.after) run.after(pass.name, g);
    runs.push_back({pass.name, changes, seconds.count()});
  }
  return runs;
}

ProgramGraphs program_graphs(const Graph& model, const PassOptions& options, const RunOptions& run) {
  ProgramGraphs p{model.clone(), model.clone(), {}, {}};
  p.train->name = "train";
  p.train_runs = run_passes(*p.train, training_pipeline(), options, run);
  p.infer->name = "infer";
  PassOptions inference = options;
  inference.inference = true;
  p.infer_runs = run_passes(*p.infer, inference_pipeline(), inference, {run.disabled, nullptr});
  return p;
}

std::pair<std::string, std::string> split_rule(const std::string& text) {
  size_t equals = text.rfind('=');
  if (equals == std::string::npos) return {"*", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

bool glob_match(std::string_view pattern, std::string_view name) {
  // Greedy matching with one backtrack point: the last star seen.
  size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace pock
