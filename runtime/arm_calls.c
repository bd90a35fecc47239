// Functions that a compiler calls on 32-bit Arm where the core has no instruction, under the names that Arm's run-time
// ABI gives them. They take and return numbers in core registers, doubles and floats too, so here those are their bits.
//
// `used` keeps them through optimisation: calls may appear as late as in code generation. The linker drops the rest.
#include "runtime.h"
#include "soft_double.h"

#define CALLED __attribute__((used))

// ---- Memory

CALLED void __aeabi_memcpy(void* to, const void* from, size_t n) { memcpy(to, from, n); }
CALLED void __aeabi_memcpy4(void* to, const void* from, size_t n) { memcpy(to, from, n); }
CALLED void __aeabi_memcpy8(void* to, const void* from, size_t n) { memcpy(to, from, n); }
CALLED void __aeabi_memmove(void* to, const void* from, size_t n) { memmove(to, from, n); }
CALLED void __aeabi_memmove4(void* to, const void* from, size_t n) { memmove(to, from, n); }
CALLED void __aeabi_memmove8(void* to, const void* from, size_t n) { memmove(to, from, n); }
CALLED void __aeabi_memset(void* to, size_t n, int byte) { memset(to, byte, n); }
CALLED void __aeabi_memset4(void* to, size_t n, int byte) { memset(to, byte, n); }
CALLED void __aeabi_memset8(void* to, size_t n, int byte) { memset(to, byte, n); }
CALLED void __aeabi_memclr(void* to, size_t n) { memset(to, 0, n); }
CALLED void __aeabi_memclr4(void* to, size_t n) { memset(to, 0, n); }
CALLED void __aeabi_memclr8(void* to, size_t n) { memset(to, 0, n); }

// ---- Whole numbers of 64 bits

static uint32_t high(uint64_t a) { return (uint32_t)(a >> 32); }
static uint32_t low(uint64_t a) { return (uint32_t)a; }
static uint64_t whole(uint32_t high, uint32_t low) { return (uint64_t)high << 32 | low; }

// In halves: a shift of 64 bits by a variable may be a call of these functions.
CALLED uint64_t __aeabi_llsl(uint64_t a, int n) {
  if (n >= 32) return whole(low(a) << (n - 32), 0);
  return n ? whole(high(a) << n | low(a) >> (32 - n), low(a) << n) : a;
}

CALLED uint64_t __aeabi_llsr(uint64_t a, int n) {
  if (n >= 32) return whole(0, high(a) >> (n - 32));
  return n ? whole(high(a) >> n, low(a) >> n | high(a) << (32 - n)) : a;
}

CALLED int64_t __aeabi_lasr(int64_t a, int n) {
  const uint64_t sign = a < 0 ? ~(uint64_t)0 : 0;
  return (int64_t)(__aeabi_llsr((uint64_t)a ^ sign, n) ^ sign);
}

// The quotient and what is left. A vector of 16 bytes is returned as the ABI wants both: in r0 and r1, r2 and r3.
typedef uint64_t pair __attribute__((vector_size(16)));

// By 0 it is 0.
static pair divide(uint64_t a, uint64_t b) {
  uint64_t quotient = 0, rest = a;
  if (b == 0 || a < b) return (pair){0, a};
  int shift = __builtin_clzll(b) - __builtin_clzll(a);
  for (b = __aeabi_llsl(b, shift); shift >= 0; --shift) {
    quotient <<= 1;
    if (rest >= b) rest -= b, quotient |= 1;
    b >>= 1;
  }
  return (pair){quotient, rest};
}

static pair divide_signed(int64_t a, int64_t b) {
  const pair p = divide(a < 0 ? -(uint64_t)a : (uint64_t)a, b < 0 ? -(uint64_t)b : (uint64_t)b);
  return (pair){(a < 0) != (b < 0) ? -p[0] : p[0], a < 0 ? -p[1] : p[1]};
}

#define CORE_REGISTERS __attribute__((pcs("aapcs")))
CALLED CORE_REGISTERS pair __aeabi_uldivmod(uint64_t a, uint64_t b) { return divide(a, b); }
CALLED CORE_REGISTERS pair __aeabi_ldivmod(int64_t a, int64_t b) { return divide_signed(a, b); }

#if !defined(__ARM_FEATURE_IDIV)

// Of 32 bits, for cores that may lack the instruction: the runtime itself, before it has asked. The quotient is in r0,
// what is left in r1.
static uint64_t words(pair p) { return whole(low(p[1]), low(p[0])); }
CALLED uint64_t __aeabi_uidivmod(uint32_t a, uint32_t b) { return words(divide(a, b)); }
CALLED uint64_t __aeabi_idivmod(int32_t a, int32_t b) { return words(divide_signed(a, b)); }
CALLED uint32_t __aeabi_uidiv(uint32_t a, uint32_t b) { return low(divide(a, b)[0]); }
CALLED uint32_t __aeabi_idiv(int32_t a, int32_t b) { return low(divide_signed(a, b)[0]); }

