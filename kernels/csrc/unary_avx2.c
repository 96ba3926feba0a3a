// The elementary functions for AVX2 with fma. exp, tanh and erf, of which softmax and gelu are made, have
// shorter polynomials than the scalar functions; the others are the template's.
//
// Each of the three has a relative error below its 2^-PRECISION. An element whose value is that near to a
// midpoint of two floats, or which is not ordinary, goes to the scalar function. So results rest on these
// bounds, and the polynomials (Chebyshev interpolations) may be as short as keeps such elements rare.

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#define MULADD(a, b, c) __builtin_fma(a, b, c)
#include "elementary.h"
#include "erf_rows.h"
#include "unary.h"
#include "vectors_avx2.h"

// ------------------------------------------------------------------------------------------- exp and tanh

// (exp(r) - 1 - r) / r^2 for |r| <= ln2 / 2: r + r^2 q is then exp(r) - 1 within a relative error of 2^-36.6
// and an absolute error of 2^-38.1.
static const double exp_polynomial[] = {0x1p-1,
                                        0x1.55555567532adp-3,
                                        0x1.5555555c87148p-5,
                                        0x1.1110c632a3088p-7,
                                        0x1.6c16858b7acb9p-10,
                                        0x1.a15179d80ae96p-13,
                                        0x1.a1132015ba37ep-16};

// exp(x) = scale (1 + tail), scale = 2^k, x = k ln2 + r.
FN __m256d exp_split(__m256d x, __m256d *scale) {
    const __m256d shifted = FMA(x, ALL(INV_LN2), ALL(ROUND_MAGIC));
    const __m256d k = _mm256_sub_pd(shifted, ALL(ROUND_MAGIC));
    const __m256d r = _mm256_fnmadd_pd(k, ALL(0x1.62e42fefa39efp-1), x);
    const __m256i exponent = _mm256_add_epi64(_mm256_castpd_si256(shifted), _mm256_set1_epi64x(1023));
    *scale = _mm256_castsi256_pd(_mm256_slli_epi64(exponent, 52));
    const __m256d square = _mm256_mul_pd(r, r);
    return FMA(square, POLYNOMIAL(r, square, exp_polynomial), r);
}
FN __m256d exp_lanes(__m256d x) {
    __m256d scale;
    const __m256d tail = exp_split(x, &scale);
    return FMA(scale, tail, scale);
}

// NOTE: below -104 the result is 0 and needs no second look; between -104 and -87.3 it is subnormal. The
// order of operands keeps a NaN.
#define EXP_PRECISION 37
FN __m256 exp_8(__m256 x, int *again) {
    const __m256 above = _mm256_max_ps(_mm256_set1_ps(-105.0f), x);
    const f64x8 w = to_f64(_mm256_min_ps(_mm256_set1_ps(90.0f), above));
    const f64x8 y = {exp_lanes(w.low), exp_lanes(w.high)};
    const __m256 small = _mm256_cmp_ps(x, _mm256_set1_ps(-87.3f), _CMP_LT_OQ);
    const __m256 subnormal = _mm256_and_ps(small, _mm256_cmp_ps(x, _mm256_set1_ps(-104.0f), _CMP_GE_OQ));
    *again = uncertain(y, EXP_PRECISION) | _mm256_movemask_ps(subnormal);
    return to_f32(y);
}

// t / (t + 2), t = exp(2 a) - 1.
FN __m256d tanh_lanes(__m256d a) {
    __m256d scale;
    const __m256d tail = exp_split(_mm256_add_pd(a, a), &scale);
    const __m256d t = FMA(scale, tail, _mm256_sub_pd(scale, ALL(1.0)));
    return _mm256_div_pd(t, _mm256_add_pd(t, ALL(2.0)));
}
#define TANH_PRECISION 35
FN __m256 tanh_8(__m256 x, int *again) {
    const f64x8 w = to_f64(_mm256_min_ps(_mm256_set1_ps(10.0f), size_of(x)));
    const f64x8 y = {tanh_lanes(w.low), tanh_lanes(w.high)};
    *again = uncertain(y, TANH_PRECISION);
    return signed_as(to_f32(y), x);
}

// ---------------------------------------------------------------------------------------------------- erf

// A row for each c (erf_rows.h), which is a line of the cache.
#define BY_CENTRE(power, c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15)               \
    [0][power] = c0, [1][power] = c1, [2][power] = c2, [3][power] = c3, [4][power] = c4, [5][power] = c5,    \
    [6][power] = c6, [7][power] = c7, [8][power] = c8, [9][power] = c9, [10][power] = c10,                   \
    [11][power] = c11, [12][power] = c12, [13][power] = c13, [14][power] = c14, [15][power] = c15,
