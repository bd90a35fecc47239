// Nets that read tokens, given what they cannot read.
#include "wrong.h"

namespace pock::test {
namespace {

std::string model(const char* net) { return std::string(kSourceDir) + "/tests/train/" + net + "/model.onnx"; }

constexpr int64_t kTokens = 53, kSamples = 4, kSteps = 5;

std::string tokens(size_t at = 0, int64_t value = 1, const char* shape = "(4, 5)") {
  std::vector<int64_t> ids(kSamples * kSteps, 1);
  ids[at] = value;
  return npy("<i8", shape, bytes_of(ids));
}

class Tokens : public testing::Test {
 protected:
  void SetUp() override {
    Ran ran = run({kPockc, "compile", model("decoder"), "-o", "trainer", "--batch", "2", "--dim", "H=5",
                   "--loss", "causal-lm", "--weights-file"},
                  dir_.path);
    ASSERT_EQ(ran.status, 0) << ran.err;
    write_file(dir_ / "ids", tokens());
    write_file(dir_ / "labels", tokens());
  }

  void refused(const std::string& says, const std::map<std::string, std::string>& files) {
    SCOPED_TRACE(says);
    expect_refused({{"./trainer", "train", "--data", "ids", "--labels", "labels", "--checkpoint", "new"},
                    1,
                    {"the data cannot be used", says},
                    files},
                   dir_.path);
  }

  TempDir dir_;
};

TEST_F(Tokens, IdsAndLabels) {
  refused("--data 'ids' element 7 (sample 1) is 53, outside [-53,52]", {{"ids", tokens(7, kTokens)}});
  refused("--data 'ids' element 19 (sample 3) is -54, outside [-53,52]", {{"ids", tokens(19, -kTokens - 1)}});
  refused("'ids' has float32 elements, 'ids' takes int64",
          {{"ids", npy("<f4", "(4, 5)", std::string(4 * 20, '\0'))}});
  refused("'ids' has shape [5,4], 'ids' needs [N,5]", {{"ids", tokens(0, 1, "(5, 4)")}});
  refused("--labels 'labels' element 3 (sample 0) is 53, outside [0,52] and not -100, which is ignored",
          {{"labels", tokens(3, kTokens)}});
  refused("--labels 'labels' element 3 (sample 0) is -1, outside [0,52]", {{"labels", tokens(3, -1)}});
  refused("'labels' has shape [20], 'logits' needs [N,5]", {{"labels", tokens(0, 1, "(20,)")}});
  refused("'labels' has shape [4,5,1,2], 'logits' needs [N,5]",
          {{"labels", npy("<i8", "(4, 5, 1, 2)", bytes_of(std::vector<int64_t>(40, 1)))}});
  // All that is wrong is said at once; ids from the end are none of that.
  refused("'labels' element 0", {{"ids", tokens(2, -kTokens)}, {"labels", tokens(0, kTokens)}});
  write_file(dir_ / "ids", tokens(2, -kTokens));
  write_file(dir_ / "labels", tokens(2, -100));
  EXPECT_EQ(run({"./trainer", "train", "--data", "ids", "--labels", "labels"}, dir_.path).status, 0);
}

TEST(CausalLm, WantsScoresOfPositions) {
  TempDir dir;
  auto compile = [](const char* net, const std::vector<std::string>& more, const std::string& says) {
    Wrong wrong{
        {kPockc, "compile", model(net), "-o", "trainer", "--batch", "2", "--loss", "causal-lm"}, 1, {says}};
    wrong.argv.insert(wrong.argv.end(), more.begin(), more.end());
    return wrong;
  };
  expect_refused(compile("mlp", {},
                         "causal-lm wants scores of shape [batch, positions, tokens] with 2 or more "
                         "positions and tokens, output 'logits' is f32[2,10]"),
                 dir.path);
  expect_refused(compile("decoder", {"--dim", "H=1"}, "output 'logits' is f32[2,1,53]"), dir.path);
}

}  // namespace
}  // namespace pock::test
