// The elementary functions for AVX-512: shorter polynomials than the scalar ones, helped by tables of sixteen
// entries that stay in registers.
//
// Every function here has a relative error below the 2^-PRECISION that stands with it, and an element whose
// value is that near to a midpoint of two floats, or out of the ordinary, goes to the scalar function. So the
// result rests on the bounds, and the polynomials (Chebyshev interpolations) may be as short as keeps such
// elements rare.

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))),         \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#endif

#define MULADD(a, b, c) __builtin_fma(a, b, c)
#include "elementary.h"
#include "maps.h"
#include "maps_avx512.h"

// ------------------------------------------------------------------------------------------- exp and tanh

// 2^(j/16), less j 2^48 in the bits, which adding k 2^48 with k = j mod 16 gives back.
static const uint64_t exp_table[16] = {
    0x3FF0000000000000, 0x3FEFB5586CF9890F, 0x3FEF72B83C7D517B, 0x3FEF387A6E756238,
    0x3FEF06FE0A31B715, 0x3FEEDEA64C123422, 0x3FEEBFDAD5362A27, 0x3FEEAB07DD485429,
    0x3FEEA09E667F3BCD, 0x3FEEA11473EB0187, 0x3FEEACE5422AA0DB, 0x3FEEC49182A3F090,
    0x3FEEE89F995AD3AD, 0x3FEF199BDD85529C, 0x3FEF5818DCFBA487, 0x3FEFA4AFA2A490DA,
};
// (exp(r) - 1 - r) / r^2 for |r| <= ln2 / 32: with it, r + r^2 q is exp(r) - 1 within 2^-40 relatively, and
// within 2^-45 absolutely.
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

// NOTE: below -104 the result is 0 and needs no second look; between there and -87.3 it is subnormal. The
// order of operands keeps a NaN.
FN __m512 exp_16(__m512 x, __mmask16 *again) {
    const __m512 above = _mm512_max_ps(_mm512_set1_ps(-105.0f), x);
    const wide w = widen(_mm512_min_ps(_mm512_set1_ps(90.0f), above));
    const wide y = {exp_lanes(w.low), exp_lanes(w.high)};
    const __mmask16 small = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.3f), _CMP_LT_OQ);
    *again = uncertain(y, 44) | _mm512_mask_cmp_ps_mask(small, x, _mm512_set1_ps(-104.0f), _CMP_GE_OQ);
    return narrow(y);
}

// t / (t + 2), t = exp(2 a) - 1. The reciprocal of d = t + 2 is r (1 + e + e^2), |e| = |1 - d r| < 2^-14.
FN __m512d tanh_lanes(__m512d a) {
    __m512d scale;
    const __m512d tail = exp_split(_mm512_add_pd(a, a), &scale);
    const __m512d t = FMA(scale, tail, _mm512_sub_pd(scale, ALL(1.0)));
    const __m512d d = _mm512_add_pd(t, ALL(2.0)), r = _mm512_rcp14_pd(d);
    const __m512d e = _mm512_fnmadd_pd(d, r, ALL(1.0));
    return _mm512_mul_pd(t, FMA(r, FMA(e, e, e), r));
}
FN __m512 tanh_16(__m512 x, __mmask16 *again) {
    const wide w = widen(_mm512_min_ps(_mm512_set1_ps(10.0f), size_of(x)));
    const wide y = {tanh_lanes(w.low), tanh_lanes(w.high)};
    *again = uncertain(y, 39);
    return signed_as(narrow(y), x);
}

// ------------------------------------------------------------------------------------------ log and log1p

// By the first four bits of m in [3/4, 3/2): 1 / c and log(c), c about the middle of where these bits
// lead, and 1 on both sides of 1.
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

// x = 2^k m, m in [3/4, 3/2), m = c (1 + r): log(x) = k ln2 + log(c) + log(1 + r), of which `base` is the
// first two. NOTE: times the binary64 nearest to 4/3, 3/2 rounds to 2 (a tie) and the number before it to
// less.
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

FN __m512d log_lanes(__m512d x) {
    __m512d base;
    const __m512d r = log_split(x, &base);
    return log_short_lanes(r, base);
}
FN __m512 log_16(__m512 x, __mmask16 *again) {
    const wide w = widen(x);
    const wide y = {log_lanes(w.low), log_lanes(w.high)};
    *again = uncertain(y, 42) | (__mmask16)~positive_finite(x);
    return narrow(y);
}