static const double erf_rows[16][ERF_POWERS] __attribute__((aligned(64))) = {ERF_ROWS(BY_CENTRE)};

// Coefficients `power` and `power + 1` of four rows.
FN void erf_pair(const int32_t *row, int power, __m256d *first, __m256d *second) {
    const double *const c[4] = {erf_rows[row[0]] + power, erf_rows[row[1]] + power, erf_rows[row[2]] + power,
                                erf_rows[row[3]] + power};
    const __m256d even =
        _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_load_pd(c[0])), _mm_load_pd(c[2]), 1);
    const __m256d odd = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_load_pd(c[1])), _mm_load_pd(c[3]), 1);
    *first = _mm256_unpacklo_pd(even, odd);
    *second = _mm256_unpackhi_pd(even, odd);
}
// erf(a), where row[i] = floor(4 a[i]) and t = a - c.
FN __m256d erf_lanes(__m256d a, __m256d t, const int32_t *row) {
    const __m256d square = _mm256_mul_pd(t, t);
    __m256d first, second;
    erf_pair(row, ERF_POWERS - 2, &first, &second);
    __m256d p = FMA(second, t, first);
#pragma GCC unroll 3
    for (int power = ERF_POWERS - 4; power >= 0; power -= 2) {
        erf_pair(row, power, &first, &second);
        p = FMA(p, square, FMA(second, t, first));
    }
    return _mm256_mul_pd(a, p);
}
// NOTE: erf of a nonzero number near the subnormal range may be subnormal, where midpoints are elsewhere.
// From 3.92 on the result rounds to 1. The order of operands makes a NaN 3.96, which is a place in the table.
#define ERF_PRECISION 38
FN __m256 erf_8(__m256 x, int *again) {
    const __m256 size = size_of(x), a = _mm256_min_ps(size, _mm256_set1_ps(3.96f));
    int32_t row[8];
    const __m256i at = _mm256_cvttps_epi32(_mm256_mul_ps(a, _mm256_set1_ps(4.0f)));
    _mm256_storeu_si256((__m256i *)row, at);
    const __m256 below = _mm256_mul_ps(_mm256_cvtepi32_ps(at), _mm256_set1_ps(0.25f));
    const f64x8 w = to_f64(a), c = to_f64(_mm256_add_ps(below, _mm256_set1_ps(0.125f)));
    const f64x8 y = {erf_lanes(w.low, _mm256_sub_pd(w.low, c.low), row),
                     erf_lanes(w.high, _mm256_sub_pd(w.high, c.high), row + 4)};
    const __m256 tiny = _mm256_cmp_ps(size, _mm256_set1_ps(0x1p-125f), _CMP_LE_OQ);
    const __m256 zero = _mm256_cmp_ps(size, _mm256_setzero_ps(), _CMP_EQ_OQ);
    *again = uncertain(y, ERF_PRECISION) | no_number(x) | _mm256_movemask_ps(_mm256_andnot_ps(zero, tiny));
    return signed_as(to_f32(y), x);
}

// ----------------------------------------------------------------------------------------------- the kernels

#define SHORT_MAP(name)                                                                                      \
    static __attribute__((noinline)) void name##_short_again(float *out, const float *in, unsigned again) {  \
        for (; again; again &= again - 1) {                                                                  \
            const int i = __builtin_ctz(again);                                                              \
            out[i] = name##_f32(in[i]);                                                                      \
        }                                                                                                    \
    }                                                                                                        \
    void name##_avx2(float *restrict out, const float *in, int64_t n) {                                      \
        int again;                                                                                           \
        for (; n >= 8; n -= 8, in += 8, out += 8) {                                                          \
            _mm256_storeu_ps(out, name##_8(_mm256_loadu_ps(in), &again));                                    \
            if (__builtin_expect(again, 0)) name##_short_again(out, in, (unsigned)again);                    \
        }                                                                                                    \
        if (!n) return;                                                                                      \
        float from[8] = {0}, to[8];                                                                          \
        memcpy(from, in, (size_t)n * sizeof *in);                                                            \
        _mm256_storeu_ps(to, name##_8(_mm256_loadu_ps(from), &again));                                       \
        name##_short_again(to, from, (unsigned)again);                                                       \
        memcpy(out, to, (size_t)n * sizeof *out);                                                            \
    }

SHORT_MAP(exp)
SHORT_MAP(tanh)
SHORT_MAP(erf)

#define ISA(name) name##_avx2
#define SHORT_MAPS
#include "unary_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
