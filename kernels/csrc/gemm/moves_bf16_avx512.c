// How the AVX-512 micro-kernel copies and transposes bf16.
//
// A bf16 is the upper half of the binary32 with its value. So two neighbours are one word, whose halves are
// widened by a shift and by a mask: words are transposed with half the shuffles that binary32 takes.

#include "runtime/repops.h"
#if defined(__x86_64__)
#include "contraction.h"
#include "microkernel_avx512.h"

// ------------------------------------------------------------------------------------------------------
// copies

// Widen `count` elements: 1, 2, 4, 8 or 16, constant at each call.
INLINE void widen(int count, const uint16_t *from, float *to) {
    if (count == 1) *to = from_bf16(*from);
    if (count == 2) {
        uint32_t both;
        memcpy(&both, from, sizeof both);
        const uint64_t wide = (uint64_t)(both & 0xFFFF0000) << 32 | (uint32_t)(both << 16);
        memcpy(to, &wide, sizeof wide);
    }
    if (count == 4)
        _mm_storeu_si128((__m128i *)to,
                         _mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i *)from)), 16));
    if (count == 8)
        _mm256_storeu_si256(
            (__m256i *)to,
            _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from)), 16));
    if (count == 16)
        _mm512_storeu_si512(
            to, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from)), 16));
}

// Widen lanes of every step: the first `count` of them, and the last, which may overlap.
INLINE void copy_near(int count, int both, const uint16_t *from, int64_t lanes, const int64_t *step,
                      int64_t steps, float *to, int64_t width) {
    const int64_t second = lanes - count;
    for (int64_t k = 0; k < steps; k++, to += width) {
        const uint16_t *in = from + step[k];
        widen(count, in, to);
        if (both) widen(count, in + second, to + second);
    }
}

// The first n of 16 words of which each second element is wanted, n > 0, and no others.
INLINE __m512i every_second(const uint16_t *from, int64_t n) {
    return _mm512_slli_epi32(_mm512_maskz_loadu_epi16((__mmask32)((UINT64_C(1) << (2 * n - 1)) - 1), from),
                             16);
}

TARGET_AVX512 void avx512_copy_bf16(const void *data, int64_t first, int64_t lanes, int64_t apart,
                                    const int64_t *step, int64_t steps, float *to, int64_t width) {
    const uint16_t *from = factor_at(1, data, first);
    if (apart == 2) {
        for (int64_t i = 0; i < lanes; i += LANES) {
            const int64_t n = min_i64(LANES, lanes - i);
            for (int64_t k = 0; k < steps; k++)
                _mm512_mask_storeu_epi32(to + k * width + i, low_bits(n),
                                         every_second(from + (2 * i + step[k]), n));
        }
        return;
    }
#define COPY_NEAR(count)                                                                                     \
    if (lanes == count) {                                                                                    \
        copy_near(count, 0, from, lanes, step, steps, to, width);                                            \
        return;                                                                                              \
    }                                                                                                        \
    if (lanes > count) {                                                                                     \
        copy_near(count, 1, from, lanes, step, steps, to, width);                                            \
        return;                                                                                              \
    }
    COPY_NEAR(16)
    COPY_NEAR(8)
    COPY_NEAR(4)
    COPY_NEAR(2)
    copy_near(1, 0, from, lanes, step, steps, to, width);
}

// ----------------------------------------------------------------------------------------------
// transpositions

// Store the lanes of a step. What comes after them is overwritten later, unless the step is the last.
INLINE void put_lanes(__m512i wide, int64_t lanes, int last, float *to, int64_t width) {
    const __m512 lane = _mm512_castsi512_ps(wide);
    if (lanes == LANES || (lanes == width && !last)) {
        _mm512_storeu_ps(to, lane);
    } else if (lanes == HEIGHT) {
        _mm256_storeu_ps(to, _mm512_castps512_ps256(lane));
        _mm_storeu_ps(to + 8, _mm512_extractf32x4_ps(lane, 2));
    } else {
        _mm512_mask_storeu_ps(to, low_bits(lanes), lane);
    }
}

