#include "compile.h"

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "pock/codegen/compile.h"
#include "pock/frontends/import.h"
#include "pock/ir/text.h"
#include "pock/passes/passes.h"
#include "pock/support/mapped_file.h"
#include "pock/support/new_file.h"

namespace pock {

namespace {

namespace fs = std::filesystem;

// What the code generator writes; the stages before it are "graph", "plan" and "loops".
constexpr std::pair<const char*, Emit> kCode[] = {{"exe", Emit::exe},
                                                  {"lib", Emit::lib},
                                                  {"obj", Emit::obj},
                                                  {"llvm-ir", Emit::llvm_ir},
                                                  {"asm", Emit::assembly}};

nlohmann::ordered_json report_json(const CompileArgs& args, const Program& program,
                                   const ProgramGraphs& graphs, double seconds) {
  using json = nlohmann::ordered_json;
  auto passes = [](const std::vector<PassRun>& runs) {
    json list = json::array();
    for (const PassRun& r : runs)
      list.push_back({{"name", r.name}, {"changes", r.changes}, {"seconds", r.seconds}});
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
        for (const Node* n : use.kernel == static_cast<int>(k) ? use.nodes : std::vector<const Node*>{})
          nodes.push_back(n->loc.name);
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
          {"loss", to_string(program.options.losses)},
          {"optimizer", to_string(program.options.recipe.optimizer)},
          {"schedule", to_string(program.options.recipe.schedule)},
          {"trained", program.options.scheme},
          {"adapters", program.options.adapters},
          {"arena_bytes", program.arena_bytes()},
          {"arena_lower_bound_bytes", std::max(plan.lower_bound, program.infer_plan.lower_bound)},
          {"arena_peak_node", plan.peak_node ? plan.peak_node->loc.name : ""},
          {"parameter_bytes", parameters},
          {"trained_parameter_bytes", trained},
          {"optimizer_state_bytes", state},
          {"weights_bytes", program.weights.bytes},
          {"weights_file", program.weights_file.name},
          {"code_bytes", code},
          {"seconds", seconds},
          {"passes", passes(graphs.train_runs)},
          {"inference_passes", passes(graphs.infer_runs)},
          {"kernels", kernels}};
}

std::string loops_text(const Program& program) {
  std::string text;
  for (const CompiledKernel& k : program.kernels)
    text += fmt::format("# schedule: {}\n{}\n", to_string(k.schedule), print(k.scheduled));
  return text;
}

// A file that is written.
struct Result {
  std::string place;
  std::vector<std::string> parts;
};

void say_result(const CompileArgs& args, const std::vector<Result>& results, const Program& program,
                const std::string& trained, double seconds) {
  const Plan& plan = program.train_plan;
  say(fmt::format("trained: {}", trained));
  say(fmt::format(
      "arena {} (no plan can do with less than {}; peak at {}), parameters {}, optimizer state {}",
      bytes_text(program.arena_bytes()),
      bytes_text(std::max(plan.lower_bound, program.infer_plan.lower_bound)),
      plan.peak_node ? "'" + plan.peak_node->loc.name + "'" : "none", bytes_text(program.params.bytes),
      bytes_text(program.state.bytes)));
  if (program.options.target.bare() && args.emit == "exe") say(memory_table(program));
  if (const std::string& name = program.weights_file.name; !name.empty())
    say(fmt::format(
        "weights {} in '{}', which belongs beside the program{}", bytes_text(program.weights.bytes), name,
        args.weights_file ? "" : fmt::format(": they are more than {}", bytes_text(kLargestSection))));
  const std::string& out = results[0].place;
  const auto bytes = static_cast<int64_t>(results[0].parts[0].size());
  std::string what = out == "-" ? "to standard output" : out, next;
  for (size_t i = 1; i < results.size(); ++i) what += " and " + results[i].place;
  const Target& target = program.options.target;
  if (out != "-" && args.emit == "exe" && !target.bare())
    next = fmt::format("; try {}{} train --help", out.find('/') == std::string::npos ? "./" : "", out);
  if (out != "-" && args.emit == "exe" && !target.board.emulator.empty())
    next = fmt::format("; try {} {} -append 'train --help'", fmt::join(target.board.emulator, " "), out);
  say(fmt::format("wrote {} ({}, {} kernels) in {:.1f} s{}", what, bytes_text(bytes), program.kernels.size(),
                  seconds, next));
}

std::string code(Program& program, const std::string& kind) {
  for (const auto& [name, what] : kCode)
    if (kind == name) return emit(program, what);
  if (kind == "plan")
    return "# train\n" + table(*program.train, program.train_plan) + "# infer\n" +
           table(*program.infer, program.infer_plan);
  POCK_CHECK(kind == "loops", "--emit {}", kind);
  return loops_text(program);
}

// -o [FOLDER/]NAME for a library: NAME starts the names of its functions.
std::string library_name(const CompileArgs& args) {
  std::string name = args.out == "-" ? "" : fs::path(args.out).filename().string();
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  bool good = !name.empty() && letter(name[0]);
  for (char c : name) good &= letter(c) || (c >= '0' && c <= '9') || c == '_';
  if (!good)
    throw error(
        "-o '{}': --emit lib writes libNAME.a and NAME.h, where NAME starts the names of C functions: give a "
        "letter, then letters, digits and underscores",
        args.out);
  return name;
}

// Where that is written which --emit says.
std::vector<std::string> places(const CompileArgs& args) {
  if (args.emit != "lib") {
    std::vector<std::string> all = {args.out.empty() ? "-" : args.out};
    // What is written into the flash of a board.
    if (args.emit == "exe" && args.out != "-" && target_of(args).bare()) {
      fs::path flat = args.out;
      if (flat.extension() != ".elf") flat += ".elf";
      all.push_back(flat.replace_extension(".bin").string());
    }
    return all;
  }
  fs::path folder = fs::path(args.out).parent_path();
  std::string name = library_name(args);
  return {(folder / ("lib" + name + ".a")).string(), (folder / (name + ".h")).string()};
}

// The file beside a program that its weights go to: where the system will find the program, links followed.
std::string weights_place(const CompileArgs& args, int64_t bytes = 0) {
  const std::string why =
      args.weights_file
          ? "--weights-file"
          : fmt::format("the weights take {}, for which a program has a file beside it", bytes_text(bytes));
  if (args.emit != "exe")
    throw error("{}: --emit {} has no such file; a library or an object file holds its weights itself", why,
                args.emit);
  if (target_of(args).bare()) throw error("{}: a board has no files", why);
  const std::string program = end_of_links(args.out), place = program + ".safetensors";
  std::error_code code;
  if (args.out == "-" || (fs::exists(program, code) && !fs::is_regular_file(program, code)))
    throw error("{}: -o '{}' is no file that it could be beside", why, args.out);
  if (same_place(place, args.model) || (!args.report.empty() && same_place(place, args.report)))
    throw error("{}: '{}' would be the model or the report; give -o another name", why, place);
  const bool free = !fs::exists(place, code) ||
                    (fs::is_regular_file(place, code) && is_weights_file(MappedFile(place).bytes()));
  if (!free)
    throw error("{}: there is a '{}' that is no weights file of pock; give -o another name", why, place);
  return place;
}

// What is read must not be written over, nor one result by another.
void check_places(const CompileArgs& args) {
  if (args.emit == "graph" && !args.report.empty())
    throw error("--report describes a compiled program; --emit graph ends before there is one");
  for (const std::string& out : places(args)) {
    if (same_place(out, args.model)) throw error("-o {} would write over the model", out);
    if (!args.report.empty() && same_place(args.report, out))
      throw error("-o and --report are both '{}'", out);
  }
  if (args.weights_file) weights_place(args);
  if (!args.report.empty() && same_place(args.report, args.model))
    throw error("--report {} would write over the model", args.report);
}

// All but the report.
std::vector<Result> emit_all(const CompileArgs& args, Program& program) {
  std::vector<Result> results;
  for (const std::string& place : places(args)) results.push_back({place, {}});
  if (args.weights_file || (args.emit == "exe" && program.weights.bytes > kLargestSection)) {
    const std::string place = weights_place(args, program.weights.bytes);
    results.push_back({place, move_weights_to_file(program, fs::path(place).filename().string())});
  }
  results[0].parts = {code(program, args.emit)};
  if (args.emit == "lib") results[1].parts = {library_header(program)};
  if (args.emit == "exe" && results.size() > 1 && program.options.target.bare())
    results[1].parts = {flat_image(results[0].parts[0], program.options.target.board)};
  return results;
}

void check_library(const CompileArgs& args) {
  if (args.schedule.empty()) return;
  const Choice schedule = parse_schedule(args.schedule);
  if (find_key(schedule.keys, "steps") && schedule.number("steps") == 0)
    throw error("--schedule {}: a library does not know how many steps there will be; give steps=N",
                schedule.name);
}

}  // namespace

std::vector<std::string> emit_choices() {
  std::vector<std::string> names;
  for (const auto& [name, what] : kCode) names.push_back(name);
  names.insert(names.end(), {"graph", "plan", "loops"});
  return names;
}

void run_compile(const CompileArgs& args) {
  auto start = std::chrono::steady_clock::now();
  check_places(args);
  if (args.threads && (*args.threads < 1 || *args.threads > 256))
    throw error("--threads {}: want 1 to 256", *args.threads);
  if (args.emit == "lib") check_library(args);

  Prepared prepared = prepare(args);
  ProgramGraphs& graphs = prepared.graphs;
  if (args.emit == "graph") {
    save_graph(*graphs.train, args.out.empty() ? "-" : args.out);
    return;
  }

  CompileOptions& compile = prepared.options;
  if (args.threads) compile.threads = *args.threads;
  compile.seed = args.passes.seed;
  if (args.emit == "lib") compile.library = library_name(args);
  Program program = lower(*graphs.train, *graphs.infer, compile);

  std::vector<Result> results = emit_all(args, program);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::optional<NewFile> report;
  if (!args.report.empty())
    report.emplace(args.report, report_json(args, program, graphs, seconds.count())
                                        .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
                                    "\n");
  std::vector<std::unique_ptr<NewFile>> files;
  for (const Result& r : results)
    files.push_back(std::make_unique<NewFile>(r.place,
                                              std::vector<std::string_view>(r.parts.begin(), r.parts.end()),
                                              args.emit == "exe" && &r == &results[0]));
  // The first one last: where a program is, its weights are.
  for (size_t i = files.size(); i-- > 0;) files[i]->commit();
  if (report) report->commit();
  if (args.emit == "exe" || args.emit == "lib")
    say_result(args, results, program, prepared.trained, seconds.count());
}

}  // namespace pock
