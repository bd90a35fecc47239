// Memory: what a compiler expects to find even in a program without a C library.
//
// Compiled with -fno-builtin, or the loops below would be recognized and replaced by calls to themselves.
// `used` keeps the four memory functions through link-time optimization: calls to them may appear later.
#include "runtime.h"

#if defined(__x86_64__)

__attribute__((used)) void* memcpy(void* restrict to, const void* restrict from, size_t n) {
  void* start = to;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
  return start;
}

__attribute__((used)) void* memset(void* to, int byte, size_t n) {
  void* start = to;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(byte) : "memory");
  return start;
}

#else

__attribute__((used)) void* memcpy(void* restrict to, const void* restrict from, size_t n) {
  char* t = to;
  const char* f = from;
  for (size_t i = 0; i < n; ++i) t[i] = f[i];
  return to;
}

__attribute__((used)) void* memset(void* to, int byte, size_t n) {
  char* t = to;
  for (size_t i = 0; i < n; ++i) t[i] = (char)byte;
  return to;
}

#endif

__attribute__((used)) void* memmove(void* to, const void* from, size_t n) {
  char* t = to;
  const char* f = from;
  if ((uintptr_t)t - (uintptr_t)f >= n) return memcpy(to, from, n);
  while (n-- > 0) t[n] = f[n];
  return to;
}

__attribute__((used)) int memcmp(const void* a, const void* b, size_t n) {
  const unsigned char *x = a, *y = b;
  for (size_t i = 0; i < n; ++i)
    if (x[i] != y[i]) return x[i] - y[i];
  return 0;
}
