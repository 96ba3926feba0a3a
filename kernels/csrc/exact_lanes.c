// Exact sums of binary32 values, by tiles (exact_cascade.h). A tile whose sum is two values is rounded from
// these; several tiles, or more values, are joined without rounding (exact_sum.h).

#include "exact_lanes.h"
#include "exact_cascade.h"

_Static_assert(EXACT_ROWS == 1 << 9, "as the bound of a column has it");
_Static_assert(sizeof(exact_sum) <= LANES * sizeof(int64_t), "a reduction's state has room for an exact sum");

// ----------------------------------------------------------------------------------------------------- rows

// The sum of a tile: the sum of some values, or one that is not finite.
typedef struct {
    double level[LEVELS];
    int levels, beyond;
} tile_sum;

// Return the least b for which n <= 2^b.
INLINE int bits_of_count(int64_t n) {
    return n > 1 ? 64 - __builtin_clzll((uint64_t)n - 1) : 0;
}

// Sum n <= TILE values.
INLINE void sum_tile(const float *x, int64_t n, tile_sum *to) {
    float last[LANES];
    source s = {.x = x, .steps = (n + LANES - 1) / LANES};
    if (n % LANES) {
        const int64_t whole = n / LANES * LANES;
        for (int64_t j = 0; j < LANES; j++) last[j] = whole + j < n ? x[whole + j] : 0;
        s.last = last;
    }
    plain_sums plain;
    lane_sums lanes;
    add_plainly(&s, &plain);
    uint32_t most = 0, least = UINT32_MAX;
    for (int j = 0; j < LANES; j++) {
        most = most > plain.most[j] ? most : plain.most[j];
        least = least < plain.least[j] ? least : plain.least[j];
    }
    to->beyond = most >= INFINITE;
    if (to->beyond) {
        to->levels = 1, to->level[0] = 0;
        for (int j = 0; j < LANES; j++) to->level[0] += plain.sum[j / VECTOR][j % VECTOR];
        return;
    }
    const int32_t apart = distance(most, least);
    if (apart <= NEAR(bits_of_count(n))) { // the sum of the lanes, too, is exact in binary64
        memcpy(lanes.level[0], plain.sum, sizeof plain.sum);
        fold(&lanes, 1, to->level);
        to->levels = 2, to->level[1] = 0;
        return;
    }
    sum_lanes(&s, &plain, apart, 10 - 5, &lanes);
    to->levels = lanes.levels;
    if (to->levels == 2)
        fold(&lanes, 2, to->level);
    else if (to->levels == 3)
        fold(&lanes, 3, to->level);
    else
        fold(&lanes, LEVELS, to->level);
}

BODY add_body(exact_sum *s, const float *x, int64_t n) {
    tile_sum tile;
    for (int64_t i = 0; i < n; i += TILE) {
        sum_tile(x + i, min_i64(TILE, n - i), &tile);
        for (int l = 0; l < tile.levels; l++) exact_add(s, tile.level[l]);
    }
}

BODY whole_body(const float *x, int64_t n, float *result) {
    tile_sum tile = {.levels = LEVELS};
    if (n <= TILE) sum_tile(x, n, &tile);
    if (tile.levels <= 2) {
        *result = tile.beyond ? (float)tile.level[0] : rounded(pair_odd(tile.level[0], tile.level[1]), 0);
    } else {
        exact_sum s = {0};
        add_body(&s, x, n);
        *result = exact_result(&s, 0);
    }
}

VARIANTS(add, (exact_sum * s, const float *x, int64_t n), (s, x, n))
VARIANTS(whole, (const float *x, int64_t n, float *result), (x, n, result))

// -------------------------------------------------------------------------------------------------- columns

// Sum LANES columns of n <= EXACT_ROWS rows.
INLINE void sum_columns(const float *const *row, int64_t n, int64_t first, plain_sums *plain, lane_sums *to) {
    const source s = {.row = row, .first = first, .steps = n};
    add_plainly(&s, plain);
    int32_t apart = 0;
    for (int j = 0; j < LANES; j++) {
        const int32_t own = distance(plain->most[j], plain->least[j]);
        apart = apart > own ? apart : own;
    }
    sum_lanes(&s, plain, apart, 9, to);
}