#endif

// ---- From and to whole numbers of 64 bits, which no core converts

// Rounded to nearest even.
static uint32_t single_of(uint64_t m, uint32_t sign) {
  if (m == 0) return 0;
  const int shift = __builtin_clzll(m);
  m = __aeabi_llsl(m, shift);
  uint32_t bits = ((uint32_t)(127 + 62 - shift) << 23) + (uint32_t)(high(m) >> 8);  // the top bit adds one
  const uint64_t rest = m & 0xFFFFFFFFFF, half = (uint64_t)1 << 39;
  bits += rest > half || (rest == half && (bits & 1));
  return sign | bits;
}

static uint64_t magnitude(int64_t a) { return a < 0 ? -(uint64_t)a : (uint64_t)a; }

CALLED uint32_t __aeabi_l2f(int64_t a) { return single_of(magnitude(a), a < 0 ? 1u << 31 : 0); }
CALLED uint32_t __aeabi_ul2f(uint64_t a) { return single_of(a, 0); }
CALLED uint64_t __aeabi_l2d(int64_t a) { return pock_soft_from_whole(magnitude(a), a < 0); }
CALLED uint64_t __aeabi_ul2d(uint64_t a) { return pock_soft_from_whole(a, 0); }
CALLED int64_t __aeabi_d2lz(uint64_t a) { return pock_soft_to_signed(a); }
CALLED uint64_t __aeabi_d2ulz(uint64_t a) { return pock_soft_to_unsigned(a); }
CALLED int64_t __aeabi_f2lz(uint32_t a) { return pock_soft_to_signed(pock_soft_widen(a)); }
CALLED uint64_t __aeabi_f2ulz(uint32_t a) { return pock_soft_to_unsigned(pock_soft_widen(a)); }

// ---- Doubles

#if !(__ARM_FP & 8)

CALLED uint64_t __aeabi_dadd(uint64_t a, uint64_t b) { return pock_soft_add(a, b); }
CALLED uint64_t __aeabi_dsub(uint64_t a, uint64_t b) { return pock_soft_add(a, b ^ (uint64_t)1 << 63); }
CALLED uint64_t __aeabi_drsub(uint64_t a, uint64_t b) { return pock_soft_add(b, a ^ (uint64_t)1 << 63); }
CALLED uint64_t __aeabi_dmul(uint64_t a, uint64_t b) { return pock_soft_multiply(a, b); }
CALLED uint64_t __aeabi_ddiv(uint64_t a, uint64_t b) { return pock_soft_divide(a, b); }
// Under its name in C, and given and returned as C functions are.
CALLED double sqrt(double a) {
  uint64_t bits;
  __builtin_memcpy(&bits, &a, 8);
  bits = pock_soft_root(bits);
  __builtin_memcpy(&a, &bits, 8);
  return a;
}
CALLED int __aeabi_dcmpeq(uint64_t a, uint64_t b) { return pock_soft_compare(a, b) == 0; }
CALLED int __aeabi_dcmplt(uint64_t a, uint64_t b) { return pock_soft_compare(a, b) == -1; }
CALLED int __aeabi_dcmple(uint64_t a, uint64_t b) { return pock_soft_compare(a, b) <= 0; }
CALLED int __aeabi_dcmpgt(uint64_t a, uint64_t b) { return pock_soft_compare(a, b) == 1; }
CALLED int __aeabi_dcmpge(uint64_t a, uint64_t b) { return (unsigned)pock_soft_compare(a, b) <= 1; }
CALLED int __aeabi_dcmpun(uint64_t a, uint64_t b) { return pock_soft_compare(a, b) == 2; }
CALLED uint64_t __aeabi_f2d(uint32_t a) { return pock_soft_widen(a); }
CALLED uint32_t __aeabi_d2f(uint64_t a) { return pock_soft_narrow(a); }
CALLED uint64_t __aeabi_i2d(int32_t a) { return pock_soft_from_whole(magnitude(a), a < 0); }
CALLED uint64_t __aeabi_ui2d(uint32_t a) { return pock_soft_from_whole(a, 0); }
CALLED int32_t __aeabi_d2iz(uint64_t a) {
  const int64_t n = pock_soft_to_signed(a);
  return n < INT32_MIN ? INT32_MIN : n > INT32_MAX ? INT32_MAX : (int32_t)n;
}
CALLED uint32_t __aeabi_d2uiz(uint64_t a) {
  const uint64_t n = pock_soft_to_unsigned(a);
  return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

#endif
