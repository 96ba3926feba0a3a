// The AVX-512 micro-kernel: 12 x 32, 24 accumulators.

#include "runtime/repops.h"
#include <string.h>
#if defined(__x86_64__)
#include "microkernel_avx512.h"

// Steps of packed panels that are prefetched. A panel of B comes from the second-level cache, one of A from
// the third.
#define AHEAD_A 16
#define AHEAD_B 8

// The bits of vector v. NOTE: a 16-bit load goes straight to a mask register, a shift does not.
INLINE __mmask16 half(const uint32_t *mask, int v) {
    uint16_t bits;
    memcpy(&bits, (const char *)mask + 2 * v, sizeof bits);
    return bits;
}

// Compute `height` rows and `vectors` vectors of columns. Both, and the presence of steps and a mask, are
// constants at each call, so that the accumulators are registers.
INLINE void block(int height, int vectors, int steps, const chunk_product *p, const uint32_t *mask) {
    const int64_t *a_step = p->a_step, *b_step = p->b_step;
    const float *const b[2] = {p->b[0], p->b[1]};
    const int64_t depth = p->depth;
    __m512 sum[HEIGHT][2];
    start(height, vectors, p, sum);
    for (int64_t k = 0; k < depth; k++) {
        const float *a = (const float *)p->a + (steps ? a_step[k] : k * HEIGHT);
        if (!steps) __builtin_prefetch(element(a, AHEAD_A * HEIGHT), 0, 3);
        __m512 column[2];
        __mmask16 exists[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            const float *from = element(b[v], steps ? b_step[k] : k * WIDTH);
            if (!steps) __builtin_prefetch(element(from, AHEAD_B * WIDTH), 0, 3);
            exists[v] = mask ? half(mask + k, v) : 0;
            column[v] = mask ? _mm512_maskz_loadu_ps(exists[v], from) : _mm512_loadu_ps(from);
        }
#pragma GCC unroll 12
        for (int i = 0; i < height; i++) {
            const __m512 row = _mm512_set1_ps(a[i]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                sum[i][v] = mask ? _mm512_mask3_fmadd_ps(row, column[v], sum[i][v], exists[v])
                                 : _mm512_fmadd_ps(row, column[v], sum[i][v]);
        }
    }
    if (p->rows >= height && p->columns == vectors * LANES) {
        finish(height, vectors, p, sum, 1);
    } else {
        finish(height, vectors, p, sum, 0);
    }
}

INLINE void heights(int vectors, int steps, const chunk_product *p, const uint32_t *mask) {
    if (p->rows > 8)
        block(12, vectors, steps, p, mask);
    else if (p->rows > 4)
        block(8, vectors, steps, p, mask);
    else
        block(4, vectors, steps, p, mask);
}

INLINE void widths(int steps, const chunk_product *p, const uint32_t *mask) {
    if (p->columns > LANES)
        heights(2, steps, p, mask);
    else
        heights(1, steps, p, mask);
}

TARGET_AVX512 static void multiply(const chunk_product *p) {
    WITH_CONSTANTS(widths, p);
}

// Load the first n of 16 elements, n > 0, and read no others.
INLINE __m512 gather(const float *from, int64_t n, int64_t apart) {
    if (apart == 1) return _mm512_maskz_loadu_ps(low_bits(n), from);
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512 low = _mm512_maskz_loadu_ps(low_bits(2 * n - 1), from);
    const __m512 high = _mm512_maskz_loadu_ps(low_bits(max_i64(2 * n - 1 - LANES, 0)), from + LANES);
    return _mm512_permutex2var_ps(low, even, high);
}

// Copy whole vectors, which need no masks. `bytes` of a vector is constant at each call.
INLINE void copy_whole(const float *from, const int64_t *step, int64_t steps, float *to, int64_t width,
                       int bytes) {
    for (int64_t k = 0; k < steps; k++, to += width) {
        const float *in = from + step[k];
        if (bytes == 16) _mm_storeu_ps(to, _mm_loadu_ps(in));
        if (bytes == 32) _mm256_storeu_ps(to, _mm256_loadu_ps(in));
        if (bytes >= 64) _mm512_storeu_ps(to, _mm512_loadu_ps(in));
        if (bytes == 128) _mm512_storeu_ps(to + LANES, _mm512_loadu_ps(in + LANES));
    }
}

INLINE void copy_some(const float *from, int64_t lanes, int64_t apart, const int64_t *step, int64_t steps,
                      float *to, int64_t width) {
    for (int64_t i = 0; i < lanes; i += LANES) {
        const int64_t n = min_i64(LANES, lanes - i);
        for (int64_t k = 0; k < steps; k++)
            _mm512_mask_storeu_ps(to + k * width + i, low_bits(n),
                                  gather(from + (i * apart + step[k]), n, apart));
    }
}

TARGET_AVX512 static void copy(const void *data, int64_t first, int64_t lanes, int64_t apart,
                               const int64_t *step, int64_t steps, float *to, int64_t width) {
    const float *from = element(data, first);
    if (apart == 2)
        copy_some(from, lanes, 2, step, steps, to, width);
    else if (lanes == 2 * LANES)
        copy_whole(from, step, steps, to, width, 128);
    else if (lanes == LANES)
        copy_whole(from, step, steps, to, width, 64);
    else if (lanes == LANES / 2)
        copy_whole(from, step, steps, to, width, 32);
    else if (lanes == LANES / 4)
        copy_whole(from, step, steps, to, width, 16);
    else
        copy_some(from, lanes, 1, step, steps, to, width);
}

// Transpose up to 16 lanes and 16 steps. Constant sizes remove every branch.
INLINE void transpose_part(const float *from, int64_t first, int64_t steps, int64_t apart,
                           const int64_t *lane, int64_t lanes, float *to, int64_t width) {
    __m512 r[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        r[i] = i < lanes ? gather(from + (first + lane[i]), steps, apart) : _mm512_setzero_ps();
    transpose_block(r);
#pragma GCC unroll 16
    for (int k = 0; k < LANES; k++)
        if (k < steps) {
            if (lanes == LANES ||
                (lanes == width && k + 1 < steps)) // the next step's row follows and overwrites the excess
                _mm512_storeu_ps(to + k * width, r[k]);
            else
                _mm512_mask_storeu_ps(to + k * width, low_bits(lanes), r[k]);
        }
}

INLINE void transpose_apart(const float *from, int64_t first, int64_t steps, int64_t apart,
                            const int64_t *lane, int64_t lanes, float *to, int64_t width) {
    for (int64_t i = 0; i < lanes; i += LANES)
        for (int64_t k = 0; k < steps; k += LANES) {
            const int64_t at = first + k * apart, m = min_i64(LANES, lanes - i),
                          n = min_i64(LANES, steps - k);
            if (m == LANES && n == LANES) // constant sizes remove every branch
                transpose_part(from, at, LANES, apart, lane + i, LANES, to + k * width + i, width);
            else if (m == HEIGHT && n == LANES && width == HEIGHT)
                transpose_part(from, at, LANES, apart, lane, HEIGHT, to + k * width, HEIGHT);
            else
                transpose_part(from, at, n, apart, lane + i, m, to + k * width + i, width);
        }
}

TARGET_AVX512 static void transpose(const void *data, int64_t first, int64_t steps, int64_t apart,
                                    const int64_t *lane, int64_t lanes, float *to, int64_t width) {
    const float *from = data;
    if (4 * steps <= 3 * LANES && apart == 1) { // cheaper than transposing a block that is mostly empty
        for (int64_t i = 0; i < lanes; i++) {
            const float *in = from + (first + lane[i]);
            for (int64_t k = 0; k < steps; k++) to[k * width + i] = in[k];
        }
        return;
    }
    if (apart == 1)
        transpose_apart(from, first, steps, 1, lane, lanes, to, width);
    else
        transpose_apart(from, first, steps, 2, lane, lanes, to, width);
}

TARGET_AVX512 static void store(const void *from, int64_t stride, int add, int64_t rows, int64_t columns,
                                int64_t apart, void *to, int64_t row) {
    const float *acc = from;
    float *c = to;
    const __m512i low = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    for (int64_t j = 0; j < columns; j += LANES) {
        const int64_t n = min_i64(LANES, columns - j);
        for (int64_t i = 0; i < rows; i++) {
            const __m512 sum = _mm512_maskz_loadu_ps(low_bits(n), acc + i * stride + j);
            float *at = c + (i * row + j * apart);
            if (apart == 1) {
                add_to(at, low_bits(n), add, sum);
            } else {
                add_to(at, 0x5555 & low_bits(2 * n), add, _mm512_permutexvar_ps(low, sum));
                if (n > 8)
                    add_to(at + LANES, 0x5555 & low_bits(2 * n - LANES), add,
                           _mm512_permutexvar_ps(high, sum));
            }
        }
    }
}

// Take 16 rows and 16 steps. Masked loads bring the quarters of four rows to the four parts of a vector,
// which halves the shuffles of the transposition: the shuffles, not the loads, limit the speed.
INLINE __m512 dot_block(const float *vector, const float *from, int64_t stride, __m512 sum) {
#pragma GCC unroll 4
    for (int k = 0; k < LANES; k += 4) {
        __m512 r[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const float *row = from + i * stride + k;
            r[i] = _mm512_castps128_ps512(_mm_loadu_ps(row));
            r[i] = _mm512_mask_broadcast_f32x4(r[i], 0x00F0, _mm_loadu_ps(row + 4 * stride));
            r[i] = _mm512_mask_broadcast_f32x4(r[i], 0x0F00, _mm_loadu_ps(row + 8 * stride));
            r[i] = _mm512_mask_broadcast_f32x4(r[i], 0xF000, _mm_loadu_ps(row + 12 * stride));
        }
        const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(r[0], r[1]));
        const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(r[0], r[1]));
        const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(r[2], r[3]));
        const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(r[2], r[3]));
        const __m512 step[4] = {
            _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23)),
            _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23)),
            _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23)),
            _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23)),
        };
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) sum = _mm512_fmadd_ps(_mm512_set1_ps(vector[k + i]), step[i], sum);
    }
    return sum;
}

