// The elementary functions of one argument for AVX-512, with shorter polynomials than the scalar functions
// and tables of sixteen entries that stay in registers.
//
// Every function here has a relative error below its 2^-PRECISION. An element whose value is that near to a
// midpoint of two floats, or which is not ordinary, goes to the scalar function. So results rest on these
// bounds, and the polynomials (Chebyshev interpolations) may be as short as keeps such elements rare.

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>
#include "runtime/target_avx512.h"

#define MULADD(a, b, c) __builtin_fma(a, b, c)
#include "shared/elementary.h"
#include "erf_rows.h"
#include "exp_log_avx512.h"
#include "unary.h"
#include "f64/grid_unary.h"

// ------------------------------------------------------------------------------------------- exp and tanh

// NOTE: below -104 the result is 0 and needs no second look; between -104 and -87.3 it is subnormal. The
// order of operands keeps a NaN.
#define EXP_PRECISION 44
FN f64x16 exp_f64x16(__m512 x) {
    const __m512 above = _mm512_max_ps(_mm512_set1_ps(-105.0f), x);
    const f64x16 w = to_f64(_mm512_min_ps(_mm512_set1_ps(90.0f), above));
    return (f64x16){exp_lanes(w.low), exp_lanes(w.high)};
}
FN __m512 exp_16(__m512 x, __mmask16 *again) {
    const f64x16 y = exp_f64x16(x);
    const __mmask16 small = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.3f), _CMP_LT_OQ);
    *again =
        uncertain(y, EXP_PRECISION) | _mm512_mask_cmp_ps_mask(small, x, _mm512_set1_ps(-104.0f), _CMP_GE_OQ);
    return to_f32(y);
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
#define TANH_PRECISION 39
FN f64x16 tanh_f64x16(__m512 x) {
    const f64x16 w = to_f64(_mm512_min_ps(_mm512_set1_ps(10.0f), size_of(x)));
    return (f64x16){tanh_lanes(w.low), tanh_lanes(w.high)};
}
FN __m512 tanh_16(__m512 x, __mmask16 *again) {
    const f64x16 y = tanh_f64x16(x);
    *again = uncertain(y, TANH_PRECISION);
    return signed_as(to_f32(y), x);
}

// ------------------------------------------------------------------------------------------ log and log1p

FN __m512d log_lanes(__m512d x) {
    __m512d base;
    const __m512d r = log_split(x, &base);
    return log_short_lanes(r, base);
}
#define LOG_PRECISION 42
FN f64x16 log_f64x16(__m512 x) {
    const f64x16 w = to_f64(x);
    return (f64x16){log_lanes(w.low), log_lanes(w.high)};
}
FN __m512 log_16(__m512 x, __mmask16 *again) {
    const f64x16 y = log_f64x16(x);
    *again = uncertain(y, LOG_PRECISION) | (__mmask16)~positive_finite(x);
    return to_f32(y);
}

// For |x| < 1/64, k = 0 and c = 1, and r is x itself; 1 + x may have lost the last bits of x.
FN __m512d log1p_lanes(__m512d x) {
    __m512d base;
    const __m512d r = log_split(_mm512_add_pd(x, ALL(1.0)), &base);
    const __mmask8 small = _mm512_cmp_pd_mask(_mm512_abs_pd(x), ALL(0x1p-6), _CMP_LT_OQ);
    return log_short_lanes(_mm512_mask_mov_pd(r, small, x), base);
}
#define LOG1P_PRECISION 42
FN f64x16 log1p_f64x16(__m512 x) {
    const f64x16 w = to_f64(x);
    return (f64x16){log1p_lanes(w.low), log1p_lanes(w.high)};
}
FN __mmask16 above_minus_one(__m512 x) {
    const __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-1.0f), _CMP_GT_OQ);
    return _mm512_mask_cmp_ps_mask(above, x, _mm512_set1_ps(INFINITE), _CMP_LT_OQ);
}
FN __m512 log1p_16(__m512 x, __mmask16 *again) {
    const f64x16 y = log1p_f64x16(x);
    *again = uncertain(y, LOG1P_PRECISION) | (__mmask16)~above_minus_one(x);
    return signed_as(to_f32(y), x);
}

// ---------------------------------------------------------------------------------------------------- erf

// A row for each power of a - c (erf_rows.h).
#define BY_POWER(power, ...) {__VA_ARGS__},
static const double erf_rows[ERF_POWERS][16] = {ERF_ROWS(BY_POWER)};

// NOTE: adding and subtracting erf_magic rounds to a multiple of 1/4, whose number is in the low bits.
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
// NOTE: erf of a nonzero number near the subnormal range may be subnormal, where midpoints are elsewhere.
// From 3.92 on the result rounds to 1.
#define ERF_PRECISION 38
FN f64x16 erf_f64x16(__m512 x) {
    const f64x16 w = to_f64(_mm512_min_ps(_mm512_set1_ps(3.96f), size_of(x)));
    return (f64x16){erf_lanes(w.low), erf_lanes(w.high)};
}
FN __m512 erf_16(__m512 x, __mmask16 *again) {
    const f64x16 y = erf_f64x16(x);
    const __m512i before = _mm512_sub_epi32(_mm512_castps_si512(size_of(x)), _mm512_set1_epi32(1));
    *again = uncertain(y, ERF_PRECISION) | _mm512_cmplt_epu32_mask(before, _mm512_set1_epi32(0x01000000));
    return signed_as(to_f32(y), x);
}

