// The AVX2 micro-kernel: 6 x 16, 12 accumulators.

#include "contraction.h"
#include "microkernel.h"
#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>

#define HEIGHT 6
#define WIDTH 16
#define LANES 8 // of a vector
#define INLINE TARGET_AVX2 static inline __attribute__((always_inline))

// All ones in the lanes whose bit is set.
INLINE __m256 lanes_of(uint32_t bits) {
    const __m256i select = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_castsi256_ps(
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), select), select));
}

// Set the accumulators to -0, and fetch C while the chunk is computed: the totals would else wait for it.
INLINE void start(int height, const chunk_product *p, __m256 sum[HEIGHT][2]) {
#pragma GCC unroll 6
    for (int i = 0; i < height; i++) {
        __builtin_prefetch((float *)p->c[0] + (i < p->rows ? i : 0) * p->row, 1, 3);
        sum[i][0] = sum[i][1] = _mm256_set1_ps(-0.0f);
    }
}

// Add accumulators to C, or store them.
INLINE void finish(int height, int vectors, const chunk_product *p, __m256 sum[HEIGHT][2]) {
    const int64_t skip = p->skip, rows = p->rows, row = p->row, columns = p->columns;
    const int add = p->add;
    const __m256 zero = _mm256_set1_ps(-0.0f);
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
        float *c = p->c[v];
        if (columns >= (v + 1) * LANES) { // NOTE: a store with a mask takes a dozen cycles on some processors
#pragma GCC unroll 6
            for (int i = 0; i < height; i++) {
                if (i < skip || i >= rows) continue;
                const __m256 old = add ? _mm256_loadu_ps(c + i * row) : zero;
                _mm256_storeu_ps(c + i * row, _mm256_add_ps(old, sum[i][v]));
            }
            continue;
        }
        const int64_t left = columns - v * LANES;
        const __m256i kept = _mm256_castps_si256(lanes_of((1u << max_i64(left, 0)) - 1));
#pragma GCC unroll 6
        for (int i = 0; i < height; i++) {
            if (i < skip || i >= rows) continue;
            const __m256 old = add ? _mm256_maskload_ps(c + i * row, kept) : zero;
            _mm256_maskstore_ps(c + i * row, kept, _mm256_add_ps(old, sum[i][v]));
        }
    }
}

// `steps` is constant at each call, and so is the absence of a mask.
INLINE void block(int steps, const chunk_product *p, const uint32_t *mask) {
    __m256 sum[HEIGHT][2];
    start(HEIGHT, p, sum);
    for (int64_t k = 0; k < p->depth; k++) {
        const float *a = (const float *)p->a + (steps ? p->a_step[k] : k * HEIGHT);
        __m256 column[2], exists[2];
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            const float *b = element(p->b[v], steps ? p->b_step[k] : k * WIDTH);
            if (mask) exists[v] = lanes_of(mask[k] >> v * LANES);
            column[v] = mask ? _mm256_maskload_ps(b, _mm256_castps_si256(exists[v])) : _mm256_loadu_ps(b);
        }
#pragma GCC unroll 6
        for (int i = 0; i < HEIGHT; i++) {
            const __m256 row = _mm256_broadcast_ss(a + i);
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++) {
                const __m256 next = _mm256_fmadd_ps(row, column[v], sum[i][v]);
                sum[i][v] = mask ? _mm256_blendv_ps(sum[i][v], next, exists[v]) : next;
            }
        }
    }
    finish(HEIGHT, 2, p, sum);
}

TARGET_AVX2 static void multiply(const chunk_product *p) {
    WITH_CONSTANTS(block, p);
}

// Operands in place: `height` rows of A, 2, 4 or 6, and `vectors` vectors of columns, constants at each call.
INLINE void block_of_rows(int height, int vectors, const chunk_product *p) {
    // Two addresses and multiples of one distance reach all rows within an instruction's addressing modes.
    const int64_t row = p->a_row, row2 = 2 * row, b_row = p->b_row, depth = p->depth;
    const float *a[2] = {p->a, (const float *)p->a + 3 * row};
    const float *b[2] = {p->b[0], p->b[1]};
    __m256 sum[HEIGHT][2];
    start(height, p, sum);
    for (int64_t k = 0; k < depth; k++) {
        __m256 column[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) column[v] = _mm256_loadu_ps(b[v]), b[v] += b_row;
#pragma GCC unroll 6
        for (int i = 0; i < height; i++) {
            const __m256 of_row = _mm256_broadcast_ss(a[i / 3] + (i % 3 == 2 ? row2 : i % 3 * row));
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sum[i][v] = _mm256_fmadd_ps(of_row, column[v], sum[i][v]);
        }
        a[0]++, a[1]++;
    }
    finish(height, vectors, p, sum);
}

