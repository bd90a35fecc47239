// pockc inspect: what it says of every model, above all of those that cannot be compiled.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/support.h"

namespace pock::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Strings = std::vector<std::string>;

const fs::path kTests = fs::path(kSourceDir) / "tests";

Ran inspect(const fs::path& model, Strings more = {}) {
  Strings argv = {kPockc, "inspect", model.filename()};
  argv.insert(argv.end(), more.begin(), more.end());
  return run(argv, model.parent_path());
}

json inspect_json(const fs::path& model, Strings more = {}) {
  more.push_back("--json");
  Ran ran = inspect(model, more);
  EXPECT_EQ(ran.status, 0) << ran.err;
  return json::parse(ran.out);
}

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
}

TEST(Inspect, SaysWhatIsInAModel) {
  Ran ran = inspect(kTests / "train/bn_cnn/model.onnx");
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  for (const char* part :
       {"model.onnx: ONNX, IR version 7, opset ai.onnx 13, written by pytorch\n",
        "inputs:\n  'x' float[N,3,19,17]\noutputs:\n  'logits' float[N,7]\n",
        "size N is open, taken as 2 here\n", "parameters: 12 of 6664 elements, stored as 12 float\n",
        "\n  'conv1.weight' float[12,3,3,3]\n", "running statistics: 6 of 94 elements",
        "  count  version  name\n      3        9  BatchNormalization\n", "\nsupported: yes\ntrains: yes\n"})
    expect_has(ran.out, part);

  json s = inspect_json(kTests / "train/bn_cnn/model.onnx", {"--batch", "4"});
  EXPECT_EQ(s["supported"], true);
  EXPECT_EQ(s["trains"], true);
  EXPECT_EQ(s["opsets"], json({{"ai.onnx", 13}}));
  EXPECT_EQ(s["inputs"], json::parse(R"([{"name": "x", "type": "float", "shape": ["N", 3, 19, 17]}])"));
  EXPECT_EQ(s["outputs"][0]["shape"], json::parse(R"(["N", 7])"));
  EXPECT_EQ(s["sizes_taken"], json({{"N", 4}}));
  EXPECT_EQ(s["parameters"]["count"], 12);
  EXPECT_EQ(s["parameters"]["elements"], 6664);
  EXPECT_EQ(s["parameters"]["tensors"][0],
            json::parse(R"({"name": "conv1.weight", "type": "float", "shape": [12,3,3,3]})"));
  EXPECT_EQ(s["statistics"]["count"], 6);
  EXPECT_EQ(
      s["operators"][1],
      json::parse(R"({"domain": "ai.onnx", "name": "Conv", "version": 11, "count": 3, "supported": true})"));
  for (const char* key : {"problems", "refusals", "without_gradient", "sizes_open", "notes"})
    EXPECT_EQ(s[key], json::array());
}

TEST(Inspect, EveryUnsupportedOperatorIsNamedWithItsReason) {
  json s = inspect_json(kTests / "errors/unknown_ops.onnx");
  EXPECT_EQ(s["supported"], false);
  EXPECT_EQ(s["trains"], false);
  ASSERT_EQ(s["problems"].size(), 4u);
  const char* names[] = {"branch_a", "branch_b", "branch_c"};
  const char* operators[] = {"FusedMatMul", "Inverse", "Sparkle"};
  for (int i = 0; i < 3; ++i) {
    const json& p = s["problems"][i];
    EXPECT_EQ(p["what"], "node");
    EXPECT_EQ(p["name"], names[i]);
    EXPECT_EQ(p["operator"], operators[i]);
    expect_has(p["why"], "is unknown");
    EXPECT_EQ(p["freezing_helps"], false);
  }
  expect_has(s["problems"][3]["why"], "export the model again without it");
  int unsupported = 0;
  for (const json& o : s["operators"]) {
    EXPECT_EQ(o["supported"], o["version"] != 0);
    unsupported += o["supported"] == false;
  }
  EXPECT_EQ(unsupported, 3);
  EXPECT_EQ(s["parameters"]["count"], 2) << "what there is, is said all the same";

  Ran ran = inspect(kTests / "errors/unknown_ops.onnx");
  EXPECT_EQ(ran.status, 0);
  expect_has(ran.out, "      1        -  com.microsoft.FusedMatMul: not supported\n");
  expect_has(ran.out, "supported: no, for 4 reasons; all are needed forwards, so freezing does not help:\n");
  expect_has(ran.out, "  node 'branch_b' (Inverse): operator Inverse of domain ai.onnx.contrib is unknown\n");
}