// Copy fewer columns than there are lanes, followed by zeros.
static void copy_columns(const float *const *row, int64_t n, int64_t first, int64_t width, float (*to)[LANES],
                         const float **copy) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < LANES; j++) to[i][j] = j < width ? row[i][first + j] : 0;
        copy[i] = to[i];
    }
}

INLINE void add_lane(exact_sum *s, const plain_sums *plain, const lane_sums *lanes, int64_t j) {
    if (plain->most[j] >= INFINITE)
        s->beyond += plain->sum[j / VECTOR][j % VECTOR];
    else
        for (int l = 0; l < lanes->levels; l++) exact_add(s, lanes->level[l][j / VECTOR][j % VECTOR]);
}

INLINE float result_of_lane(const plain_sums *plain, const lane_sums *lanes, int64_t j) {
    const int64_t v = j / VECTOR, i = j % VECTOR;
    if (plain->most[j] >= INFINITE) return (float)plain->sum[v][i];
    if (lanes->levels == 2) return rounded(pair_odd(lanes->level[0][v][i], lanes->level[1][v][i]), 0);
    exact_sum s = {0};
    add_lane(&s, plain, lanes, j);
    return exact_result(&s, 0);
}

// Either add to `s` or write to `result`; the other is 0.
INLINE void do_columns(const float *const *row, int64_t n, int64_t first, int64_t width, exact_sum *s,
                       float *result) {
    float few[EXACT_ROWS][LANES];
    const float *of_few[EXACT_ROWS];
    plain_sums plain;
    lane_sums lanes;
    for (int64_t j = 0; j < width; j += LANES) {
        const int64_t count = min_i64(LANES, width - j);
        if (count < LANES) copy_columns(row, n, first + j, count, few, of_few);
        sum_columns(count < LANES ? of_few : row, n, count < LANES ? 0 : first + j, &plain, &lanes);
        for (int64_t k = 0; k < count; k++) {
            if (s)
                add_lane(&s[j + k], &plain, &lanes, k);
            else
                result[j + k] = result_of_lane(&plain, &lanes, k);
        }
    }
}

BODY add_columns_body(exact_sum *s, const float *const *row, int64_t n, int64_t first, int64_t width) {
    do_columns(row, n, first, width, s, 0);
}
BODY columns_body(const float *const *row, int64_t n, int64_t first, int64_t width, float *result) {
    do_columns(row, n, first, width, 0, result);
}
VARIANTS(add_columns, (exact_sum * s, const float *const *row, int64_t n, int64_t first, int64_t width),
         (s, row, n, first, width))
VARIANTS(columns, (const float *const *row, int64_t n, int64_t first, int64_t width, float *result),
         (row, n, first, width, result))

const exact_lanes exactly = {add, whole, add_columns, columns};

// ------------------------------------------------------------------------------- reductions of fused kernels

// NOTE: the state of such a reduction (rows.h) is an exact sum.
BODY state_begin_body(void *state) {
    memset(state, 0, sizeof(exact_sum));
}
BODY state_add_body(void *state, int64_t at, const void *x, int64_t n) {
    (void)at;
    add_body(state, x, n);
}
BODY state_fold_body(void *state, void *result) {
    *(float *)result = exact_result(state, 0);
}
BODY state_whole_body(const void *x, int64_t n, void *result) {
    whole_body(x, n, result);
}
VARIANTS(state_begin, (void *state), (state))
VARIANTS(state_add, (void *state, int64_t at, const void *x, int64_t n), (state, at, x, n))
VARIANTS(state_fold, (void *state, void *result), (state, result))
VARIANTS(state_whole, (const void *x, int64_t n, void *result), (x, n, result))

const reduction exact_sum_f32 = {state_begin, state_add, state_fold, state_whole, .unbroken = 1};