INLINE void heights(int vectors, const chunk_product *p) {
    if (p->rows > 4)
        block_of_rows(6, vectors, p);
    else if (p->rows > 2)
        block_of_rows(4, vectors, p);
    else
        block_of_rows(2, vectors, p);
}

TARGET_AVX2 static void multiply_rows(const chunk_product *p) {
    if (p->columns > LANES)
        heights(2, p);
    else
        heights(1, p);
}

// Four and eight factors, widened.
INLINE __m128 load4(int bf16, const void *from) {
    if (!bf16) return _mm_loadu_ps(from);
    return _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64(from)), 16));
}
INLINE __m256 load8(int bf16, const void *from) {
    if (!bf16) return _mm256_loadu_ps(from);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(from)), 16));
}

// Copies with two vectors that may overlap, rather than a loop of varying length.
INLINE void copy(int bf16, const void *from, int64_t first, int64_t lanes, int64_t apart, const int64_t *step,
                 int64_t steps, float *to, int64_t width) {
    const int64_t wide = lanes - LANES, narrow = lanes - LANES / 2;
    for (int64_t k = 0; k < steps; k++, to += width) {
        const void *in = factor_at(bf16, from, first + step[k]);
        if (apart == 1 && wide >= 0) {
            // NOTE: the panels after the next; rows are too far apart for the processor to fetch them ahead.
            __builtin_prefetch(factor_at(bf16, in, 2 * WIDTH), 0, 3);
            for (int64_t i = 0; i < wide; i += LANES)
                _mm256_storeu_ps(to + i, load8(bf16, factor_at(bf16, in, i)));
            _mm256_storeu_ps(to + wide, load8(bf16, factor_at(bf16, in, wide)));
        } else if (apart == 1 && narrow >= 0) {
            _mm_storeu_ps(to, load4(bf16, in));
            _mm_storeu_ps(to + narrow, load4(bf16, factor_at(bf16, in, narrow)));
        } else {
            for (int64_t i = 0; i < lanes; i++) to[i] = factor(bf16, factor_at(bf16, in, i * apart));
        }
    }
}

// Transposes blocks of 4 x 4, then of 2 x 4.
INLINE void transpose(int bf16, const void *from, int64_t first, int64_t steps, int64_t apart,
                      const int64_t *lane, int64_t lanes, float *to, int64_t width) {
    int64_t i = 0;
    for (; i + 4 <= lanes && apart == 1; i += 4) {
        const void *row[4];
        for (int j = 0; j < 4; j++) row[j] = factor_at(bf16, from, first + lane[i + j]);
        int64_t k = 0;
        for (; k + 4 <= steps; k += 4) {
            __m128 r[4];
            for (int j = 0; j < 4; j++) r[j] = load4(bf16, factor_at(bf16, row[j], k));
            _MM_TRANSPOSE4_PS(r[0], r[1], r[2], r[3]);
            for (int j = 0; j < 4; j++) _mm_storeu_ps(to + (k + j) * width + i, r[j]);
        }
        for (; k < steps; k++)
            for (int j = 0; j < 4; j++) to[k * width + i + j] = factor(bf16, factor_at(bf16, row[j], k));
    }
    // The last two of a panel's six rows.
    for (; i + 2 <= lanes && apart == 1; i += 2) {
        const void *a = factor_at(bf16, from, first + lane[i]),
                   *b = factor_at(bf16, from, first + lane[i + 1]);
        int64_t k = 0;
        for (; k + 4 <= steps; k += 4) {
            const __m128 r = load4(bf16, factor_at(bf16, a, k)), s = load4(bf16, factor_at(bf16, b, k));
            const __m128 low = _mm_unpacklo_ps(r, s), high = _mm_unpackhi_ps(r, s);
            float *at = to + k * width + i;
            _mm_storel_pi((__m64 *)at, low);
            _mm_storeh_pi((__m64 *)(at + width), low);
            _mm_storel_pi((__m64 *)(at + 2 * width), high);
            _mm_storeh_pi((__m64 *)(at + 3 * width), high);
        }
        for (; k < steps; k++) {
            to[k * width + i] = factor(bf16, factor_at(bf16, a, k));
            to[k * width + i + 1] = factor(bf16, factor_at(bf16, b, k));
        }
    }
    for (; i < lanes; i++)
        for (int64_t k = 0; k < steps; k++)
            to[k * width + i] = factor(bf16, factor_at(bf16, from, first + k * apart + lane[i]));
}

