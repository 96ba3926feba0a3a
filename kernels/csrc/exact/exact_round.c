// Rounds blocks (exact_round.h).

#include "exact_round.h"
#include "gemm/microkernel.h"

// `width` is a constant at each call.
static inline __attribute__((always_inline)) int round_body(const sum_block *s, int64_t rows, int64_t width,
                                                            int bf16, float *to, int64_t to_row) {
    int32_t open[MAX_WIDTH] = {0}, any = 0;
    for (int64_t i = 0; i < rows; i++, to += to_row) {
        const sum_row row = row_of(s, i, width);
// NOTE: a compiler that unrolls the loop does not vectorise it.
#pragma GCC unroll 1
        for (int64_t j = 0; j < width; j++) {
            open[j] |= is_open(&row, j, bf16);
            const float nearest = rounded(row.sum[j], 0);
            // What bf16 rounds to zero is +0, too.
            to[j] = bf16 && __builtin_fabsf(nearest) <= 0x1p-134f ? 0 : nearest;
        }
    }
    for (int64_t j = 0; j < width; j++) any |= open[j];
    return any;
}

#define ROUND(name, bf16, target, own)                                                                       \
    target static int name(const sum_block *s, int64_t rows, int64_t width, float *to, int64_t to_row) {     \
        return width == own ? round_body(s, rows, own, bf16, to, to_row)                                     \
                            : round_body(s, rows, width, bf16, to, to_row);                                  \
    }
ROUND(portable, 0, , 4)
ROUND(portable_bf16, 1, , 4)
#if defined(__x86_64__)
ROUND(avx2, 0, TARGET_AVX2, 8)
ROUND(avx2_bf16, 1, TARGET_AVX2, 8)
ROUND(avx512, 0, TARGET_AVX512, 16)
ROUND(avx512_bf16, 1, TARGET_AVX512, 16)
#else
#define avx2 portable
#define avx2_bf16 portable_bf16
#define avx512 portable
#define avx512_bf16 portable_bf16
#endif

round_block *const exact_round[ISA_COUNT] = {portable, avx2, avx512};
round_block *const exact_round_for_bf16[ISA_COUNT] = {portable_bf16, avx2_bf16, avx512_bf16};
