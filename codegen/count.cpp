#include "pock/codegen/count.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <numeric>
#include <sstream>

#include "cortexm/image.h"
#include "llvm/kernel_program.h"
#include "pock/loop/interpret.h"
#include "pock/ops/op.h"
#include "pock/support/diag.h"
#include "pock/support/temporary_folder.h"

namespace pock {
namespace {

using loop::Space;

// ---- Made-up arguments

bool has_load(const loop::Expr& e) {
  if (e->op == loop::ScalarOp::load) return true;
  return std::any_of(e->args.begin(), e->args.end(), has_load);
}
bool loads_with_data(const loop::Expr& e) {
  if (e->op == loop::ScalarOp::load && std::any_of(e->args.begin(), e->args.end(), has_load)) return true;
  return std::any_of(e->args.begin(), e->args.end(), loads_with_data);
}
// Whether data say where to load or store, or how often a loop runs.
bool depends_on_data(const std::vector<loop::Stmt>& body) {
  return std::any_of(body.begin(), body.end(), [](const loop::Stmt& s) {
    if (s.kind == loop::StmtKind::loop) return has_load(s.lo) || has_load(s.hi) || depends_on_data(s.body);
    if (s.kind == loop::StmtKind::when) return loads_with_data(s.value) || depends_on_data(s.body);
    if (s.kind != loop::StmtKind::store) return false;
    return std::any_of(s.index.begin(), s.index.end(), has_load) || loads_with_data(s.value);
  });
}

uint32_t fill_of(const Type& type, bool where, bool positive) {
  switch (type.dtype) {
    case DType::f32:
      return positive ? POCK_FILL_POSITIVE : POCK_FILL_SIGNED;
    case DType::mask:
      return POCK_FILL_BITS;
    case DType::i8:
    case DType::u8:
      return where ? POCK_FILL_ZEROS : POCK_FILL_BITS;
    case DType::i32:
      return where ? POCK_FILL_ZEROS : POCK_FILL_SMALL_32;
    case DType::i64:
      return where ? POCK_FILL_ZEROS : POCK_FILL_SMALL_64;
    case DType::f64:
      return POCK_FILL_ZEROS;
  }
  return POCK_FILL_ZEROS;
}

std::vector<pock_kernel_argument> arguments_of(const loop::Kernel& k, bool where, bool positive) {
  std::vector<pock_kernel_argument> all;
  uint32_t tensors = 0;  // schedules change what workspace there is
  for (const loop::BufferRef& b : k.args) {
    pock_kernel_argument a{};
    a.bytes = (b->type.bytes() + POCK_KERNEL_ALIGNMENT - 1) / POCK_KERNEL_ALIGNMENT * POCK_KERNEL_ALIGNMENT;
    a.fill = POCK_FILL_UNSET;
    if (b->space != Space::workspace) a.seed = ++tensors;
    if (b->space == Space::in || b->space == Space::inout) a.fill = fill_of(b->type, where, positive);
    if (b->space == Space::out || b->space == Space::inout)
      a.result = b->type.dtype == DType::f32 ? POCK_RESULT_FLOATS : POCK_RESULT_BITS;
    all.push_back(a);
  }
  return all;
}

// ---- What the interpreter makes of them

class Interpreted {
 public:
  Interpreted(const loop::Kernel& k, const std::vector<pock_kernel_argument>& arguments)
      : arguments_(arguments) {
    uint64_t bytes = POCK_KERNEL_ALIGNMENT;
    for (const pock_kernel_argument& a : arguments) bytes += a.bytes;
    memory_.resize(bytes / sizeof(uint64_t) + 1);
    char* at = reinterpret_cast<char*>(memory_.data());
    std::vector<void*> pointers;
    for (const pock_kernel_argument& a : arguments) {
      places_.push_back(at);
      pointers.push_back(at);
      pock_fill_argument(at, &a);
      at += a.bytes;
    }
    loop::interpret(k, pointers);
  }

  uint32_t digest() const {
    uint32_t digest = 0;
    for (size_t i = 0; i < places_.size(); ++i)
      if (arguments_[i].result) digest = pock_digest_argument(places_[i], &arguments_[i], digest);
    return digest;
  }

  bool any_nan(const loop::Kernel& k) const {
    for (size_t i = 0; i < places_.size(); ++i) {
      if (arguments_[i].result != POCK_RESULT_FLOATS) continue;
      const auto* floats = reinterpret_cast<const float*>(places_[i]);
      if (std::any_of(floats, floats + k.args[i]->type.bytes() / 4, [](float x) { return x != x; }))
        return true;
    }
    return false;
  }