#define MOVES(name, bf16)                                                                                    \
    TARGET_AVX2 static void copy_##name(const void *from, int64_t first, int64_t lanes, int64_t apart,       \
                                        const int64_t *step, int64_t steps, float *to, int64_t width) {      \
        copy(bf16, from, first, lanes, apart, step, steps, to, width);                                       \
    }                                                                                                        \
    TARGET_AVX2 static void transpose_##name(const void *from, int64_t first, int64_t steps, int64_t apart,  \
                                             const int64_t *lane, int64_t lanes, float *to, int64_t width) { \
        transpose(bf16, from, first, steps, apart, lane, lanes, to, width);                                  \
    }
MOVES(f32, 0)
MOVES(bf16, 1)

TARGET_AVX2 static void store(const void *from, int64_t stride, int add, int64_t rows, int64_t columns,
                              int64_t apart, void *to, int64_t row) {
    const float *acc = from;
    float *c = to;
    for (int64_t i = 0; i < rows; i++, acc += stride, c += row) {
        int64_t j = 0;
        for (; j + LANES <= columns && apart == 1; j += LANES) {
            const __m256 old = add ? _mm256_loadu_ps(c + j) : _mm256_set1_ps(-0.0f);
            _mm256_storeu_ps(c + j, _mm256_add_ps(old, _mm256_loadu_ps(acc + j)));
        }
        for (; j < columns; j++) c[j * apart] = (add ? c[j * apart] : -0.0f) + acc[j];
    }
}

// Takes blocks of 4 rows and 4 steps, four of them side by side.
TARGET_AVX2 static void dot(const float *vector, const float *from, int64_t stride, int64_t steps,
                            int64_t rows, float *sum) {
    int64_t i = 0;
    for (; i + 16 <= rows; i += 16) {
        __m128 s[4];
        for (int b = 0; b < 4; b++) s[b] = _mm_loadu_ps(sum + i + 4 * b);
        int64_t k = 0;
        for (; k + 4 <= steps; k += 4) {
#pragma GCC unroll 4
            for (int b = 0; b < 4; b++) {
                const float *row = from + (i + 4 * b) * stride + k;
                __m128 r0 = _mm_loadu_ps(row), r1 = _mm_loadu_ps(row + stride);
                __m128 r2 = _mm_loadu_ps(row + 2 * stride), r3 = _mm_loadu_ps(row + 3 * stride);
                _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
                s[b] = _mm_fmadd_ps(_mm_set1_ps(vector[k]), r0, s[b]);
                s[b] = _mm_fmadd_ps(_mm_set1_ps(vector[k + 1]), r1, s[b]);
                s[b] = _mm_fmadd_ps(_mm_set1_ps(vector[k + 2]), r2, s[b]);
                s[b] = _mm_fmadd_ps(_mm_set1_ps(vector[k + 3]), r3, s[b]);
            }
        }
        for (int b = 0; b < 4; b++) _mm_storeu_ps(sum + i + 4 * b, s[b]);
        for (; k < steps; k++)
            for (int64_t j = i; j < i + 16; j++) sum[j] = fmaf(vector[k], from[j * stride + k], sum[j]);
    }
    for (; i < rows; i++)
        for (int64_t k = 0; k < steps; k++) sum[i] = fmaf(vector[k], from[i * stride + k], sum[i]);
}

const microkernel avx2_kernel = {{HEIGHT, WIDTH, sizeof(float), multiply, store},
                                 {copy_f32, copy_bf16},
                                 {transpose_f32, transpose_bf16},
                                 dot,
                                 2,
                                 1024,
                                 multiply_rows};
#endif