// Where only the gradient is missing, freezing helps; and what is said of it is what compile does.
TEST(Inspect, OperatorsWithoutAGradientAskForFrozenParameters) {
  const fs::path model = kTests / "cli/step.onnx";
  json s = inspect_json(model);
  EXPECT_EQ(s["supported"], true);
  ASSERT_EQ(s["without_gradient"].size(), 1u);
  const json& stop = s["without_gradient"][0];
  EXPECT_EQ(stop["node"], "the \"step\"\nhere");
  EXPECT_EQ(stop["operator"], "Round");
  EXPECT_EQ(stop["freezing_helps"], true);
  EXPECT_EQ(stop["freeze"], json({"below"}));
  expect_has(stop["why"], "step function");

  Ran ran = inspect(model);
  expect_has(ran.out,
             "no gradient: 'the \"step\"\\x0ahere' (Round): it is a step function: its derivative is 0 "
             "wherever there "
             "is one; freezing what is in front of it avoids the need, and is done by itself: 'below'\n");
  TempDir dir;
  Ran compiled = run({kPockc, "compile", model, "--batch", "2", "--loss", "mse", "-o", dir / "t"});
  EXPECT_EQ(compiled.status, 0);
  expect_has(compiled.err, "trained: 1 of 2 parameters: above");
}

// What can be read and yet not be trained, for reasons of the model's own.
TEST(Inspect, WhatCompileWouldRefuseOfAModelDoesNotTrain) {
  struct {
    const char* model;
    Strings sizes;
    const char* why;
  } cases[] = {{"errors/only_shape_constants.onnx", {}, "nothing to train"},
               {"cli/scalar_input.onnx", {}, "has no axis for the samples"},
               {"cli/unbatched_input.onnx", {}, "holds 1 samples"},
               {"cli/labels_input.onnx", {}, "rename it in the model"},
               {"errors/batch_norm_one_value.onnx", {"--batch", "1"}, "more than one value a channel"},
               {"cli/step.onnx", {"--batch", "2147483648"}, "at most 2147483647 samples"}};
  for (const auto& [model, sizes, why] : cases) {
    json s = inspect_json(kTests / model, sizes);
    EXPECT_EQ(s["supported"], true) << model;
    EXPECT_EQ(s["trains"], false) << model;
    ASSERT_EQ(s["refusals"].size(), 1u) << model;
    expect_has(s["refusals"][0]["why"], why);
    Ran ran = inspect(kTests / model, sizes);
    EXPECT_EQ(ran.status, 0) << model;
    EXPECT_EQ(ran.err, "") << model;
    expect_has(ran.out, "supported: yes\ntrains: not by itself:\n");
    expect_has(ran.out, why);
    TempDir dir;
    Strings argv = {kPockc, "compile", kTests / model, "--loss", "mse", "-o", dir / "t"};
    const Strings given = sizes.empty() ? Strings{"--batch", "2"} : sizes;
    argv.insert(argv.end(), given.begin(), given.end());
    Ran compiled = run(argv);
    EXPECT_EQ(compiled.status, 1) << model;
    expect_has(compiled.err, why);
  }
  EXPECT_EQ(inspect_json(kTests / "errors/batch_norm_one_value.onnx")["trains"], true) << "of two samples";
}

TEST(Inspect, TheBatchOfTheFileIsANote) {
  const Strings read = {"batch_one_lost.onnx: was exported for a batch of 1 and is read with 4"};
  json s = inspect_json(kTests / "errors/batch_one_lost.onnx", {"--batch", "4"});
  EXPECT_EQ(s["notes"], json(read));
  ASSERT_EQ(s["problems"].size(), 1u);
  EXPECT_EQ(s["problems"][0]["name"], "view");
  Ran ran = inspect(kTests / "errors/batch_one_lost.onnx", {"--batch", "4"});
  expect_has(ran.out, "note: " + read[0] + "\n");
  expect_has(ran.out, "supported: no, for 1 reason;");
}

TEST(Inspect, OpenSizesAreNoProblem) {
  const fs::path model = kTests / "errors/symbolic_unbound.onnx";
  json s = inspect_json(model);
  EXPECT_EQ(s["sizes_open"], json({"H", "W"}));
  EXPECT_EQ(s["sizes_taken"], json({{"N", 2}}));
  EXPECT_EQ(s["problems"], json::array());
  EXPECT_EQ(s["trains"], json()) << "not known";
  expect_has(inspect(model).out, "supported: as far as can be told without --dim H=SIZE --dim W=SIZE\n");
  s = inspect_json(model, {"--dim", "H=6", "--dim", "W=6", "--batch", "3"});
  EXPECT_EQ(s["sizes_open"], json::array());
  EXPECT_EQ(s["sizes_taken"], json({{"H", 6}, {"N", 3}, {"W", 6}}));
}

TEST(Inspect, OddNamesAreWhatTheyAre) {
  const fs::path model = kTests / "errors/odd_names.onnx";
  json s = inspect_json(model);
  EXPECT_EQ(s["inputs"][0]["name"], "in put/\"0\"");
  Strings names;
  for (const json& t : s["parameters"]["tensors"]) names.push_back(t["name"]);
  EXPECT_EQ(names, (Strings{"a b/c\\d.weight", "conv1.bias", "conv2.weight", "fc.weight", "it's"}));
  expect_has(inspect(model).out, "  'a b/c\\d.weight' float[4,3,3,3]\n");
}

