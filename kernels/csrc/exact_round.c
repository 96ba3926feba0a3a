// Rounds rows of a block (exact_round.h).

#include "exact_round.h"

// `width` is a constant at each call.
static inline __attribute__((always_inline)) int round_body(const sum_row *s, int64_t width, float *to) {
    const sum_row row = *s;
    int32_t open = 0;
    for (int64_t j = 0; j < width; j++) {
        open |= is_open(&row, j);
        to[j] = (float)row.sum[j] + 0.0f; // a zero is +0
    }
    return open;
}

static int round_portable(const sum_row *s, int64_t width, float *to) {
    return round_body(s, width, to);
}
#if defined(__x86_64__)
TARGET_AVX2 static int round_avx2(const sum_row *s, int64_t width, float *to) {
    return width == 8 ? round_body(s, 8, to) : round_body(s, width, to);
}
TARGET_AVX512 static int round_avx512(const sum_row *s, int64_t width, float *to) {
    return width == 16 ? round_body(s, 16, to) : round_body(s, width, to);
}
#else
#define round_avx2 round_portable
#define round_avx512 round_portable
#endif

int (*const exact_round[ISA_COUNT])(const sum_row *s, int64_t width, float *to) = {round_portable, round_avx2,
                                                                                   round_avx512};
