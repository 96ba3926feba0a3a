// The block of the mode tc16 (docs/opset.md, section 2), in integers, in the common subset of C11 and CUDA
// C++: begin, add 16 products at most, end. Nothing here depends on the floating-point environment.

#ifndef REPOPS_TC16_RULE_H
#define REPOPS_TC16_RULE_H

#include "bits.h"

#define TC16_TERMS 16 // products of a block
#define TC16_NAN ((uint32_t)0x7FC00000)
#define TC16_INFINITE ((uint32_t)0x7F800000)
#define BF16_INFINITE 0x7F80
#define BF16_SIZE 0x7FFF // all bits but the sign

#define TC16_FRACTION_BITS 25 // below the largest exponent
#define TC16_LEAST_EXPONENT (-133)
#define TC16_LEAST_UNIT (-149)
#define F32_FRACTION 23

typedef struct {
    int32_t significand; // with 23 fractional bits and the term's sign
    int32_t exponent;
} tc16_term;

// The terms of a block; bit s of `infinities`: there is an infinity of sign s.
typedef struct {
    tc16_term at[TC16_TERMS + 1];
    int count, top, infinities, nan;
} tc16_sum;

FN int bit_length(uint64_t x) { // x is not 0
#ifdef __CUDACC__
    return 64 - __clzll((long long)x);
#else
    return 64 - __builtin_clzll(x);
#endif
}

FN void tc16_begin(tc16_sum *t) {
    t->count = 0, t->top = TC16_LEAST_EXPONENT, t->infinities = 0, t->nan = 0;
}

FN void tc16_add_term(tc16_sum *t, uint32_t sign, int32_t significand, int exponent) {
    t->at[t->count].significand = sign ? -significand : significand;
    t->at[t->count++].exponent = exponent;
    t->top = exponent > t->top ? exponent : t->top;
}

// Add the product of two numbers of bf16.
FN void tc16_add_product(tc16_sum *t, uint16_t a, uint16_t b) {
    const uint32_t x = a & BF16_SIZE, y = b & BF16_SIZE, sign = (uint32_t)(a ^ b) >> 15;
    if (x >= BF16_INFINITE || y >= BF16_INFINITE) {
        t->nan |= x > BF16_INFINITE || y > BF16_INFINITE || !x || !y;
        t->infinities |= 1 << sign;
    } else if (x && y) {
        const uint32_t high = x >> 7 ? x >> 7 : 1, low = y >> 7 ? y >> 7 : 1; // biased exponents
        const uint32_t m = (x & 127) | (x >> 7 ? 128 : 0), n = (y & 127) | (y >> 7 ? 128 : 0);
        tc16_add_term(t, sign, (int32_t)(m * n << (F32_FRACTION - 14)), (int)(high + low) - 254);
    }
}

FN void tc16_add_accumulator(tc16_sum *t, uint32_t c) {
    const uint32_t size = c & INT32_MAX, sign = c >> 31, fraction = size & ((1u << F32_FRACTION) - 1);
    const uint32_t biased = size >> F32_FRACTION;
    if (size >= TC16_INFINITE) {
        t->nan |= size > TC16_INFINITE;
        t->infinities |= 1 << sign;
    } else if (size) {
        tc16_add_term(t, sign, (int32_t)(fraction | (biased ? 1u << F32_FRACTION : 0)),
                      (int)(biased ? biased : 1) - 127);
    }
}

// Round a sum in units of 2^(top - TC16_FRACTION_BITS) toward zero.
FN uint32_t tc16_rounded(int64_t total, int top) {
    const uint64_t size = (uint64_t)(total < 0 ? -total : total);
    if (!size) return 0;
    const int lowest = top - TC16_FRACTION_BITS, of_24 = lowest + bit_length(size) - F32_FRACTION - 1;
    const int unit = of_24 > TC16_LEAST_UNIT ? of_24 : TC16_LEAST_UNIT, down = unit - lowest;
    const uint64_t kept = down >= 64 ? 0 : down >= 0 ? size >> down : size << -down;
    if (!kept) return 0;
    uint32_t bits = (uint32_t)kept;
    if (kept >> F32_FRACTION) {
        const uint64_t normal = ((uint64_t)(unit + 150) << F32_FRACTION) + kept - (1u << F32_FRACTION);
        bits = normal < TC16_INFINITE ? (uint32_t)normal : TC16_INFINITE;
    }
    return (total < 0 ? (uint32_t)1 << 31 : 0) | bits;
}

// Return the bits of binary32 of the products and an accumulator, summed.
FN uint32_t tc16_end(tc16_sum *t, uint32_t c) {
    tc16_add_accumulator(t, c);
    if (t->nan || t->infinities == 3) return TC16_NAN;
    if (t->infinities) return (t->infinities == 2 ? (uint32_t)1 << 31 : 0) | TC16_INFINITE;
    int64_t total = 0;
    for (int i = 0; i < t->count; i++) {
        const int below = t->top - t->at[i].exponent;
        const int32_t m = t->at[i].significand, size = m < 0 ? -m : m;
        const int64_t cut = below < 32 ? (int64_t)size << (TC16_FRACTION_BITS - F32_FRACTION) >> below : 0;
        total += m < 0 ? -cut : cut;
    }
    return tc16_rounded(total, t->top);
}

#endif