// For |x| < 1/64, k = 0 and c = 1, and r is x itself, of which 1 + x may have lost the last bits.
FN __m512d log1p_lanes(__m512d x) {
    __m512d base;
    const __m512d r = log_split(_mm512_add_pd(x, ALL(1.0)), &base);
    const __mmask8 small = _mm512_cmp_pd_mask(_mm512_abs_pd(x), ALL(0x1p-6), _CMP_LT_OQ);
    return log_short_lanes(_mm512_mask_mov_pd(r, small, x), base);
}
FN __m512 log1p_16(__m512 x, __mmask16 *again) {
    const wide w = widen(x);
    const wide y = {log1p_lanes(w.low), log1p_lanes(w.high)};
    const __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-1.0f), _CMP_GT_OQ);
    *again = uncertain(y, 42) |
             (__mmask16)~_mm512_mask_cmp_ps_mask(above, x, _mm512_set1_ps(INFINITE), _CMP_LT_OQ);
    return signed_as(narrow(y), x);
}

// ---------------------------------------------------------------------------------------------------- erf

// erf(a) / a around c = 1/8, 3/8, ..., 31/8: a row for each power of a - c, within 2^-38.8.
static const double erf_rows[8][16] = {
    // clang-format off
    {
    0x1.1f5e1a35c15bcp+0, 0x1.13e08c7a162f5p+0, 0x1.fe8f1614e7e7dp-1, 0x1.cacbc181fbb33p-1,
    0x1.9450bb1ec7b17p-1, 0x1.611065fc927e6p-1, 0x1.3448f8704acc5p-1, 0x1.0ee12190b09a4p-1,
    0x1.e09a79ee7d2f9p-2, 0x1.aed200cd6800bp-2, 0x1.8603df09099c5p-2, 0x1.64282886ff376p-2,
    0x1.47ad3ff301a4ep-2, 0x1.2f6827c1b0936p-2, 0x1.1a7b909ae7a49p-2, 0x1.08420fc7a48fap-2,
    },
    {
    -0x1.7d900b9e864edp-4, -0x1.09ac3c1b26fap-2, -0x1.7edef5d897f03p-2, -0x1.b29323959aa34p-2,
    -0x1.ad1533f369d6ep-2, -0x1.82ad1810b841ap-2, -0x1.48b7c44d5260dp-2, -0x1.0e9e17d612868p-2,
    -0x1.b87061646ea6fp-3, -0x1.675759c9faee1p-3, -0x1.284241dbd5e2fp-3, -0x1.ef1beecc9c43cp-4,
    -0x1.a35763ed2f25p-4, -0x1.6793ed0a04212p-4, -0x1.37b3d829952bfp-4, -0x1.10c83ad00a3f7p-4,
    },
    {
    -0x1.766bd0f161544p-2, -0x1.276ba5b2000acp-2, -0x1.5275c5e26ce54p-3, -0x1.4574db8c3b506p-5,
    0x1.bbf49239d219cp-5, 0x1.ab151a9f97f44p-4, 0x1.df898851d794fp-4, 0x1.b7e9ea696ccdp-4,
    0x1.6bfb99736d1ep-4, 0x1.1e314dd0addadp-4, 0x1.ba09e28a423c7p-5, 0x1.560bd269f1fefp-5,
    0x1.0bd914b6a3d1dp-5, 0x1.a9f5181a82684p-6, 0x1.57e94aec0bc8cp-6, 0x1.199374fe15314p-6,
    },
    {
    0x1.c5a8df89ce912p-5, 0x1.24d6bb72d434bp-3, 0x1.671c4f05ea4fbp-3, 0x1.367b5cc6963cp-3,
    0x1.8a284b721ec12p-4, 0x1.3fc0da61b45e7p-5, -0x1.685f0e131ba12p-10, -0x1.5d2c61e29e7abp-6,
    -0x1.ae6bfd5c70f29p-6, -0x1.8349c32a0941bp-6, -0x1.324482457934ep-6, -0x1.cac3dc961c5bap-7,
    -0x1.52a6a0ea3d808p-7, -0x1.f70a65cd13312p-8, -0x1.7b2696369c633p-8, -0x1.229a7def8a406p-8,
    },
    {
    0x1.b4bfec590f7e4p-4, 0x1.01ba0dedfb279p-4, 0x1.d30351433d841p-10, -0x1.6f0c46294c526p-5,
    -0x1.f1065c4e57c5p-5, -0x1.9e443463df455p-5, -0x1.e76f5b6df8366p-6, -0x1.6e1a591224319p-7,
    -0x1.63d05383dddecp-15, 0x1.21e0c44618a2dp-8, 0x1.4b8608107fcf6p-8, 0x1.143f97ffd8dap-8,
    0x1.9a16be6af584dp-9, 0x1.249699ff0b064p-9, 0x1.a01e8605d2bdap-10, 0x1.2b9383cb2c7fep-10,
    },
    {
    -0x1.40df3df793d53p-6, -0x1.7d1e957edb1ep-5, -0x1.7ea635624501bp-5, -0x1.a39a6c63d2a41p-6,
    -0x1.2faa2e4db6d0cp-11, 0x1.dbbf775d63912p-7, 0x1.166e2c75033e4p-6, 0x1.8b937c14a5b83p-7,
    0x1.82ad6a61a0b89p-8, 0x1.b2413fc55cd13p-10, -0x1.4fd50ecc15995p-12, -0x1.c8420183b700dp-11,
    -0x1.ac1def7eb8b85p-11, -0x1.4154b6c80d046p-11, -0x1.bfb6e0ca9d012p-12, -0x1.3304da054088ep-12,
    },
    {
    -0x1.9113232706ff2p-6, -0x1.3828e2f105e26p-7, 0x1.16526b1065aep-7, 0x1.1b8d0be8f5ad4p-6,
    0x1.d3bb3f0b332b8p-7, 0x1.6d73c4bd60f83p-8, -0x1.94c54948919ebp-10, -0x1.1480507aee28bp-8,
    -0x1.db339fe0824d7p-9, -0x1.07cc9bfbe2c6dp-9, -0x1.83ee16eec77a7p-11, -0x1.99ba17d566091p-14,
    0x1.e22f4a3fae399p-14, 0x1.20fed9c5c8017p-13, 0x1.c04fd8f41957cp-14, 0x1.33873b6d3319ap-14,
    },
    {
    0x1.475750db9050fp-8, 0x1.63c417a708ec9p-7, 0x1.160a7571fdf94p-7, 0x1.63ce978a129fap-10,
    -0x1.108b013591871p-8, -0x1.4b14852ce9368p-8, -0x1.72ba1194bc82fp-9, -0x1.865272af19fb9p-12,
    0x1.af16a7ff938d1p-11, 0x1.d52e8dd607714p-11, 0x1.1ad1672100bdfp-11, 0x1.c871add697c95p-13,
    0x1.98dad8ba05af6p-15, -0x1.5b827a9b1031bp-17, -0x1.5b60ee10f5e41p-16, -0x1.1a3241b2fbac4p-16,
    },
    // clang-format on
};

