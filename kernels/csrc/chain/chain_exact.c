// Exact sums of products of two binary32 values: the twin of referee_py/element/exact_sum.py.
//
// A sum is an integer in units of 2^-298, 96 bytes in two's complement. 2^31 products are below 2^585, so no
// sum of a chain leaves these bytes. Three integers outside that range stand for the infinities and NaN.

#include "chain.h"
#include <math.h>
#include <string.h>

#define UNIT 298
#define MANTISSA 52
#define BIAS 1023
#define EXACT_BYTES (8 * LIMBS)
#define INFINITE ((uint64_t)1 << 62) // the highest limb of 2^766
#define NO_NUMBER ((uint64_t)1 << 63)

static exact get_sum(const uint8_t *from) {
    exact e = {.is = FINITE};
    uint64_t below = 0;
    for (int i = 0; i < LIMBS; i++) e.limb[i] = get_be(from + EXACT_BYTES - 8 * (i + 1), 8);
    for (int i = 0; i < LIMBS - 1; i++) below |= e.limb[i];
    const uint64_t high = e.limb[LIMBS - 1];
    if (!below && high == INFINITE) e.is = PLUS_INFINITY;
    if (!below && high == (uint64_t)-INFINITE) e.is = MINUS_INFINITY;
    if (!below && high == NO_NUMBER) e.is = NOT_A_NUMBER;
    return e;
}

static void put_sum(uint8_t *to, const exact *e) {
    static const uint64_t high[] = {
        [PLUS_INFINITY] = INFINITE, [MINUS_INFINITY] = (uint64_t)-INFINITE, [NOT_A_NUMBER] = NO_NUMBER};
    memset(to, 0, EXACT_BYTES);
    if (e->is != FINITE) {
        put_be(to, 8, high[e->is]);
        return;
    }
    for (int i = 0; i < LIMBS; i++) put_be(to + EXACT_BYTES - 8 * (i + 1), 8, e->limb[i]);
}

// Layout: total (96 bytes); SUMS_LOGGED: magnitude (96), terms (8), and if values are added, smallest (4).
static int adds_values(const chain *c) {
    return c->kind == CHAIN_SUM || c->kind == CHAIN_SCATTER;
}

exact_sums get_exact(const chain *c) {
    const uint8_t *magnitude = c->state + EXACT_BYTES, *tail = magnitude + EXACT_BYTES;
    exact_sums s = {.total = get_sum(c->state), .logged = c->sums == SUMS_LOGGED};
    if (!s.logged) return s;
    s.magnitude = get_sum(magnitude), s.terms = get_be(tail, 8);
    if (adds_values(c)) s.smallest = (uint32_t)get_be(tail + 8, 4);
    return s;
}

void put_exact(const chain *c, const exact_sums *s) {
    uint8_t *magnitude = c->state + EXACT_BYTES, *tail = magnitude + EXACT_BYTES;
    put_sum(c->state, &s->total);
    if (!s->logged) return;
    put_sum(magnitude, &s->magnitude), put_be(tail, 8, s->terms);
    if (adds_values(c)) put_be(tail + 8, 4, s->smallest);
}

// Infinity plus a finite sum is infinity; two infinities of different signs give NaN.
static void add_beyond(exact *e, double what) {
    const int found = what != what ? NOT_A_NUMBER : what > 0 ? PLUS_INFINITY : MINUS_INFINITY;
    e->is = e->is == FINITE || (int)e->is == found ? found : NOT_A_NUMBER;
}

// Add to `count` limbs, limb[0] first. NOTE: two's complement drops a carry out of the last limb.
static inline void plus(uint64_t *limb, int count, uint64_t low, uint64_t high) {
    uint64_t carry = (limb[0] += low) < low;
    const uint64_t more = high + carry; // below 2^54
    carry = (limb[1] += more) < more;
    for (int i = 2; carry && i < count; i++) carry = ++limb[i] == 0;
}
static inline void minus(uint64_t *limb, int count, uint64_t low, uint64_t high) {
    uint64_t borrow = limb[0] < low;
    limb[0] -= low;
    const uint64_t more = high + borrow;
    borrow = limb[1] < more;
    limb[1] -= more;
    for (int i = 2; borrow && i < count; i++) borrow = limb[i]-- == 0;
}

static void add_exactly(exact_sums *s, double value) {
    s->terms++;
    if (!(fabs(value) <= DBL_MAX)) {
        add_beyond(&s->total, value);
        if (s->logged) add_beyond(&s->magnitude, fabs(value));
        return;
    }
    if (value == 0 || s->total.is != FINITE) return;
    // INVARIANT: value is a multiple of 2^-298 below 2^257, so it is a normal binary64 number. The bits that
    // a shift to the right would lose are 0, and the highest limb that it changes is number 9 of 12.
    const uint64_t bits = (uint64_t)bits64(value), one = (uint64_t)1 << MANTISSA;
    const int shift = (int)(bits >> MANTISSA & 0x7FF) - BIAS - MANTISSA + UNIT;
    const uint64_t mantissa = ((bits & (one - 1)) | one) >> (shift < 0 ? -shift : 0);
    const int place = shift < 0 ? 0 : shift / 64, by = shift < 0 ? 0 : shift % 64;
    const uint64_t low = mantissa << by, high = by ? mantissa >> (64 - by) : 0;
    (value < 0 ? minus : plus)(s->total.limb + place, LIMBS - place, low, high);
    if (s->logged) plus(s->magnitude.limb + place, LIMBS - place, low, high);
}

void add_product(exact_sums *s, double product) {
    add_exactly(s, product);
}

void add_value(exact_sums *s, float value) {
    const uint32_t size = (uint32_t)bits_of(value) & 0x7FFFFFFF;
    add_exactly(s, (double)value);
    if (size && size < 0x7F800000 && (!s->smallest || size < s->smallest)) s->smallest = size;
}
