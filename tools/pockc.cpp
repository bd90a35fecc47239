// The pockc command line.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <iostream>
#include <memory>

#include "bench.h"
#include "compile.h"
#include "explain.h"
#include "export.h"
#include "inspect.h"
#include "opt.h"
#include "pock/codegen/compile.h"
#include "pock/passes/passes.h"
#include "regress.h"
#include "targets.h"

namespace {

using namespace pock;

// --no-NAME for everything that may be left out: optional passes and switches of the code generator.
void add_switches(CLI::App* app, std::set<std::string>* disabled) {
  std::set<std::string> seen;
  auto add = [&](const std::string& name, const std::string& what, bool rounds = false) {
    if (!seen.insert(name).second) return;
    std::string flag = "--no-" + name, dashed = flag;
    for (char& c : dashed)
      if (c == '_') c = '-';
    app->add_flag_callback(
           dashed == flag ? flag : dashed + "," + flag, [=] { disabled->insert(name); }, what)
        ->group(rounds ? "Leave out (the result is rounded differently)"
                       : "Leave out (the result keeps its bits)");
  };
  for (const auto* pipeline : {&training_pipeline(), &inference_pipeline()})
    for (const Pass& pass : *pipeline)
      if (pass.optional || pass.rounds) add(pass.name, std::string("leave out: ") + pass.why, pass.rounds);
  for (const CodegenSwitch& s : kCodegenSwitches) add(s.name, s.without);
}

// CLI11 by itself takes the nearest number that fits, and -1 for the largest.
CLI::Validator whole(uint64_t least, uint64_t most) {
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        uint64_t n = 0;
        auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), n);
        bool good = problem == std::errc{} && stop == text.data() + text.size() && n >= least && n <= most;
        return good ? "" : fmt::format("want a whole number from {} to {}, not '{}'", least, most, text);
      },
      "");
}

CLI::Validator number() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        double x = 0;
        auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), x);
        bool good = problem == std::errc{} && stop == text.data() + text.size() && std::isfinite(x);
        return good ? "" : fmt::format("want a number, not '{}'", text);
      },
      "");
}

void add_model(CLI::App* c, ModelArgs& a) {
  c->add_option("MODEL", a.model, "the model, an .onnx file")->required();
  c->add_option("--batch", a.batch, "samples a step: binds the first axis of the inputs")
      ->check(whole(1, INT64_MAX))
      ->group("Shapes");
  c->add_option("--dim", a.dims, "NAME=N binds another symbolic dimension; repeatable")->group("Shapes");
  c->add_option("--assume-opset", a.assume_opset,
                "read the model as of this opset of ONNX, whatever it says itself; for a newer one than pock "
                "knows, whose operators have not changed")
      ->check(whole(1, INT32_MAX));
}

CLI::Validator positive() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        double x = 0;
        auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), x);
        bool good =
            problem == std::errc{} && stop == text.data() + text.size() && x >= kLeastClip && x <= kMostClip;
        return good ? "" : fmt::format("want a positive number, not '{}'", text);
      },
      "");
}

void add_step(CLI::App* c, StepArgs& a) {
  PassOptions& p = a.passes;
  c->add_option(
       "--loss", a.losses,
       "[OUTPUT=]NAME[:key=value,...], the loss of an output, by default the first; repeatable: the sum "
       "counts; derived from the outputs where possible; the losses: " +
           losses_text())
      ->group("Training");
  c->add_option("--optimizer", a.optimizer,
                "NAME[:key=value,...] with PyTorch's keys: " + optimizers_text() + "; default sgd")
      ->group("Training");
  c->add_option(
       "--schedule", a.schedule,
       "NAME[:key=value,...] of the learning rate, in steps; steps=0 stands for all that the trainer "
       "does; the schedules: " +
           schedules_text() + "; default constant")
      ->group("Training");
  c->add_option("--accumulate", p.recipe.accumulate,
                "a step takes the mean gradient of K batches, added up in memory of its own; the trainer's "
                "--accumulate changes K")
      ->check(whole(1, static_cast<uint64_t>(kMostAccumulated)))
      ->group("Training");
  c->add_option("--clip-value", p.recipe.clip_value, "clip every element of the gradient to [-X, X]")
      ->check(positive())
      ->group("Training");
  c->add_option("--clip-norm", p.recipe.clip_norm,
                "shrink the whole gradient to this norm where it is larger")
      ->check(positive())
      ->group("Training");
  c->add_flag("--skip-nonfinite", p.recipe.skip_nonfinite,
              "leave out a step whose loss or gradient is not finite, instead of ending the run")
      ->group("Training");
  c->add_flag(
       "--keep-gradients", p.recipe.keep_gradients,
       "keep the gradients of a step for who wants them: the trainer's --gradients FILE writes those of its "
       "last step, and a library gives them; costs memory, which is said")
      ->group("Training");
  c->add_option("--sparse-scheme", a.scheme,
                "what is trained, as a TOML file says (docs/sparse.md) or a preset: " + preset_text())
      ->group("Training");
  c->add_option("--train", p.train, "train only parameters matching this glob; repeatable")
      ->group("Training");
  c->add_option("--freeze", p.freeze, "freeze parameters matching this glob; repeatable")->group("Training");
  c->add_option(
       "--bn", a.norms,
       "[PATTERN=]train|frozen|fold for batch norms by node name; repeatable, the last match wins; "
       "default: train where the scale is trained, fold where nothing trained comes before, else frozen")
      ->group("Training");
  c->add_option("--bn-variance", a.norm_variance,
                "running variance from the unbiased or the population batch variance; "
                "default: unbiased for files that PyTorch wrote")
      ->check(CLI::IsMember({"unbiased", "population"}))
      ->group("Training");
  c->add_option("--dropout", a.dropouts,
                "[PATTERN=]on|off|RATIO for dropouts by node name; repeatable, the last match wins; default: "
                "as the file says, which before opset 12 is on")
      ->group("Training");

  c->add_option("--input-scale", p.input_scale, "the input is u8; multiply it by this")
      ->check(number())
      ->group("Input preprocessing");
  c->add_option("--input-mean", p.input_mean, "then subtract: a number, or one a channel separated by commas")
      ->delimiter(',')
      ->check(number())
      ->group("Input preprocessing");
  c->add_option("--input-std", p.input_std, "then divide by: likewise")
      ->delimiter(',')
      ->check(number())
      ->group("Input preprocessing");
}

