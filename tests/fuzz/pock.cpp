// Graphs as text, all the way to a memory plan: refused with a reason, or a sound graph that prints as it was
// read and that the passes turn into a training step.
#include "compile.h"
#include "pock/ir/text.h"
#include "pock/ir/verify.h"
#include "target.h"

using namespace pock;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::unique_ptr<Graph> g;
  if (!fuzz::accepted([&] { g = parse_graph(fuzz::text_of(bytes, size), "fuzz.pock"); })) return 0;
  fuzz::must(find_fault(*g).empty(), "a parsed graph has a fault");
  std::string text = print(*g), again;
  fuzz::must(fuzz::accepted([&] { again = print(*parse_graph(text, "printed.pock")); }),
             "what was printed is refused");
  fuzz::must(again == text, "what was printed reads as something else");
  fuzz::compile(*g);
  return 0;
}
