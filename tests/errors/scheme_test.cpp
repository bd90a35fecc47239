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
        WrongScheme{std::string("biases = \"\xff\"", 11), {"s.toml:1:"}},
        WrongScheme{deep_key(3000), {"s.toml"}},
        WrongScheme{std::string(1 << 17, ' '), {"s.toml: has 131072 bytes"}}));

class SchemeFlag : public testing::TestWithParam<Wrong> {};

TEST_P(SchemeFlag, IsRefused) {
  TempDir dir;
  expect_refused(GetParam(), dir.path);
}

INSTANTIATE_TEST_SUITE_P(
    Flags, SchemeFlag,
    testing::Values(compile("nowhere.toml", {"there is no such file, and the presets are", "bias-only"}),
                    compile("/", {"/"}), compile("last", {"--sparse-scheme last: want last:N"}),
                    compile("head:3", {"--sparse-scheme head:3: want head"}),
                    compile("last:-1", {"'-1' is no whole number from 1"}),
                    compile("last:99", {"4 layers with weights, not 99"}),
                    compile("expand-convs:1:2", {"'2' is no share"}),
                    compile("expand-convs:1", {"has 0 inverted residual blocks"}),
                    compile("attention:1", {"has 0 attention blocks"}),
                    compile("head", {"give one of them"}, {"--train", "*"}),
                    compile("head", {"nothing to train", "check --sparse-scheme and --freeze"},
                            {"--freeze", "*"})));

}  // namespace
}  // namespace pock::test