void add_program(CLI::App* c, ProgramArgs& a) {
  add_model(c, a);
  add_step(c, a);
  c->add_option("--target", a.target,
                fmt::format("the machine to compile for: {}; pockc targets says more",
                            fmt::join(target_names(), ", ")))
      ->capture_default_str()
      ->group("Target");
  c->add_option(
       "--cpu", a.cpu,
       "the processor, by LLVM's name (x86-64-v3 runs on most); by itself, the one that pockc targets names")
      ->group("Target");
  c->add_option("--board", a.board,
                "where memory is, on machines without a system: a board that pockc targets names, or a "
                "FILE.toml; by itself, the "
                "one that is emulated")
      ->group("Target");
  c->add_option("--flash", a.flash,
                "[ORIGIN+]BYTES of it in the place of the board's, such as 0x08000000+512K")
      ->group("Target");
  c->add_option("--sram", a.sram, "likewise of RAM")->group("Target");
  c->add_option("--print-after", a.print_after, "print the graph after this pass; repeatable")
      ->group("Looking inside");
  add_switches(c, &a.disabled);
}

void add_compile(CLI::App& app) {
  auto* c = app.add_subcommand("compile", "Compile a model into a standalone program that trains it");
  auto a = std::make_shared<CompileArgs>();  // CLI11 keeps references: the callback below keeps it alive
  add_program(c, *a);
  c->add_option("-o,--output", a->out,
                "where to write; '-' is standard output. For a library: NAME gives libNAME.a and NAME.h");
  c->add_option("--emit", a->emit, "what to write")
      ->check(CLI::IsMember(emit_choices()))
      ->capture_default_str();
  c->add_flag(
      "--weights-file", a->weights_file,
      "write the weights to OUTPUT.safetensors, which belongs beside the program, instead of into it; so "
      "it is by itself where they take more than " +
          std::to_string(kLargestSection >> 20) + " MiB");
  c->add_option("--report", a->report, "write memory, passes and kernels as JSON to this file");

  c->add_option("--seed", a->passes.seed,
                "seed of shuffling and dropout, for which the trainer's --seed overrides it, and of what "
                "adapters start from")
      ->check(whole(0, UINT64_MAX))
      ->group("Training");
  c->add_option(
       "--threads", a->threads,
       "the most threads the program may use; default: the target's, " + std::to_string(Target{}.threads))
      ->group("Target");
  c->callback([a] {
    if (a->out.empty() && (a->emit == "exe" || a->emit == "lib" || a->emit == "obj"))
      throw error("--emit {} needs -o {}", a->emit, a->emit == "lib" ? "NAME" : "FILE");
    run_compile(*a);
  });
}

void add_explain(CLI::App& app) {
  auto* c = app.add_subcommand(
      "explain", "Say what is trained, and what that costs in memory and work beside training everything");
  auto a = std::make_shared<ExplainArgs>();
  add_program(c, *a);
  c->add_flag("--json", a->json, "as JSON, for scripts");
  c->callback([a] { run_explain(*a); });
}