// NOTE: adding and subtracting erf_magic rounds to a multiple of 1/4, whose number stands in the low bits.
FN __m512d erf_lanes(__m512d a) {
    const __m512d magic = ALL(0x1.8p50), moved = _mm512_sub_pd(a, ALL(0.125));
    const __m512d shifted = _mm512_add_pd(moved, magic);
    const __m512d t = _mm512_sub_pd(moved, _mm512_sub_pd(shifted, magic));
    const __m512i at = _mm512_castpd_si512(shifted);
    const __m512d square = _mm512_mul_pd(t, t);
    __m512d p = FMA(look_up(erf_rows[7], at), t, look_up(erf_rows[6], at));
#pragma GCC unroll 3
    for (int i = 4; i >= 0; i -= 2)
        p = FMA(p, square, FMA(look_up(erf_rows[i + 1], at), t, look_up(erf_rows[i], at)));
    return _mm512_mul_pd(a, p);
}
// NOTE: erf of a number near the subnormal range, 0 apart, may be subnormal, where midpoints are elsewhere.
// From 3.92 on it rounds to 1.
FN __m512 erf_16(__m512 x, __mmask16 *again) {
    const __m512 size = size_of(x);
    const wide w = widen(_mm512_min_ps(_mm512_set1_ps(3.96f), size));
    const wide y = {erf_lanes(w.low), erf_lanes(w.high)};
    const __m512i before = _mm512_sub_epi32(_mm512_castps_si512(size), _mm512_set1_epi32(1));
    *again = uncertain(y, 38) | _mm512_cmplt_epu32_mask(before, _mm512_set1_epi32(0x01000000));
    return signed_as(narrow(y), x);
}

// -------------------------------------------------------------------------------------------- sin and cos

#define PI_1 0x1.921fb54442d18p+1
#define PI_2 0x1.1a62633145c07p-53
#define ONE_OVER_PI 0x1.45f306dc9c883p-2

// (sin(r) / r - 1) / r^2 in r^2, |r| <= pi / 2: within 2^-41.5.
static const double sin_polynomial[] = {-0x1.55555555549cbp-3, 0x1.1111110fc0495p-7,   -0x1.a01a0011bd433p-13,
                                        0x1.71dd8de2f9ab7p-19, -0x1.ae20c4df60a1cp-26, 0x1.54e75e0a66211p-33};

