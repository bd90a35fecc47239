#include "pock/codegen/runtime_bitcode.h"

// The assembler copies each file in; CMake rebuilds this source when one changes.
#define POCK_EMBED(symbol, file)       \
  asm(".section .rodata\n"             \
      ".balign 16\n" #symbol           \
      "_begin:\n"                      \
      ".incbin \"" file "\"\n" #symbol \
      "_end:\n"                        \
      ".text\n");                      \
  extern "C" __attribute__((visibility("hidden"))) const char symbol##_begin[], symbol##_end[]

// Each runtime that CMake builds: POCK_RUNTIME(symbol, "name", "file").
#define POCK_RUNTIME(symbol, name, file) POCK_EMBED(pock_runtime_##symbol, file);
#include "runtimes.inc"
#undef POCK_RUNTIME
POCK_EMBED(pock_library_template, POCK_LIBRARY_TEMPLATE);

namespace pock {
namespace {
std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}
}  // namespace

std::string_view library_template() {
  return between(pock_library_template_begin, pock_library_template_end);
}

std::string_view runtime_bitcode(std::string_view runtime_name) {
#define POCK_RUNTIME(symbol, name, file) \
  if (runtime_name == name) return between(pock_runtime_##symbol##_begin, pock_runtime_##symbol##_end);
#include "runtimes.inc"
#undef POCK_RUNTIME
  return {};
}

}  // namespace pock
