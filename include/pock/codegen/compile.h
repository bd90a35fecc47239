// From optimised graphs to a program: kernels, their schedules, the memory plan, code, weights.
//
//   Program program = lower(train, infer, {.target = find_target("host")});   // kernels, plans: inspectable
//   std::string file = emit(program, Emit::exe);
#pragma once

#include <algorithm>
#include <memory>

#include "pock/codegen/target.h"
#include "pock/ir/graph.h"
#include "pock/loop/transform.h"
#include "pock/passes/loss.h"
#include "pock/passes/optimizer.h"
#include "pock/plan/plan.h"

namespace pock {

struct KernelUse {
  std::vector<const Node*> nodes;  // in order; the first stands for all where a kernel has workspace
  int kernel = 0;                  // index into Program::kernels
  std::vector<const Value*> args;  // tensors in the kernel's order, workspace left out
};

struct CompiledKernel {
  loop::Kernel plain, scheduled;  // nodes whose plain kernels print alike share one
  loop::Schedule schedule;
  loop::Cost cost;
  int64_t code_bytes = 0;  // after emit
};

struct CompileOptions {
  Target target;
  int threads = 4;
  uint64_t seed = 0;
  bool schedule = true;       // false: plain loops
  bool share_kernels = true;  // false: a function for every node
  PlanOptions plan;
  Recipe recipe;
  std::vector<LossChoice> losses;                     // none: the model's own
  std::string scheme, adapters = "none", model_name;  // the first two as pock_program has them
  std::string library;  // for Emit::lib: the name that its functions start with; a C name
};

// What may be left out of code generation with --no-NAME; the result keeps its bits.
struct CodegenSwitch {
  const char* name;
  const char* without;  // what there is instead
  void (*turn_off)(CompileOptions&);
};
inline constexpr CodegenSwitch kCodegenSwitches[] = {
    {"schedule", "plain loops, exactly as the operators define them",
     [](CompileOptions& o) { o.schedule = false; }},
    {"share_kernels", "a function for every node, even where two are the same",
     [](CompileOptions& o) { o.share_kernels = false; }},
    {"update_in_place", "new parameter values are made in the arena and copied",
     [](CompileOptions& o) { o.plan.updates_in_place = false; }},
};

// Where in a parameter block each persistent tensor lives.
struct BlockLayout {
  std::unordered_map<const Value*, int64_t> offset;  // of the values of both graphs
  int64_t bytes = 0;
};

// What a program knows of the file that its weights stand in.
struct WeightsFile {
  std::string name;  // in the program's folder; "": the weights are a section of the program
  uint32_t header_crc = 0, data_crc = 0;
};

// What a linked image for a board takes of its flash, and of its RAM: the stack, as deep as it can get, which is known of a
// library too, and all that has a fixed place, the plan's blocks among it.
struct ImageBytes {
  int64_t flash = 0, stack = 0, data = 0;
};

struct Program {
  const Graph* train = nullptr;  // forward, loss (output 0), backward, updates
  // Outputs: the model's, then those of the losses (loss_outputs), f32[] where the model has its own.
  const Graph* infer = nullptr;
  CompileOptions options;
  std::vector<CompiledKernel> kernels;  // shared by both graphs
  std::vector<KernelUse> train_uses, infer_uses;
  Plan train_plan, infer_plan;
  BlockLayout params, state,
      weights;        // weights: params first (same offsets), then frozen tensors and constants
  int64_t batch = 1;  // samples a step
  WeightsFile weights_file;
  ImageBytes image;  // on a machine without a system, after emit
  int64_t arena_bytes() const { return std::max(train_plan.arena_bytes, infer_plan.arena_bytes); }
};

// Throws Error where no program can do it: inputs that do not hold the same number of samples.
Program lower(const Graph& train, const Graph& infer, const CompileOptions&);

// Takes the weights out of the program that emit() makes. The parts of the file that must stand beside it under this name:
// safetensors, with the names of the model file; where each tensor begins a cache line, bytes called "padding" fill up.
std::vector<std::string> move_weights_to_file(Program&, const std::string& name);
// Whether the bytes of a file begin as those do.
bool is_weights_file(std::string_view);

enum class Emit : uint8_t { exe, lib, obj, llvm_ir, assembly };
// The bytes of the file. Fills in code_bytes of the kernels.
std::string emit(Program&, Emit);
// What goes with a library: the text of its C header.
std::string library_header(const Program&);
// What goes with a program for a board: its flash, byte by byte; and what takes how much of each memory, for people.
std::string flat_image(const std::string& elf, const Board&);
std::string memory_table(const Program&);

// The schedule for a kernel on a target: by the shape of its loops, never by the operator's name.
loop::Schedule schedule_for(const loop::Kernel&, const Target&);

// For tests and benchmarks: kernels compiled into this process, and what they are compiled to.
class HostKernels {
 public:
  virtual ~HostKernels() = default;
  // Runs all phases of a kernel; each parallel loop is cut in `pieces` equal ranges, as that many threads
  // would.
  virtual void run(int kernel, const std::vector<void*>& args, int pieces = 1) const = 0;
};
std::unique_ptr<HostKernels> load_kernels(const std::vector<loop::Kernel>&, const Target&);
std::string assembly(const loop::Kernel&, const Target&);

}  // namespace pock
