// Boards without threads: the loop itself.
#include "runtime.h"

struct pock_pool* pock_start_pool(uint32_t count) {
  // Never dereferenced, but not NULL, which would mean failure.
  static const char nothing;
  return count == 1 ? (struct pock_pool*)&nothing : NULL;
}

void pock_parallel_for(void* pool, pock_kernel fn, void* const* args, int64_t n) {
  (void)pool;
  if (n > 0) fn(args, 0, n);
}
