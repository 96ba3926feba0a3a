// pow. Part of elementary.h.
//
// exp(y log|x|) in binary64 has a relative error below 2^-43, which almost always decides the rounding.
// Otherwise the true value is near one midpoint z of two floats, and it remains to find whether x^y is less
// than, equal to or more than z. Equality is decided exactly, in integers. Without equality the sign of y ln
// x - ln z decides; it is computed in fixed point.
//
// NOTE: the fixed point is precise enough for this reason. The difference has an error below 2^-120 (160 bits
// of fraction, 2^7 truncations, a factor |y| < 2^32). There are fewer than 2^64 pairs. Each has a chance
// below 2^(25 - 120) to be that near to its midpoint without being on it: 2^-31 for all pairs together.

#ifndef REPOPS_POW_H
#define REPOPS_POW_H

#define POW_MARGIN 0x1p-43
#define FIXED_WORDS 6

// Two's complement, most significant word first; word 0 is the integer part.
typedef struct {
    uint32_t w[FIXED_WORDS];
} fixed;

TABLE uint32_t fixed_ln2[FIXED_WORDS] = {0, 0xB17217F7, 0xD1CF79AB, 0xC9E3B398, 0x03F2F6AF, 0x40F34326};

FN void fixed_add(fixed *a, const fixed *b) {
    uint64_t carry = 0;
    for (int i = FIXED_WORDS - 1; i >= 0; i--) {
        carry += (uint64_t)a->w[i] + b->w[i];
        a->w[i] = (uint32_t)carry;
        carry >>= 32;
    }
}
FN void fixed_negate(fixed *a) {
    uint64_t carry = 1;
    for (int i = FIXED_WORDS - 1; i >= 0; i--) {
        carry += (uint32_t)~a->w[i];
        a->w[i] = (uint32_t)carry;
        carry >>= 32;
    }
}
FN void fixed_multiply(fixed *a, uint32_t by) {
    uint64_t carry = 0;
    for (int i = FIXED_WORDS - 1; i >= 0; i--) {
        carry += (uint64_t)a->w[i] * by;
        a->w[i] = (uint32_t)carry;
        carry >>= 32;
    }
}
// Divide a >= 0; the remainder is dropped.
FN void fixed_divide(fixed *a, uint32_t by) {
    uint64_t rest = 0;
    for (int i = 0; i < FIXED_WORDS; i++) {
        rest = (rest << 32) | a->w[i];
        a->w[i] = (uint32_t)(rest / by);
        rest %= by;
    }
}
FN void fixed_halve(fixed *a) {
    for (int i = FIXED_WORDS - 1; i > 0; i--) a->w[i] = (a->w[i] >> 1) | (a->w[i - 1] << 31);
    a->w[0] = (a->w[0] >> 1) | (a->w[0] & 0x80000000);
}
FN int fixed_is_zero(const fixed *a) {
    uint32_t any = 0;
    for (int i = 0; i < FIXED_WORDS; i++) any |= a->w[i];
    return any == 0;
}

// Split a positive binary64 of at most 25 significant bits into m 2^e, m in [2^24, 2^25).
FN uint32_t leading_bits(double v, int32_t *e) {
    const uint64_t b = (uint64_t)bits64(v);
    *e = (int32_t)(b >> 52) - 1023 - 24;
    return (uint32_t)((b >> 28) & 0xFFFFFF) | 0x1000000;
}

// ln v = (e + base) ln2 + 2 atanh(s), s = (m - 2^base) / (m + 2^base), |s| <= 1/5.
FN fixed fixed_ln(double v) {
    int32_t e;
    const uint32_t m = leading_bits(v, &e);
    const int32_t base = m > 0x1555555 ? 25 : 24;
    const int below = m < (1u << base);
    const uint32_t d = below ? (1u << base) - m : m - (1u << base), q = m + (1u << base);
    fixed term = {{0}}, sum, power;
    term.w[0] = 2 * d;
    fixed_divide(&term, q);
    sum = term;
    for (uint32_t j = 3;; j += 2) {
        fixed_multiply(&term, d);
        fixed_divide(&term, q);
        fixed_multiply(&term, d);
        fixed_divide(&term, q);
        if (fixed_is_zero(&term)) break;
        power = term;
        fixed_divide(&power, j);
        fixed_add(&sum, &power);
    }
    if (below) fixed_negate(&sum);
    for (int i = 0; i < FIXED_WORDS; i++) power.w[i] = fixed_ln2[i];
    const int32_t k = e + base;
    fixed_multiply(&power, (uint32_t)(k < 0 ? -k : k));
    if (k < 0) fixed_negate(&power);
    fixed_add(&sum, &power);
    return sum;
}