// Take up to 16 rows and 16 steps.
INLINE __m512 dot_part(const float *vector, const float *from, int64_t stride, int64_t steps, int64_t rows,
                       __m512 sum) {
    __m512 r[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        r[i] = i < rows ? gather(from + i * stride, steps, 1) : _mm512_setzero_ps();
    transpose_block(r);
#pragma GCC unroll 16
    for (int k = 0; k < LANES; k++)
        if (k < steps) sum = _mm512_fmadd_ps(_mm512_set1_ps(vector[k]), r[k], sum);
    return sum;
}

// Take two blocks of 16 rows side by side, so that one is transposed while the other is summed.
TARGET_AVX512 static void dot(const float *vector, const float *from, int64_t stride, int64_t steps,
                              int64_t rows, float *sum) {
    const int64_t whole = steps / LANES * LANES;
    for (int64_t i = 0; i < rows; i += 2 * LANES) {
        const int64_t n = min_i64(LANES, rows - i), m = min_i64(LANES, max_i64(rows - i - LANES, 0));
        const float *first = from + i * stride, *second = m ? first + LANES * stride : first;
        __m512 a = _mm512_maskz_loadu_ps(low_bits(n), sum + i);
        __m512 b = _mm512_maskz_loadu_ps(low_bits(m), sum + i + LANES);
        for (int64_t k = 0; k < steps; k += LANES) {
            if (m == LANES && k < whole) {
                a = dot_block(vector + k, first + k, stride, a);
                b = dot_block(vector + k, second + k, stride, b);
            } else {
                const int64_t depth = min_i64(LANES, steps - k);
                a = dot_part(vector + k, first + k, stride, depth, n, a);
                b = dot_part(vector + k, second + k, stride, depth, m, b);
            }
        }
        _mm512_mask_storeu_ps(sum + i, low_bits(n), a);
        if (m) _mm512_mask_storeu_ps(sum + i + LANES, low_bits(m), b);
    }
}

const microkernel avx512_kernel = {{HEIGHT, WIDTH, sizeof(float), multiply, store},
                                   {copy, avx512_copy_bf16},
                                   {transpose, avx512_transpose_bf16},
                                   dot,
                                   4,
                                   512,
                                   avx512_multiply_rows};
#endif
