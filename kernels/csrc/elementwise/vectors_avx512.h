// AVX-512 vectors, for files compiled for that instruction set: polynomials, tables of sixteen entries,
// sixteen floats as binary64, and the test that their rounding is certain.

#ifndef REPOPS_UNARY_AVX512_H
#define REPOPS_UNARY_AVX512_H

#include <immintrin.h>
#include "shared/bits.h"
#include "f64/grid.h"

#define ALL(x) _mm512_set1_pd(x)
#define FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define LANES_F64 __m512d
#include "polynomial.h"

// Return entry `at` mod 16.
FN __m512d look_up(const void *table, __m512i at) {
    const double *t = table;
    return _mm512_permutex2var_pd(_mm512_loadu_pd(t), at, _mm512_loadu_pd(t + 8));
}

// Return the lanes within a relative 2^-precision of a midpoint of two normal floats: among the 29 bits that
// a float lacks, the midpoint is 2^28.
FN __mmask8 near_midpoint(__m512d y, int precision) {
    const int64_t margin = (int64_t)1 << (53 - precision);
    const __m512i b = _mm512_add_epi64(_mm512_castpd_si512(y), _mm512_set1_epi64(margin - 0x10000000));
    return _mm512_testn_epi64_mask(b, _mm512_set1_epi64(0x1FFFFFFF & ~(2 * margin - 1)));
}

// Constants for rounding to grid(bits).
typedef struct {
    __m128i dropped;
    __m512i below_half, kept, offset, far;
} grid;

// For values with a relative error below 2^-precision.
FN grid grid_of(int bits, int precision) {
    const int dropped = 61 - bits;
    const int64_t half = (int64_t)1 << (dropped - 1), margin = (int64_t)1 << (53 - precision);
    return (grid){
        .dropped = _mm_cvtsi32_si128(dropped),
        .below_half = _mm512_set1_epi64(half - 1),
        .kept = _mm512_set1_epi64(-2 * half),
        .offset = _mm512_set1_epi64(margin - half),
        .far = _mm512_set1_epi64((2 * half - 1) & ~(2 * margin - 1)),
    };
}

// Round, except for lanes near a midpoint, or where the grid has another spacing than the mantissa implies
// (grid.h).
FN __m512d on_grid(__m512d y, const grid *g, __mmask8 *again) {
    const __m512i u = _mm512_castpd_si512(y), size = _mm512_castpd_si512(_mm512_abs_pd(y));
    const __m512i last = _mm512_and_si512(_mm512_srl_epi64(u, g->dropped), _mm512_set1_epi64(1));
    const __m512i up = _mm512_add_epi64(_mm512_add_epi64(u, g->below_half), last);
    const __m512i above_zero = _mm512_sub_epi64(size, _mm512_set1_epi64((int64_t)GRID_ZERO));
    *again = _mm512_testn_epi64_mask(_mm512_add_epi64(u, g->offset), g->far) |
             _mm512_cmplt_epu64_mask(above_zero, _mm512_set1_epi64((int64_t)(GRID_LEAST - GRID_ZERO))) |
             _mm512_cmpge_epu64_mask(size, _mm512_set1_epi64((int64_t)GRID_MOST));
    return _mm512_castsi512_pd(_mm512_and_si512(up, g->kept));
}

// Sixteen floats as two vectors of binary64.
typedef struct {
    __m512d low, high;
} f64x16;

FN f64x16 to_f64(__m512 x) {
    const __m256 high = _mm512_extractf32x8_ps(x, 1);
    return (f64x16){_mm512_cvtps_pd(_mm512_castps512_ps256(x)), _mm512_cvtps_pd(high)};
}
FN __m512 to_f32(f64x16 y) {
    const __m512 low = _mm512_castps256_ps512(_mm512_cvtpd_ps(y.low));
    return _mm512_insertf32x8(low, _mm512_cvtpd_ps(y.high), 1);
}
FN __mmask16 uncertain(f64x16 y, int precision) {
    return _mm512_kunpackb(near_midpoint(y.high, precision), near_midpoint(y.low, precision));
}

FN f64x16 f64x16_on_grid(f64x16 y, const grid *g, __mmask16 *again) {
    __mmask8 low, high;
    const f64x16 on = {on_grid(y.low, g, &low), on_grid(y.high, g, &high)};
    *again = _mm512_kunpackb(high, low);
    return on;
}

FN __m512 size_of(__m512 x) {
    return _mm512_abs_ps(x);
}
// Give y, which has no sign, the sign of x.
FN __m512 signed_as(__m512 y, __m512 x) {
    const __m512i sign = _mm512_set1_epi32((int)0x80000000);
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(_mm512_castps_si512(y), _mm512_castps_si512(x), sign, 0xF8));
}
FN __mmask16 positive_finite(__m512 x) {
    const __m512i b = _mm512_sub_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(1));
    return _mm512_cmplt_epu32_mask(b, _mm512_set1_epi32(0x7F7FFFFF));
}

#endif
