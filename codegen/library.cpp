#include "library.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint.h"
#include "pock/codegen/runtime_bitcode.h"
#include "pock/support/diag.h"
#include "tables.h"

namespace pock {
namespace {

constexpr std::string_view kPrefix = "pock_lib";  // what the template has in the place of the library's name

// On one line, whatever is in it.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// PREFIX_NAME as a C name that was not taken before.
std::string c_name(const std::string& prefix, const std::string& name, std::set<std::string>* taken) {
  std::string wish = prefix + "_";
  for (unsigned char c : name) wish += c < 128 && std::isalnum(c) ? static_cast<char>(c) : '_';
  std::string result = wish;
  for (int n = 2; !taken->insert(result).second; ++n) result = fmt::format("{}_{}", wish, n);
  return result;
}

const char* c_type(DType t) {
  switch (t) {
    case DType::f32:
      return "float";
    case DType::f64:
      return "double";
    case DType::i8:
      return "int8_t";
    case DType::i32:
      return "int32_t";
    case DType::i64:
      return "int64_t";
    default:
      return "uint8_t";
  }
}

int64_t block_bytes(int64_t n) { return std::max(n, kBlockAlignment); }

// No text of a checkpoint's header is longer: a character takes six at most, a number 20.
int64_t text_bytes(const std::string& s) { return 6 * static_cast<int64_t>(s.size()) + 2; }

int64_t entry_bytes(const TensorRow& r) {
  return text_bytes(r.name) + text_bytes(r.slot) + 128 + 21 * r.value->type.rank();
}

// What reading a checkpoint takes: pock_checkpoint_scratch() and a table of offsets.
int64_t reading_bytes(const Program& p) {
  int64_t longest = std::max({text_bytes(p.options.scheme), text_bytes(p.options.adapters),
                              text_bytes(p.options.recipe.optimizer.name)});
  const std::vector<TensorRow> rows = tensor_rows(p);
  for (const TensorRow& r : rows) longest = std::max(longest, entry_bytes(r));
  return longest + 64 + static_cast<int64_t>(rows.size() * sizeof(uint64_t));
}

int64_t save_bytes(const Program& p) {
  int64_t bytes = 2048 + text_bytes(p.options.model_name) + text_bytes(p.options.scheme) +
                  text_bytes(p.options.adapters) + text_bytes(p.options.recipe.optimizer.name);
  for (const TensorRow& r : tensor_rows(p))
    if (r.role != POCK_FROZEN) bytes += entry_bytes(r) + r.value->type.bytes();
  return bytes;
}

std::string inputs_text(const Program& p) {
  std::string text;
  std::set<std::string> taken;
  const std::vector<InputRow> rows = input_rows(p);
  const auto labels = std::count_if(rows.begin(), rows.end(), [](const InputRow& r) { return r.label; });
  for (const InputRow& r : rows) {
    const std::string name = !r.label     ? c_name("in", r.name, &taken)
                             : labels > 1 ? c_name("labels", r.name, &taken)
                                          : "labels";
    text += fmt::format("  const {}* {};  // {} {}{}", c_type(r.train->type.dtype), name,
                        to_string(r.train->type.dims), r.label ? "of output " : "", quoted(r.name));
    if (r.ids.classes)
      text += fmt::format(", {} from {} to {}", r.ids.lowest ? "numbers" : "class ids", r.ids.lowest,
                          r.ids.classes - 1);
    if (r.ids.ignored != INT64_MIN) text += fmt::format(", {} is ignored", r.ids.ignored);
    text += '\n';
  }
  return text;
}

std::string outputs_text(const Program& p) {
  std::string text;
  std::set<std::string> taken;
  for (const OutputRow& r : output_rows(p))
    text += fmt::format("  const {}* {};  // {} {}\n", c_type(r.value->type.dtype),
                        c_name("out", r.name, &taken), to_string(r.value->type.dims), quoted(r.name));
  return text;
}

// Of what its gradients are; parts of parameters as NAME[AXIS:CHANNELS].
std::string kept_text(const Program& p) {
  return gradient_rows(p).empty() ? "" : fmt::format("// Trained: {}\n", quoted(p.options.scheme));
}

std::string hypers_text(const Program& p) {
  std::string text;
  const ScalarFormulas formulas = scalar_formulas(p.options.recipe);
  for (size_t i = 0; i < formulas.hypers.size(); ++i)
    text += fmt::format("  double {};  // {}\n", formulas.hypers[i].name, formulas.values[i]);
  return text;
}

// What is worth knowing where there is a few KiB of it.
std::string stack_text(const Program& p) {
  if (!p.image.stack) return "";
  return fmt::format(
      "// And of the stack, at its deepest, without what parallel_for itself takes.\n#define {}_STACK_BYTES "
      "{}\n",
      p.options.library, p.image.stack);
}

}  // namespace

int64_t library_arena_bytes(const Program& p) {
  return block_bytes(std::max(p.arena_bytes(), reading_bytes(p)));
}

std::string library_header(const Program& p) {
  const std::string& lib = p.options.library;
  const std::map<std::string, std::string> filled = {
      {"head",
       fmt::format("// Trains {1} in batches of {2}, with {3} and {4}.\n"
                   "// Written by pockc {5} for {6}. Link with lib{0}.a, which needs nothing else.\n{7}",
                   lib, quoted(p.options.model_name), p.batch, to_string(p.options.losses),
                   p.options.recipe.optimizer.name, POCK_VERSION, p.options.target.cpu, kept_text(p))},
      {"constants",
       fmt::format("// Samples in a batch, tensors, and bytes: of the blocks and their alignment, and of the "
                   "longest checkpoint and of a slot.\n"
                   "#define {0}_BATCH {1}\n#define {0}_TENSORS {2}\n#define {0}_ALIGN {3}\n"
                   "#define {0}_ARENA_BYTES {4}\n#define {0}_PARAMS_BYTES {5}\n#define {0}_STATE_BYTES {6}\n"
                   "#define {0}_SAVE_BYTES {7}\n#define {0}_SLOT_BYTES {8}\n{9}",
                   lib, p.batch, tensor_rows(p).size() + gradient_rows(p).size(), kBlockAlignment,
                   library_arena_bytes(p), block_bytes(p.params.bytes), block_bytes(p.state.bytes),
                   save_bytes(p), POCK_SLOT_HEAD + p.params.bytes + p.state.bytes, stack_text(p))},
      {"hypers", hypers_text(p)},
      {"internal", fmt::format("  float internal[{}];\n", 1 + p.train->scalars().size())},
      {"terms", fmt::format("  double terms[{}];\n", 2 * loss_rows(p).size())},
      {"batch", inputs_text(p)},
      {"outputs", outputs_text(p)}};
  std::string text;
  for (std::string_view rest = library_template(); !rest.empty();) {
    std::string line(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (size_t mark = line.find("//@"); mark != std::string::npos) {
      text += filled.at(line.substr(mark + 3));
      continue;
    }
    for (size_t at = 0; (at = line.find(kPrefix, at)) != std::string::npos; at += lib.size())
      line.replace(at, kPrefix.size(), lib);
    text += line + '\n';
  }
  return text;
}

}  // namespace pock