// Transpose up to 16 lanes and up to `most` steps, 16 or 32. Constant sizes remove every branch.
INLINE void transpose_pairs(int most, const uint16_t *from, int64_t steps, const int64_t *lane, int64_t lanes,
                            float *to, int64_t width) {
    const __mmask32 some = (__mmask32)((UINT64_C(1) << steps) - 1);
    __m512 r[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        r[i] = _mm512_castsi512_ps(i < lanes ? _mm512_maskz_loadu_epi16(some, factor_at(1, from, lane[i]))
                                             : _mm512_setzero_si512());
    transpose_block(r);
#pragma GCC unroll 16
    for (int k = 0; k < most; k += 2) {
        const __m512i pair = _mm512_castps_si512(r[k / 2]);
        if (k < steps) put_lanes(_mm512_slli_epi32(pair, 16), lanes, k + 1 == steps, to + k * width, width);
        if (k + 1 < steps)
            put_lanes(_mm512_and_si512(pair, _mm512_set1_epi32((int)0xFFFF0000)), lanes, k + 2 == steps,
                      to + (k + 1) * width, width);
    }
}

// Transpose up to 16 lanes and four steps.
INLINE void transpose_four(const uint16_t *from, const int64_t *lane, int64_t lanes, float *to,
                           int64_t width) {
    int64_t of[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) memcpy(&of[i], factor_at(1, from, lane[i < lanes ? i : 0]), sizeof *of);
    const __m512i low = _mm512_set_epi64(of[7], of[6], of[5], of[4], of[3], of[2], of[1], of[0]);
    const __m512i high = _mm512_set_epi64(of[15], of[14], of[13], of[12], of[11], of[10], of[9], of[8]);
    // The upper half of word i is element 4 i.
    const __m512i each =
        _mm512_slli_epi32(_mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60), 16);
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++)
        put_lanes(_mm512_maskz_permutex2var_epi16(0xAAAAAAAA, low,
                                                  _mm512_add_epi32(each, _mm512_set1_epi32(k << 16)), high),
                  lanes, k == 3, to + k * width, width);
}

// Transpose up to 16 lanes and 16 steps, each two apart.
INLINE void transpose_apart(const uint16_t *from, int64_t steps, const int64_t *lane, int64_t lanes,
                            float *to, int64_t width) {
    __m512 r[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        r[i] = _mm512_castsi512_ps(i < lanes ? every_second(factor_at(1, from, lane[i]), steps)
                                             : _mm512_setzero_si512());
    transpose_block(r);
#pragma GCC unroll 16
    for (int k = 0; k < LANES; k++)
        if (k < steps) put_lanes(_mm512_castps_si512(r[k]), lanes, k + 1 == steps, to + k * width, width);
}

// Transpose up to 16 lanes and 32 adjacent steps.
INLINE void transpose_near(const uint16_t *from, int64_t steps, const int64_t *lane, int64_t lanes, float *to,
                           int64_t width) {
    if (steps == 2 * LANES && lanes == LANES)
        transpose_pairs(2 * LANES, from, 2 * LANES, lane, LANES, to, width);
    else if (steps == 2 * LANES && lanes == HEIGHT && width == HEIGHT)
        transpose_pairs(2 * LANES, from, 2 * LANES, lane, HEIGHT, to, HEIGHT);
    else if (steps > LANES)
        transpose_pairs(2 * LANES, from, steps, lane, lanes, to, width);
    else if (steps > 4)
        transpose_pairs(LANES, from, steps, lane, lanes, to, width);
    else if (steps == 4 && lanes == LANES)
        transpose_four(from, lane, LANES, to, width);
    else if (steps == 4 && lanes == HEIGHT && width == HEIGHT)
        transpose_four(from, lane, HEIGHT, to, HEIGHT);
    else
        for (int64_t i = 0; i < lanes; i++) {
            const uint16_t *in = factor_at(1, from, lane[i]);
            for (int64_t k = 0; k < steps; k++) to[k * width + i] = from_bf16(in[k]);
        }
}

TARGET_AVX512 void avx512_transpose_bf16(const void *data, int64_t first, int64_t steps, int64_t apart,
                                         const int64_t *lane, int64_t lanes, float *to, int64_t width) {
    const int64_t block = apart == 1 ? 2 * LANES : LANES;
    for (int64_t k = 0; k < steps; k += block)
        for (int64_t i = 0; i < lanes; i += LANES) {
            const int64_t m = min_i64(LANES, lanes - i), n = min_i64(block, steps - k);
            const uint16_t *from = factor_at(1, data, first + k * apart);
            float *out = to + k * width + i;
            if (apart == 1)
                transpose_near(from, n, lane + i, m, out, width);
            else
                transpose_apart(from, n, lane + i, m, out, width);
        }
}
#endif
