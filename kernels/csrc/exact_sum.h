// A sum of binary64 values without any rounding, and its one rounding at the end (mode exact, docs/opset.md,
// section 2).
//
// The sum is a number in digits of 32 bits, each held in 64 bits, so that carries wait until the end.
//
// INVARIANT: every value is a multiple of 2^-298 below 2^288, and there are fewer than 2^31 of them: products
// of two binary32 values, or partial sums of a chain's at most 2^30 products. So a nonzero value is a normal
// number, and no digit overflows.

#ifndef REPOPS_EXACT_SUM_H
#define REPOPS_EXACT_SUM_H

#include "repops.h"
#include <string.h>

#define EXACT_DIGITS 22
#define EXACT_UNIT 352 // digit i counts 2^(32 i - 352)

typedef struct {
    int64_t digit[EXACT_DIGITS];
    double beyond; // the sum of infinities and NaNs
} exact_sum;

static inline uint64_t word_of(double x) {
    uint64_t word;
    memcpy(&word, &x, sizeof word);
    return word;
}
static inline double double_of(uint64_t word) {
    double x;
    memcpy(&x, &word, sizeof x);
    return x;
}

static inline void exact_add(exact_sum *s, double value) {
    const uint64_t word = word_of(value);
    const int exponent = (int)(word >> 52 & 0x7FF);
    if (exponent == 0) return; // a zero
    if (exponent == 0x7FF) {
        s->beyond += value;
        return;
    }
    const uint64_t mantissa = (word & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    const int shift = exponent - 1075 + EXACT_UNIT; // at least 2
    const int by = shift % 32;
    const uint64_t low = mantissa << by, high = mantissa >> 1 >> (63 - by);
    const int64_t sign = (int64_t)word >> 63; // -1 for a negative value: (x ^ -1) - -1 is -x
    int64_t *digit = s->digit + shift / 32;
    digit[0] += ((int64_t)(low & 0xFFFFFFFF) ^ sign) - sign;
    digit[1] += ((int64_t)(low >> 32) ^ sign) - sign;
    digit[2] += ((int64_t)high ^ sign) - sign;
}

static inline void exact_join(exact_sum *s, const exact_sum *other) {
    for (int i = 0; i < EXACT_DIGITS; i++) s->digit[i] += other->digit[i];
    s->beyond += other->beyond;
}

// Return the sum as a binary64 value rounded to odd: if it is not exact, the last bit of the significand is
// 1. NOTE: any rounding to at most 51 bits then gives the same as a rounding of the sum itself.
double exact_odd(const exact_sum *s);

// Round a sum that was rounded to odd. A zero is +0.
static inline float rounded(double odd) {
    return (float)odd + 0.0f;
}

static inline float exact_result(const exact_sum *s) {
    return s->beyond == 0 ? rounded(exact_odd(s)) : (float)s->beyond;
}

#endif
