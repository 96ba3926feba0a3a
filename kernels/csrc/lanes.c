// The arithmetic of sum and amax over one block (docs/opset.md, section 2): element i goes to lane i mod 32,
// ascending from the identity; lanes fold 16, 8, 4, 2, 1.
//
// amax and sums of i64 do not depend on an order and take the same road.

#include "rows.h"
#include "bits.h"

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
// The columns' lanes start as their first element, since combine(identity, x) is x; `column_lanes` is 1 where
// the order does not matter.
#define REDUCTION(name, T, LANE, load, combine, identity, unload, column_lanes)                              \
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
    const reduction name = {name##_begin, name##_add, name##_fold, name##_whole, name##_columns};

#define MINUS_INF_KEY order_key(-__builtin_inff())

REDUCTION(sum_f32, float, float, SELF, add_f32, -0.0f, SELF, LANES)
REDUCTION(sum_i64, int64_t, int64_t, SELF, add_i64, 0, SELF, 1)
REDUCTION(amax_f32, float, int32_t, order_key, max_key, MINUS_INF_KEY, from_key, 1)
REDUCTION(amax_i64, int64_t, int64_t, SELF, max_i64_of, INT64_MIN, SELF, 1)

const named_reduction named_reductions[] = {
    {"sum_f32", &sum_f32},   {"sum_i64", &sum_i64}, {"amax_f32", &amax_f32},
    {"amax_i64", &amax_i64}, {NULL, NULL},
};
