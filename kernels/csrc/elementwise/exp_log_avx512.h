// exp and log of eight binary64 values for AVX-512: unary_avx512.c rounds them, pow_avx512.c combines them.

#ifndef REPOPS_EXP_LOG_AVX512_H
#define REPOPS_EXP_LOG_AVX512_H

#include "shared/elementary.h"
#include "vectors_avx512.h"

// ---------------------------------------------------------------------------------------------------- exp

// 2^(j/16) minus j 2^48 in the bits; adding k 2^48 with k = j mod 16 restores these bits.
static const uint64_t exp_table[16] = {
    0x3FF0000000000000, 0x3FEFB5586CF9890F, 0x3FEF72B83C7D517B, 0x3FEF387A6E756238,
    0x3FEF06FE0A31B715, 0x3FEEDEA64C123422, 0x3FEEBFDAD5362A27, 0x3FEEAB07DD485429,
    0x3FEEA09E667F3BCD, 0x3FEEA11473EB0187, 0x3FEEACE5422AA0DB, 0x3FEEC49182A3F090,
    0x3FEEE89F995AD3AD, 0x3FEF199BDD85529C, 0x3FEF5818DCFBA487, 0x3FEFA4AFA2A490DA,
};
// (exp(r) - 1 - r) / r^2 for |r| <= ln2 / 32: r + r^2 q is then exp(r) - 1 within a relative error of 2^-40
// and an absolute error of 2^-45.
static const double exp_polynomial[] = {0x1.ffffffff57e8bp-2, 0x1.55555555254ebp-3, 0x1.5556b33118113p-5,
                                        0x1.1111d8fc466d4p-7};

// exp(x) = scale (1 + tail), scale = 2^(k/16), x = k ln2/16 + r.
FN __m512d exp_split(__m512d x, __m512d *scale) {
    const __m512d shifted = FMA(x, ALL(0x1.71547652b82fep+4), ALL(ROUND_MAGIC));
    const __m512d k = _mm512_sub_pd(shifted, ALL(ROUND_MAGIC));
    const __m512d r = _mm512_fnmadd_pd(k, ALL(0x1.62e42fefa39efp-5), x);
    const __m512i bits = _mm512_castpd_si512(shifted);
    const __m512i entry = _mm512_castpd_si512(look_up(exp_table, bits));
    *scale = _mm512_castsi512_pd(_mm512_add_epi64(entry, _mm512_slli_epi64(bits, 48)));
    const __m512d square = _mm512_mul_pd(r, r);
    return FMA(square, POLYNOMIAL(r, square, exp_polynomial), r);
}
FN __m512d exp_lanes(__m512d x) {
    __m512d scale;
    const __m512d tail = exp_split(x, &scale);
    return FMA(scale, tail, scale);
}

// ---------------------------------------------------------------------------------------------------- log

// 1 / c and log(c), by the first four bits of m in [3/4, 3/2). c is about the middle of the interval with
// these bits, and 1 on both sides of 1.
static const double log_inverse[16] = {
    0x1p+0,
    0x1.d41d41d41d41dp-1,
    0x1.bacf914c1badp-1,
    0x1.a41a41a41a41ap-1,
    0x1.8f9c18f9c18fap-1,
    0x1.7d05f417d05f4p-1,
    0x1.6c16c16c16c17p-1,
    0x1.5c9882b931057p-1,
    0x1.4e5e0a72f0539p+0,
    0x1.4141414141414p+0,
    0x1.3521cfb2b78c1p+0,
    0x1.29e4129e4129ep+0,
    0x1.1f7047dc11f7p+0,
    0x1.15b1e5f75270dp+0,
    0x1.0c9714fbcda3bp+0,
    0x1p+0,
};
static const double log_center[16] = {
    0,
    0x1.6f0d28ae56b4ep-4,
    0x1.29552f81ff521p-3,
    0x1.9525a9cf456b6p-3,
    0x1.fb9186d5e3e29p-3,
    0x1.2e8e2bae11d31p-2,
    0x1.5d1bdbf5809cap-2,
    0x1.89a3386c1425bp-2,
    -0x1.1178e8227e47ap-2,
    -0x1.d1037f2655e7bp-3,
    -0x1.823c16551a3cp-3,
    -0x1.365fcb0159014p-3,
    -0x1.da7276384469ep-4,
    -0x1.4d3115d207eacp-4,
    -0x1.894aa149fb34bp-5,
    0,
};
// (log(1 + r) - r) / r^2 for -1/32 <= r <= 1/16: within 2^-44, and within 2^-55 for pow.
static const double log_short[] = {-0x1.0000000001317p-1, 0x1.55555553cbf67p-2,  -0x1.ffffff07030a5p-3,
                                   0x1.9999c2786c7aep-3,  -0x1.555e52363f9bep-3, 0x1.245671c278876p-3,
                                   -0x1.d24c27028e35ep-4};
static const double log_long[] = {-0x1.fffffffffffffp-2, 0x1.5555555555a3ap-2,  -0x1.000000000419p-2,
                                  0x1.999999898ca88p-3,  -0x1.55555443d9487p-3, 0x1.2492b09e0fc2dp-3,
                                  -0x1.0009a59a92b8ep-3, 0x1.c5ea4752e2c4ep-4,  -0x1.6a3df3a2d0318p-4};

// x = 2^k m, m in [3/4, 3/2), m = c (1 + r): log(x) = k ln2 + log(c) + log(1 + r); `base` is the first two
// terms. NOTE: the product of 3/2 and the binary64 nearest to 4/3 rounds to 2 (a tie), that of the number
// before 3/2 to less than 2.
FN __m512d log_split(__m512d x, __m512d *base) {
    const __m512d m = _mm512_getmant_pd(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_src);
    const __m512d k = _mm512_getexp_pd(_mm512_mul_pd(x, ALL(0x1.5555555555555p+0)));
    const __m512i at = _mm512_srli_epi64(_mm512_castpd_si512(m), 48);
    *base = FMA(k, ALL(0x1.62e42fefa39efp-1), look_up(log_center, at));
    return FMA(m, look_up(log_inverse, at), ALL(-1.0));
}
FN __m512d log_short_lanes(__m512d r, __m512d base) {
    const __m512d square = _mm512_mul_pd(r, r);
    return _mm512_add_pd(base, FMA(square, POLYNOMIAL(r, square, log_short), r));
}
FN __m512d log_long_lanes(__m512d x) {
    __m512d base;
    const __m512d r = log_split(x, &base);
    const __m512d square = _mm512_mul_pd(r, r);
    return _mm512_add_pd(base, FMA(square, POLYNOMIAL(r, square, log_long), r));
}

#endif
