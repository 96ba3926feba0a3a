// A block of 16 x 16 words, transposed in registers.

#ifndef REPOPS_TRANSPOSE_AVX512_H
#define REPOPS_TRANSPOSE_AVX512_H

#include "repops.h"
#include <immintrin.h>

#define INLINE TARGET_AVX512 static inline __attribute__((always_inline))

// Turn 16 rows into 16 columns, in place: first exchange quarters of vectors, then elements of quarters.
INLINE void transpose_block(__m512 r[16]) {
    __m512 t[16]; // t[4 q + j]: quarter q of rows j, 4 + j, 8 + j, 12 + j
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const __m512 a = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x44),
                     b = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x44);
        const __m512 c = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xEE),
                     d = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xEE);
        t[j] = _mm512_shuffle_f32x4(a, b, 0x88);
        t[4 + j] = _mm512_shuffle_f32x4(a, b, 0xDD);
        t[8 + j] = _mm512_shuffle_f32x4(c, d, 0x88);
        t[12 + j] = _mm512_shuffle_f32x4(c, d, 0xDD);
    }
#pragma GCC unroll 4
    for (int q = 0; q < 16; q += 4) {
        const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(t[q], t[q + 1]));
        const __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(t[q], t[q + 1]));
        const __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(t[q + 2], t[q + 3]));
        const __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(t[q + 2], t[q + 3]));
        r[q] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        r[q + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        r[q + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        r[q + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
}

#endif
