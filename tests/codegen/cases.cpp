// Every kernel that the operators' cases and their gradients need: compiled beside interpreted, bit for bit.
#include <gtest/gtest.h>

#include <cstring>

#include "compare.h"
#include "ops/cases/op_case.h"

namespace pock {
namespace {

std::vector<Guarded> arguments(const test::CaseKernel& c, const loop::Kernel& k) {
  std::vector<Guarded> args;
  for (const loop::BufferRef& b : k.args) args.emplace_back(*b);
  for (size_t i = 0; i < c.args.size(); ++i) std::memcpy(args[i].data(), c.args[i].data(), c.args[i].size());
  return args;
}

void expect_compiled_cases_same(const Target& target, bool schedule) {
  const std::vector<test::CaseKernel> cases = test::all_case_kernels();
  std::vector<loop::Kernel> kernels;
  for (const test::CaseKernel& c : cases)
    kernels.push_back(schedule ? loop::apply(c.kernel, schedule_for(c.kernel, target)) : c.kernel);
  std::unique_ptr<HostKernels> compiled = load_kernels(kernels, target);
  ASSERT_FALSE(cases.empty());
  for (size_t i = 0; i < cases.size(); ++i) {
    std::vector<Guarded> expected = arguments(cases[i], cases[i].kernel);
    loop::interpret(cases[i].kernel, pointers(expected));
    for (int pieces : {1, 2, 3}) {
      std::vector<Guarded> got = arguments(cases[i], kernels[i]);
      compiled->run(static_cast<int>(i), pointers(got), pieces);
      for (size_t a = 0; a < cases[i].args.size(); ++a)
        ASSERT_EQ(difference(expected[a], got[a]), "")
            << cases[i].name << " in " << pieces << " pieces for " << target.cpu << "\n"
            << loop::print(kernels[i]);
    }
  }
}

TEST(OperatorCases, CompiledPlain) { expect_compiled_cases_same(test_targets()[0], false); }

TEST(OperatorCases, CompiledScheduled) {
  for (const Target& t : test_targets()) expect_compiled_cases_same(t, true);
}

}  // namespace
}  // namespace pock
