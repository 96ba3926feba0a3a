#include "microkernel.h"
#include <math.h>

// ------------------------------------------------------------------------------------------------ portable

#define PORTABLE_HEIGHT 4
#define PORTABLE_WIDTH 8

static void portable_masked(int64_t depth, const float *a, const float *b, const uint32_t *mask, float *acc) {
    for (int i = 0; i < PORTABLE_HEIGHT * PORTABLE_WIDTH; i++) acc[i] = -0.0f;
    for (int64_t k = 0; k < depth; k++)
        for (int i = 0; i < PORTABLE_HEIGHT; i++)
            for (int j = 0; j < PORTABLE_WIDTH; j++) {
                float *sum = &acc[i * PORTABLE_WIDTH + j];
                // NOTE: fmaf of the C library is correctly rounded, with or without the instruction.
                if (!mask || mask[k] >> j & 1)
                    *sum = fmaf(a[k * PORTABLE_HEIGHT + i], b[k * PORTABLE_WIDTH + j], *sum);
            }
}

static void portable_whole(int64_t depth, const float *a, const float *b, float *acc) {
    portable_masked(depth, a, b, 0, acc);
}

#if defined(__x86_64__)
#include <immintrin.h>

// ---------------------------------------------------------------------------------------------------- AVX2

#define AVX2_HEIGHT 6
#define AVX2_WIDTH 16

TARGET_AVX2 static void avx2_whole(int64_t depth, const float *a, const float *b, float *acc) {
    __m256 sum[AVX2_HEIGHT][2];
#pragma GCC unroll 6
    for (int i = 0; i < AVX2_HEIGHT; i++) sum[i][0] = sum[i][1] = _mm256_set1_ps(-0.0f);
    for (int64_t k = 0; k < depth; k++, a += AVX2_HEIGHT, b += AVX2_WIDTH) {
        const __m256 b0 = _mm256_load_ps(b), b1 = _mm256_load_ps(b + 8);
#pragma GCC unroll 6
        for (int i = 0; i < AVX2_HEIGHT; i++) {
            const __m256 x = _mm256_broadcast_ss(a + i);
            sum[i][0] = _mm256_fmadd_ps(x, b0, sum[i][0]);
            sum[i][1] = _mm256_fmadd_ps(x, b1, sum[i][1]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < AVX2_HEIGHT; i++) {
        _mm256_storeu_ps(acc + i * AVX2_WIDTH, sum[i][0]);
        _mm256_storeu_ps(acc + i * AVX2_WIDTH + 8, sum[i][1]);
    }
}

// All ones in the lanes whose bit is set.
TARGET_AVX2 static inline __m256 lanes(uint32_t bits) {
    const __m256i select = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_castsi256_ps(
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), select), select));
}

