// What the processor can do, asked before any kernel runs: a trainer must not die of an illegal instruction.
#include "runtime.h"

#if defined(__arm__) && defined(__linux__)
#include "linux_arch.h"
#endif

#if defined(__x86_64__)

static void cpuid(uint32_t leaf, uint32_t out[4]) {
  __asm__ volatile("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "a"(leaf), "c"(0));
}

// Where cpuid tells of each enum pock_cpu, and what the system must then save when it switches threads.
static const struct {
  uint8_t word, bit, saved;  // word 0: leaf 1, ecx; 1: leaf 7, ebx; 2: leaf 7, ecx
} features[] = {{1, 5, 0x06},  {0, 12, 0x06}, {1, 16, 0xE6}, {1, 31, 0xE6}, {1, 30, 0xE6},
                {1, 17, 0xE6}, {1, 8, 0},     {0, 29, 0x06}, {1, 28, 0xE6}, {2, 11, 0xE6}};

uint64_t pock_cpu_have(void) {
  uint32_t r[4], words[3], saved = 0, saved_high;
  cpuid(0, r);
  uint32_t leaves = r[0];
  cpuid(1, r);
  words[0] = r[2];
  if (words[0] >> 27 & 1) __asm__ volatile("xgetbv" : "=a"(saved), "=d"(saved_high) : "c"(0));
  cpuid(7, r);
  words[1] = leaves < 7 ? 0 : r[1];
  words[2] = leaves < 7 ? 0 : r[2];
  uint64_t have = 0;
  for (uint32_t i = 0; i < sizeof features / sizeof *features; ++i) {
    bool there = words[features[i].word] >> features[i].bit & 1;
    if (there && (saved & features[i].saved) == features[i].saved) have |= (uint64_t)1 << i;
  }
  return have;
}

uint64_t pock_float_mode(void) {
  uint32_t mxcsr;
  __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
  return mxcsr;
}

void pock_set_float_mode(uint64_t mode) {
  uint32_t mxcsr = (uint32_t)mode;
  __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
}

void pock_flush_denormals(void) {
  pock_set_float_mode(0x9FC0);  // FTZ, DAZ, every exception masked, round to nearest
}

#elif defined(__aarch64__)

uint64_t pock_cpu_have(void) { return 0; }

uint64_t pock_float_mode(void) {
  uint64_t fpcr;
  __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
  return fpcr;
}

void pock_set_float_mode(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }

void pock_flush_denormals(void) { pock_set_float_mode(1 << 24 /* FZ */); }

#elif defined(__arm__)

#if defined(__linux__)

// The kernel tells each process what it may use. Nothing where /proc is missing.
uint64_t pock_cpu_have(void) {
  enum { HWCAP = 16, NEON = 1 << 12, VFPV4 = 1 << 16, IDIVA = 1 << 17 };
  unsigned long vector[2 * 64] = {0}, have = 0;
  long fd = pock_syscall6(SYS_openat, -100 /* AT_FDCWD */, (long)"/proc/self/auxv", 0x80000, 0, 0, 0);
  if (fd < 0) return 0;
  pock_syscall(SYS_read, fd, (long)vector, sizeof vector);
  pock_syscall(SYS_close, fd, 0, 0);
  for (int i = 0; i < 64 && vector[2 * i]; ++i)
    if (vector[2 * i] == HWCAP) have = vector[2 * i + 1];
  return (have & NEON ? POCK_CPU_NEON : 0u) | (have & VFPV4 ? POCK_CPU_VFPV4 : 0u) |
         (have & IDIVA ? POCK_CPU_IDIVA : 0u);
}

#else

uint64_t pock_cpu_have(void) { return 0; }

#endif

uint64_t pock_float_mode(void) {
  uint32_t fpscr;
  __asm__ volatile("vmrs %0, fpscr" : "=r"(fpscr));
  return fpscr;
}

void pock_set_float_mode(uint64_t mode) { __asm__ volatile("vmsr fpscr, %0" : : "r"((uint32_t)mode)); }

#if __ARM_ARCH_PROFILE == 'M'
enum { ALL_LANES = 4 << 16 };  // LTPSIZE: vectors leave out no lanes
#else
enum { ALL_LANES = 0 };
#endif

void pock_flush_denormals(void) { pock_set_float_mode(1 << 24 /* FZ */ | ALL_LANES); }

#endif

void pock_put_cpu(struct pock_text* out, uint64_t bits) {
  static const char names[][12] = {"avx2",     "fma",   "avx512f", "avx512vl", "avx512bw",
                                   "avx512dq", "bmi2",  "f16c",    "avx512cd", "avx512vnni",
                                   "neon",     "vfpv4", "idiva"};
  const char* separator = "";
  for (uint32_t i = 0; i < 64; ++i) {
    if (!(bits >> i & 1)) continue;
    if (i < sizeof names / sizeof *names)
      pock_format(out, "%s%s", separator, names[i]);
    else
      pock_format(out, "%sfeature %d", separator, (int)i);
    separator = ", ";
  }
}
