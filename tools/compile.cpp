#include "compile.h"

#include <charconv>
#include <chrono>

#include <nlohmann/json.hpp>

#include "pock/codegen/compile.h"
#include "pock/frontends/import.h"
#include "pock/ir/text.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"
#include "pock/support/new_file.h"

namespace pock {

const std::vector<std::string> kEmitChoices = {"exe", "obj", "llvm-ir", "asm", "graph", "loops"};
const std::vector<std::pair<std::string, std::string>> kCodegenSwitches = {
    {"schedule", "plain loops, exactly as the operators define them"},
    {"share_kernels", "a function for every node, even where two are the same"},
    {"update_in_place", "new parameter values are made in the arena and copied"},
};

namespace {

NormRule parse_norm(const std::string& text) {
  size_t equals = text.rfind('=');
  NormRule rule{equals == std::string::npos ? "*" : text.substr(0, equals), NormMode::train};
  std::string mode = equals == std::string::npos ? text : text.substr(equals + 1);
  if (mode == "train") rule.mode = NormMode::train;
  else if (mode == "frozen") rule.mode = NormMode::frozen;
  else if (mode == "fold") rule.mode = NormMode::fold;
  else throw error("--bn '{}': the mode is one of train, frozen, fold", text);
  return rule;
}

ImportOptions import_options(const CompileArgs& args) {
  ImportOptions options;
  options.batch = args.batch;
  for (const std::string& text : args.dims) {
    size_t equals = text.find('=');
    const char* last = text.data() + text.size();
    int64_t value = 0;
    auto [stop, problem] = std::from_chars(equals == std::string::npos ? last : text.data() + equals + 1, last, value);
    if (problem != std::errc{} || stop != last || value <= 0)
      throw error("--dim '{}': want NAME=N with N a positive number", text);
    if (!options.dims.emplace(text.substr(0, equals), value).second)
      throw error("--dim '{}': '{}' is bound twice", text, text.substr(0, equals));
  }
  return options;
}

std::string bytes_text(int64_t n) {
  if (n < 10 * 1024) return fmt::format("{} B", n);
  if (n < 10 * 1024 * 1024) return fmt::format("{:.1f} KiB", n / 1024.0);
  return fmt::format("{:.1f} MiB", n / (1024.0 * 1024.0));
}

// "14 of 20 parameters", for people and for the checkpoint.
std::string scheme_text(const Graph& train) {
  int trained = 0, all = 0;
  for (const Value* p : train.params())
    if (p->kind == ValueKind::param) {
      ++all;
      trained += p->trained;
    }
  if (trained == all) return fmt::format("all {} parameters", all);
  std::string names;
  for (const Value* p : train.params())
    if (p->trained) names += (names.empty() ? "" : " ") + p->name;
  return fmt::format("{} of {} parameters: {}", trained, all, names);
}

nlohmann::ordered_json report_json(const CompileArgs& args, const Program& program, const std::vector<PassRun>& train_runs,
                                   const std::vector<PassRun>& infer_runs, double seconds) {
  using json = nlohmann::ordered_json;
  auto passes = [](const std::vector<PassRun>& runs) {
    json list = json::array();
    for (const PassRun& r : runs) list.push_back({{"name", r.name}, {"changes", r.changes}, {"seconds", r.seconds}});
    return list;
  };
  int64_t parameters = 0, trained = 0, state = 0;
  for (const Value* p : program.train->params()) {
    if (p->kind == ValueKind::optimizer) state += p->type.bytes();
    if (p->kind == ValueKind::param) parameters += p->type.bytes();
    if (p->trained) trained += p->type.bytes();
  }
  json kernels = json::array();
  int64_t code = 0;
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    const CompiledKernel& kernel = program.kernels[k];
    json nodes = json::array();
    for (const auto* uses : {&program.train_uses, &program.infer_uses})
      for (const KernelUse& use : *uses)
        if (use.kernel == static_cast<int>(k)) nodes.push_back(use.node->loc.name);
    kernels.push_back({{"name", kernel.plain.name},
                       {"nodes", nodes},
                       {"flop", kernel.cost.flop},
                       {"bytes", kernel.cost.bytes},
                       {"code_bytes", kernel.code_bytes},
                       {"schedule", to_string(kernel.schedule)}});
    code += kernel.code_bytes;
  }
  const Plan& plan = program.train_plan;
  return {{"model", args.model},
          {"target", program.options.target.name},
          {"cpu", program.options.target.cpu},
          {"threads", program.options.threads},
          {"loss", program.options.loss_name},
          {"optimizer", to_string(program.options.optimizer)},
          {"trained", program.options.scheme},
          {"arena_bytes", program.arena_bytes()},
          {"arena_lower_bound_bytes", std::max(plan.lower_bound, program.infer_plan.lower_bound)},
          {"arena_peak_node", plan.peak_node ? plan.peak_node->loc.name : ""},
          {"parameter_bytes", parameters},
          {"trained_parameter_bytes", trained},
          {"optimizer_state_bytes", state},
          {"code_bytes", code},
          {"seconds", seconds},
          {"passes", passes(train_runs)},
          {"inference_passes", passes(infer_runs)},
          {"kernels", kernels}};
}

std::string loops_text(const Program& program) {
  std::string text;
  for (const CompiledKernel& k : program.kernels)
    text += fmt::format("# schedule: {}\n{}\n", to_string(k.schedule), print(k.scheduled));
  return text;
}

// What is read must not be written over, nor one result by another.
void check_places(const CompileArgs& args) {
  std::string out = args.out.empty() ? "-" : args.out;
  if (args.model.empty()) throw error("the name of the model is empty");
  if (args.emit == "graph" && !args.report.empty())
    throw error("--report describes a compiled program; --emit graph ends before there is one");
  if (same_place(out, args.model)) throw error("-o {} would write over the model", out);
  if (args.report.empty()) return;
  if (same_place(args.report, args.model)) throw error("--report {} would write over the model", args.report);
  if (same_place(args.report, out)) throw error("-o and --report are both '{}'", out);
}

}  // namespace

