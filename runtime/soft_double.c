#include "soft_double.h"

#include "runtime.h"

#define SIGN ((uint64_t)1 << 63)
#define INFINITE ((uint64_t)0x7FF << 52)
#define NO_NUMBER ((uint64_t)0xFFF << 51)
#define HIDDEN ((uint64_t)1 << 52)

static int exponent_of(uint64_t magnitude) { return (int)(magnitude >> 52); }

// The mantissa of what is neither zero nor infinite.
static uint64_t mantissa_of(uint64_t a) { return (a & (HIDDEN - 1)) | HIDDEN; }

static uint64_t magnitude_of(uint64_t a) {
  a &= ~SIGN;
  return a < HIDDEN ? 0 : a;
}

// `m` is a mantissa of 53 bits and three more, of which the last says that something behind it is not zero.
static uint64_t pack(uint64_t sign, int exponent, uint64_t m) {
  uint64_t rest = m & 7;
  m >>= 3;
  m += rest > 4 || (rest == 4 && (m & 1));
  if (m >> 53) m >>= 1, ++exponent;
  if (exponent >= 0x7FF) return sign | INFINITE;
  if (exponent <= 0) return sign;
  return sign | (uint64_t)exponent << 52 | (m & (HIDDEN - 1));
}

uint64_t pock_soft_add(uint64_t a, uint64_t b) {
  uint64_t x = magnitude_of(a), y = magnitude_of(b);
  if (x < y) {
    uint64_t t = a;
    a = b, b = t;
    t = x, x = y, y = t;
  }
  const uint64_t sign = a & SIGN, differ = (a ^ b) & SIGN;
  if (x > INFINITE || (x == INFINITE && y == INFINITE && differ)) return NO_NUMBER;
  if (x == INFINITE) return a;
  if (x == 0) return a & b & SIGN;
  if (y == 0) return a;
  int exponent = exponent_of(x), apart = exponent - exponent_of(y);
  uint64_t m = mantissa_of(x) << 3, n = mantissa_of(y) << 3;
  if (apart) n = apart > 63 ? 1 : n >> apart | (n << (64 - apart) != 0);
  m = differ ? m - n : m + n;
  if (m == 0) return 0;
  int shift = __builtin_clzll(m) - 8;
  if (shift < 0)
    m = m >> 1 | (m & 1);
  else
    m <<= shift;
  return pack(sign, exponent - shift, m);
}

uint64_t pock_soft_multiply(uint64_t a, uint64_t b) {
  const uint64_t sign = (a ^ b) & SIGN, x = magnitude_of(a), y = magnitude_of(b);
  if (x > INFINITE || y > INFINITE) return NO_NUMBER;
  if (x == INFINITE || y == INFINITE) return x && y ? sign | INFINITE : NO_NUMBER;
  if (!x || !y) return sign;
  uint64_t low, m = pock_product(mantissa_of(x) << 11, mantissa_of(y) << 11, &low);
  int exponent = exponent_of(x) + exponent_of(y) - 1022;
  if (!(m >> 63)) {
    m = m << 1 | low >> 63;
    low <<= 1;
    --exponent;
  }
  return pack(sign, exponent, m >> 8 | ((m & 0xFF) | low ? 1 : 0));
}

uint64_t pock_soft_divide(uint64_t a, uint64_t b) {
  const uint64_t sign = (a ^ b) & SIGN, x = magnitude_of(a), y = magnitude_of(b);
  if (x > INFINITE || y > INFINITE || (x == y && (x == 0 || x == INFINITE))) return NO_NUMBER;
  if (x == INFINITE || y == 0) return sign | INFINITE;
  if (x == 0 || y == INFINITE) return sign;
  int exponent = exponent_of(x) - exponent_of(y) + 1023;
  uint64_t rest = mantissa_of(x), divisor = mantissa_of(y), m = 1;
  if (rest < divisor) rest <<= 1, --exponent;
  rest -= divisor;
  for (int bit = 0; bit < 55; ++bit) {
    rest <<= 1;
    m <<= 1;
    if (rest >= divisor) rest -= divisor, m |= 1;
  }
  return pack(sign, exponent, m | (rest != 0));
}