// -------------------------------------------------------------------------------------------- sin and cos

#define PI_1 0x1.921fb54442d18p+1
#define PI_2 0x1.1a62633145c07p-53
#define ONE_OVER_PI 0x1.45f306dc9c883p-2

// (sin(r) / r - 1) / r^2 in r^2, |r| <= pi / 2: within 2^-41.5.
static const double sin_polynomial[] = {-0x1.55555555549cbp-3, 0x1.1111110fc0495p-7,   -0x1.a01a0011bd433p-13,
                                        0x1.71dd8de2f9ab7p-19, -0x1.ae20c4df60a1cp-26, 0x1.54e75e0a66211p-33};

// (-1)^k sin(r); k is in the low bits of `shifted`.
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
#define TRIG_PRECISION 40
FN __mmask16 immoderate(__m512 x) {
    return _mm512_cmp_ps_mask(size_of(x), _mm512_set1_ps(TRIG_MODERATE), _CMP_NLT_UQ);
}
FN f64x16 sin_f64x16(__m512 x) {
    const f64x16 w = to_f64(x);
    return (f64x16){sin_of(w.low), sin_of(w.high)};
}
FN __m512 sin_16(__m512 x, __mmask16 *again) {
    const f64x16 y = sin_f64x16(x);
    *again = uncertain(y, TRIG_PRECISION) | immoderate(x);
    return to_f32(y);
}
FN f64x16 cos_f64x16(__m512 x) {
    const f64x16 w = to_f64(x);
    return (f64x16){cos_of(w.low), cos_of(w.high)};
}
FN __m512 cos_16(__m512 x, __mmask16 *again) {
    const f64x16 y = cos_f64x16(x);
    *again = uncertain(y, TRIG_PRECISION) | immoderate(x);
    return to_f32(y);
}

// ----------------------------------------------------------------------------------------------- the kernels

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

// Functions rounded to a grid. `sign` is x if `name_f64x16` computes with |x|, else +0; `special` marks lanes
// where this computation is not valid for x. A zero loses its sign.
#define GRID_UNARY(name, precision, sign, special)                                                           \
    static __attribute__((noinline)) void name##_grid_again(float *out, const float *in, unsigned again,     \
                                                            int bits, int *doubt) {                          \
        for (; again; again &= again - 1) {                                                                  \
            const int i = __builtin_ctz(again);                                                              \
            out[i] = name##_on_grid(in[i], bits, doubt);                                                     \
        }                                                                                                    \
    }                                                                                                        \
    FN __m512 name##_grid_16(__m512 x, const grid *g, __mmask16 *again) {                                    \
        const __m512 y = to_f32(f64x16_on_grid(name##_f64x16(x), g, again));                                 \
        *again |= (special);                                                                                 \
        return _mm512_add_ps(signed_as(y, sign), _mm512_setzero_ps());                                       \
    }                                                                                                        \
    static void name##_grid_run(float *restrict out, const float *in, int64_t n, int bits, int *doubt) {     \
        const grid g = grid_of(bits, precision);                                                             \
        __mmask16 again;                                                                                     \
        for (; n >= 16; n -= 16, in += 16, out += 16) {                                                      \
            _mm512_storeu_ps(out, name##_grid_16(_mm512_loadu_ps(in), &g, &again));                          \
            if (__builtin_expect(again, 0)) name##_grid_again(out, in, again, bits, doubt);                  \
        }                                                                                                    \
        if (n <= 0) return;                                                                                  \
        const __mmask16 rest = (__mmask16)((1u << n) - 1);                                                   \
        _mm512_mask_storeu_ps(out, rest, name##_grid_16(_mm512_maskz_loadu_ps(rest, in), &g, &again));       \
        name##_grid_again(out, in, again & rest, bits, doubt);                                               \
    }                                                                                                        \
    GRID_KERNEL(grid_##name##_avx512, name##_grid_run)

#define UNSIGNED _mm512_setzero_ps()

GRID_UNARY(exp, EXP_PRECISION, UNSIGNED, 0)
GRID_UNARY(tanh, TANH_PRECISION, x, 0)
GRID_UNARY(log, LOG_PRECISION, UNSIGNED, (__mmask16)~positive_finite(x))
GRID_UNARY(log1p, LOG1P_PRECISION, UNSIGNED, (__mmask16)~above_minus_one(x))
GRID_UNARY(erf, ERF_PRECISION, x, 0)
GRID_UNARY(sin, TRIG_PRECISION, UNSIGNED, immoderate(x))
GRID_UNARY(cos, TRIG_PRECISION, UNSIGNED, immoderate(x))

// exp(a - b), with the difference rounded: the beginning of softmax. It keeps the differences in registers.
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

#include "runtime/target_end.h"

#endif
