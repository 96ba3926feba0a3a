// What the AVX-512 micro-kernels share: 12 x 32, 24 accumulators.

#ifndef REPOPS_MICROKERNEL_AVX512_H
#define REPOPS_MICROKERNEL_AVX512_H

#include "microkernel.h"
#include "runtime/transpose_avx512.h"

#define HEIGHT 12
#define WIDTH 32
#define LANES 16 // of a vector

// The first n bits.
INLINE __mmask16 low_bits(int64_t n) {
    return (__mmask16)(n < LANES ? (1u << n) - 1 : 0xFFFF);
}

INLINE void add_to(float *c, __mmask16 kept, int add, __m512 value) {
    if (add) value = _mm512_add_ps(_mm512_maskz_loadu_ps(kept, c), value);
    _mm512_mask_storeu_ps(c, kept, value);
}

// Set the accumulators to -0, and fetch the lines of C: with C's rows pages apart, the processor does not.
INLINE void start(int height, int vectors, const chunk_product *p, __m512 sum[HEIGHT][2]) {
#pragma GCC unroll 12
    for (int i = 0; i < height; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            __builtin_prefetch((float *)p->c[v] + (i < p->rows ? i : 0) * p->row, 1, 3);
            sum[i][v] = _mm512_set1_ps(-0.0f);
        }
}

// Move accumulators to C. NOTE: a masked store, even of all lanes, takes several times as long as a plain
// one.
INLINE void finish(int height, int vectors, const chunk_product *p, __m512 sum[HEIGHT][2], int whole) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
        const __mmask16 kept = low_bits(p->columns - v * LANES);
#pragma GCC unroll 12
        for (int i = 0; i < height; i++) {
            float *c = (float *)p->c[v] + i * p->row;
            if (!whole && (i < p->skip || i >= p->rows)) continue;
            if (!whole)
                add_to(c, kept, p->add, sum[i][v]);
            else
                _mm512_storeu_ps(c, p->add ? _mm512_add_ps(_mm512_loadu_ps(c), sum[i][v]) : sum[i][v]);
        }
    }
}

#endif
