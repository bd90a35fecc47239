// What the fuzz targets share. A target is a function over bytes that may be anything: it either takes them or
// refuses them with a reason. Everything else (a crash, another exception, a broken promise, too much time or
// memory) ends the process, and that is a finding.
//
//   extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
//     std::unique_ptr<Graph> g;
//     if (accepted([&] { g = parse_graph(text_of(bytes, size)); })) must(print(*g) == again, "prints alike");
//     return 0;
//   }
//
// Built with clang's libFuzzer (preset `fuzz`) it is a fuzzer, else it replays the files given to it (replay.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "pock/support/diag.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size);

namespace pock::fuzz {

inline std::string text_of(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

[[noreturn]] inline void finding(const char* what) {
  std::fprintf(stdout, "finding: %s\n", what);
  std::fflush(stdout);
  std::abort();
}

inline void must(bool holds, const char* what) {
  if (!holds) finding(what);
}

// False where `f` refuses with an Error that says something.
template <class F>
bool accepted(F&& f) {
  try {
    f();
    return true;
  } catch (const Error& e) {
    must(*e.what() != '\0', "an Error without words");
    return false;
  } catch (const std::exception& e) {
    finding(e.what());
  }
}

}  // namespace pock::fuzz
