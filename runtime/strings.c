// The few string functions the runtime needs.
#include "runtime.h"

size_t pock_length(const char* s) {
  size_t n = 0;
  while (s[n]) ++n;
  return n;
}

bool pock_equal(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}

bool pock_starts(const char* s, const char* prefix) {
  while (*prefix && *s == *prefix) ++s, ++prefix;
  return !*prefix;
}