TARGET_AVX2 static void avx2_masked(int64_t depth, const float *a, const float *b, const uint32_t *mask,
                                    float *acc) {
    __m256 sum[AVX2_HEIGHT][2];
#pragma GCC unroll 6
    for (int i = 0; i < AVX2_HEIGHT; i++) sum[i][0] = sum[i][1] = _mm256_set1_ps(-0.0f);
    for (int64_t k = 0; k < depth; k++, a += AVX2_HEIGHT, b += AVX2_WIDTH) {
        if (!mask[k]) continue; // no column has this tap: with a stride, most rows of an input gradient
        const __m256 b0 = _mm256_load_ps(b), b1 = _mm256_load_ps(b + 8);
        const __m256 m0 = lanes(mask[k]), m1 = lanes(mask[k] >> 8);
        // NOTE: where the tap does not exist b is -0, and the mask makes a +0: the pair, swapped, of the
        // rule.
#pragma GCC unroll 6
        for (int i = 0; i < AVX2_HEIGHT; i++) {
            const __m256 x = _mm256_broadcast_ss(a + i);
            sum[i][0] = _mm256_fmadd_ps(_mm256_and_ps(x, m0), b0, sum[i][0]);
            sum[i][1] = _mm256_fmadd_ps(_mm256_and_ps(x, m1), b1, sum[i][1]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < AVX2_HEIGHT; i++) {
        _mm256_storeu_ps(acc + i * AVX2_WIDTH, sum[i][0]);
        _mm256_storeu_ps(acc + i * AVX2_WIDTH + 8, sum[i][1]);
    }
}

// ------------------------------------------------------------------------------------------------- AVX-512

#define AVX512_HEIGHT 12
#define AVX512_WIDTH 32

TARGET_AVX512 static void avx512_whole(int64_t depth, const float *a, const float *b, float *acc) {
    __m512 sum[AVX512_HEIGHT][2];
#pragma GCC unroll 12
    for (int i = 0; i < AVX512_HEIGHT; i++) sum[i][0] = sum[i][1] = _mm512_set1_ps(-0.0f);
    for (int64_t k = 0; k < depth; k++, a += AVX512_HEIGHT, b += AVX512_WIDTH) {
        const __m512 b0 = _mm512_load_ps(b), b1 = _mm512_load_ps(b + 16);
#pragma GCC unroll 12
        for (int i = 0; i < AVX512_HEIGHT; i++) {
            const __m512 x = _mm512_set1_ps(a[i]);
            sum[i][0] = _mm512_fmadd_ps(x, b0, sum[i][0]);
            sum[i][1] = _mm512_fmadd_ps(x, b1, sum[i][1]);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < AVX512_HEIGHT; i++) {
        _mm512_storeu_ps(acc + i * AVX512_WIDTH, sum[i][0]);
        _mm512_storeu_ps(acc + i * AVX512_WIDTH + 16, sum[i][1]);
    }
}

TARGET_AVX512 static void avx512_masked(int64_t depth, const float *a, const float *b, const uint32_t *mask,
                                        float *acc) {
    __m512 sum[AVX512_HEIGHT][2];
#pragma GCC unroll 12
    for (int i = 0; i < AVX512_HEIGHT; i++) sum[i][0] = sum[i][1] = _mm512_set1_ps(-0.0f);
    for (int64_t k = 0; k < depth; k++, a += AVX512_HEIGHT, b += AVX512_WIDTH) {
        if (!mask[k]) continue; // no column has this tap: with a stride, most rows of an input gradient
        const __m512 b0 = _mm512_load_ps(b), b1 = _mm512_load_ps(b + 16);
        const __mmask16 m0 = (__mmask16)mask[k], m1 = (__mmask16)(mask[k] >> 16);
#pragma GCC unroll 12
        for (int i = 0; i < AVX512_HEIGHT; i++) {
            const __m512 x = _mm512_set1_ps(a[i]);
            sum[i][0] = _mm512_mask3_fmadd_ps(x, b0, sum[i][0], m0);
            sum[i][1] = _mm512_mask3_fmadd_ps(x, b1, sum[i][1], m1);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < AVX512_HEIGHT; i++) {
        _mm512_storeu_ps(acc + i * AVX512_WIDTH, sum[i][0]);
        _mm512_storeu_ps(acc + i * AVX512_WIDTH + 16, sum[i][1]);
    }
}

const microkernel microkernels[ISA_COUNT] = {
    [ISA_PORTABLE] = {PORTABLE_HEIGHT, PORTABLE_WIDTH, portable_whole, portable_masked},
    [ISA_AVX2] = {AVX2_HEIGHT, AVX2_WIDTH, avx2_whole, avx2_masked},
    [ISA_AVX512] = {AVX512_HEIGHT, AVX512_WIDTH, avx512_whole, avx512_masked},
};
#else
const microkernel microkernels[ISA_COUNT] = {
    [ISA_PORTABLE] = {PORTABLE_HEIGHT, PORTABLE_WIDTH, portable_whole, portable_masked},
    [ISA_AVX2] = {PORTABLE_HEIGHT, PORTABLE_WIDTH, portable_whole, portable_masked},
    [ISA_AVX512] = {PORTABLE_HEIGHT, PORTABLE_WIDTH, portable_whole, portable_masked},
};
#endif