// (-1)^k sin(r); k stands in the low bits of `shifted`.
FN __m512d sin_lanes(__m512d r, __m512d shifted) {
    const __m512d z = _mm512_mul_pd(r, r);
    const __m512d y = _mm512_mul_pd(r, FMA(z, POLYNOMIAL(z, _mm512_mul_pd(z, z), sin_polynomial), ALL(1.0)));
    const __m512i sign = _mm512_slli_epi64(_mm512_castpd_si512(shifted), 63);
    return _mm512_castsi512_pd(_mm512_xor_si512(_mm512_castpd_si512(y), sign));
}
// x = k pi + r.
FN __m512d sin_of(__m512d x) {
    const __m512d shifted = FMA(x, ALL(ONE_OVER_PI), ALL(ROUND_MAGIC));
    const __m512d k = _mm512_sub_pd(shifted, ALL(ROUND_MAGIC));
    const __m512d r = _mm512_fnmadd_pd(k, ALL(PI_2), _mm512_fnmadd_pd(k, ALL(PI_1), x));
    return sin_lanes(r, shifted);
}
// x = (k + 1/2) pi - r, so cos(x) = (-1)^k sin(r).
FN __m512d cos_of(__m512d x) {
    const __m512d shifted = _mm512_add_pd(FMA(x, ALL(ONE_OVER_PI), ALL(-0.5)), ALL(ROUND_MAGIC));
    const __m512d h = _mm512_add_pd(_mm512_sub_pd(shifted, ALL(ROUND_MAGIC)), ALL(0.5));
    const __m512d r = FMA(h, ALL(PI_2), _mm512_fmsub_pd(h, ALL(PI_1), x));
    return sin_lanes(r, shifted);
}
FN __mmask16 immoderate(__m512 x) {
    return _mm512_cmp_ps_mask(size_of(x), _mm512_set1_ps(TRIG_MODERATE), _CMP_NLT_UQ);
}
FN __m512 sin_16(__m512 x, __mmask16 *again) {
    const wide w = widen(x);
    const wide y = {sin_of(w.low), sin_of(w.high)};
    *again = uncertain(y, 40) | immoderate(x);
    return narrow(y);
}
FN __m512 cos_16(__m512 x, __mmask16 *again) {
    const wide w = widen(x);
    const wide y = {cos_of(w.low), cos_of(w.high)};
    *again = uncertain(y, 40) | immoderate(x);
    return narrow(y);
}

// ----------------------------------------------------------------------------------------------- the maps

