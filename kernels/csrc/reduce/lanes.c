// The arithmetic of sum and amax over one block (docs/opset.md, section 2): element i goes to lane i mod 32,
// ascending from the identity; lanes fold 16, 8, 4, 2, 1.
//
// amax and sums of i64 do not depend on the order and use the same code.

#include "runtime/rows.h"
#include "shared/bits.h"

static inline float add_f32(float a, float b) {
    return a + b;
}
static inline int64_t add_i64(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int32_t max_key(int32_t a, int32_t b) {
    return a > b ? a : b;
}
static inline int64_t max_i64_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}
#define SELF(x) (x)

// One (operation, type). Lanes hold `load` of the elements: for amax of f32, their order keys.
//
// The lanes of columns start as their first element, since combine(identity, x) is x. `column_lanes` is 1 if
// the order does not matter.
#define REDUCTION(name, T, LANE, load, combine, identity, unload, column_lanes, add, whole)                  \
    BODY name##_begin_body(void *state) {                                                                    \
        LANE *lane = state;                                                                                  \
        for (int j = 0; j < LANES; j++) lane[j] = identity;                                                  \
    }                                                                                                        \
    BODY name##_add_body(void *state, int64_t at, const void *from, int64_t n) {                             \
        LANE *lane = state;                                                                                  \
        const T *x = from;                                                                                   \
        for (; n && at % LANES; at++, n--, x++) lane[at % LANES] = combine(lane[at % LANES], load(*x));      \
        LANE l[LANES];                                                                                       \
        for (int j = 0; j < LANES; j++) l[j] = lane[j];                                                      \
        for (; n >= LANES; n -= LANES, x += LANES)                                                           \
            for (int j = 0; j < LANES; j++) l[j] = combine(l[j], load(x[j]));                                \
        for (int j = 0; j < LANES; j++) lane[j] = l[j];                                                      \
        for (int j = 0; j < n; j++) lane[j] = combine(lane[j], load(x[j]));                                  \
    }                                                                                                        \
    BODY name##_fold_body(void *state, void *result) {                                                       \
        LANE *lane = state, a[16], b[8], c[4], d[2];                                                         \
        for (int j = 0; j < 16; j++) a[j] = combine(lane[j], lane[j + 16]);                                  \
        for (int j = 0; j < 8; j++) b[j] = combine(a[j], a[j + 8]);                                          \
        for (int j = 0; j < 4; j++) c[j] = combine(b[j], b[j + 4]);                                          \
        for (int j = 0; j < 2; j++) d[j] = combine(c[j], c[j + 2]);                                          \
        *(T *)result = unload(combine(d[0], d[1]));                                                          \
    }                                                                                                        \
    BODY name##_whole_body(const void *x, int64_t n, void *result) {                                         \
        LANE lane[LANES];                                                                                    \
        name##_begin_body(lane);                                                                             \
        name##_add_body(lane, 0, x, n);                                                                      \
        name##_fold_body(lane, result);                                                                      \
    }                                                                                                        \
    BODY name##_columns_body(const void *from, const int64_t *offset, int64_t n, int64_t width,              \
                             void *results, int64_t apart) {                                                 \
        LANE lane[column_lanes][COLUMNS];                                                                    \
        const int64_t used = min_i64(n, column_lanes);                                                       \
        for (int64_t i = 0; i < used; i++)                                                                   \
            for (int64_t w = 0; w < width; w++) lane[i][w] = load(((const T *)from + offset[i])[w]);         \
        for (int64_t i = used; i < n; i++) {                                                                 \
            const T *x = (const T *)from + offset[i];                                                        \
            LANE *l = lane[i % column_lanes];                                                                \
            if (width == COLUMNS)                                                                            \
                for (int w = 0; w < COLUMNS; w++) l[w] = combine(l[w], load(x[w]));                          \
            else                                                                                             \
                for (int64_t w = 0; w < width; w++) l[w] = combine(l[w], load(x[w]));                        \
        }                                                                                                    \
        for (int64_t half = LANES / 2; half; half /= 2)                                                      \
            for (int64_t j = 0; j < half && j + half < used; j++)                                            \
                for (int64_t w = 0; w < width; w++) lane[j][w] = combine(lane[j][w], lane[j + half][w]);     \
        for (int64_t w = 0; w < width; w++) ((T *)results)[w * apart] = unload(lane[0][w]);                  \
    }                                                                                                        \
    VARIANTS(name##_begin, (void *state), (state))                                                           \
    VARIANTS(name##_add, (void *state, int64_t at, const void *x, int64_t n), (state, at, x, n))             \
    VARIANTS(name##_fold, (void *state, void *result), (state, result))                                      \
    VARIANTS(name##_whole, (const void *x, int64_t n, void *result), (x, n, result))                         \
    VARIANTS(name##_columns,                                                                                 \
             (const void *x, const int64_t *offset, int64_t n, int64_t width, void *results, int64_t apart), \
             (x, offset, n, width, results, apart))                                                          \
    const reduction name = {name##_begin, add, name##_fold, whole, name##_columns, 0};

#define MINUS_INF_KEY order_key(-__builtin_inff())

#if defined(__x86_64__)
#include <immintrin.h>

// The larger, with -0 below +0. A NaN loses, so NaNs are found separately: a third of the work of order keys.
#define LARGER(a, b) _mm512_range_ps(a, b, 5)
#define UNORDERED(a, b) _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q)

TARGET_AVX512 static void amax_f32_whole_wide(const void *from, int64_t n, void *result) {
    const float *x = from;
    const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
    __m512 m[4] = {lowest, lowest, lowest, lowest};
    __mmask16 nan = 0;
    for (; n >= 64; n -= 64, x += 64) {
        const __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + 16);
        const __m512 c = _mm512_loadu_ps(x + 32), d = _mm512_loadu_ps(x + 48);
        m[0] = LARGER(m[0], a), m[1] = LARGER(m[1], b), m[2] = LARGER(m[2], c), m[3] = LARGER(m[3], d);
        nan |= UNORDERED(a, b) | UNORDERED(c, d);
    }
    for (; n > 0; n -= 16, x += 16) {
        const __mmask16 lanes = n < 16 ? (__mmask16)((1u << n) - 1) : (__mmask16)-1;
        const __m512 a = _mm512_mask_loadu_ps(lowest, lanes, x);
        m[0] = LARGER(m[0], a);
        nan |= UNORDERED(a, a);
    }
    __m512 top = LARGER(LARGER(m[0], m[1]), LARGER(m[2], m[3]));
    top = LARGER(top, _mm512_shuffle_f32x4(top, top, 0x4E));
    top = LARGER(top, _mm512_shuffle_f32x4(top, top, 0xB1));
    top = LARGER(top, _mm512_permute_ps(top, 0x4E));
    top = LARGER(top, _mm512_permute_ps(top, 0xB1));
    *(float *)result = nan ? __builtin_nanf("") : _mm512_cvtss_f32(top);
}
// NOTE: the order does not matter to a maximum, so the whole state is in the first lane.
static void amax_f32_add_wide(void *state, int64_t at, const void *x, int64_t n) {
    (void)at;
    float top;
    amax_f32_whole_wide(x, n, &top);
    *(int32_t *)state = max_key(*(int32_t *)state, order_key(top));
}

static void amax_f32_whole_portable(const void *x, int64_t n, void *result);
TARGET_AVX2 static void amax_f32_whole_avx2(const void *x, int64_t n, void *result);
static void (*const amax_f32_rows[ISA_COUNT])(const void *x, int64_t n, void *result) = {
    amax_f32_whole_portable, amax_f32_whole_avx2, amax_f32_whole_wide};

static void amax_f32_add_portable(void *state, int64_t at, const void *x, int64_t n);
TARGET_AVX2 static void amax_f32_add_avx2(void *state, int64_t at, const void *x, int64_t n);
static void (*const amax_f32_tiles[ISA_COUNT])(void *state, int64_t at, const void *x, int64_t n) = {
    amax_f32_add_portable, amax_f32_add_avx2, amax_f32_add_wide};
#else
#define amax_f32_rows amax_f32_whole
#define amax_f32_tiles amax_f32_add
#endif

REDUCTION(sum_f32, float, float, SELF, add_f32, -0.0f, SELF, LANES, sum_f32_add, sum_f32_whole)
REDUCTION(sum_i64, int64_t, int64_t, SELF, add_i64, 0, SELF, 1, sum_i64_add, sum_i64_whole)
REDUCTION(amax_f32, float, int32_t, order_key, max_key, MINUS_INF_KEY, from_key, 1, amax_f32_tiles,
          amax_f32_rows)
REDUCTION(amax_i64, int64_t, int64_t, SELF, max_i64_of, INT64_MIN, SELF, 1, amax_i64_add, amax_i64_whole)

const named_reduction named_reductions[] = {
    {"sum_f32", &sum_f32},
    {"sum_i64", &sum_i64},
    {"amax_f32", &amax_f32},
    {"amax_i64", &amax_i64},
    {"exact_sum_f32", &exact_sum_f32},
    {NULL, NULL},
};
