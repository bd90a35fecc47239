// Arm's semihosting: what a debugger or emulator does for the program that it runs.
#ifndef POCK_SEMIHOST_H
#define POCK_SEMIHOST_H

#include "runtime.h"

enum {
  SYS_OPEN = 0x01,
  SYS_CLOSE = 0x02,
  SYS_WRITE0 = 0x04,
  SYS_WRITE = 0x05,
  SYS_READ = 0x06,
  SYS_SEEK = 0x0A,
  SYS_FLEN = 0x0C,
  SYS_REMOVE = 0x0E,
  SYS_RENAME = 0x0F,
  SYS_CLOCK = 0x10,
  SYS_ERRNO = 0x13,
  SYS_GET_CMDLINE = 0x15,
  SYS_EXIT_EXTENDED = 0x20
};

static inline int32_t pock_semihost(uint32_t operation, const void* arguments) {
  register uint32_t r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = arguments;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return (int32_t)r0;
}

#endif
