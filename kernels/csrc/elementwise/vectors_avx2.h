// AVX2 vectors, for files compiled for that instruction set: polynomials, eight floats as binary64, and the
// test that their rounding is certain.

#ifndef REPOPS_VECTORS_AVX2_H
#define REPOPS_VECTORS_AVX2_H

#include <immintrin.h>
#include "shared/bits.h"

#define ALL(x) _mm256_set1_pd(x)
#define FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define LANES_F64 __m256d
#include "polynomial.h"

// Return a bit for each lane within a relative 2^-precision of a midpoint of two normal floats: among the 29
// bits that a float lacks, the midpoint is 2^28.
FN int near_midpoint(__m256d y, int precision) {
    const int64_t margin = (int64_t)1 << (53 - precision);
    const __m256i b = _mm256_add_epi64(_mm256_castpd_si256(y), _mm256_set1_epi64x(margin - 0x10000000));
    const __m256i far = _mm256_and_si256(b, _mm256_set1_epi64x(0x1FFFFFFF & ~(2 * margin - 1)));
    return _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(far, _mm256_setzero_si256())));
}

// Eight floats as two vectors of binary64.
typedef struct {
    __m256d low, high;
} f64x8;

FN f64x8 to_f64(__m256 x) {
    return (f64x8){_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
}
FN __m256 to_f32(f64x8 y) {
    return _mm256_set_m128(_mm256_cvtpd_ps(y.high), _mm256_cvtpd_ps(y.low));
}
FN int uncertain(f64x8 y, int precision) {
    return near_midpoint(y.high, precision) << 4 | near_midpoint(y.low, precision);
}

FN __m256 sign_bits(void) {
    return _mm256_castsi256_ps(_mm256_set1_epi32((int)0x80000000));
}
FN __m256 size_of(__m256 x) {
    return _mm256_andnot_ps(sign_bits(), x);
}
// Give y, which has no sign, the sign of x.
FN __m256 signed_as(__m256 y, __m256 x) {
    return _mm256_or_ps(y, _mm256_and_ps(sign_bits(), x));
}

#endif
