// Packs panels in binary32, which bf16 is widened to, and converts them to binary64. A panel is copied along
// runs of lanes or transposed along runs of steps, by the longer runs.

#include "pack.h"
#include "shared/bits.h"

void pack(const gathered *g, const microkernel *kernel, float *to, int64_t width) {
    const int64_t lane_runs = count_runs(g->lane, g->lanes, g->lane_apart);
    if (lane_runs * g->steps <= g->step_runs * g->lanes) {
        for (int64_t i = 0, n; i < g->lanes; i += n) {
            n = run_of(g->lane + i, g->lanes - i, g->lane_apart);
            kernel->copy[g->bf16](g->data, g->lane[i], n, g->lane_apart, g->step, g->steps, to + i, width);
        }
    } else {
        for (int64_t k = 0, n; k < g->steps; k += n) {
            n = run_of(g->step + k, g->steps - k, g->step_apart);
            kernel->transpose[g->bf16](g->data, g->step[k], n, g->step_apart, g->lane, g->lanes,
                                       to + k * width, width);
        }
    }
}

BODY panels_to_f64_body(const float *from, int64_t n, double *to) {
    for (int64_t i = 0; i < n; i++) to[i] = from[i];
}
VARIANTS(panels_to_f64, (const float *from, int64_t n, double *to), (from, n, to))

void to_f64(const float *from, int64_t n, double *to, enum isa isa) {
    panels_to_f64[isa](from, n, to);
}

static void rows_to_bf16_portable(const float *from, int64_t from_row, int64_t rows, int64_t n, uint16_t *to,
                                  int64_t to_row) {
    for (int64_t i = 0; i < rows; i++, from += from_row, to += to_row)
        for (int64_t j = 0; j < n; j++) to[j] = to_bf16(from[j]);
}

#if defined(__x86_64__)
#include <immintrin.h>

// NOTE: most rows are those of a panel: 16 or 32 elements, for which compilers make a poor loop.

// Return bf16 in words of 32 bits, by the steps of to_bf16.
TARGET_AVX2 static inline __m256i words_avx2(const float *from) {
    const __m256 x = _mm256_loadu_ps(from), nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000));
    const __m256i b = _mm256_castps_si256(x),
                  odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_add_epi32(b, _mm256_set1_epi32(0x7FFF)), odd);
    const __m256 y = _mm256_blendv_ps(_mm256_castsi256_ps(up), nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_castps_si256(y), 16);
}
TARGET_AVX2 static void rows_to_bf16_avx2(const float *from, int64_t from_row, int64_t rows, int64_t n,
                                          uint16_t *to, int64_t to_row) {
    for (int64_t i = 0; i < rows; i++, from += from_row, to += to_row) {
        int64_t j = 0;
        for (; j + 16 <= n; j += 16) {
            const __m256i all = _mm256_packus_epi32(words_avx2(from + j), words_avx2(from + j + 8));
            _mm256_storeu_si256((__m256i *)(to + j), _mm256_permute4x64_epi64(all, 0xD8));
        }
        for (; j < n; j++) to[j] = to_bf16(from[j]);
    }
}

TARGET_AVX512 static void rows_to_bf16_avx512(const float *from, int64_t from_row, int64_t rows, int64_t n,
                                              uint16_t *to, int64_t to_row) {
    const __m512i nan = _mm512_set1_epi32(0x7FC00000), one = _mm512_set1_epi32(1);
    for (int64_t i = 0; i < rows; i++, from += from_row, to += to_row) {
        int64_t j = 0;
        for (; j + 16 <= n; j += 16) {
            const __m512 x = _mm512_loadu_ps(from + j);
            const __m512i b = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), one);
            const __m512i up = _mm512_add_epi32(_mm512_add_epi32(b, _mm512_set1_epi32(0x7FFF)), odd);
            const __m512i y = _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), nan);
            _mm256_storeu_si256((__m256i *)(to + j), _mm512_cvtepi32_epi16(_mm512_srli_epi32(y, 16)));
        }
        for (; j < n; j++) to[j] = to_bf16(from[j]);
    }
}
#else
#define rows_to_bf16_avx2 rows_to_bf16_portable
#define rows_to_bf16_avx512 rows_to_bf16_portable
#endif

void round_to_bf16(const float *from, int64_t from_row, int64_t rows, int64_t n, uint16_t *to, int64_t to_row,
                   enum isa isa) {
    static void (*const kernels[ISA_COUNT])(const float *, int64_t, int64_t, int64_t, uint16_t *, int64_t) = {
        rows_to_bf16_portable, rows_to_bf16_avx2, rows_to_bf16_avx512};
    kernels[isa](from, from_row, rows, n, to, to_row);
}
