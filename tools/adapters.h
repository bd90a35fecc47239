// The adapters in a checkpoint.
//
//   Tuning tuning = merged(read_checkpoint("tuned.safetensors"));   // for export_onnx()
#pragma once

#include "checkpoint.h"
#include "pock/frontends/export.h"
#include "pock/passes/scheme.h"

namespace pock {

// How the program and its checkpoints tell of them: as JSON, or "none".
std::string adapters_json(const std::vector<Adapter>&);

// What is to become of the model: alpha / rank times B A is added to the weight of each adapter, the rest takes its
// place. Throws an Error where the checkpoint lacks a factor, or two do not fit.
Tuning merged(const Checkpoint&);

// A safetensors file as PEFT reads it: factors, and what was trained beside them, as parts of base_model.model.
std::vector<std::string_view> peft_parts(const Checkpoint&, std::string* head);

}  // namespace pock
