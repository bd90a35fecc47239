// pockc regress: what it catches, and that it is silent where nothing moved. pockc bench --count, on which it stands.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "support/support.h"

namespace pock::test {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

const std::string kNet = std::string(kSourceDir) + "/tests/train/lenet/model.onnx";

bool emulators_are_here() {
  for (const char* emulator : {"qemu-aarch64", "qemu-arm", "qemu-x86_64", "qemu-system-arm"})
    if (!is_installed(emulator)) return false;
  return true;
}

// A list of one case in a folder of its own, and its baseline.
class Regress : public testing::Test {
 protected:
  void SetUp() override {
    if (!emulators_are_here()) GTEST_SKIP() << "qemu-user and qemu-system-arm are not installed";
    list({});
    Ran ran = regress({"--update"});
    ASSERT_EQ(ran.status, 0) << ran.err;
  }

  void list(const std::vector<std::string>& options, const std::string& target = "rpi4") {
    std::string text = "[[case]]\nname = \"net\"\nmodel = \"" + kNet + "\"\ntargets = [\"" + target +
                       "\"]\noptions = [\"--batch\", \"1\", \"--loss\", \"cross-entropy\"";
    for (const std::string& o : options) text += ", \"" + o + "\"";
    dir.write("list.toml", text + "]\n");
  }
  Ran regress(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {kPockc, "regress", "list.toml"});
    return run(more, dir.path);
  }
  json baseline() { return json::parse(read_file(dir.path / "list.json")); }
  // Changes the baseline: of the first kernel that has some of it, so that it looks as if it had grown.
  std::string shrink(const std::string& metric, const std::function<double(double)>& f) {
    json all = baseline();
    for (auto& [kernel, metrics] : all["cases"]["net rpi4"].items())
      if (metrics[metric] > 0) {
        metrics[metric] = std::floor(f(metrics[metric].get<double>()));
        dir.write("list.json", all.dump());
        return kernel;
      }
    ADD_FAILURE() << "no kernel has " << metric;
    return "";
  }
  // That one kernel alone is said to be bad, for that reason, in all forms.
  void expect_caught(const std::string& kernel, const std::string& what) {
    Ran ran = regress({"--json", "moved.json", "--junit", "moved.xml"});
    EXPECT_EQ(ran.status, 1);
    EXPECT_NE(ran.err.find("1 kernels are wrong, worse, new or missing"), std::string::npos) << ran.err;
    EXPECT_NE(ran.out.find(kernel), std::string::npos) << ran.out;
    const json moved = json::parse(read_file(dir.path / "moved.json"))["cases"][0]["moved"];
    ASSERT_EQ(moved.size(), 1u) << moved.dump(1);
    EXPECT_EQ(moved[0]["kernel"], kernel);
    EXPECT_EQ(moved[0]["what"], what);
    EXPECT_EQ(moved[0]["bad"], true);
    const std::string xml = read_file(dir.path / "moved.xml");
    EXPECT_NE(xml.find("failures=\"1\""), std::string::npos) << xml;
    EXPECT_NE(xml.find("name=\"" + kernel + "\"><failure"), std::string::npos) << xml;
  }

  TempDir dir;
};

TEST_F(Regress, IsSilentWhereNothingMoved) {
  for (int i = 0; i < 3; ++i) {
    Ran ran = regress({"--junit", "moved.xml"});
    EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
    EXPECT_NE(ran.out.find("kernels of 1 cases: all as in the baseline"), std::string::npos) << ran.out;
    EXPECT_EQ(read_file(dir.path / "moved.xml").find("failure message"), std::string::npos);
  }
}

TEST_F(Regress, CatchesMoreInstructions) {
  expect_caught(shrink("instructions", [](double n) { return n / 1.1; }), "instructions");
}
TEST_F(Regress, CatchesMoreCode) {
  expect_caught(shrink("code_bytes", [](double n) { return n / 1.1; }), "code_bytes");
}
TEST_F(Regress, CatchesASpill) {
  expect_caught(shrink("spills", [](double n) { return n - 1; }), "spills");
}
TEST_F(Regress, CatchesAMissingKernel) {
  json all = baseline();
  all["cases"]["net rpi4"]["conv /gone/Conv"] = {{"instructions", 1}};
  dir.write("list.json", all.dump());
  expect_caught("conv /gone/Conv", "missing");
}

// What other options make of the same kernels is no edited number.
TEST_F(Regress, ComparesWhatIsReallyThere) {
  list({"--no-schedule"});
  Ran plain = regress();
  EXPECT_EQ(plain.status, 1);
  EXPECT_NE(plain.out.find("instructions"), std::string::npos) << plain.out;
  list({"--train", "fc*"});
  Ran frozen = regress();
  EXPECT_EQ(frozen.status, 1);
  EXPECT_NE(frozen.out.find("missing: it is in the baseline alone"), std::string::npos) << frozen.out;
  list({}, "rpi3");  // another name of a case: all of it is new, and all of the other gone
  Ran other = regress();
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(other.out.find("new: the baseline does not know it"), std::string::npos) << other.out;
  EXPECT_NE(other.out.find("missing"), std::string::npos) << other.out;
}

