#include "step_args.h"

namespace pock {

PassOptions pass_options(const StepArgs& args) {
  PassOptions options = args.passes;
  if (!args.scheme.empty()) {
    if (!options.train.empty())
      throw error("--sparse-scheme says what is trained, and so does --train: give one of them");
    options.scheme = load_scheme(args.scheme);
  }
  for (const std::string& text : args.losses) options.losses.push_back(parse_loss(text));
  for (const std::string& text : args.norms) options.norms.push_back(parse_norm_rule(text));
  for (const std::string& text : args.dropouts) options.dropouts.push_back(parse_dropout_rule(text));
  if (!args.norm_variance.empty()) options.unbiased_variance = args.norm_variance == "unbiased";
  options.recipe.optimizer = parse_optimizer(args.optimizer.empty() ? "sgd" : args.optimizer);
  options.recipe.schedule = parse_schedule(args.schedule.empty() ? "constant" : args.schedule);
  return options;
}

}  // namespace pock
