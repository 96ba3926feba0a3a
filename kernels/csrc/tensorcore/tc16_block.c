// The block of the mode tc16 for one element. Nothing here depends on the floating-point environment.

#include "tc16_block.h"

#define FRACTION_BITS 25 // below the largest exponent
#define LEAST_EXPONENT (-133)
#define LEAST_UNIT (-149)
#define F32_FRACTION 23

typedef struct {
    int32_t significand; // with 23 fractional bits and the term's sign
    int32_t exponent;
} term;

// The terms of a block; bit s of `infinities`: there is an infinity of sign s.
typedef struct {
    term at[TC16_TERMS + 1];
    int count, top, infinities, nan;
} terms;

static void add_term(terms *t, uint32_t sign, int32_t significand, int exponent) {
    t->at[t->count++] = (term){sign ? -significand : significand, exponent};
    t->top = exponent > t->top ? exponent : t->top;
}

static void add_product(terms *t, uint16_t a, uint16_t b) {
    if (a == ABSENT || b == ABSENT) return;
    const uint32_t x = a & BF16_SIZE, y = b & BF16_SIZE, sign = (uint32_t)(a ^ b) >> 15;
    if (x >= BF16_INFINITE || y >= BF16_INFINITE) {
        t->nan |= x > BF16_INFINITE || y > BF16_INFINITE || !x || !y;
        t->infinities |= 1 << sign;
    } else if (x && y) {
        const uint32_t high = x >> 7 ? x >> 7 : 1, low = y >> 7 ? y >> 7 : 1; // biased exponents
        const uint32_t m = (x & 127) | (x >> 7 ? 128 : 0), n = (y & 127) | (y >> 7 ? 128 : 0);
        add_term(t, sign, (int32_t)(m * n << (F32_FRACTION - 14)), (int)(high + low) - 254);
    }
}

static void add_accumulator(terms *t, uint32_t c) {
    const uint32_t size = c & INT32_MAX, sign = c >> 31, fraction = size & ((1u << F32_FRACTION) - 1);
    const uint32_t biased = size >> F32_FRACTION;
    if (size >= TC16_INFINITE) {
        t->nan |= size > TC16_INFINITE;
        t->infinities |= 1 << sign;
    } else if (size) {
        add_term(t, sign, (int32_t)(fraction | (biased ? 1u << F32_FRACTION : 0)),
                 (int)(biased ? biased : 1) - 127);
    }
}

// Round a sum in units of 2^(top - FRACTION_BITS) toward zero.
static uint32_t rounded(int64_t total, int top) {
    const uint64_t size = (uint64_t)(total < 0 ? -total : total);
    if (!size) return 0;
    const int first = 64 - __builtin_clzll(size), lowest = top - FRACTION_BITS;
    const int of_24 = lowest + first - F32_FRACTION - 1, unit = of_24 > LEAST_UNIT ? of_24 : LEAST_UNIT;
    const int down = unit - lowest;
    const uint64_t kept = down >= 64 ? 0 : down >= 0 ? size >> down : size << -down;
    if (!kept) return 0;
    uint32_t bits = (uint32_t)kept;
    if (kept >> F32_FRACTION) {
        const uint64_t normal = ((uint64_t)(unit + 150) << F32_FRACTION) + kept - (1u << F32_FRACTION);
        bits = normal < TC16_INFINITE ? (uint32_t)normal : TC16_INFINITE;
    }
    return (total < 0 ? UINT32_C(1) << 31 : 0) | bits;
}

uint32_t tc16_block(const uint16_t *a, const uint16_t *b, int64_t b_step, uint32_t c) {
    if ((c & INT32_MAX) > TC16_INFINITE) return TC16_NAN;
    terms t;
    t.count = 0, t.top = LEAST_EXPONENT, t.infinities = 0, t.nan = 0;
    for (int64_t k = 0; k < TC16_TERMS; k++) add_product(&t, a[k], b[k * b_step]);
    add_accumulator(&t, c);
    if (t.nan || t.infinities == 3) return TC16_NAN;
    if (t.infinities) return (t.infinities == 2 ? UINT32_C(1) << 31 : 0) | TC16_INFINITE;
    int64_t total = 0;
    for (int i = 0; i < t.count; i++) {
        const int below = t.top - t.at[i].exponent;
        const int32_t m = t.at[i].significand, size = m < 0 ? -m : m;
        const int64_t cut = below < 32 ? (int64_t)size << (FRACTION_BITS - F32_FRACTION) >> below : 0;
        total += m < 0 ? -cut : cut;
    }
    return rounded(total, t.top);
}