#define MAP(name)                                                                                            \
    static __attribute__((noinline)) void name##_again(float *out, const float *in, unsigned again) {        \
        for (; again; again &= again - 1) {                                                                  \
            const int i = __builtin_ctz(again);                                                              \
            out[i] = name##_f32(in[i]);                                                                      \
        }                                                                                                    \
    }                                                                                                        \
    void name##_avx512(float *restrict out, const float *in, int64_t n) {                                    \
        __mmask16 again;                                                                                     \
        for (; n >= 16; n -= 16, in += 16, out += 16) {                                                      \
            _mm512_storeu_ps(out, name##_16(_mm512_loadu_ps(in), &again));                                   \
            if (__builtin_expect(again, 0)) name##_again(out, in, again);                                    \
        }                                                                                                    \
        if (!n) return;                                                                                      \
        const __mmask16 rest = (__mmask16)((1u << n) - 1);                                                   \
        _mm512_mask_storeu_ps(out, rest, name##_16(_mm512_maskz_loadu_ps(rest, in), &again));                \
        name##_again(out, in, again & rest);                                                                 \
    }

MAP(exp)
MAP(tanh)
MAP(log)
MAP(log1p)
MAP(erf)
MAP(sin)
MAP(cos)

// exp(a - b), the difference rounded: where softmax begins. With it the differences stay in registers.
void exp_sub_avx512(int64_t n, void *to, const void *minuends, int64_t sa, const void *subtrahends,
                    int64_t sb) {
    float *out = to, difference[16];
    const float *a = minuends, *b = subtrahends;
    __mmask16 again, more;
    if (sa && !sb) {
        const __m512 shift = _mm512_set1_ps(*b);
        for (; n >= 32; n -= 32, out += 32, a += 32) {
            const __m512 x = _mm512_sub_ps(_mm512_loadu_ps(a), shift);
            const __m512 y = _mm512_sub_ps(_mm512_loadu_ps(a + 16), shift);
            _mm512_storeu_ps(out, exp_16(x, &again));
            _mm512_storeu_ps(out + 16, exp_16(y, &more));
            if (__builtin_expect(again | more, 0)) {
                _mm512_storeu_ps(difference, x);
                exp_again(out, difference, again);
                _mm512_storeu_ps(difference, y);
                exp_again(out + 16, difference, more);
            }
        }
    }
    for (; n > 0; n -= 16, out += 16, a += 16 * sa, b += 16 * sb) {
        const __mmask16 lanes = n < 16 ? (__mmask16)((1u << n) - 1) : (__mmask16)-1;
        const __m512 x = _mm512_sub_ps(sa ? _mm512_maskz_loadu_ps(lanes, a) : _mm512_set1_ps(*a),
                                       sb ? _mm512_maskz_loadu_ps(lanes, b) : _mm512_set1_ps(*b));
        _mm512_mask_storeu_ps(out, lanes, exp_16(x, &again));
        if (__builtin_expect(again & lanes, 0)) {
            _mm512_storeu_ps(difference, x);
            exp_again(out, difference, again & lanes);
        }
    }
}

// ---------------------------------------------------------------------------------------------------- pow

// exp(y log|x|). The logarithm is within 2^-50, so the product, below 2^7, within 2^-43.
FN __m512d pow_lanes(__m512d x, __m512d y) {
    const __m512d t = _mm512_mul_pd(y, log_long_lanes(x));
    return exp_lanes(_mm512_min_pd(ALL(90.0), _mm512_max_pd(ALL(-105.0), t)));
}
FN __mmask8 is_integer(__m512d y) {
    return _mm512_cmp_pd_mask(_mm512_roundscale_pd(y, 8), y, _CMP_EQ_OQ);
}
FN __mmask8 subnormal(__m512d v) {
    const __mmask8 small = _mm512_cmp_pd_mask(v, ALL(0x1p-126), _CMP_LT_OQ);
    return _mm512_mask_cmp_pd_mask(small, v, ALL(0x1p-151), _CMP_GT_OQ);
}

// NOTE: a negative base is left to the scalar function unless the exponent is an integer below 2^24, whose
// half then tells whether it is odd.
FN __m512 pow_16(__m512 x, __m512 y, __mmask16 *again) {
    const __m512 size = size_of(x);
    const wide base = widen(size), exponent = widen(y);
    const wide v = {pow_lanes(base.low, exponent.low), pow_lanes(base.high, exponent.high)};
    const __mmask16 ordinary =
        positive_finite(size) & _mm512_cmp_ps_mask(size_of(y), _mm512_set1_ps(0x1p24f), _CMP_LT_OQ);
    *again = uncertain(v, 40) | (__mmask16)~ordinary | _mm512_kunpackb(subnormal(v.high), subnormal(v.low));
    const __mmask16 negative = _mm512_movepi32_mask(_mm512_castps_si512(x));
    __m512 result = narrow(v);
    if (negative) {
        const __m512d half = ALL(0.5);
        const __mmask16 whole = _mm512_kunpackb(is_integer(exponent.high), is_integer(exponent.low));
        const __mmask16 even = _mm512_kunpackb(is_integer(_mm512_mul_pd(exponent.high, half)),
                                               is_integer(_mm512_mul_pd(exponent.low, half)));
        *again |= negative & (__mmask16)~whole;
        result = _mm512_mask_sub_ps(result, negative & (__mmask16)~even, _mm512_set1_ps(-0.0f), result);
    }
    return result;
}

static __attribute__((noinline)) void pow_again(float *out, const float *a, int64_t sa, const float *b,
                                                int64_t sb, unsigned again) {
    for (; again; again &= again - 1) {
        const int i = __builtin_ctz(again);
        out[i] = pow_f32(a[i * sa], b[i * sb]);
    }
}

void pow_avx512(int64_t n, void *to, const void *bases, int64_t sa, const void *exponents, int64_t sb) {
    float *out = to;
    const float *a = bases, *b = exponents;
    for (; n > 0; n -= 16, out += 16, a += 16 * sa, b += 16 * sb) {
        const __mmask16 here = n >= 16 ? 0xFFFF : (__mmask16)((1u << n) - 1);
        __mmask16 again;
        const __m512 x = sa ? _mm512_maskz_loadu_ps(here, a) : _mm512_set1_ps(*a);
        const __m512 y = sb ? _mm512_maskz_loadu_ps(here, b) : _mm512_set1_ps(*b);
        _mm512_mask_storeu_ps(out, here, pow_16(x, y, &again));
        again &= here;
        if (__builtin_expect(again, 0)) pow_again(out, a, sa, b, sb, again);
    }
}

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