// Return whether x^y > z, given that they differ.
// SAFETY: |y ln x| < 105, so y ln x times any 2^-i, i >= 0, and its 24-bit multiple of ln x fit in 32 bits.
FN int power_exceeds(double x, double y, double z) {
    int32_t e;
    const uint32_t n = leading_bits(y < 0.0 ? -y : y, &e) >> 1;
    fixed value = fixed_ln(x), other = fixed_ln(z);
    fixed_multiply(&value, n);
    if (y < 0.0) fixed_negate(&value);
    for (e += 1; e > 0; e--) fixed_multiply(&value, 2);
    for (; e < 0; e++) fixed_halve(&value);
    fixed_negate(&other);
    fixed_add(&value, &other);
    return !(value.w[0] >> 31);
}

// Split a positive binary64 of at most 25 significant bits into m 2^e, m odd.
FN uint32_t odd_part(double v, int32_t *e) {
    uint32_t m = leading_bits(v, e);
    for (; !(m & 1); m >>= 1) *e += 1;
    return m;
}

// Return whether x^y = z exactly, for a midpoint z of two floats (at most 25 significant bits).
// INVARIANT: x = m 2^a and |y| = n 2^b, m and n odd. A power of two to the y is a power of two or irrational.
// For m >= 3: x^-|y| has no finite binary expansion; x^(n / 2^k) is rational only if x is a 2^k-th power, as
// n is odd; and m^n < 2^25 only if n < 16.
FN int power_equals(double x, double y, double z) {
    int32_t a, b, c;
    uint32_t m = odd_part(x, &a);
    const uint32_t target = odd_part(z, &c);
    if (m == 1) return target == 1 && (double)a * y == (double)c;
    if (y < 0.0) return 0;
    uint32_t n = odd_part(y, &b);
    for (; b < 0; b++) {
        const uint32_t root = (uint32_t)sqrt((double)m);
        if ((a & 1) || root * root != m) return 0;
        m = root;
        a /= 2;
    }
    if (n > 15 || b > 3) return 0;
    n <<= b;
    uint64_t power = 1;
    for (uint32_t i = 0; i < n; i++) {
        power *= m;
        if (power > 0x2000000) return 0;
    }
    return power == target && a * (int32_t)n == c;
}

// Compute |x|^y for positive finite x and finite y.
FN float pow_of_positive(float x, float y) {
    const double v = exp_f64((double)y * log_f64((double)x));
    const float low = (float)(v - v * POW_MARGIN), high = (float)(v + v * POW_MARGIN);
    if (low == high) return low;
    const double z = high < INFINITE ? ((double)low + (double)high) * 0.5 : 0x1.ffffffp127;
    if (power_equals((double)x, (double)y, z)) return bits_of(low) & 1 ? high : low;
    return power_exceeds((double)x, (double)y, z) ? high : low;
}

// The cases of C's pow (C11, F.10.4.4), which docs/opset.md lists.
FN float pow_f32(float x, float y) {
    const float size = magnitude(x), height = magnitude(y);
    if (y == 0.0f || x == 1.0f) return 1.0f;
    if (x != x || y != y) return x + y;
    // Every float from 2^24 on is even; the infinities count as even here.
    const int integer = height >= 0x1p24f || (float)(int32_t)height == height;
    const int odd = integer && height < 0x1p24f && ((int32_t)height & 1);
    const float sign = odd ? x : 1.0f;
    if (size == 1.0f) return integer ? with_sign_of(1.0f, sign) : NOT_A_NUMBER; // x is -1
    if (size == 0.0f || size == INFINITE || height == INFINITE) {
        const int grows = (size > 1.0f) == (y > 0.0f);
        return with_sign_of(grows ? INFINITE : 0.0f, sign);
    }
    if (x < 0.0f && !integer) return NOT_A_NUMBER;
    return with_sign_of(pow_of_positive(size, y), sign);
}

#endif
