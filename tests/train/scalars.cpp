#include "train/scalars.h"

#include <cmath>

#include "pock/loop/build.h"

namespace pock::test {

void set_scalars(const Graph& g, const ScalarFormulas& formulas, int step, Memory* memory) {
  std::vector<double> hypers = formulas.values;
  hypers.insert(hypers.end(), {static_cast<double>(step), 1});
  for (const auto& [name, formula] : formulas.formulas) {
    loop::KernelBuilder k("scalar");
    k.arg("hypers", formulas.buffer->type, loop::Space::in);
    loop::BufferRef out = k.arg("out", {DType::f64, {}}, loop::Space::out);
    k.store(out, {}, formula);
    double value = 0;
    loop::Kernel kernel = k.take();
    kernel.args[0] = formulas.buffer;
    loop::interpret(kernel, {hypers.data(), &value});
    if (const Value* v = g.find(name)) memory->set(v, std::vector<double>{value});
  }
  const double words[] = {0, 0, static_cast<double>(step)};  // --seed 0
  for (size_t i = 0; i < std::size(words); ++i)
    if (const Value* v = g.find(kRandomWords[i])) memory->set(v, std::vector<double>{words[i]});
}

}  // namespace pock::test
