// Learns digits from images in the flash of an STM32F405, and says how well it does.
#include "digits.h"

// Behind the 128 bytes that these .npy files begin with.
#define ARRAY(name, file)                                 \
  __asm__(".section .rodata." #name                       \
          ", \"a\"\n"                                     \
          ".balign 4\n" #name ": .incbin \"" IMAGES "/"   \
          file "\", 128\n" #name "_end:\n");              \
  extern const uint8_t name[], name##_end[]
ARRAY(train_images, "train.npy");
ARRAY(train_labels, "train-labels.npy");
ARRAY(test_images, "test.npy");
ARRAY(test_labels, "test-labels.npy");

enum { PIXELS = 64, OWN_STACK = 512 /* of the functions below */ };
// All the memory that training takes.
__attribute__((section(".stack"), used)) static _Alignas(8) char stack[digits_STACK_BYTES + OWN_STACK];
static _Alignas(digits_ALIGN) char arena[digits_ARENA_BYTES];
static _Alignas(digits_ALIGN) char params[digits_PARAMS_BYTES];
static _Alignas(digits_ALIGN) char state[digits_STATE_BYTES];
static digits_trainer trainer;
static uint8_t images[digits_BATCH][PIXELS];
static int32_t labels[digits_BATCH];
static digits_score untrained, trained;
static const digits_batch batch = {.in_x = images[0], .labels = labels};

// A debugger or emulator does what r0 says with what r1 points to.
static int semihost(int what, const void* with) {
  register int r0 __asm__("r0") = what;
  register const void* r1 __asm__("r1") = with;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

static void print(const char* text) { semihost(0x04 /* SYS_WRITE0 */, text); }

static _Noreturn void end(int status) {
  const unsigned why[] = {0x20026 /* ADP_Stopped_ApplicationExit */, (unsigned)status};
  for (;;) semihost(0x20 /* SYS_EXIT_EXTENDED */, why);
}

static void check(int status) {
  if (status == digits_OK) return;
  print(digits_explain(status));
  print("\n");
  end(1);
}

static void take(uint32_t row, const uint8_t* from, const uint8_t* names, uint32_t sample) {
  for (int i = 0; i < PIXELS; ++i) images[row][i] = from[sample * PIXELS + i];
  labels[row] = names[sample];
}

static void print_accuracy(digits_score* score) {
  const uint32_t samples = (uint32_t)(test_labels_end - test_labels);
  for (uint32_t first = 0; first < samples; first += digits_BATCH) {
    uint32_t rows = samples - first < digits_BATCH ? samples - first : digits_BATCH;
    for (uint32_t row = 0; row < rows; ++row) take(row, test_images, test_labels, first + row);
    check(digits_evaluate(&trainer, &batch, rows, score));
  }
  const uint32_t thousandths = (uint32_t)score->correct * 1000 / (uint32_t)score->judged;
  char text[] = "accuracy: 0.000\n";
  for (uint32_t i = 0, n = thousandths; i < 4; ++i, n /= 10) text[14 - i - (i == 3)] = (char)('0' + n % 10);
  print(text);
}

__attribute__((used)) static void run(void) {
  extern uint32_t bss_begin[], bss_end[];
  for (uint32_t* word = bss_begin; word != bss_end; ++word) *word = 0;
  check(digits_init(&trainer, arena, params, state));
  trainer.samples = (uint64_t)(train_labels_end - train_labels);
  print_accuracy(&untrained);
  while (trainer.epoch < EPOCHS) {
    for (uint32_t row = 0; row < digits_BATCH; ++row)
      take(row, train_images, train_labels, (uint32_t)digits_shuffled(&trainer, row));
    check(digits_step(&trainer, &batch, 0));
  }
  print_accuracy(&trained);
  end(0);
}

// The floating-point unit is off after a reset, and is needed at once.
__attribute__((naked)) void reset(void) {
  __asm__(
      "ldr r0, =0xE000ED88\n"  // CPACR
      "ldr r1, [r0]\n"
      "orr r1, r1, #0xF00000\n"
      "str r1, [r0]\n"
      "dsb\n"
      "isb\n"
      "b run\n");
}

static void fault(void) {
  print("the processor stopped at a fault\n");
  end(1);
}

__attribute__((section(".vectors"), used)) static const void* const vectors[16] = {
    stack + sizeof stack, reset, fault, fault, fault, fault, fault, fault,
    fault,                fault, fault, fault, fault, fault, fault, fault};
