// Messages, and numbers to and from decimal, without a C library.
//
// Both directions go through an extended float of 64 bits of mantissa. A multiplication by ten loses at most
// one unit in its last place, so even 340 of them leave the 53 bits of a double right to within one ulp.
#include "runtime.h"

struct wide {
  uint64_t mantissa;  // top bit set; value is mantissa * 2^exponent
  int exponent;
};

static struct wide times(struct wide a, uint64_t mantissa, int exponent) {
  uint64_t low, high = pock_product(a.mantissa, mantissa, &low);
  a.exponent += exponent + 64;
  if (!(high >> 63)) {
    high = high << 1 | low >> 63;
    low <<= 1;
    --a.exponent;
  }
  high += low >> 63;
  if (!high) {  // rounded up to the next power of two
    high = (uint64_t)1 << 63;
    ++a.exponent;
  }
  a.mantissa = high;
  return a;
}

static struct wide times_ten(struct wide a) { return times(a, 0xA000000000000000u, -60); }
static struct wide tenth_of(struct wide a) { return times(a, 0xCCCCCCCCCCCCCCCDu, -67); }

static struct wide widen(uint64_t integer) {
  int shift = __builtin_clzll(integer);
  return (struct wide){integer << shift, -shift};
}

static double narrow(struct wide a) {
  int exponent = a.exponent + 63 + 1023;
  uint64_t bits = a.mantissa >> 11, rest = a.mantissa & 0x7FF;
  if (rest > 0x400 || (rest == 0x400 && (bits & 1))) ++bits;
  if (bits >> 53) bits >>= 1, ++exponent;
  if (exponent >= 2047)
    bits = 0x7FF0000000000000u;
  else if (exponent <= 0)
    bits = 0;  // denormals are zero
  else
    bits = (bits & 0xFFFFFFFFFFFFFu) | (uint64_t)exponent << 52;
  double value;
  __builtin_memcpy(&value, &bits, 8);
  return value;
}

static double from_decimal(uint64_t digits, int power) {
  if (digits == 0) return 0;
  if (digits <= (uint64_t)1 << 53 && power >= -22 && power <= 22) {
    // Powers of ten up to here are exact and so is `digits`: the one operation on both rounds correctly.
    double ten = 1;
    for (int i = power < 0 ? -power : power; i > 0; --i) ten *= 10;
    return power < 0 ? pock_double(digits) / ten : pock_double(digits) * ten;
  }
  if (power > 310) power = 310;
  if (power < -345) power = -345;
  struct wide w = widen(digits);
  for (; power > 0; --power) w = times_ten(w);
  for (; power < 0; ++power) w = tenth_of(w);
  return narrow(w);
}

const char* pock_parse_number(const char* s, double* value) {
  bool negative = *s == '-', any = false;
  if (*s == '-' || *s == '+') ++s;
  uint64_t digits = 0;
  int power = 0;
  for (bool point = false; (*s >= '0' && *s <= '9') || (*s == '.' && !point); ++s) {
    if (*s == '.') {
      point = true;
      continue;
    }
    any = true;
    if (digits < 1000000000000000000u) {
      digits = digits * 10 + (uint64_t)(*s - '0');
      power -= point;
    } else {
      power += !point;
    }
  }
  if (!any) return NULL;
  if (*s == 'e' || *s == 'E') {
    bool below = s[1] == '-';
    const char* e = s + 1 + (s[1] == '-' || s[1] == '+');
    if (*e < '0' || *e > '9') return NULL;
    int exponent = 0;
    for (; *e >= '0' && *e <= '9'; ++e)
      if (exponent < 100000) exponent = exponent * 10 + (*e - '0');
    power += below ? -exponent : exponent;
    s = e;
  }
  *value = from_decimal(digits, power);
  if (negative) *value = -*value;
  return s;
}

