// sin and cos. Part of elementary.h.
//
// x = k pi/2 + r with |r| at most slightly above pi/4; a polynomial of r for the sine or the cosine; k mod 4
// selects it and its sign.

#ifndef REPOPS_TRIG_H
#define REPOPS_TRIG_H

// pi/2 in three parts. The first two have 33 bits, so their products with |k| < 2^19 are exact.
#define HALF_PI_1 0x1.921fb544p+0
#define HALF_PI_2 0x1.0b4611a6p-34
#define HALF_PI_3 0x1.3198a2e037073p-69
#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define TRIG_MODERATE 0x1p18f // above this, three parts are not enough

// NOTE: x - k HALF_PI_1 is exact, because both are multiples of 2^-32 (2^-24 if k is not 0) and the
// difference is below 1. Later roundings are relative to r itself, even if r is tiny: no float below 2^18 is
// nearer than 2^-30 to a multiple of pi/2, and the part of pi/2 that is left out is below 2^-121.
FN double reduce_moderate(double x, int32_t *k) {
    const double shifted = MULADD(x, TWO_OVER_PI, ROUND_MAGIC);
    const double kd = shifted - ROUND_MAGIC;
    *k = (int32_t)bits64(shifted);
    return MULADD(-kd, HALF_PI_3, MULADD(-kd, HALF_PI_2, MULADD(-kd, HALF_PI_1, x)));
}

TABLE uint32_t two_over_pi[] = {0,          0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0,
                                0xDB629599, 0x3C439041, 0xFE5163AB, 0xDEBBC561};

// For 0.5 <= x < 2^128 (Payne and Hanek): x = m 2^q, so x 2/pi mod 4 needs only the bits of 2/pi of weight
// 2^(1 - q) down to 2^(-126 - q); the higher ones give multiples of 4. The error, m 2^-126, is below 2^-102.
FN double reduce_any(float x, int32_t *k) {
    const uint32_t b = (uint32_t)bits_of(x), m = (b & 0x7FFFFF) | 0x800000;
    const int32_t start = (int32_t)(b >> 23) - 150 + 30; // place in the table: q + 30
    const uint32_t *w = two_over_pi + (start >> 5);
    const int32_t by = start & 31;
    uint32_t product[4];
    uint64_t carry = 0;
    for (int32_t i = 3; i >= 0; i--) {
        const uint64_t pair = ((uint64_t)w[i] << 32) | w[i + 1];
        carry += (uint64_t)m * (uint32_t)(pair >> (32 - by));
        product[i] = (uint32_t)carry;
        carry >>= 32;
    }
    const uint64_t high = ((uint64_t)product[0] << 32) | product[1];
    const uint64_t low = ((uint64_t)product[2] << 32) | product[3];
    const int64_t fraction = (int64_t)((high << 2) | (low >> 62)); // of a quadrant, in [-1/2, 1/2)
    *k = (int32_t)(high >> 62) + (fraction < 0);
    return ((double)fraction * 0x1p-64 + (double)(low << 2) * 0x1p-128) * (HALF_PI_1 + HALF_PI_2);
}

// The sine of k pi/2 + r by Chebyshev interpolations, errors below 2^-55 and 2^-60.
FN double sin_of_parts(double r, int32_t k) {
    const double z = r * r;
    double s = 0x1.5e0b197af9741p-33;
    s = MULADD(s, z, -0x1.ae600b015927bp-26);
    s = MULADD(s, z, 0x1.71de379688c12p-19);
    s = MULADD(s, z, -0x1.a01a019e83a9ep-13);
    s = MULADD(s, z, 0x1.1111111110bb2p-7);
    s = MULADD(s, z, -0x1.5555555555555p-3);
    s = MULADD(z * r, s, r);
    double c = -0x1.907da2e9cd397p-37;
    c = MULADD(c, z, 0x1.1eeb68e88cbb9p-29);
    c = MULADD(c, z, -0x1.27e4fa17d9624p-22);
    c = MULADD(c, z, 0x1.a01a019f4eaf9p-16);
    c = MULADD(c, z, -0x1.6c16c16c16967p-10);
    c = MULADD(c, z, 0x1.5555555555555p-5);
    c = MULADD(z * z, c, MULADD(z, -0.5, 1.0));
    const double y = k & 1 ? c : s;
    return k & 2 ? -y : y;
}

// For |x| < TRIG_MODERATE.
FN double sin_f64(double x) {
    int32_t k;
    const double r = reduce_moderate(x, &k);
    return sin_of_parts(r, k);
}
FN double cos_f64(double x) {
    int32_t k;
    const double r = reduce_moderate(x, &k);
    return sin_of_parts(r, k + 1);
}

FN double sin_shifted(float size, int32_t shift) {
    int32_t k;
    const double r = size < TRIG_MODERATE ? reduce_moderate((double)size, &k) : reduce_any(size, &k);
    return sin_of_parts(r, k + shift);
}

FN float sin_f32(float x) {
    const float size = magnitude(x);
    if (!(size < INFINITE)) return x - x;
    return with_sign_of(decide(sin_shifted(size, 0), size, sin_hard, HARD(sin_hard)), x);
}

FN float cos_f32(float x) {
    const float size = magnitude(x);
    if (!(size < INFINITE)) return x - x;
    return decide(sin_shifted(size, 1), size, cos_hard, HARD(cos_hard));
}

#endif
