// Rounds rows of a block (exact_round.h).

#include "exact_round.h"

// `width` is a constant at each call.
static inline __attribute__((always_inline)) int round_body(const sum_row *s, int64_t width, int bf16,
                                                            float *to) {
    const sum_row row = *s;
    int32_t open = 0;
    for (int64_t j = 0; j < width; j++) {
        open |= is_open(&row, j, bf16);
        to[j] = rounded(row.sum[j], bf16);
    }
    return open;
}

#define ROUND(name, bf16, target, own)                                                                       \
    target static int name(const sum_row *s, int64_t width, float *to) {                                     \
        return width == own ? round_body(s, own, bf16, to) : round_body(s, width, bf16, to);                 \
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

int (*const exact_round[ISA_COUNT])(const sum_row *s, int64_t width, float *to) = {portable, avx2, avx512};
int (*const exact_round_bf16[ISA_COUNT])(const sum_row *s, int64_t width,
                                         float *to) = {portable_bf16, avx2_bf16, avx512_bf16};
