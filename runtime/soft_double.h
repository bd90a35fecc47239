// Double precision for cores that compute floats only: IEEE 754 to nearest even, where denormals are zero, as everywhere
// in pock. Numbers are given and returned as their bits.
#ifndef POCK_SOFT_DOUBLE_H
#define POCK_SOFT_DOUBLE_H

#include <stdint.h>

uint64_t pock_soft_add(uint64_t a, uint64_t b);
uint64_t pock_soft_multiply(uint64_t a, uint64_t b);
uint64_t pock_soft_divide(uint64_t a, uint64_t b);
uint64_t pock_soft_root(uint64_t a);
// -1, 0 or 1 as a is less than b, equal to it or greater; 2 where one of them is no number.
int pock_soft_compare(uint64_t a, uint64_t b);
uint64_t pock_soft_widen(uint32_t single);
uint32_t pock_soft_narrow(uint64_t a);
uint64_t pock_soft_from_whole(uint64_t magnitude, int negative);
// Towards zero; the nearest there is where it does not fit. 0 for what is no number.
int64_t pock_soft_to_signed(uint64_t a);
uint64_t pock_soft_to_unsigned(uint64_t a);

#endif