 private:
  const std::vector<pock_kernel_argument>& arguments_;
  std::vector<uint64_t> memory_;
  std::vector<char*> places_;
};

struct Expected {
  std::vector<pock_kernel_argument> arguments;  // of the scheduled kernel
  uint32_t digest;
};

// Of numbers above zero alone, where others give a result that is none: a root, say, of a sum of squares.
Expected expect(const CompiledKernel& k) {
  const bool where = depends_on_data(k.plain.body);
  for (bool positive : {false, true}) {
    const std::vector<pock_kernel_argument> arguments = arguments_of(k.plain, where, positive);
    const Interpreted run(k.plain, arguments);
    if (positive || !run.any_nan(k.plain)) return {arguments_of(k.scheduled, where, positive), run.digest()};
  }
  POCK_CHECK(false, "there is a last try");
}

// ---- The emulator

struct Block {
  uint64_t address, instructions, runs;
};

// Of the programs of a machine that has no emulator among its facts: x86-64, as far as the emulator knows its vectors.
std::vector<std::string> emulator_of(const Target& t) {
  if (!t.emulator.empty()) return t.emulator;
  if (t.features.find("avx512") != std::string::npos) return {};
  return {"qemu-x86_64", "-cpu", "max"};
}

// Its standard output. Throws Error with what it said where it did not end well.
std::string run(const std::vector<std::string>& command, const TemporaryFolder& folder) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const std::string out = folder.file("out"), problems = folder.file("err");
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&files, 2, problems.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, words[0], &files, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed == ENOENT)
    throw error("counting needs {}, which is not installed here (packages qemu-user and qemu-system-arm)",
                command[0]);
  if (failed) throw error("{} cannot be run: {}", command[0], std::strerror(failed));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw error("the kernels did not run in {} (status {}): {}", command[0],
                WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), read_file(problems));
  return read_file(out);
}

struct Ran {
  std::vector<uint32_t> digests;
  std::optional<std::vector<Block>> blocks;
};

Ran run_program(const Target& target, const std::string& file) {
  const TemporaryFolder folder;
  const std::string program = folder.file("kernels"), log = folder.file("log");
  write_file(program, file);
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  std::vector<std::string> command = emulator_of(target);
  const bool counts = !command.empty();
  if (counts) {
    const std::string plugin = folder.file("count.so");
    write_file(plugin, counting_plugin());
    const std::vector<std::string> options = {"-plugin", plugin, "-d", "plugin", "-D", log};
    command.insert(command.begin() + 1, options.begin(), options.end());
  } else if (!runs_here(target)) {
    throw error("no emulator knows {}, and this machine does not have its vectors: take --cpu x86-64-v3",
                target.cpu);
  }
  command.push_back(program);

  Ran result;
  std::istringstream lines(run(command, folder));
  for (uint32_t digest = 0; lines >> std::hex >> digest;) result.digests.push_back(digest);
  if (counts) {
    result.blocks.emplace();
    std::istringstream text(read_file(log));
    for (Block b{}; text >> std::hex >> b.address >> b.instructions >> b.runs;) result.blocks->push_back(b);
  }
  return result;
}

int64_t executed(const std::vector<Block>& blocks, const KernelCode& code) {
  int64_t n = 0;
  for (const Block& b : blocks)
    for (const auto& [first, end] : code.ranges)
      if (b.address >= first && b.address < end) n += static_cast<int64_t>(b.instructions * b.runs);
  return n;
}

void check_fits(const Program& program, const std::vector<std::vector<pock_kernel_argument>>& arguments,
                int64_t stack) {
  const Target& target = program.options.target;
  if (!target.bare()) return;
  constexpr int64_t kRest = 16 << 10;  // the list of arguments, and what is static
  for (size_t i = 0; i < arguments.size(); ++i) {
    const int64_t bytes = std::accumulate(
        arguments[i].begin(), arguments[i].end(), stack + kRest,
        [](int64_t n, const pock_kernel_argument& a) { return n + static_cast<int64_t>(a.bytes); });
    if (bytes > static_cast<int64_t>(target.board.ram.bytes))
      throw error(
          "board {} has {} bytes of RAM, and to run kernel {} by itself takes {}: take a smaller batch",
          target.board.name, target.board.ram.bytes, program.kernels[i].plain.name, bytes);
  }
}

}  // namespace

std::vector<KernelCount> count_kernels(const Program& program) {
  std::vector<std::vector<pock_kernel_argument>> arguments;
  std::vector<uint32_t> digests;
  for (const CompiledKernel& k : program.kernels) {
    Expected e = expect(k);
    arguments.push_back(std::move(e.arguments));
    digests.push_back(e.digest);
  }
  const KernelProgram made = kernel_program(program, arguments);
  check_fits(program, arguments, made.stack_bytes);
  const Ran ran = run_program(program.options.target, made.file);
  POCK_CHECK(ran.digests.size() == digests.size(), "{} of {} kernels ran", ran.digests.size(),
             digests.size());
  std::vector<KernelCount> counts;
  for (size_t i = 0; i < digests.size(); ++i) {
    const KernelCode& code = made.kernels[i];
    KernelCount& c = counts.emplace_back();
    if (ran.blocks) c.instructions = executed(*ran.blocks, code);
    c.code_bytes = code.bytes();
    c.stack_bytes = code.stack_bytes;
    c.spills = code.spills;
    c.right = ran.digests[i] == digests[i];
  }
  return counts;
}

int64_t multiply_accumulates(const KernelUse& use) {
  int64_t n = 0;
  for (const Node* node : use.nodes) {
    const std::string_view op = node->op->name.text;
    const auto elements = [&](const Value* v) { return v->type.elements(); };
    if (op == "matmul")
      n += elements(node->out()) * node->in(0)->type.dim(node->integer("transpose_a") ? -2 : -1);
    if (op == "conv") n += elements(node->out()) * (elements(node->in(1)) / node->in(1)->type.dim(0));
    if (op == "conv_input_grad")
      n += elements(node->in(0)) * (elements(node->in(1)) / node->in(1)->type.dim(0));
    if (op == "conv_weight_grad")
      n += elements(node->in(0)) * (elements(node->out()) / node->out()->type.dim(0));
  }
  return n;
}

}  // namespace pock
