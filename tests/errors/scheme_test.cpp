// Schemes that are wrong in themselves, or do not fit the model: everything is said at once, with the place in the file.
#include "wrong.h"

namespace pock::test {
namespace {

struct WrongScheme {
  std::string toml;
  std::vector<std::string> said;
};
void PrintTo(const WrongScheme& w, std::ostream* out) { *out << w.toml; }

Wrong compile(const std::string& scheme, const std::vector<std::string>& said,
              const std::vector<std::string>& more = {}) {
  std::vector<std::string> argv = {kPockc,
                                   "compile",
                                   std::string(kSourceDir) + "/tests/train/bn_cnn/model.onnx",
                                   "--batch",
                                   "4",
                                   "--loss",
                                   "cross-entropy",
                                   "-o",
                                   "out",
                                   "--sparse-scheme",
                                   scheme};
  argv.insert(argv.end(), more.begin(), more.end());
  return {argv, 1, said};
}

class SchemeFile : public testing::TestWithParam<WrongScheme> {};

TEST_P(SchemeFile, IsRefused) {
  TempDir dir, out;
  expect_refused(compile(dir.write("s.toml", GetParam().toml), GetParam().said), out.path);
}

std::string deep_key(int parts) {
  std::string key = "a";
  for (int i = 0; i < parts; ++i) key += ".a";
  return key + " = 1\n";
}

INSTANTIATE_TEST_SUITE_P(
    Files, SchemeFile,
    testing::Values(
        WrongScheme{"", {"nothing to train", "--sparse-scheme"}},
        WrongScheme{"biases = \"all", {"s.toml:1:"}},
        WrongScheme{"bias = \"all\"\nnorm = 3\n",
                    {"s.toml:1:1: there is no key 'bias'", "biases, norms, weights", "s.toml:2:1"}},
        WrongScheme{"biases = 3", {"s.toml:1:10: want \"all\", \"none\", \"last:N\" or a list of patterns"}},
        WrongScheme{"biases = \"conv1.*\"", {"patterns stand in a list: [\"conv1.*\"]"}},
        WrongScheme{"biases = \"last:0\"", {"'last:0': want last:N"}},
        WrongScheme{"biases = \"last:50\"\nnorms = \"last:60\"",
                    {"biases: the model has 4 layers with weights, not 50", "norms: the model has 4 layers"}},
        WrongScheme{"biases = [\"conv1.bais\", \"nowhere\", 3]",
                    {"s.toml:1:36: want a name or a pattern in quotes"}},
        WrongScheme{"biases = [\"fc.bais\", \"nowhere\"]",
                    {"'fc.bais' matches none", "near it are 'fc.bias'", "'nowhere' matches none"}},
        WrongScheme{"biases = [\"*.weight\"]", {"it matches 'bn1.weight', which is one of the norms"}},
        WrongScheme{"[[weights]]\nchannels = 0.5", {"s.toml:1:", "which weights? It has no key 'match'"}},
        WrongScheme{"weights = 3", {"want tables: [[weights]]"}},
        WrongScheme{"weights = [3]", {"want a table: [[weights]]"}},
        WrongScheme{"[[weights]]\nmatch = \"*\"\nchannels = 0.0",
                    {"s.toml:3:12: a share of the channels is above 0"}},
        WrongScheme{"[[weights]]\nmatch = \"*\"\nchannels = nan", {"a share of the channels is above 0"}},
        WrongScheme{"[[weights]]\nmatch = \"*\"\nchannels = -1", {"want 1 channel or more, not -1"}},
        WrongScheme{"[[weights]]\nmatch = \"*\"\nchannels = []",
                    {"want a share as 0.5, a count as 8, or a list"}},
        WrongScheme{"[[weights]]\nmatch = \"*\"\nchannels = [1, -1]", {"want the number of a channel"}},
        WrongScheme{"[[weights]]\nmatch = \"*\"\nchannels = [1, 1]", {"channel 1 is there twice"}},
        WrongScheme{"[[weights]]\nmatch = \"*\"\nselect = \"best\"", {"'best': want \"l2\" or \"first\""}},
        WrongScheme{"[[weights]]\nmatch = \"conv1.weight\"\nchannels = [0, 99]",
                    {"'conv1.weight'", "it has the input channels 0 to", "not 99"}},
        WrongScheme{"[[weights]]\nmatch = \"conv1.weight\"\nchannels = 99", {"'conv1.weight'", "not 99"}},
        WrongScheme{"lora = 3", {"s.toml:1:8: want tables: [[lora]]"}},
        WrongScheme{"[[lora]]\n",
                    {"beside which weights? It has no key 'match'", "of which rank? It has no key"}},
        WrongScheme{
            "[[lora]]\nmatch = 3\nrank = \"8\"\nalpha = true\ndropout = [0.1]\nrnak = 4\n",
            {"s.toml:2:9: want a name or a pattern in quotes", "s.toml:3:8: want a rank, a whole number",
             "s.toml:4:9: want a number as 16", "s.toml:5:11: want a share as 0.1",
             "s.toml:6:1: there is no key 'rnak'; here may stand match, rank, alpha, dropout"}},
        WrongScheme{
            "[[lora]]\nmatch = 'all'\nrank = 0\ndropout = 1.0\nalpha = 0\n[[lora]]\nmatch = 'x'\n"
            "rank = -4\ndropout = -0.1\nalpha = nan\n[[lora]]\nmatch = 'x'\nrank = 65537\n"
            "dropout = nan\nalpha = inf\n[[lora]]\nmatch = 'x'\nrank = 2.5\n",
            {"s.toml:3:8: a rank is a whole number from 1 to 65536, not 0",
             "s.toml:4:11: dropout is a share from 0 to below 1, not 1",
             "s.toml:5:9: alpha is a number from 1e-6 to 1e6, not 0", "s.toml:8:8: a rank is", "not -4",
             "s.toml:9:11: dropout", "s.toml:10:9: alpha", "s.toml:13:8: a rank is", "not 65537",
             "s.toml:14:11: dropout", "s.toml:15:9: alpha", "s.toml:18:8: want a rank, a whole number"}},
        // What is wrong with adapters is said together with the rest.
        WrongScheme{"biases = ['nowhere']\n[[lora]]\nmatch = 'conv1.weihgt'\nrank = 2\n[[lora]]\n"
                    "match = 'bn1.weight'\nrank = 2\n[[lora]]\nmatch = '*.bias'\nrank = 2\n[[lora]]\n"
                    "match = 'last:9'\nrank = 2\n[[lora]]\nmatch = '*'\nrank = 2\n[[weights]]\n"
                    "match = 'conv2.weight'\n",
                    {"biases: 'nowhere' matches none", "lora: 'conv1.weihgt' matches none of them",
                     "near it are 'conv1.weight'", "it matches 'bn1.weight', which is one of the norms",
                     "it matches 'conv2.bias', which is one of the biases",
                     "lora: the model has 4 layers with weights, not 9", "parameter 'conv2.weight': ",
                     "it is trained itself by [[weights]]", "name it in one of them"}},
        WrongScheme{
            "[[weights]]\nmatch = 'all'\n[[lora]]\nmatch = 'all'\nrank = 2\n",
            {"lora: \"all\" are the layers whose weights [[weights]] does not train: there are none"}},
        WrongScheme{std::string("biases = \"\xff\"", 11), {"s.toml:1:"}},
        WrongScheme{deep_key(3000), {"s.toml"}},
        WrongScheme{std::string(1 << 17, ' '), {"s.toml: has 131072 bytes"}}));

// Weights beside which there can be no adapter, each the only one that a rule names.
Wrong beside(const std::string& net, const std::string& weight, const std::vector<std::string>& said) {
  Wrong wrong = compile("s.toml", said);
  wrong.files["s.toml"] = "[[lora]]\nmatch = '" + weight + "'\nrank = 2\n";
  wrong.argv[2] = std::string(kSourceDir) + "/tests/train/" + net + "/model.onnx";
  if (net == "decoder") wrong.argv.insert(wrong.argv.end(), {"--dim", "H=7"});
  return wrong;
}

class SchemeFlag : public testing::TestWithParam<Wrong> {};

TEST_P(SchemeFlag, IsRefused) {
  TempDir dir;
  expect_refused(GetParam(), dir.path);
}

INSTANTIATE_TEST_SUITE_P(
    Flags, SchemeFlag,
    testing::Values(
        compile("nowhere.toml", {"there is no such file, and the presets are", "bias-only"}),
        compile("/", {"/"}), compile("last", {"--sparse-scheme last: want last:N"}),
        compile("head:3", {"--sparse-scheme head:3: want head"}),
        compile("last:-1", {"'-1' is no whole number from 1"}),
        compile("last:99", {"4 layers with weights, not 99"}),
        compile("expand-convs:1:2", {"'2' is no share"}),
        compile("expand-convs:1", {"has 0 inverted residual blocks"}),
        compile("attention:1", {"has 0 attention blocks"}),
        beside("mobile", "blocks.0.dw.weight",
               {"parameter 'blocks.0.dw.weight'", "there can be no adapter beside it",
                "the convolution has 8 groups"}),
        beside("twice", "conv.weight", {"several nodes read it ('/conv/Conv', '/conv_1/Conv')"}),
        beside("twice", "mix.weight", {"several nodes read it"}),
        beside("decoder", "wte.weight", {"parameter 'wte.weight'", "several nodes read it"}),
        beside("decoder", "wpe.weight",
               {"matches none", "'wpe.weight', which is no weight of a convolution or a matrix product"}),
        compile("lora", {"--sparse-scheme lora: want lora:RANK"}),
        compile("lora:0", {"'0' is no whole number from 1"}),
        compile("lora:99999", {"a rank is a whole number from 1 to 65536, not 99999"}),
        compile("lora:2", {"nothing to train"}, {"--freeze", "*"}),
        compile("head", {"give one of them"}, {"--train", "*"}),
        compile("head", {"nothing to train", "check --sparse-scheme and --freeze"}, {"--freeze", "*"})));

}  // namespace
}  // namespace pock::test