// A bit of the root for every two of the number, from the top: 56 of them, with zeros behind the mantissa.
uint64_t pock_soft_root(uint64_t a) {
  const uint64_t x = magnitude_of(a);
  if (x == 0) return a & SIGN;
  if (x > INFINITE || a >> 63) return NO_NUMBER;
  if (x == INFINITE) return x;
  int exponent = exponent_of(x) - 1023;
  uint64_t m = mantissa_of(x), root = 0, rest = 0;
  if (exponent & 1) m <<= 1, --exponent;
  for (int bit = 52; bit >= 52 - 2 * 55; bit -= 2) {
    rest = rest << 2 | (bit >= 0 ? m >> bit & 3 : 0);
    const uint64_t trial = root << 2 | 1;
    root <<= 1;
    if (rest >= trial) rest -= trial, root |= 1;
  }
  return pack(0, exponent / 2 + 1023, root | (rest != 0));
}

int pock_soft_compare(uint64_t a, uint64_t b) {
  const uint64_t x = magnitude_of(a), y = magnitude_of(b);
  if (x > INFINITE || y > INFINITE) return 2;
  const int64_t p = a >> 63 ? -(int64_t)x : (int64_t)x, q = b >> 63 ? -(int64_t)y : (int64_t)y;
  return (p > q) - (p < q);
}

uint64_t pock_soft_widen(uint32_t single) {
  const uint64_t sign = (uint64_t)(single >> 31) << 63;
  const uint32_t exponent = single >> 23 & 0xFF, mantissa = single & 0x7FFFFF;
  if (exponent == 0) return sign;
  if (exponent == 0xFF) return mantissa ? NO_NUMBER : sign | INFINITE;
  return sign | (uint64_t)(exponent + 1023 - 127) << 52 | (uint64_t)mantissa << 29;
}

uint32_t pock_soft_narrow(uint64_t a) {
  const uint64_t x = magnitude_of(a);
  const uint32_t sign = (uint32_t)(a >> 63) << 31;
  if (x > INFINITE) return 0x7FC00000;
  int exponent = exponent_of(x) - 1023 + 127;
  if (exponent >= 0xFF) return sign | 0x7F800000;
  uint32_t m = (uint32_t)(mantissa_of(x) >> 29), rest = (uint32_t)x & 0x1FFFFFFF;
  m += rest > 0x10000000 || (rest == 0x10000000 && (m & 1));
  if (m >> 24) m >>= 1, ++exponent;
  if (exponent <= 0) return sign;
  return sign | (((uint32_t)exponent << 23) + (m & 0x7FFFFF));
}

uint64_t pock_soft_from_whole(uint64_t m, int negative) {
  if (m == 0) return 0;
  int exponent = 1023 + 63 - __builtin_clzll(m);
  m <<= __builtin_clzll(m);
  return pack(negative ? SIGN : 0, exponent, m >> 8 | ((m & 0xFF) != 0));
}

uint64_t pock_soft_to_unsigned(uint64_t a) {
  const uint64_t x = magnitude_of(a);
  const int exponent = exponent_of(x) - 1023;
  if (x > INFINITE || exponent < 0 || a >> 63) return 0;
  if (exponent > 63) return UINT64_MAX;
  return exponent > 52 ? mantissa_of(x) << (exponent - 52) : mantissa_of(x) >> (52 - exponent);
}

int64_t pock_soft_to_signed(uint64_t a) {
  if (magnitude_of(a) > INFINITE) return 0;
  const uint64_t m = pock_soft_to_unsigned(a & ~SIGN);
  if (a >> 63) return m >> 63 ? INT64_MIN : -(int64_t)m;
  return m >> 63 ? INT64_MAX : (int64_t)m;
}
