/* The library on a machine without a C library: trains on the arrays in the files `data` and `labels`, as a trainer
 * without shuffling does, and writes the checkpoint: to standard output, or under a debugger to the file `bare`. */
#include "net.h"

__asm__(
    ".section .rodata\n"
    ".balign 8\n"
    "data: .incbin \"data\"\n"
    ".balign 8\n"
    "labels: .incbin \"labels\"\n"
    ".text\n");
extern const float data[];
extern const int32_t labels[];

static char arena[net_ARENA_BYTES] __attribute__((aligned(net_ALIGN)));
static char params[net_PARAMS_BYTES] __attribute__((aligned(net_ALIGN)));
static char state[net_STATE_BYTES] __attribute__((aligned(net_ALIGN)));
static char saved[net_SAVE_BYTES];
static net_trainer trainer;

/* The length of the checkpoint, or 0. */
static size_t train(void) {
  size_t length;
  int step;
  float loss;
  if (net_init(&trainer, arena, params, state)) return 0;
  trainer.samples = SAMPLES;
  for (step = 0; step < STEPS; ++step) {
    const net_batch batch = {.in_x = data + step * net_BATCH * FEATURES, .labels = labels + step * net_BATCH};
    if (net_step(&trainer, &batch, &loss)) return 0;
  }
  return net_save(&trainer, saved, sizeof saved, &length) ? 0 : length;
}

#if defined(__linux__)

#if defined(__aarch64__)
static long call(long number, long a, long b, long c) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}
enum { SYS_write = 64, SYS_exit = 93 };
#else
static long call(long number, long a, long b, long c) {
  register long r7 __asm__("r7") = number;
  register long r0 __asm__("r0") = a;
  register long r1 __asm__("r1") = b;
  register long r2 __asm__("r2") = c;
  __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2) : "memory");
  return r0;
}
enum { SYS_write = 4, SYS_exit = 1 };
#endif

void _start(void) {
  const size_t length = train();
  const long wrote = call(SYS_write, 1, (long)saved, (long)length);
  for (;;) call(SYS_exit, !length || (size_t)wrote != length, 0, 0);
}

#else

static int call(int operation, const void* arguments) {
  register int r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = arguments;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void main_without_system(void) {
  const size_t length = train();
  const uintptr_t name[] = {(uintptr_t) "bare", 5 /* write */, 4};
  const uintptr_t bytes[] = {(uintptr_t)call(1 /* open */, name), (uintptr_t)saved, length};
  const uintptr_t end[] = {0x20026, !length || call(5 /* write */, bytes)};
  for (;;) call(0x20 /* exit */, end);
}

__attribute__((naked)) void _start(void) {
  __asm__(
      "movw r0, #0xED88\n" /* CPACR: the floating-point unit is on */
      "movt r0, #0xE000\n"
      "ldr r1, [r0]\n"
      "orr r1, r1, #0xF00000\n"
      "str r1, [r0]\n"
      "dsb\n"
      "isb\n"
      "b main_without_system\n");
}

extern char stack_top[];
__attribute__((section(".vectors"), used)) const void* const vectors[16] = {stack_top, _start};

#endif
