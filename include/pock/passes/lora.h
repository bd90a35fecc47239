// LoRA (Hu, 2021): beside a layer W x that stays as it is, two small factors are trained,
//
//   W x + alpha / rank * B (A x)
//
// with A [rank,in] and B [out,rank] whichever way W lies; beside a convolution A [rank,in,...] is one like it to `rank`
// channels, and B [out,rank,1,...] one of single taps. So W + alpha / rank * B A computes the same without them.
//
//   std::vector<Value*> factors = add_adapters(g, trained_by(scheme, g, reach).adapters, seed);
#pragma once

#include <string>
#include <vector>

#include "pock/passes/scheme.h"

namespace pock {

// What PEFT calls the factors in the files it writes: base_model.model.fc1.lora_A.weight of fc1.weight.
inline constexpr const char* kPeftModel = "base_model.model.";
struct LoraNames {
  std::string a, b;
};
LoraNames lora_names(const std::string& weight);

// What merging has to know.
struct LoraForm {
  int64_t rank;
  double alpha;
  bool inputs_first;  // W is [in,out]
};
LoraForm form_of(const Adapter&);

// Adds nodes and factors, and returns these: A and B of the first, then of the second. A is Kaiming uniform (a = sqrt 5,
// as in PEFT) by the seed, B is 0. Throws an Error where the model has a tensor of such a name.
std::vector<Value*> add_adapters(Graph&, const std::vector<Adapter>&, uint64_t seed);

}  // namespace pock
