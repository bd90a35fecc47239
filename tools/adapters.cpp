#include "adapters.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "pock/passes/lora.h"
#include "pock/support/diag.h"

namespace pock {
namespace {

using json = nlohmann::ordered_json;

const char* const kNoAdapters = "none";

std::map<std::string, LoraForm> parse(const std::string& text) {
  std::map<std::string, LoraForm> forms;
  if (text == kNoAdapters) return forms;
  const json all = json::parse(text, nullptr, false);
  for (const auto& [name, form] : all.items()) {
    if (!form.is_object() || !form.value("rank", json()).is_number_integer() ||
        !form.value("alpha", json()).is_number() || !form.value("inputs_first", json()).is_boolean())
      throw error("the checkpoint does not say what rank and alpha the adapter of '{}' has", name);
    forms[name] = {form["rank"], form["alpha"], form["inputs_first"]};
  }
  if (forms.empty()) throw error("the checkpoint does not say what adapters it has");
  return forms;
}

std::vector<float> numbers(const StoredTensor& t) {
  std::vector<float> values(t.bytes.size() / sizeof(float));
  std::memcpy(values.data(), t.bytes.data(), values.size() * sizeof(float));
  return values;
}

// alpha / rank * B A, as the weight lies.
Tuning::Sum product(const std::string& weight, const LoraForm& form, const StoredTensor& a,
                    const StoredTensor& b) {
  const bool good = form.rank > 0 && a.dtype == "F32" && b.dtype == "F32" && a.dims.size() >= 2 &&
                    b.dims.size() == a.dims.size() && a.dims[0] == form.rank && b.dims[1] == form.rank &&
                    b.bytes.size() == static_cast<size_t>(b.dims[0] * form.rank) * sizeof(float) &&
                    (!form.inputs_first || a.dims.size() == 2);
  if (!good)
    throw error("the adapter of '{}' has factors {} and {}, which do not make one of rank {}", weight,
                to_string(a.dims), to_string(b.dims), form.rank);
  const std::vector<float> as = numbers(a), bs = numbers(b);
  const auto rank = static_cast<size_t>(form.rank), out = static_cast<size_t>(b.dims[0]),
             in = as.size() / rank;
  const double scale = form.alpha / static_cast<double>(form.rank);
  Tuning::Sum sum{a.dims, std::vector<double>(out * in)};
  sum.dims[0] = b.dims[0];
  if (form.inputs_first) std::swap(sum.dims[0], sum.dims[1]);
  for (size_t o = 0; o < out; ++o)
    for (size_t i = 0; i < in; ++i) {
      double x = 0;
      for (size_t r = 0; r < rank; ++r) x += static_cast<double>(bs[o * rank + r]) * as[r * in + i];
      sum.elements[form.inputs_first ? i * out + o : o * in + i] = scale * x;
    }
  return sum;
}

}  // namespace

std::string adapters_json(const std::vector<Adapter>& adapters) {
  if (adapters.empty()) return kNoAdapters;
  json all;
  for (const Adapter& a : adapters) {
    const LoraForm form = form_of(a);
    all[a.layer.weight->name] = {
        {"rank", form.rank}, {"alpha", form.alpha}, {"inputs_first", form.inputs_first}};
  }
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

Tuning merged(const Checkpoint& checkpoint) {
  Tuning tuning{checkpoint.tensors};
  Report report;
  for (const auto& [weight, form] : parse(checkpoint.adapters))
    report.collect([&, &weight = weight, &form = form] {
      const LoraNames names = lora_names(weight);
      const auto a = tuning.tensors.find(names.a), b = tuning.tensors.find(names.b);
      for (const auto& [factor, name] : {std::pair(a, names.a), {b, names.b}})
        if (factor == tuning.tensors.end())
          throw error("the checkpoint has no '{}', which belongs to the adapter of '{}'", name, weight);
      tuning.added[weight] = product(weight, form, a->second, b->second);
      tuning.tensors.erase(a);
      tuning.tensors.erase(b);
    });
  report.throw_if_any();
  return tuning;
}

std::vector<std::string_view> peft_parts(const Checkpoint& checkpoint, std::string* head) {
  if (parse(checkpoint.adapters).empty())
    throw error("--adapters: the checkpoint has none; they are made where a scheme has [[lora]]");
  std::vector<std::pair<std::string, StoredTensor>> tensors;
  for (const auto& [name, t] : checkpoint.tensors)
    tensors.emplace_back((name.starts_with(kPeftModel) ? "" : kPeftModel) + name, t);
  *head = safetensors_head(tensors, {{"format", "pt"}, {"adapters", checkpoint.adapters}});
  std::vector<std::string_view> parts = {*head};
  for (const auto& [name, t] : tensors) parts.push_back(t.bytes);
  return parts;
}

}  // namespace pock
