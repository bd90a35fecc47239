// Every step by its text, and all of them together: whatever the schedule, the same bits.
#include "pock/loop/transform.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "kernels.h"
#include "pock/support/diag.h"
#include "support/support.h"

namespace pock::loop {
namespace {

// A file holds a kernel, `# schedule: ...` and, after `# gives:`, the kernel that results. POCK_RERECORD=1
// writes the latter anew.
TEST(Transform, Text) {
  namespace fs = std::filesystem;
  int files = 0;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(test::kSourceDir) / "tests/loop"))
    if (entry.path().extension() == ".loop") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    SCOPED_TRACE(path.string());
    ++files;
    std::string text = test::read_file(path);
    size_t schedule = text.find("# schedule:"), gives = text.find("# gives:\n");
    ASSERT_NE(schedule, std::string::npos);
    size_t end = text.find('\n', schedule);
    Schedule steps = parse_schedule(text.substr(schedule + 11, end - schedule - 11));
    Kernel plain = parse_kernel(text.substr(0, schedule), path.string());
    std::string result;
    try {
      Kernel scheduled = loop::apply(plain, steps);
      result = print(scheduled);
      EXPECT_EQ(results(plain), results(scheduled)) << "other bits";
    } catch (const std::logic_error& e) {
      result = e.what();
      result = "# error: " + result.substr(result.find("): ") + 3) + "\n";
    }
    if (std::getenv("POCK_RERECORD")) {
      test::write_file(path, text.substr(0, end + 1) + "# gives:\n" + result);
    } else {
      ASSERT_NE(gives, std::string::npos);
      EXPECT_EQ(text.substr(gives + 9), result);
    }
  }
  EXPECT_GE(files, 10);
}

TEST(Transform, SchedulesRoundTrip) {
  std::string text =
      "split(i,6) split(j,16,j.r) sink(i.i) fuse(a,b) reorder(a,b) peel(x) unroll(i.i) vectorize(j.i) "
      "parallel(i.o)";
  EXPECT_EQ(to_string(parse_schedule(text)), text);
  for (const char* bad :
       {"split(i)", "split(i,0)", "split(i,x)", "turn(i)", "sink(i", "sink", "fuse(a)", "sink(a,b)"})
    EXPECT_THROW(parse_schedule(bad), Error) << bad;
}

TEST(Transform, LinearStride) {
  VarRef i = std::make_shared<const Var>(Var{"i"}), j = std::make_shared<const Var>(Var{"j"});
  int64_t stride;
  EXPECT_TRUE(linear_stride(var(i) * Expr(6) + var(j) - 2, i, &stride));
  EXPECT_EQ(stride, 6);
  EXPECT_TRUE(linear_stride(floordiv(var(j), 2), i, &stride));
  EXPECT_EQ(stride, 0);
  EXPECT_FALSE(linear_stride(floordiv(var(i), 2), i, &stride));
  EXPECT_FALSE(linear_stride(var(i) * var(j), i, &stride));
}

void loops(const std::vector<Stmt>& body, std::vector<std::string>& names) {
  for (const Stmt& s : body) {
    if (s.kind == StmtKind::loop) names.push_back(s.var->name);
    loops(s.body, names);
  }
}

// Random steps on every kernel; those that do not apply are left out.
TEST(Transform, AnyScheduleGivesTheSameBits) {
  std::mt19937 random(7);
  constexpr int kKinds = Step::parallel + 1;
  int applied = 0, by_kind[kKinds] = {};
  for (const char* text : kKernels) {
    Kernel plain = parse_kernel(text);
    auto expected = results(plain);
    EXPECT_EQ(results(plain, true), expected) << plain.name << " backwards";
    for (int attempt = 0; attempt < 240; ++attempt) {
      Kernel k = plain;
      Schedule done;
      for (int n = 0; n < 8; ++n) {
        std::vector<std::string> names;
        loops(k.body, names);
        const size_t i = random() % names.size();
        Step step{static_cast<Step::Kind>(random() % kKinds), names[i], 0, ""};
        if (step.kind == Step::split || step.kind == Step::slide)
          step.number = 2 + static_cast<int64_t>(random() % 7);
        if (step.kind == Step::fuse || step.kind == Step::merge || step.kind == Step::reorder ||
            step.kind == Step::interchange)
          step.other = names[random() % 2 ? (i + 1) % names.size() : random() % names.size()];
        if (step.kind == Step::stage) step.other = k.args.back()->name;
        if (step.kind == Step::beside) step.other = names.front();
        try {
          k = loop::apply(k, {step});
        } catch (const std::logic_error&) {
          continue;
        }
        done.push_back(step);
        ++by_kind[step.kind];
      }
      ++applied;
      std::string printed = print(k);
      ASSERT_EQ(print(parse_kernel(printed)), printed);
      ASSERT_EQ(results(k), expected) << plain.name << ": " << to_string(done) << "\n" << printed;
      ASSERT_EQ(results(k, true), expected) << plain.name << " backwards: " << to_string(done) << "\n"
                                            << printed;
      ASSERT_EQ(results(simplify(k)), expected) << plain.name << " simplified: " << to_string(done) << "\n"
                                                << printed;
    }
  }
  for (int count : by_kind) EXPECT_GT(count, 30);
}

}  // namespace
}  // namespace pock::loop