const char* pock_parse_digits(const char* s, const char* end, uint64_t* value) {
  const char* at = s;
  for (*value = 0; at < end && *at >= '0' && *at <= '9'; ++at)
    if (__builtin_mul_overflow(*value, 10u, value) ||
        __builtin_add_overflow(*value, (uint64_t)(*at - '0'), value))
      return NULL;
  return at > s ? at : NULL;
}

bool pock_parse_whole(const char* s, uint64_t* value) {
  uint64_t read;
  const char* end = s + pock_length(s);
  if (pock_parse_digits(s, end, &read) != end) return false;
  *value = read;
  return true;
}

size_t pock_text_size(const struct pock_text* text) {
  return text->length < text->capacity ? text->length : text->capacity;
}

const char* pock_string(struct pock_text* text) {
  text->data[text->length < text->capacity ? text->length : text->capacity - 1] = 0;
  return text->data;
}

void pock_put(struct pock_text* out, char c) {
  if (out->length < out->capacity) out->data[out->length] = c;
  ++out->length;
}

void pock_put_bytes(struct pock_text* out, const char* bytes, size_t n) {
  for (size_t i = 0; i < n; ++i) pock_put(out, bytes[i]);
}

static void put_string(struct pock_text* out, const char* s) { pock_put_bytes(out, s, pock_length(s)); }

static void put_whole(struct pock_text* out, uint64_t value) {
  char digits[20];
  int n = 0;
  do digits[n++] = (char)('0' + value % 10);
  while (value /= 10);
  while (n > 0) pock_put(out, digits[--n]);
}

// A positive finite value as `digits` * 10^power, with at most `count` digits.
static uint64_t to_decimal(double value, int count, int* power) {
  uint64_t bits;
  __builtin_memcpy(&bits, &value, 8);
  struct wide w = widen((bits & 0xFFFFFFFFFFFFFu) | (uint64_t)1 << 52);
  w.exponent += (int)(bits >> 52) - 1023 - 52;
  uint64_t limit = 1;
  for (int i = 0; i < count; ++i) limit *= 10;
  *power = 0;
  // Whole numbers of at most 63 bits are read off w exactly once it is scaled into [limit / 10, limit).
  for (;;) {
    int shift = -w.exponent;
    uint64_t whole = shift >= 64 ? 0 : shift <= 0 ? UINT64_MAX : w.mantissa >> shift;
    if (whole >= limit) {
      w = tenth_of(w);
      ++*power;
    } else if (whole < limit / 10) {
      w = times_ten(w);
      --*power;
    } else {
      whole += w.mantissa >> (shift - 1) & 1;
      while (whole % 10 == 0) whole /= 10, ++*power;
      return whole;
    }
  }
}

static void put_decimal(struct pock_text* out, uint64_t digits, int power) {
  char text[20];
  int n = 0;
  struct pock_text number = {text, 0, sizeof text};
  put_whole(&number, digits);
  n = (int)number.length;
  int point = n + power;  // digits in front of the point
  if (point > 16 || point < -4) {
    pock_put(out, text[0]);
    if (n > 1) pock_put(out, '.');
    pock_put_bytes(out, text + 1, (size_t)n - 1);
    pock_put(out, 'e');
    if (point < 1) pock_put(out, '-');
    put_whole(out, (uint64_t)(point < 1 ? 1 - point : point - 1));
    return;
  }
  if (point <= 0) put_string(out, "0.");
  for (int i = point; i < 0; ++i) pock_put(out, '0');
  for (int i = 0; i < n; ++i) {
    if (i == point && i > 0) pock_put(out, '.');
    pock_put(out, text[i]);
  }
  for (int i = n; i < point; ++i) pock_put(out, '0');
}

// Puts the sign and what has no digits; true if that was all.
static bool put_special(struct pock_text* out, double* value) {
  uint64_t bits;
  __builtin_memcpy(&bits, value, 8);
  if (bits >> 63) pock_put(out, '-');
  bits &= UINT64_MAX >> 1;
  __builtin_memcpy(value, &bits, 8);
  if (bits >> 52 == 0) return pock_put(out, '0'), true;
  if (bits >> 52 == 2047) return put_string(out, bits << 12 ? "nan" : "inf"), true;
  return false;
}

