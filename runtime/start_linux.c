// Where the process and each of its threads begin.
#include "linux_arch.h"

__attribute__((noreturn, used)) void pock_start(long* stack) {
  // The kernel leaves argc there, then argv, a null, the environment, a null and the auxiliary vector.
  pock_exit(pock_main((int)stack[0], (char**)(stack + 1)));
}

// Memory, file system state, files and signal handlers shared, one thread group; no thread-local storage.
#define POCK_CLONE_FLAGS "0x50f00"

#if defined(__x86_64__)

__asm__(
    ".section .text._start,\"ax\",@progbits\n"
    ".globl _start\n"
    "_start:\n"
    "  xor %ebp, %ebp\n"
    "  mov %rsp, %rdi\n"
    "  and $-16, %rsp\n"
    "  call pock_start\n"
    "  ud2\n"
    ".globl pock_clone\n"
    "pock_clone:\n"  // rdi: top of the stack, rsi: body, rdx: argument
    "  lea -16(%rdi), %r8\n"
    "  mov %rsi, (%r8)\n"
    "  mov %rdx, 8(%r8)\n"
    "  mov %r8, %rsi\n"
    "  mov $" POCK_CLONE_FLAGS
    ", %edi\n"
    "  xor %edx, %edx\n"
    "  xor %r10d, %r10d\n"
    "  xor %r8d, %r8d\n"
    "  mov $56, %eax\n"
    "  syscall\n"
    "  test %rax, %rax\n"
    "  jnz 1f\n"
    "  xor %ebp, %ebp\n"
    "  pop %rax\n"
    "  pop %rdi\n"
    "  call *%rax\n"
    "  ud2\n"
    "1:\n"
    "  ret\n"
    ".text\n");

#elif defined(__aarch64__)

__asm__(
    ".section .text._start,\"ax\",@progbits\n"
    ".globl _start\n"
    "_start:\n"
    "  mov x29, #0\n"
    "  mov x30, #0\n"
    "  mov x0, sp\n"
    "  bl pock_start\n"
    ".globl pock_clone\n"
    "pock_clone:\n"  // x0: top of the stack, x1: body, x2: argument
    "  stp x1, x2, [x0, #-16]!\n"
    "  mov x1, x0\n"
    "  ldr x0, =" POCK_CLONE_FLAGS
    "\n"
    "  mov x2, #0\n"
    "  mov x3, #0\n"
    "  mov x4, #0\n"
    "  mov x8, #220\n"
    "  svc 0\n"
    "  cbnz x0, 1f\n"
    "  mov x29, #0\n"
    "  mov x30, #0\n"
    "  ldp x1, x0, [sp], #16\n"
    "  blr x1\n"
    "1:\n"
    "  ret\n"
    ".text\n");

#elif defined(__arm__)

__asm__(
    ".section .text._start,\"ax\",%progbits\n"
    ".arm\n"
    ".globl _start\n"
    ".type _start, %function\n"
    "_start:\n"
    "  mov r11, #0\n"
    "  mov lr, #0\n"
    "  mov r0, sp\n"
    "  bic sp, sp, #7\n"
    "  bl pock_start\n"
    ".globl pock_clone\n"
    ".type pock_clone, %function\n"
    "pock_clone:\n"  // r0: top of the stack, r1: body, r2: argument
    "  push {r4, r7, r11, lr}\n"
    "  stmdb r0!, {r1, r2}\n"
    "  mov r1, r0\n"
    "  ldr r0, =" POCK_CLONE_FLAGS
    "\n"
    "  mov r2, #0\n"
    "  mov r3, #0\n"
    "  mov r4, #0\n"
    "  mov r7, #120\n"
    "  svc 0\n"
    "  cmp r0, #0\n"
    "  popne {r4, r7, r11, pc}\n"
    "  mov r11, #0\n"
    "  pop {r1, r2}\n"
    "  mov r0, r2\n"
    "  blx r1\n"
    "  udf #0\n"
    "  .ltorg\n"
    ".text\n");

#endif
