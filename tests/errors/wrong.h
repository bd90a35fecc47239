// Bad input and the answer it must get: what is wrong, where, and what to do; an exit status of its class; nothing
// written, nothing changed, and no crash.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/support.h"

namespace pock::test {

struct Wrong {
  std::vector<std::string> argv;  // run in a folder that also holds what `files` says
  int status;
  std::vector<std::string> says;  // all of them
  std::map<std::string, std::string> files = {};
};

// gtest prints parameters: by their command line.
void PrintTo(const Wrong&, std::ostream*);

// Runs it in `folder`, and gives what it said.
std::string expect_refused(const Wrong&, const std::filesystem::path& folder);

// argv under a shell's `setup`, which may close or redirect its streams or bound what it may use.
std::vector<std::string> with(const std::string& setup, const std::vector<std::string>& argv);

}  // namespace pock::test