static void put_double(struct pock_text* out, double value, int most) {
  if (put_special(out, &value)) return;
  int power;
  uint64_t digits;
  if (most) {
    digits = to_decimal(value, most, &power);
  } else {
    int count = 15;
    do digits = to_decimal(value, count, &power);
    while (from_decimal(digits, power) != value && ++count < 18);
  }
  put_decimal(out, digits, power);
}

bool pock_finite(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  return (bits >> 23 & 0xFF) != 0xFF;
}

void pock_put_float(struct pock_text* out, float value) {
  double wide = value;
  if (put_special(out, &wide)) return;
  value = (float)wide;
  int power, count = 6;
  uint64_t digits;
  do digits = to_decimal(wide, count, &power);
  while ((float)from_decimal(digits, power) != value && ++count < 10);
  put_decimal(out, digits, power);
}

void pock_put_escaped(struct pock_text* out, const char* s) {
  for (; *s; ++s) {
    unsigned char c = (unsigned char)*s;
    if (c < 0x20) {
      put_string(out, "\\u00");
      pock_put(out, "0123456789abcdef"[c >> 4]);
      pock_put(out, "0123456789abcdef"[c & 15]);
      continue;
    }
    if (c == '"' || c == '\\') pock_put(out, '\\');
    pock_put(out, (char)c);
  }
}

void pock_put_json(struct pock_text* out, const char* s) {
  pock_put(out, '"');
  pock_put_escaped(out, s);
  pock_put(out, '"');
}

static void put_size(struct pock_text* out, uint64_t bytes) {
  static const char units[][4] = {"B", "KiB", "MiB", "GiB"};
  int unit = 0;
  double size = pock_double(bytes);
  for (; size >= 1024 && unit < 3; ++unit) size /= 1024;
  put_double(out, size, 4);
  pock_put(out, ' ');
  put_string(out, units[unit]);
}

static void put_hex(struct pock_text* out, unsigned value) {
  for (int shift = 28; shift >= 0; shift -= 4) pock_put(out, "0123456789abcdef"[value >> shift & 15]);
}

void pock_format_list(struct pock_text* out, const char* format, va_list list) {
  for (; *format; ++format) {
    if (*format != '%') {
      pock_put(out, *format);
      continue;
    }
    ++format;
    int precision = -1;
    if (*format == '.' && format[1] == '*') {
      precision = va_arg(list, int);
      format += 2;
    } else if (*format == '.') {
      for (precision = 0; *++format >= '0' && *format <= '9';) precision = precision * 10 + (*format - '0');
    } else if (*format == '0') {
      format += 2;  // 08x
    }
    if (*format == 's') {
      const char* text = va_arg(list, const char*);
      pock_put_bytes(out, text, precision < 0 ? pock_length(text) : (size_t)precision);
    } else if (*format == 'g') {
      put_double(out, va_arg(list, double), precision < 0 ? 0 : precision);
    } else if (*format == 'z') {
      put_size(out, va_arg(list, size_t)), ++format;
    } else if (*format == 'c' || *format == 'x' || *format == 'd' || *format == 'l') {
      long long value = *format == 'l' ? va_arg(list, long long) : va_arg(list, int);
      if (*format == 'l') format += 2;
      if (*format == 'c') {
        pock_put(out, (char)value);
      } else if (*format == 'x') {
        put_hex(out, (unsigned)value);
      } else {
        bool negative = *format == 'd' && value < 0;
        if (negative) pock_put(out, '-');
        put_whole(out, negative ? 0 - (uint64_t)value : (uint64_t)value);
      }
    } else {
      pock_put(out, *format);
    }
  }
}

void pock_format(struct pock_text* out, const char* format, ...) {
  va_list list;
  va_start(list, format);
  pock_format_list(out, format, list);
  va_end(list);
}
