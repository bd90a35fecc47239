// In a file of its own, so that a compiler cache can share all other objects between checkouts.
#include "support/support.h"

namespace pock::test {

const char* const kSourceDir = SOURCE_DIR;
const char* const kBuildDir = BUILD_DIR;
const char* const kPockc = BUILD_DIR "/tools/pockc";

}  // namespace pock::test
