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

POCK_EMBED(pock_runtime_x86_64_linux, POCK_RUNTIME_X86_64_LINUX);
POCK_EMBED(pock_runtime_aarch64_linux, POCK_RUNTIME_AARCH64_LINUX);
POCK_EMBED(pock_runtime_x86_64_library, POCK_RUNTIME_X86_64_LIBRARY);
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
  if (runtime_name == "x86_64-linux")
    return between(pock_runtime_x86_64_linux_begin, pock_runtime_x86_64_linux_end);
  if (runtime_name == "aarch64-linux")
    return between(pock_runtime_aarch64_linux_begin, pock_runtime_aarch64_linux_end);
  if (runtime_name == "x86_64-library")
    return between(pock_runtime_x86_64_library_begin, pock_runtime_x86_64_library_end);
  return {};
}

}  // namespace pock
