// The rounding of an exact sum (exact_sum.h).

#include "exact_sum.h"

double exact_odd(const exact_sum *s) {
    // Digits from 0 to 2^32 - 1, and the sign.
    uint64_t digit[EXACT_DIGITS];
    int64_t carry = 0;
    for (int i = 0; i < EXACT_DIGITS; i++) {
        carry += s->digit[i];
        digit[i] = (uint64_t)carry & 0xFFFFFFFF;
        carry >>= 32;
    }
    const uint64_t negative = carry < 0;
    if (negative) {
        uint64_t one = 1;
        for (int i = 0; i < EXACT_DIGITS; i++) {
            one += digit[i] ^ 0xFFFFFFFF;
            digit[i] = one & 0xFFFFFFFF;
            one >>= 32;
        }
    }
    int top = EXACT_DIGITS - 1;
    while (top >= 0 && digit[top] == 0) top--;
    if (top < 0) return 0;

    // The first 64 bits, the first of them set; the bits below only count as zero or not.
    // INVARIANT: a nonzero sum is at least 2^-298, so there are digits below.
    const int empty = __builtin_clzll(digit[top]) - 32;
    const uint64_t high = digit[top] << 32 | digit[top - 1], low = digit[top - 2] << empty;
    const uint64_t first = high << empty | low >> 32;
    uint64_t below = (low & 0xFFFFFFFF) | (first & 0x7FF);
    for (int i = 0; i < top - 2; i++) below |= digit[i];
    const uint64_t mantissa = first >> 11 | (below != 0);
    const int exponent = 32 * top + 31 - empty - EXACT_UNIT + 1023;
    return double_of(negative << 63 | (((uint64_t)exponent << 52) + (mantissa & ((UINT64_C(1) << 52) - 1))));
}
