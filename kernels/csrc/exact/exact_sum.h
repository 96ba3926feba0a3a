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

#include "runtime/repops.h"
#include "shared/bits.h"
#include <string.h>

#define EXACT_DIGITS 22
#define EXACT_UNIT 352 // digit i counts 2^(32 i - 352)

typedef struct {
    int64_t digit[EXACT_DIGITS];
    double beyond; // the sum of infinities and NaNs
} exact_sum;

__extension__ typedef __int128 wide_int;

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
    const uint64_t word = word_of(value), one = UINT64_C(1) << 52;
    const unsigned exponent = word >> 52 & 0x7FF;
    if (exponent - 1 >= 0x7FE) { // a zero; or not finite
        if (exponent) s->beyond += value;
        return;
    }
    const int64_t sign = (int64_t)word >> 63; // -1 for a negative value: (x ^ -1) - -1 is -x
    const int64_t mantissa = ((int64_t)((word & (one - 1)) | one) ^ sign) - sign;
    const unsigned shift = exponent - 1075 + EXACT_UNIT; // at least 2
    const wide_int moved = (wide_int)mantissa * ((wide_int)1 << shift % 32);
    int64_t *digit = s->digit + shift / 32;
    // NOTE: the fences keep compilers from adding two digits as a vector: its load would have to wait for the
    // single digit that the addition before has stored.
    digit[0] += (uint32_t)moved;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    digit[1] += (uint32_t)(moved >> 32);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    digit[2] += (int64_t)(moved >> 64); // has the sign
}

static inline void exact_join(exact_sum *s, const exact_sum *other) {
    for (int i = 0; i < EXACT_DIGITS; i++) s->digit[i] += other->digit[i];
    s->beyond += other->beyond;
}

// Return the sum as a binary64 value rounded to odd: if it is not exact, the last bit of the significand is
// 1. NOTE: any rounding to at most 51 bits then gives the same as a rounding of the sum itself.
double exact_odd(const exact_sum *s);

// Return the nearest value of bf16, ties to even, also those beyond its largest: 2^128 becomes an infinity in
// binary32. Below 2^-126 all values are multiples of 2^-133, the last place of 1.5 2^-81.
static inline __attribute__((always_inline)) double nearest_bf16(double x) {
    const double unit = 0x1.8p-81, small = (x + unit) - unit;
    const uint64_t word = word_of(x), below = (UINT64_C(1) << 45) - 1;
    const double large = double_of((word + (below >> 1) + (word >> 45 & 1)) & ~below);
    return !(__builtin_fabs(x) < __builtin_inf()) ? x : __builtin_fabs(x) < 0x1p-126 ? small : large;
}

// Round a sum that is known exactly, or was rounded to odd, to binary32 or to a value of bf16. A zero is +0.
static inline __attribute__((always_inline)) float rounded(double odd, int bf16) {
    return (float)(bf16 ? nearest_bf16(odd) : odd) + 0.0f;
}

static inline float exact_result(const exact_sum *s, int bf16) {
    return s->beyond == 0 ? rounded(exact_odd(s), bf16) : (float)s->beyond;
}

// Store a rounded result at element i of a binary32 or bf16 array.
static inline void put_exact(void *to, int64_t i, float value, int bf16) {
    if (bf16)
        ((uint16_t *)to)[i] = to_bf16(value);
    else
        ((float *)to)[i] = value;
}

#endif