void run_compile(const CompileArgs& args) {
  auto start = std::chrono::steady_clock::now();
  check_places(args);
  Target target = find_target(args.target, args.cpu);
  PassOptions options = args.passes;
  for (const std::string& text : args.norms) options.norms.push_back(parse_norm(text));
  if (!args.norm_variance.empty()) options.unbiased_variance = args.norm_variance == "unbiased";
  options.optimizer = parse_optimizer(args.optimizer.empty() ? "sgd" : args.optimizer);
  int threads = args.threads.value_or(target.threads);
  if (threads < 1 || threads > 256) throw error("--threads {}: want 1 to 256", threads);
  for (const std::string& name : args.print_after)
    if (!find_pass(name)) {
      std::string names;
      for (const Pass& p : training_pipeline()) names += std::string(names.empty() ? "" : ", ") + p.name;
      throw error("--print-after {}: there is no such pass; the passes are {}", name, names);
    }

  std::unique_ptr<Graph> model = import_onnx(args.model, import_options(args));
  std::string loss = derive_loss(*model, options.loss);
  if (options.loss.empty())
    say(loss == kModelLoss ? fmt::format("loss: output '{}' is a scalar, so it is the loss", model->output_name(0))
                           : fmt::format("loss: the model ends in {}, so {} on its logits",
                                         model->outputs()[0]->loc().op, loss));
  if (args.optimizer.empty()) say(fmt::format("optimizer: none given, so {}", to_string(options.optimizer)));

  RunOptions run{args.disabled, nullptr};
  run.after = [&](const std::string& pass, const Graph& g) {
    for (const std::string& name : args.print_after)
      if (name == pass) fmt::print(stderr, "# after {}\n{}", pass, print(g));
  };
  std::unique_ptr<Graph> train = model->clone(), infer;
  train->name = "train";
  std::vector<PassRun> train_runs = run_passes(*train, training_pipeline(), options, run), infer_runs;
  if (loss != kModelLoss) {
    infer = model->clone();
    infer->name = "infer";
    PassOptions inference = options;
    inference.inference = true;
    infer_runs = run_passes(*infer, inference_pipeline(), inference, {args.disabled, nullptr});
  }
  if (args.emit == "graph") {
    if (args.out.empty() || args.out == "-") NewFile("-", print(*train)).commit();
    else save_graph(*train, args.out);
    return;
  }

  CompileOptions compile;
  compile.target = target;
  compile.threads = threads;
  compile.seed = args.seed;
  compile.schedule = !args.disabled.count("schedule");
  compile.share_kernels = !args.disabled.count("share_kernels");
  compile.plan.updates_in_place = !args.disabled.count("update_in_place");
  compile.optimizer = options.optimizer;
  compile.loss_name = loss;
  compile.scheme = scheme_text(*train);
  compile.model_name = model->model_file;
  Program program = lower(*train, infer.get(), compile);

  std::string bytes;
  if (args.emit == "loops") {
    bytes = loops_text(program);
  } else {
    bytes = emit(program, args.emit == "exe"       ? Emit::exe
                          : args.emit == "obj"     ? Emit::obj
                          : args.emit == "llvm-ir" ? Emit::llvm_ir
                                                   : Emit::assembly);
  }
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::optional<NewFile> report;
  if (!args.report.empty())
    report.emplace(args.report, report_json(args, program, train_runs, infer_runs, seconds.count()).dump(2) + "\n");
  std::string out = args.out.empty() ? "-" : args.out;
  NewFile(out, bytes, args.emit == "exe").commit();
  if (report) report->commit();
  if (args.emit != "exe") return;

  const Plan& plan = program.train_plan;
  say(fmt::format("trained: {}", compile.scheme));
  say(fmt::format("arena {} (no plan can do with less than {}; peak at {}), parameters {}, optimizer state {}",
                  bytes_text(program.arena_bytes()), bytes_text(std::max(plan.lower_bound, program.infer_plan.lower_bound)),
                  plan.peak_node ? "'" + plan.peak_node->loc.name + "'" : "none", bytes_text(program.params.bytes),
                  bytes_text(program.state.bytes)));
  std::string next =
      out == "-" ? "" : fmt::format("; try {}{} train --help", out.find('/') == std::string::npos ? "./" : "", out);
  say(fmt::format("wrote {} ({}, {} kernels) in {:.1f} s{}", out == "-" ? "to standard output" : out,
                  bytes_text(static_cast<int64_t>(bytes.size())), program.kernels.size(), seconds.count(), next));
}

}  // namespace pock