// One output with a loss is enough, as it is for compiling.
TEST(Inspect, AnOutputWithoutSamplesDoesNotStopTheOthers) {
  const fs::path model = kTests / "cli/constant_output.onnx";
  json s = inspect_json(model);
  EXPECT_EQ(s["trains"], true) << s["refusals"];
  EXPECT_EQ(s["refusals"], json::array());
  TempDir dir;
  const std::string out = dir / "t";
  Ran compiled = run({kPockc, "compile", model, "--batch", "2", "--loss", "cross-entropy", "-o", out});
  EXPECT_EQ(compiled.status, 0) << compiled.err;
}

TEST(Inspect, ANewerOpsetIsAProblemOrAssumedAway) {
  const fs::path model = kTests / "errors/future_opset.onnx";
  json s = inspect_json(model);
  EXPECT_EQ(s["supported"], false);
  expect_has(s["problems"][0]["why"], "--assume-opset");
  EXPECT_GT(s["operators"].size(), 0u);
  EXPECT_EQ(inspect_json(model, {"--assume-opset", "26"})["supported"], true);
}

// All bad models: those that are no model at all are refused, all others described, with every message that compile has
// for them.
TEST(Inspect, BadModelsAreDescribedOrRefused) {
  int refused = 0, described = 0;
  for (const json& entry : json::parse(read_file(kTests / "errors/manifest.json"))) {
    const std::string file = entry["file"];
    Strings sizes, args = entry["args"];
    for (size_t i = 0; i + 1 < args.size(); ++i)
      if (args[i] == "--batch" || args[i] == "--dim") sizes.insert(sizes.end(), {args[i], args[i + 1]});
    Ran text = inspect(kTests / "errors" / file, sizes);
    sizes.push_back("--json");
    Ran ran = inspect(kTests / "errors" / file, sizes);
    ASSERT_EQ(ran.status, text.status) << file;
    fs::path recorded = (kTests / "errors" / file).replace_extension(".txt");
    const std::string message = fs::exists(recorded) ? read_file(recorded) : "";
    if (ran.status != 0) {
      EXPECT_EQ(ran.status, 1) << file;
      EXPECT_EQ(ran.out + text.out, "") << file;
      EXPECT_EQ(ran.err, "error: " + message) << file;
      ++refused;
      continue;
    }
    const json summary = json::parse(ran.out);
    EXPECT_EQ(summary["supported"], summary["problems"].empty()) << file;
    // Sizes and losses are the person's to say.
    const bool asks = message.find("give --batch") != std::string::npos ||
                      message.find("--loss OUTPUT=NAME") != std::string::npos;
    EXPECT_EQ(summary["trains"] == true, message.empty() || asks) << file << ": " << message;
    for (const json& p : summary["problems"]) {
      expect_has(message, p["why"]);
      expect_has(text.out, p["why"]);
      ++described;
    }
    EXPECT_EQ(summary["problems"].empty(), text.out.find("supported: no") == std::string::npos) << file;
    if (entry.value("good", false)) EXPECT_EQ(summary["supported"], true) << file;
  }
  EXPECT_GE(refused, 8);
  EXPECT_GE(described, 55);
}

TEST(Inspect, WrongUse) {
  struct {
    Strings argv;
    int status;
    const char* says;
  } wrong[] = {
      {{kPockc, "inspect"}, 2, "MODEL"},
      {{kPockc, "inspect", "nothing.onnx"}, 1, "nothing.onnx"},
      {{kPockc, "inspect", "/"}, 1, "/"},
      {{kPockc, "inspect", kTests / "cli/step.onnx", "--loss", "mse"}, 2, "--loss"},
      {{kPockc, "inspect", kTests / "cli/step.onnx", "--batch", "0"}, 2, "--batch"},
      {{kPockc, "inspect", kTests / "cli/step.onnx", "--dim", "N"}, 1, "NAME=N"},
      {{kPockc, "inspect", kTests / "cli/step.onnx", "--dim", "Q=3"}, 1, "no input has a symbolic axis"},
      {{"/bin/bash", "-c", "\"$@\" >/dev/full", "-", kPockc, "inspect", kTests / "cli/step.onnx"},
       1,
       "standard output"}};
  for (const auto& [argv, status, says] : wrong) {
    Ran ran = run(argv);
    EXPECT_EQ(ran.status, status) << says;
    EXPECT_EQ(ran.out, "") << says;
    expect_has(ran.err, says);
  }
  Ran help = run({kPockc, "inspect", "--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* word : {"MODEL", "--json", "--batch", "--dim", "--assume-opset"})
    expect_has(help.out, word);
  expect_has(run({kPockc, "--help"}).out, "inspect");
}

}  // namespace
}  // namespace pock::test
