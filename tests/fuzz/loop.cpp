// Kernels as text: refused with a reason, or a kernel that prints as it was read.
#include "pock/loop/loop.h"

#include "target.h"

using namespace pock;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  loop::Kernel kernel;
  if (!fuzz::accepted([&] { kernel = loop::parse_kernel(fuzz::text_of(bytes, size), "fuzz.loop"); }))
    return 0;
  std::string text = loop::print(kernel), again;
  fuzz::must(fuzz::accepted([&] { again = loop::print(loop::parse_kernel(text, "printed.loop")); }),
             "what was printed is refused");
  fuzz::must(again == text, "what was printed reads as something else");
  return 0;
}