// An emulator in front of the real one, which makes the first fused multiply-add of the program a multiply-subtract.
TEST_F(Regress, CatchesAWrongKernel) {
  const std::string script = dir.write("qemu-aarch64", R"(#!/usr/bin/python3
import os, struct, sys
path = sys.argv[-1]
code = bytearray(open(path, "rb").read())
for at in range(0, len(code) - 3, 4):
    word, = struct.unpack_from("<I", code, at)
    if word & 0xffc0f400 == 0x4f801000:  # fmla v.4s, v.4s, v.s[i]
        struct.pack_into("<I", code, at, word | 0x4000)
        break
else:
    sys.exit("no fmla")
open(path, "wb").write(code)
real = next(f for f in (os.path.join(p, "qemu-aarch64") for p in os.environ["PATH"].split(":")[1:]) if os.path.exists(f))
os.execv(real, ["qemu-aarch64"] + sys.argv[1:])
)");
  fs::permissions(script, fs::perms::owner_all);
  const std::string before = read_file(dir.path / "list.json");
  const std::string path = "PATH=" + dir.path.string() + ":$PATH; ", pockc = std::string(kPockc) + " ";
  Ran ran = run({"/bin/sh", "-c", path + pockc + "regress list.toml"}, dir.path);
  EXPECT_EQ(ran.status, 1);
  EXPECT_NE(ran.out.find("WRONG: other bits than the interpreter's"), std::string::npos)
      << ran.out << ran.err;
  EXPECT_NE(ran.err.find("1 kernels are wrong"), std::string::npos) << ran.err;
  Ran update = run({"/bin/sh", "-c", path + pockc + "regress list.toml --update"}, dir.path);
  EXPECT_EQ(update.status, 1);
  EXPECT_NE(update.err.find("the baseline stays as it is"), std::string::npos) << update.err;
  EXPECT_TRUE(read_file(dir.path / "list.json") == before);
  Ran bench = run(
      {"/bin/sh", "-c", path + pockc + "bench " + kNet + " --batch 1 --loss cross-entropy --target rpi4"});
  EXPECT_NE(bench.out.find("WRONG"), std::string::npos) << bench.out;
}

TEST_F(Regress, BetterIsNoFailure) {
  shrink("instructions", [](double n) { return 2 * n; });
  Ran ran = regress();
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_NE(ran.out.find("-50.0 %"), std::string::npos) << ran.out;
}

TEST_F(Regress, SaysWhatIsWrongWithTheList) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "there is no [[case]]"},
      {"[[case]]\nmodel = \"m.onnx\"\n", "a case needs a model and targets"},
      {"[[case]]\nmodell = \"m.onnx\"\n", "there is no key 'modell'"},
      {"[[case]]\nmodel = 3\n", "want a text in quotes"},
      {"[tolerance]\nspills = -1\n", "want a number from 0 on"},
      {"[[case]]\nmodel = \"m.onnx\"\ntargets = [\"rpi4\", \"rpi4\"]\n", "there are two cases 'm rpi4'"},
      {"[[case]]\nmodel = \"m.onnx\"\ntargets = [\"rpi4\"]\ntime = true\n", "do not run on this machine"},
      {"[[case]]\nmodel = \"m.onnx\"\ntargets = [\"rpi4\"]\noptions = [\"--what\"]\n", "--what"},
      {"[[case]]\nmodel = \"no.onnx\"\ntargets = [\"rpi4\"]\n", "no.onnx"}};
  for (const auto& [text, why] : cases) {
    dir.write("list.toml", text);
    Ran ran = regress();
    EXPECT_EQ(ran.status, 1) << text;
    EXPECT_EQ(ran.out, "") << text;
    EXPECT_NE(ran.err.find(why), std::string::npos) << text << "\n" << ran.err;
  }
  for (const char* no_file : {".", "missing.toml"}) {
    Ran ran = run({kPockc, "regress", no_file}, dir.path);
    EXPECT_EQ(ran.status, 1) << ran.err;
    EXPECT_NE(ran.err.find(no_file), std::string::npos) << ran.err;
  }
  list({});
  Ran none = regress({"--baseline", "no.json"});
  EXPECT_NE(none.err.find("there is no baseline 'no.json'; --update writes it"), std::string::npos)
      << none.err;
  dir.write("broken.json", "{");
  EXPECT_NE(regress({"--baseline", "broken.json"}).err.find("no baseline of pockc regress"),
            std::string::npos);
  EXPECT_NE(regress({"--json", "list.toml"}).err.find("cannot be two of"), std::string::npos);
}

// pock's own kernels.
TEST(RegressOwn, AreAsTheBaselineSays) {
  if (!emulators_are_here()) GTEST_SKIP() << "qemu-user and qemu-system-arm are not installed";
  Ran ran = run({kPockc, "regress", std::string(kSourceDir) + "/tests/regress/kernels.toml"});
  EXPECT_EQ(ran.status, 0) << ran.out << ran.err;
}

TEST(RegressBench, CountsOnEveryKindOfMachine) {
  if (!emulators_are_here()) GTEST_SKIP() << "qemu-user and qemu-system-arm are not installed";
  for (const char* target : {"x86-64", "rpi2", "cortex-m4"}) {
    Ran ran = run({kPockc, "bench", kNet, "--batch", "1", "--loss", "cross-entropy", "--target", target,
                   "--count", "--json"});
    ASSERT_EQ(ran.status, 0) << ran.err;
    int products = 0;
    const json all = json::parse(ran.out);
    for (const json& k : all["kernels"]) {
      EXPECT_EQ(k["right"], true) << k.dump();
      EXPECT_GT(k["instructions"], 0);
      EXPECT_GT(k["code_bytes"], 0);
      if (k.contains("multiply_accumulates")) ++products;
    }
    EXPECT_GE(products, 8) << target;
  }
}

}  // namespace
}  // namespace pock::test
