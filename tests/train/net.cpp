#include "train/net.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace pock::test {

const std::vector<std::string> kNets = {"mlp", "lenet", "bn_cnn", "mobile", "dropped", "twice"};
const std::vector<std::string> kZoo = {"size_5x7",      "size_32x32",     "size_33x17", "unet",
                                       "resnet18",      "vgg11_bn",       "squeezenet", "ds_cnn",
                                       "tcn",           "mobilenet_v2",   "mcunet",     "mobilenet_v3_small",
                                       "shufflenet_v2", "efficientnet_b0"};

const std::vector<std::string> kText = {"encoder", "sentences", "decoder", "rotary"};

Net::Net(const std::string& name) : name(name), folder(std::string(kSourceDir) + "/tests/train/" + name) {
  auto curve = nlohmann::json::parse(read_file(folder + "/curve.json"));
  data = folder + "/../" + curve["data"].get<std::string>();
  sizes = curve["sizes"].get<std::map<std::string, int64_t>>();
  input_flags = curve["input_flags"].get<std::vector<std::string>>();
  if (curve.contains("inputs")) inputs = curve["inputs"].get<std::vector<std::string>>();
  loss = curve.value("loss", "cross-entropy");
  tolerance = curve["tolerance"];
  optimizer = curve["optimizer"];
  batch = curve["batch"];
  steps = curve["steps"];
  loss64 = curve["loss64"].get<std::vector<double>>();
  loss32 = curve["loss32"].get<std::vector<double>>();
  distance32 = curve["tensor_distance32"].get<std::map<std::string, double>>();
  zero_gradient = curve["zero_gradient"].get<std::vector<std::string>>();
}

std::map<std::string, std::string> Net::data_files() const {
  if (inputs.empty()) return {{"", data + "/data.npy"}};
  std::map<std::string, std::string> files;
  for (const std::string& name : inputs) files[name] = data + "/" + name + ".npy";
  return files;
}

std::vector<std::string> Net::data_flags() const {
  std::vector<std::string> flags;
  for (const auto& [name, file] : data_files())
    flags.insert(flags.end(), {"--data", name.empty() ? file : name + "=" + file});
  return flags;
}

std::vector<std::string> Net::compile_command(const std::string& out,
                                              const std::vector<std::string>& more) const {
  std::vector<std::string> argv = {
      kPockc,   "compile", folder + "/model.onnx", "-o",     out, "--batch", std::to_string(batch),
      "--loss", loss,      "--optimizer",          optimizer};
  for (const auto& [name, size] : sizes) {
    argv.push_back("--dim");
    argv.push_back(name + "=" + std::to_string(size));
  }
  argv.insert(argv.end(), input_flags.begin(), input_flags.end());
  argv.insert(argv.end(), more.begin(), more.end());
  return argv;
}

std::vector<std::string> Net::train_command(const std::string& trainer, int steps,
                                            const std::string& checkpoint,
                                            const std::vector<std::string>& more) const {
  std::vector<std::string> argv = {
      trainer,        "train", "--labels", data + "/labels.npy", "--steps", std::to_string(steps),
      "--no-shuffle", "--log", "json",     "--checkpoint",       checkpoint};
  const std::vector<std::string> fed = data_flags();
  argv.insert(argv.end(), fed.begin(), fed.end());
  argv.insert(argv.end(), more.begin(), more.end());
  return argv;
}

void compile(const Net& net, const TempDir& dir, const std::vector<std::string>& flags) {
  Ran ran = run(net.compile_command(dir / "trainer", flags));
  ASSERT_EQ(ran.status, 0) << ran.err;
}

std::string program_of(const Net& net, const std::vector<std::string>& flags) {
  TempDir dir;
  std::string text;
  for (const char* stage : {"loops", "plan"}) {
    std::vector<std::string> more = flags;
    more.insert(more.end(), {"--emit", stage});
    Ran ran = run(net.compile_command(dir / stage, more));
    EXPECT_EQ(ran.status, 0) << ran.err;
    text += read_file(dir / stage);
  }
  return text;
}

std::vector<std::string> emulated(const std::vector<std::string>& emulator, std::vector<std::string> argv) {
  if (!emulator.empty() && emulator.back() == "-kernel") {  // a board, whose words stand in one argument
    std::string line;
    for (size_t i = 1; i < argv.size(); ++i) line += (i > 1 ? " " : "") + argv[i];
    argv = {argv[0], "-append", line};
  }
  argv.insert(argv.begin(), emulator.begin(), emulator.end());
  return argv;
}

Trained run_trainer(const Net& net, const TempDir& dir, int steps, const std::vector<std::string>& flags,
                    const std::vector<std::string>& emulator) {
  Trained trained;
  std::vector<std::string> argv = net.train_command(dir / "trainer", steps, dir / "checkpoint", flags);
  Ran ran = run(emulated(emulator, argv));
  EXPECT_EQ(ran.status, 0) << ran.err;
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);) {
    auto object = nlohmann::json::parse(line);
    if (object.contains("loss") && !object.contains("eval")) trained.losses.push_back(object["loss"]);
  }
  if (ran.status == 0) trained.checkpoint = read_safetensors(dir / "checkpoint");
  for (const auto& [name, array] : trained.checkpoint.tensors) trained.bytes += name + array.bytes;
  return trained;
}

Trained train(const Net& net, int steps, const std::vector<std::string>& compile_flags,
              const std::vector<std::string>& train_flags) {
  TempDir dir;
  compile(net, dir, compile_flags);
  if (testing::Test::HasFatalFailure()) return {};
  return run_trainer(net, dir, steps, train_flags);
}

Array initial(const Graph& g, const std::string& name) {
  const Value* v = g.find(name);
  if (!v || !v->data) throw std::runtime_error("the model has no tensor " + name);
  return {"F32", v->type.dims, std::string(reinterpret_cast<const char*>(v->data->data()), v->data->size())};
}

}  // namespace pock::test