void add_bench(CLI::App& app) {
  auto* c = app.add_subcommand(
      "bench",
      "Say how long each kernel of a model's training step takes on this machine, on one thread; for another "
      "one, how many instructions it executes there, counted in an emulator");
  auto a = std::make_shared<BenchArgs>();
  add_program(c, *a);
  c->add_option(
       "--rounds", a->rounds,
       "steps to measure twice, as a whole and kernel by kernel; default: as many as take 2 seconds, "
       "at least " +
           std::to_string(kFewestRounds))
      ->check(whole(1, 1000000));
  c->add_flag("--count", a->count, "count instructions for this machine, too, instead of measuring time");
  c->add_flag("--json", a->json, "as JSON, for scripts");
  c->callback([a] { run_bench(*a); });
}

// What stands behind `pockc compile`, of what add_program() knows.
ProgramArgs parse_program(std::vector<std::string> words) {
  CLI::App app;
  ProgramArgs a;
  add_program(&app, a);
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& e) {
    throw error("{}", e.what());
  }
  return a;
}

void add_regress(CLI::App& app) {
  auto* c = app.add_subcommand(
      "regress", "Say which generated kernels have become wrong, slower or larger than a baseline says");
  auto a = std::make_shared<RegressArgs>();
  c->add_option("FILE", a->file, "the models, targets and options to compare, a TOML file (docs/regress.md)")
      ->required();
  c->add_option("--baseline", a->baseline,
                "what they are compared with; default: as FILE says, or FILE's name with .json");
  c->add_flag("--update", a->update, "write the baseline instead of comparing");
  c->add_option("--json", a->json,
                "write what there is, and what moved, as JSON to this file; '-' is standard output");
  c->add_option("--junit", a->junit, "likewise as JUnit's XML, a test for each kernel");
  c->callback([a] { run_regress(*a, parse_program); });
}

void add_export(CLI::App& app) {
  auto* c =
      app.add_subcommand("export", "Put the weights of a checkpoint back into the model they came from");
  auto a = std::make_shared<ExportArgs>();
  c->add_option("MODEL", a->model, "the model that was compiled, an .onnx file; it stays as it is")
      ->required();
  c->add_option("--weights", a->weights, "the checkpoint that the trainer wrote")->required();
  c->add_option("-o,--output", a->out,
                "the tuned model: the same graph, names and form, with other weights; adapters are merged "
                "into those that they stand beside");
  c->add_option("--adapters", a->adapters,
                "a safetensors file of adapters, and of what was trained beside them, under the names that "
                "PEFT gives them");
  c->callback([a] { run_export(*a); });
}

void add_inspect(CLI::App& app) {
  struct Args : ModelArgs {
    bool json = false;
  };
  auto* c =
      app.add_subcommand("inspect", "Say what is in a model, and what stands in the way of training it");
  auto a = std::make_shared<Args>();
  add_model(c, *a);
  c->add_flag("--json", a->json, "as JSON, for scripts");
  c->callback([a] { run_inspect(*a, a->json); });
}

void add_opt(CLI::App& app) {
  auto* c = app.add_subcommand("opt", "Run passes over a graph in text form");
  auto a = std::make_shared<OptArgs>();
  c->add_option("FILE", a->file, "a .pock file")->required();
  c->add_option("--passes", a->names, "the passes to run, separated by commas: " + pass_names())
      ->delimiter(',');
  c->add_option("-o,--output", a->out, "where to write; '-' is standard output")->capture_default_str();
  add_step(c, *a);
  c->add_flag("--inference", a->passes.inference, "as for the graph that evaluates and predicts");
  c->callback([a] { run_opt(*a); });
}

void add_targets(CLI::App& app) {
  auto* c = app.add_subcommand("targets", "List the machines that there are programs for");
  auto json = std::make_shared<bool>(false);
  c->add_flag("--json", *json, "as JSON, for scripts");
  c->callback([json] { run_targets(*json); });
}

// A file that is opened where a standard stream is closed would take its number, and what is said would go into it.
void hold_standard_streams() {
  int file = 0;
  do file = ::open("/dev/null", O_RDONLY);
  while (file >= 0 && file <= STDERR_FILENO);
  if (file >= 0) ::close(file);
}

// The exit status.
int run(CLI::App& app, int argc, char** argv) {
  try {
    add_compile(app);
    add_explain(app);
    add_bench(app);
    add_regress(app);
    add_inspect(app);
    add_export(app);
    add_opt(app);
    add_targets(app);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (app.exit(e) != 0) return 2;
    if (!std::cout.flush()) throw error("cannot write standard output");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  hold_standard_streams();
  std::signal(SIGXFSZ,
              SIG_IGN);  // a file that would become too large is a write that fails, as on a full disk
  CLI::App app("pockc turns a trained model into a program that goes on training it");
  app.set_version_flag("--version", "pockc " POCK_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(32);
  try {
    return run(app, argc, argv);
  } catch (const Error& e) {
    say(fmt::format("error: {}", e.what()));
    return 1;
  } catch (const std::bad_alloc&) {
    say("error: out of memory");
    return 1;
  } catch (const std::exception& e) {
    say(e.what());
    return 3;
  }
}
