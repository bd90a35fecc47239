// A pass is a function over a graph that returns how many changes it made.
//
//   int dce(Graph&, const PassOptions&);
//
// The runner does the rest for every pass alike: it times it, verifies the graph after it, prints it on
// request and leaves it out for `--no-NAME`. The order and the reasons are the table in passes/pipeline.cpp.
#pragma once

#include <functional>
#include <optional>
#include <set>

#include "pock/ir/graph.h"
#include "pock/passes/loss.h"
#include "pock/passes/optimizer.h"
#include "pock/passes/scheme.h"

namespace pock {

enum class NormMode : uint8_t { train, frozen, fold };
const char* to_string(NormMode);

struct NormRule {
  std::string pattern;  // glob over the batch norm node's name; "*" for all
  NormMode mode;
};
// "fold", "layer1.*=frozen". Throws Error listing the modes.
NormRule parse_norm_rule(const std::string& text);

struct DropoutRule {
  std::string pattern;  // glob over the node's name; "*" for all
  bool on;
  std::optional<double> ratio;  // in the place of the node's own
};
// "on", "off", "0.3", "classifier.*=off". Throws Error saying what it wants.
DropoutRule parse_dropout_rule(const std::string& text);

// What to train and how; and what passes need to know of a target, as numbers.
struct PassOptions {
  std::vector<std::string> train, freeze;  // globs over parameter names; none: train all
  std::optional<Scheme> scheme;            // instead of `train`
  std::vector<NormRule> norms;
  std::vector<DropoutRule> dropouts;
  std::optional<bool> unbiased_variance;  // of running variances; unset: by the model's producer
  std::vector<LossChoice> losses;         // none: derive
  Recipe recipe;
  uint64_t seed = 0;  // of what adapters start from
  // Input preprocessing: x * scale, then (x - mean) / std, in the graph; the input itself becomes u8.
  std::optional<double> input_scale;
  std::vector<double> input_mean, input_std;
  bool transformed_filters = true;  // there is memory for them (winograd)
  bool inference = false;           // build the inference graph: no gradients, running statistics
};

// Those that the scheme asks for and `freeze` does not take back, of a model as imported. Throws as trained_by() does.
std::vector<Adapter> adapters(const Graph&, const PassOptions&);

using PassFn = int (*)(Graph&, const PassOptions&);

struct Pass {
  const char* name;
  PassFn run;
  const char* why;
  bool optional;        // may be left out by --no-NAME; all optional passes keep every bit of the result
  bool rounds = false;  // may be left out, too, but then results are rounded differently
};

const std::vector<Pass>& training_pipeline();
const std::vector<Pass>& inference_pipeline();
// In either pipeline. Throws Error listing the passes there are.
const Pass& get_pass(const std::string& name);
std::string pass_names();  // "preprocess, loss, ..."

struct PassRun {
  std::string name;
  int changes = 0;
  double seconds = 0;
};

struct RunOptions {
  std::set<std::string> disabled;
  std::function<void(const std::string& pass, const Graph&)> after;  // after each pass; may be null
};

std::vector<PassRun> run_passes(Graph&, const std::vector<Pass>&, const PassOptions&, const RunOptions& = {});

// The graphs that a program consists of: "train", a whole step, and "infer".
struct ProgramGraphs {
  std::unique_ptr<Graph> train, infer;
  std::vector<PassRun> train_runs, infer_runs;
};
// `run.after` hears of the training pipeline alone. Throws Error where the model cannot be trained so.
ProgramGraphs program_graphs(const Graph& model, const PassOptions&, const RunOptions& run = {});

// [PATTERN=]CHOICE: the pattern, "*" where there is none, and the choice.
std::pair<std::string, std::string> split_rule(const std::string& text);
bool glob_match(std::string_view pattern, std::string_view name);  // * and ?

}  // namespace pock
