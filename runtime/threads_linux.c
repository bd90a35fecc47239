// A pool of threads that share one loop at a time.
//
// Iterations [n*t/T, n*(t+1)/T) are share t of T. Thread t takes it, whose caches may hold its data, unless the main
// thread is done with its own before: a thread that other processes keep from running keeps nobody waiting. A share is
// taken by setting taken[t] from the last round to this one; a thread that is late finds it set, and all that it reads
// of a loop after that stays until its share is done.
// A loop is published by raising `round`; a thread spins on it briefly, because steps are made of many short loops, and then
// sleeps. Every kind of sleeper announces itself before it looks at the word it waits for, and who changes that word looks for
// sleepers afterwards; with sequentially consistent atomics one of the two always sees the other.
#include <stdatomic.h>

#include "linux_arch.h"

enum { STACK_BYTES = 256 << 10, GUARD_BYTES = 64 << 10, SPINS = 1000 };

struct pock_pool {
  _Alignas(64) _Atomic uint32_t round;
  _Atomic uint32_t sleeping;
  pock_kernel fn;
  void* const* args;
  int64_t n;
  uint32_t threads, spins;
  _Alignas(64) _Atomic uint32_t working;
  _Atomic uint32_t main_sleeps;
  _Atomic uint32_t next_thread;
  _Alignas(64) _Atomic uint32_t taken[];  // by share: the last round in which somebody took it
};

static void wait_while(_Atomic uint32_t* word, uint32_t value, _Atomic uint32_t* sleepers, uint32_t spins) {
  for (uint32_t i = 0; i < spins; ++i) {
    if (atomic_load_explicit(word, memory_order_acquire) != value) return;
    pock_pause();
  }
  atomic_fetch_add(sleepers, 1);
  while (atomic_load(word) == value)
    pock_syscall6(SYS_futex, (long)word, 128 /* wait, private */, value, 0, 0, 0);
  atomic_fetch_sub(sleepers, 1);
}

static void wake(_Atomic uint32_t* word, _Atomic uint32_t* sleepers) {
  if (atomic_load(sleepers)) pock_syscall(SYS_futex, (long)word, 129 /* wake, private */, INT32_MAX);
}

static void run_share(const struct pock_pool* pool, uint32_t share) {
  int64_t begin = pool->n * share / pool->threads, end = pool->n * (share + 1) / pool->threads;
  if (begin < end) pool->fn(pool->args, begin, end);
}

// Runs a share of a round that nobody has taken.
static void take_share(struct pock_pool* pool, uint32_t share, uint32_t round) {
  uint32_t last = round - 1;
  if (!atomic_compare_exchange_strong(&pool->taken[share], &last, round)) return;
  run_share(pool, share);
  if (atomic_fetch_sub(&pool->working, 1) == 1) wake(&pool->working, &pool->main_sleeps);
}

static void worker(void* argument) {
  struct pock_pool* pool = argument;
  uint32_t thread = atomic_fetch_add(&pool->next_thread, 1);
  pock_flush_denormals();
  for (uint32_t seen = 0;;) {
    wait_while(&pool->round, seen, &pool->sleeping, pool->spins);
    seen = atomic_load(&pool->round);
    take_share(pool, thread, seen);
  }
}

void pock_parallel_for(void* context, pock_kernel fn, void* const* args, int64_t n) {
  struct pock_pool* pool = context;
  if (n <= 0) return;
  if (pool->threads == 1 || n == 1) {
    fn(args, 0, n);
    return;
  }
  pool->fn = fn;
  pool->args = args;
  pool->n = n;
  atomic_store(&pool->working, pool->threads - 1);
  uint32_t round = atomic_fetch_add(&pool->round, 1) + 1;
  wake(&pool->round, &pool->sleeping);
  run_share(pool, 0);
  for (uint32_t share = 1; share < pool->threads; ++share) take_share(pool, share, round);
  uint32_t left;
  while ((left = atomic_load(&pool->working)))
    wait_while(&pool->working, left, &pool->main_sleeps, pool->spins);
}

struct pock_pool* pock_start_pool(uint32_t count) {
  uint64_t room = STACK_BYTES + GUARD_BYTES;
  uint64_t head =
      (sizeof(struct pock_pool) + count * sizeof(uint32_t) + GUARD_BYTES - 1) / GUARD_BYTES * GUARD_BYTES;
  char* memory = pock_reserve(head + room * count);
  if (!memory) return NULL;
  struct pock_pool* pool = (struct pock_pool*)memory;
  char* stacks = memory + head;
  pool->threads = count;
  pool->spins =
      count <= pock_cores() ? SPINS : 0;  // with fewer cores, spinning keeps the others from working
  atomic_store(&pool->next_thread, 1);
  // Threads inherit the mask: signals are then the main thread's alone.
  uint64_t all = ~(uint64_t)0, before = 0;
  pock_syscall6(SYS_rt_sigprocmask, 2 /* set */, (long)&all, (long)&before, 8, 0, 0);
  bool started = true;
  for (uint32_t i = 1; i < count && started; ++i) {
    char* stack = stacks + room * i;
    started = pock_syscall(SYS_mprotect, (long)stack, GUARD_BYTES, 0) == 0 &&
              pock_clone(stack + room, worker, pool) > 0;
  }
  pock_syscall6(SYS_rt_sigprocmask, 2, (long)&before, 0, 8, 0, 0);
  return started ? pool : NULL;
}
