// The AVX-512 micro-kernel for operands that stay where they are: rows of A, whose steps are adjacent, and
// rows of B.

#include "runtime/repops.h"
#if defined(__x86_64__)
#include "microkernel_avx512.h"

// Compute `height` rows, a multiple of 4, and `vectors` vectors of columns: constants at each call.
INLINE void block(int height, int vectors, const chunk_product *p) {
    // Three addresses and multiples of one distance reach all rows within an instruction's addressing modes.
    const int64_t row = p->a_row, row3 = 3 * row, b_row = p->b_row, depth = p->depth;
    const float *a[3] = {p->a, (const float *)p->a + 4 * row, (const float *)p->a + 8 * row};
    const float *b[2] = {p->b[0], p->b[1]};
    __m512 sum[HEIGHT][2];
    start(height, vectors, p, sum);
    for (int64_t k = 0; k < depth; k++) {
        __m512 column[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) column[v] = _mm512_loadu_ps(b[v]), b[v] += b_row;
#pragma GCC unroll 3
        for (int g = 0; g < height / 4; g++) {
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                const __m512 of_row = _mm512_set1_ps(a[g][i == 3 ? row3 : i * row]);
#pragma GCC unroll 2
                for (int v = 0; v < vectors; v++)
                    sum[4 * g + i][v] = _mm512_fmadd_ps(of_row, column[v], sum[4 * g + i][v]);
            }
            a[g]++;
        }
    }
    if (p->skip == 0 && p->rows == height && p->columns == vectors * LANES) {
        finish(height, vectors, p, sum, 1);
    } else {
        finish(height, vectors, p, sum, 0);
    }
}

INLINE void heights(int vectors, const chunk_product *p) {
    if (p->rows > 8)
        block(12, vectors, p);
    else if (p->rows > 4)
        block(8, vectors, p);
    else
        block(4, vectors, p);
}

TARGET_AVX512 void avx512_multiply_rows(const chunk_product *p) {
    if (p->columns > LANES)
        heights(2, p);
    else
        heights(1, p);
}
#endif
