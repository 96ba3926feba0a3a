// pow for AVX-512, by the rule of unary_avx512.c: the scalar function computes each result that is not
// ordinary or might round otherwise.

#if defined(__x86_64__)

#include <immintrin.h>
#include <math.h>
#include <string.h>
#include "runtime/target_avx512.h"

#define MULADD(a, b, c) __builtin_fma(a, b, c)
#include "shared/elementary.h"
#include "exp_log_avx512.h"
#include "unary.h"

// exp(y log|x|). The logarithm is within 2^-50, so the product, below 2^7, is within 2^-43.
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

// NOTE: the scalar function handles a negative base, unless the exponent is an integer below 2^24, whose half
// then tells whether it is odd.
FN __m512 pow_16(__m512 x, __m512 y, __mmask16 *again) {
    const __m512 size = size_of(x);
    const f64x16 base = to_f64(size), exponent = to_f64(y);
    const f64x16 v = {pow_lanes(base.low, exponent.low), pow_lanes(base.high, exponent.high)};
    const __mmask16 ordinary =
        positive_finite(size) & _mm512_cmp_ps_mask(size_of(y), _mm512_set1_ps(0x1p24f), _CMP_LT_OQ);
    *again = uncertain(v, 40) | (__mmask16)~ordinary | _mm512_kunpackb(subnormal(v.high), subnormal(v.low));
    const __mmask16 negative = _mm512_movepi32_mask(_mm512_castps_si512(x));
    __m512 result = to_f32(v);
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

#include "runtime/target_end.h"

#endif
