// Measuring on this machine: what it refuses. What it measures is no matter of right and wrong.
#include "pock/codegen/measure.h"

#include <gtest/gtest.h>

#include "pock/support/diag.h"

namespace pock {
namespace {

TEST(Measure, CodeForAnotherMachineIsRefused) {
  const Target host = find_target("host");
  EXPECT_TRUE(runs_here(host));
  EXPECT_TRUE(runs_here(find_target("x86-64")));
  const Target other = find_target("aarch64-linux");
  Target lacking = host;
  lacking.features += ",+an-instruction-nobody-has";
  for (const Target& t : {other, lacking}) {
    EXPECT_FALSE(runs_here(t));
    try {
      measure_limits(t);
      FAIL() << t.triple << " " << t.features;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("cannot run code for " + t.name), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace pock
