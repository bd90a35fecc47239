// What the processor can do, asked before any kernel runs: a trainer must not die of an illegal instruction.
#include "runtime.h"

#if defined(__x86_64__)

static void cpuid(uint32_t leaf, uint32_t out[4]) {
  __asm__ volatile("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "a"(leaf), "c"(0));
}

static bool bit(uint32_t word, int n) { return word >> n & 1; }

uint64_t pock_cpu_have(void) {
  uint32_t r[4], saved = 0, saved_high;
  cpuid(0, r);
  uint32_t leaves = r[0];
  cpuid(1, r);
  uint32_t first = r[2];
  // The system must also save the wide registers when it switches threads.
  if (bit(first, 27)) __asm__ volatile("xgetbv" : "=a"(saved), "=d"(saved_high) : "c"(0));
  bool avx = bit(first, 28) && (saved & 0x06) == 0x06;
  bool avx512 = avx && (saved & 0xE6) == 0xE6;
  uint64_t have = 0;
  if (avx && bit(first, 12)) have |= POCK_CPU_FMA;
  if (avx && bit(first, 29)) have |= POCK_CPU_F16C;
  if (leaves < 7) return have;
  cpuid(7, r);
  if (avx && bit(r[1], 5)) have |= POCK_CPU_AVX2;
  if (bit(r[1], 8)) have |= POCK_CPU_BMI2;
  if (!avx512) return have;
  if (bit(r[1], 16)) have |= POCK_CPU_AVX512F;
  if (bit(r[1], 17)) have |= POCK_CPU_AVX512DQ;
  if (bit(r[1], 28)) have |= POCK_CPU_AVX512CD;
  if (bit(r[1], 30)) have |= POCK_CPU_AVX512BW;
  if (bit(r[1], 31)) have |= POCK_CPU_AVX512VL;
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

#endif

void pock_put_cpu(struct pock_text* out, uint64_t bits) {
  static const char names[][12] = {"avx2",     "fma",  "avx512f", "avx512vl", "avx512bw",
                                   "avx512dq", "bmi2", "f16c",    "avx512cd"};
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
