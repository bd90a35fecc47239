// Where a Cortex-M begins: its vector table, memory as C expects it, and the command line of the debugger.
#include "semihost.h"

// The linker script's. The stack is the lowest of the RAM, so that a program which outgrows it ends at once instead of
// writing over what it learned.
extern char pock_stack_top[], pock_data_begin[], pock_data_end[], pock_data_load[], pock_bss_begin[],
    pock_bss_end[];

enum { LINE = 4096, ARGUMENTS = 128 };

// Words are separated by blanks; there are no quotes. A null stands behind the last.
static int split(char* line, char** words) {
  int count = 0;
  while (*line && count + 1 < ARGUMENTS) {
    while (*line == ' ') *line++ = 0;
    if (*line) words[count++] = line;
    while (*line && *line != ' ') ++line;
  }
  return count;
}

__attribute__((noreturn, used)) void pock_begin(void) {
  memcpy(pock_data_begin, pock_data_load, (size_t)(pock_data_end - pock_data_begin));
  memset(pock_bss_begin, 0, (size_t)(pock_bss_end - pock_bss_begin));
  char* line = pock_reserve(LINE);
  char** words = pock_reserve(ARGUMENTS * sizeof *words);
  const struct {
    char* line;
    uint32_t room;
  } arguments = {line, LINE};
  if (!words || pock_semihost(SYS_GET_CMDLINE, &arguments)) {
    pock_complain("there is no room for the command line, of at most %d characters", LINE - 1);
    pock_exit(1);
  }
  pock_exit(pock_main(split(line, words), words));
}

// The floating-point unit is switched on before anything may use it.
__attribute__((naked, used)) void pock_reset(void) {
  __asm__(
      "movw r0, #0xED88\n"
      "movt r0, #0xE000\n"  // CPACR
      "ldr r1, [r0]\n"
      "orr r1, r1, #0xF00000\n"
      "str r1, [r0]\n"
      "dsb\n"
      "isb\n"
      "b pock_begin\n");
}

// On a stack that begins anew, as the old one may be the reason.
__attribute__((noreturn, used)) void pock_report_fault(void) {
  pock_semihost(SYS_WRITE0,
                "trainer: the processor stopped at a fault: the stack may be too small for this model\n");
  pock_exit(1);
}

__attribute__((naked, used)) void pock_fault(void) {
  __asm__(
      "movw r0, #:lower16:pock_stack_top\n"
      "movt r0, #:upper16:pock_stack_top\n"
      "mov sp, r0\n"
      "b pock_report_fault\n");
}

__attribute__((section(".vectors"), used)) const void* const pock_vectors[16] = {
    pock_stack_top, pock_reset, pock_fault, pock_fault, pock_fault, pock_fault, pock_fault, pock_fault,
    pock_fault,     pock_fault, pock_fault, pock_fault, pock_fault, pock_fault, pock_fault, pock_fault};
