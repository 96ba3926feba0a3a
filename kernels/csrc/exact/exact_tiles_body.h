// Exact sums of binary32 values, by tiles (exact_lanes.h). A tile whose sum is two values is rounded from
// these; several tiles, or more values, are joined without rounding (exact_sum.h). A template: VECTOR is as
// in exact_lanes.h, and ISA(name) names what the instruction set has.

#include "exact_tiles.h"
#include "exact_lanes.h"

_Static_assert(EXACT_ROWS == 1 << 9, "as the bound of a column has it");

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

static void add(exact_sum *s, const float *x, int64_t n) {
    tile_sum tile;
    for (int64_t i = 0; i < n; i += TILE) {
        sum_tile(x + i, min_i64(TILE, n - i), &tile);
        for (int l = 0; l < tile.levels; l++) exact_add(s, tile.level[l]);
    }
}

static void whole(const float *x, int64_t n, float *result) {
    tile_sum tile = {.levels = LEVELS};
    if (n <= TILE) sum_tile(x, n, &tile);
    if (tile.levels <= 2) {
        *result = tile.beyond ? (float)tile.level[0] : rounded(pair_odd(tile.level[0], tile.level[1]), 0);
    } else {
        exact_sum s = {0};
        add(&s, x, n);
        *result = exact_result(&s, 0);
    }
}

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

static void add_columns(exact_sum *s, const float *const *row, int64_t n, int64_t first, int64_t width) {
    do_columns(row, n, first, width, s, 0);
}

// Sum one column in binary64, and return whether nothing was lost: then all errors are 0. One of NaN tells of
// a value that is not finite.
static int sum_without_loss(const float *const *row, int64_t n, int64_t at, float *result) {
    double sum = 0, lost = 0;
    for (int64_t i = 0; i < n; i++) {
        double value = row[i][at];
        ADD_WITH_ERROR(double, sum, value);
        lost = value == 0 ? lost : 1;
    }
    *result = (float)sum;
    return lost == 0;
}

static void columns(const float *const *row, int64_t n, int64_t first, int64_t width, float *result) {
    // Few columns would leave most lanes empty.
    if (width > LANES / 4)
        do_columns(row, n, first, width, 0, result);
    else
        for (int64_t j = 0; j < width; j++)
            if (!sum_without_loss(row, n, first + j, &result[j]))
                do_columns(row, n, first + j, 1, 0, &result[j]);
}

const exact_tiles ISA(exact_tiles) = {add, whole, add_columns, columns};
