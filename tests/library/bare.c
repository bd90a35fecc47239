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

#include "linux_arch.h"

void _start(void) {
  const size_t length = train();
  const long wrote = pock_syscall(SYS_write, 1, (long)saved, (long)length);
  for (;;) pock_syscall(SYS_exit_group, !length || (size_t)wrote != length, 0, 0);
}

#else

#include "semihost.h"

void main_without_system(void) {
  const size_t length = train();
  const uintptr_t name[] = {(uintptr_t) "bare", 5 /* write */, 4};
  const uintptr_t bytes[] = {(uintptr_t)pock_semihost(SYS_OPEN, name), (uintptr_t)saved, length};
  const uintptr_t end[] = {0x20026, !length || pock_semihost(SYS_WRITE, bytes)};
  for (;;) pock_semihost(SYS_EXIT_EXTENDED, end);
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
