// The elementary functions for AVX2 with fma. exp, erf and tanh, of which softmax and gelu are made, have
// shorter evaluations than the scalar functions: exp and erf in pairs of floats (exp_erf_avx2.h), tanh in
// binary64. The others are the template's.
//
// Each of the three knows a bound on its error. An element whose value is that near to a midpoint of two
// floats, or which is not ordinary, goes to the scalar function. So results rest on these bounds, and the
// evaluations may be as short as keeps such elements rare.

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>
#include "runtime/target_avx2.h"

#define MULADD(a, b, c) __builtin_fma(a, b, c)
#include "shared/elementary.h"
#include "exp_erf_avx2.h"
#include "unary.h"
#include "vectors_avx2.h"

// --------------------------------------------------------------------------------------------------- tanh

// (exp(r) - 1 - r) / r^2 for |r| <= ln2 / 2: r + r^2 q is then exp(r) - 1 within a relative error of 2^-36.6
// and an absolute error of 2^-38.1. A Chebyshev interpolation.
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

// t / (t + 2), t = exp(2 a) - 1.
FN __m256d tanh_lanes(__m256d a) {
    __m256d scale;
    const __m256d tail = exp_split(_mm256_add_pd(a, a), &scale);
    const __m256d t = FMA(scale, tail, _mm256_sub_pd(scale, ALL(1.0)));
    return _mm256_div_pd(t, _mm256_add_pd(t, ALL(2.0)));
}
#define TANH_PRECISION 35
#define TANH_WIDTH 8
FN unsigned tanh_short(float *out, const float *in) {
    const __m256 x = _mm256_loadu_ps(in);
    const f64x8 w = to_f64(_mm256_min_ps(_mm256_set1_ps(10.0f), size_of(x)));
    const f64x8 y = {tanh_lanes(w.low), tanh_lanes(w.high)};
    _mm256_storeu_ps(out, signed_as(to_f32(y), x));
    return (unsigned)uncertain(y, TANH_PRECISION);
}

// ----------------------------------------------------------------------------------------------- the kernels

// `name_short` computes `width` elements, and returns a bit for each that it leaves to the scalar function.
#define SHORT_MAP(name, width)                                                                               \
    static __attribute__((noinline)) void name##_short_again(float *out, const float *in, unsigned again) {  \
        for (; again; again &= again - 1) {                                                                  \
            const int i = __builtin_ctz(again);                                                              \
            out[i] = name##_f32(in[i]);                                                                      \
        }                                                                                                    \
    }                                                                                                        \
    void name##_avx2(float *restrict out, const float *in, int64_t n) {                                      \
        for (; n >= width; n -= width, in += width, out += width) {                                          \
            const unsigned again = name##_short(out, in);                                                    \
            if (__builtin_expect(again != 0, 0)) name##_short_again(out, in, again);                         \
        }                                                                                                    \
        if (!n) return;                                                                                      \
        float from[width] = {0}, to[width];                                                                  \
        memcpy(from, in, (size_t)n * sizeof *in);                                                            \
        name##_short_again(to, from, name##_short(to, from));                                                \
        memcpy(out, to, (size_t)n * sizeof *out);                                                            \
    }

SHORT_MAP(exp, EXP_WIDTH)
SHORT_MAP(tanh, TANH_WIDTH)
SHORT_MAP(erf, ERF_WIDTH)

#define ISA(name) name##_avx2
#define SHORT_MAPS
#include "unary_body.h"

#include "runtime/target_end.h"

#endif
