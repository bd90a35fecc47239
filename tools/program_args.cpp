#include "program_args.h"

#include "adapters.h"
#include "pock/ir/text.h"

namespace pock {
namespace {

// "0-3,7"
std::string ranges_text(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t first = 0, i = 0; i < numbers.size(); first = ++i) {
    while (i + 1 < numbers.size() && numbers[i + 1] == numbers[i] + 1) ++i;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[first]);
    if (i > first) text += fmt::format("-{}", numbers[i]);
  }
  return text;
}

std::string trained_text(const Value& p, bool lists) {
  if (!p.slice) return p.name;
  if (lists) return fmt::format("{}[{}:{}]", p.name, p.slice->axis, ranges_text(p.slice->index));
  return fmt::format("{} ({} of {} channels)", p.name, p.slice->index.size(), p.type.dim(p.slice->axis));
}

// "2 of 20 parameters: ...", of all that the model has; a slice with the numbers of its channels, or how many they are.
std::string scheme_text(const Graph& model, const Graph& train, bool lists) {
  int trained = 0, all = 0;
  bool whole = true;
  for (const Value* p : model.params()) all += p->kind == ValueKind::param && is_float(p->type.dtype);
  std::string names, fixed;  // fixed: factors of adapters
  for (const Value* p : train.params()) {
    if (!model.find(p->name) && p->kind == ValueKind::statistic)
      fixed += (fixed.empty() ? "; fixed " : ", ") + p->name;
    if (!p->trained || !model.find(p->name)) continue;
    ++trained;
    whole = whole && !p->slice;
    names += (names.empty() ? "" : lists ? " " : ", ") + trained_text(*p, lists);
  }
  if (trained == all && whole) return fmt::format("all {} parameters", all);
  return fmt::format("{} of {} parameters{}{}{}", trained, all, names.empty() ? "" : ": ", names, fixed);
}

std::string adapters_text(const std::vector<Adapter>& adapters) {
  std::string text;
  for (const Adapter& a : adapters)
    text += fmt::format("{}{} (rank {})", text.empty() ? "; adapters beside " : ", ", a.layer.weight->name,
                        a.rank);
  return text;
}

// What was chosen for the person, where they did not choose themselves.
void say_choices(const ProgramArgs& args, const Graph& model, const std::vector<LossChoice>& losses,
                 const Choice& optimizer) {
  if (args.losses.empty())
    say(losses.empty() ? fmt::format("loss: output '{}' is a scalar, so it is the loss",
                                     model.output_name(static_cast<size_t>(own_loss(model))))
                       : fmt::format("loss: the model ends in {}, so {} on its logits",
                                     model.outputs()[0]->loc().op, to_string(losses)));
  if (args.optimizer.empty()) say(fmt::format("optimizer: none given, so {}", to_string(optimizer)));
}

}  // namespace

// A board says what core it has.
Target target_of(const ProgramArgs& args) {
  const Board board = args.board.empty() ? Board{} : find_board(args.board);
  const bool from_board = args.target == "host" && !args.board.empty();
  Target t = find_target(from_board ? board.target : args.target, args.cpu);
  if (!args.board.empty()) set_board(t, board);
  const auto replace = [&](const char* option, const std::string& text, Region* region) {
    if (text.empty()) return;
    if (!t.bare()) throw error("{}: programs for {} lie where its system puts them", option, t.name);
    *region = parse_region(text, *region);
  };
  replace("--flash", args.flash, &t.board.flash);
  replace("--sram", args.sram, &t.board.ram);
  return t;
}

Prepared prepare(const ProgramArgs& args) {
  if (args.model.empty()) throw error("the name of the model is empty");
  Prepared p;
  p.options.target = target_of(args);
  p.options.threads = p.options.target.threads;
  for (const CodegenSwitch& s : kCodegenSwitches)
    if (args.disabled.count(s.name)) s.turn_off(p.options);
  p.passes = pass_options(args);
  p.passes.transformed_filters = !p.options.target.bare();
  const PassOptions& passes = p.passes;
  for (const std::string& name : args.print_after) get_pass(name);  // or it is an Error

  p.model = import_onnx(args.model, import_options(args));
  const Graph* model = p.model.get();
  p.options.model_name = model->model_file;
  p.options.recipe = passes.recipe;
  p.options.losses = derive_losses(*model, passes.losses);
  say_choices(args, *model, p.options.losses, passes.recipe.optimizer);

  RunOptions run{args.disabled, nullptr};
  run.after = [&](const std::string& pass, const Graph& g) {
    for (const std::string& name : args.print_after)
      if (name == pass) say(fmt::format("# after {}\n{}", pass, print(g)));
  };
  p.graphs = program_graphs(*model, passes, run);
  p.options.scheme = scheme_text(*model, *p.graphs.train, true);
  const std::vector<Adapter> beside = adapters(*model, passes);
  p.options.adapters = adapters_json(beside);
  p.trained = scheme_text(*model, *p.graphs.train, false) + adapters_text(beside);
  return p;
}

std::string bytes_text(int64_t n) {
  if (n < 10 * 1024) return fmt::format("{} B", n);
  if (n < 10 * 1024 * 1024) return fmt::format("{:.1f} KiB", n / 1024.0);
  return fmt::format("{:.1f} MiB", n / (1024.0 * 1024.0));
}

}  // namespace pock
