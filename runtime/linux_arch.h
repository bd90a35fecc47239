// What differs between the Linux architectures: system call numbers and the instruction that makes one.
#ifndef POCK_LINUX_ARCH_H
#define POCK_LINUX_ARCH_H

#include "runtime.h"

#if defined(__x86_64__)

enum {
  SYS_read = 0,
  SYS_write = 1,
  SYS_close = 3,
  SYS_mmap = 9,
  SYS_mprotect = 10,
  SYS_munmap = 11,
  SYS_rt_sigaction = 13,
  SYS_rt_sigprocmask = 14,
  SYS_ioctl = 16,
  SYS_madvise = 28,
  SYS_flock = 73,
  SYS_fsync = 74,
  SYS_ftruncate = 77,
  SYS_futex = 202,
  SYS_sched_getaffinity = 204,
  SYS_clock_gettime = 228,
  SYS_exit_group = 231,
  SYS_openat = 257,
  SYS_unlinkat = 263,
  SYS_renameat = 264,
  SYS_linkat = 265,
  SYS_readlinkat = 267,
  SYS_statx = 332
};

// A call reads no more arguments than it has.
static inline long pock_syscall(long number, long a, long b, long c) {
  __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return number;
}

static inline long pock_syscall6(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "+a"(number)
                   : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return number;
}

static inline void pock_pause(void) { __asm__ volatile("pause"); }

#elif defined(__aarch64__)

enum {
  SYS_read = 63,
  SYS_write = 64,
  SYS_close = 57,
  SYS_mmap = 222,
  SYS_mprotect = 226,
  SYS_munmap = 215,
  SYS_rt_sigaction = 134,
  SYS_rt_sigprocmask = 135,
  SYS_ioctl = 29,
  SYS_madvise = 233,
  SYS_flock = 32,
  SYS_fsync = 82,
  SYS_ftruncate = 46,
  SYS_futex = 98,
  SYS_sched_getaffinity = 123,
  SYS_clock_gettime = 113,
  SYS_exit_group = 94,
  SYS_openat = 56,
  SYS_unlinkat = 35,
  SYS_renameat = 38,
  SYS_linkat = 37,
  SYS_readlinkat = 78,
  SYS_statx = 291
};

static inline long pock_syscall(long number, long a, long b, long c) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}

static inline long pock_syscall6(long number, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}

static inline void pock_pause(void) { __asm__ volatile("yield"); }

#elif defined(__arm__)

enum {
  SYS_read = 3,
  SYS_write = 4,
  SYS_close = 6,
  SYS_mmap = 192,  // mmap2, which counts the offset in pages
  SYS_mprotect = 125,
  SYS_munmap = 91,
  SYS_rt_sigaction = 174,
  SYS_rt_sigprocmask = 175,
  SYS_ioctl = 54,
  SYS_madvise = 220,
  SYS_flock = 143,
  SYS_fsync = 118,
  SYS_ftruncate = 93,
  SYS_futex = 240,
  SYS_sched_getaffinity = 242,
  SYS_clock_gettime = 263,
  SYS_exit_group = 248,
  SYS_openat = 322,
  SYS_unlinkat = 328,
  SYS_renameat = 329,
  SYS_linkat = 330,
  SYS_readlinkat = 332,
  SYS_statx = 397
};

static inline long pock_syscall(long number, long a, long b, long c) {
  register long r7 __asm__("r7") = number;
  register long r0 __asm__("r0") = a;
  register long r1 __asm__("r1") = b;
  register long r2 __asm__("r2") = c;
  __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2) : "memory");
  return r0;
}

static inline long pock_syscall6(long number, long a, long b, long c, long d, long e, long f) {
  register long r7 __asm__("r7") = number;
  register long r0 __asm__("r0") = a;
  register long r1 __asm__("r1") = b;
  register long r2 __asm__("r2") = c;
  register long r3 __asm__("r3") = d;
  register long r4 __asm__("r4") = e;
  register long r5 __asm__("r5") = f;
  __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5) : "memory");
  return r0;
}

static inline void pock_pause(void) { __asm__ volatile("yield"); }

#else
#error "add the system calls of this architecture"
#endif

// Starts a thread that calls body(argument) on the stack ending at `top`. Its id, or a negative errno.
long pock_clone(char* top, void (*body)(void*), void* argument);

#endif
