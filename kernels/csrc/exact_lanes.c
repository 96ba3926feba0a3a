// Exact sums of binary32 values (exact_lanes.h).

#include "exact_lanes.h"
#include "rows.h"

_Static_assert(sizeof(exact_sum) <= LANES * sizeof(int64_t), "a reduction's state has room for an exact sum");

BODY add_body(exact_sum *s, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) exact_add(s, x[i]);
}
BODY whole_body(const float *x, int64_t n, float *result) {
    exact_sum s = {0};
    add_body(&s, x, n);
    *result = exact_result(&s);
}
BODY add_columns_body(exact_sum *s, const float *const *row, int64_t n, int64_t first, int64_t width) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < width; j++) exact_add(&s[j], row[i][first + j]);
}
BODY columns_body(const float *const *row, int64_t n, int64_t first, int64_t width, float *result) {
    exact_sum s[EXACT_COLUMNS];
    memset(s, 0, (size_t)width * sizeof *s);
    add_columns_body(s, row, n, first, width);
    for (int64_t j = 0; j < width; j++) result[j] = exact_result(&s[j]);
}
VARIANTS(add, (exact_sum * s, const float *x, int64_t n), (s, x, n))
VARIANTS(whole, (const float *x, int64_t n, float *result), (x, n, result))
VARIANTS(add_columns, (exact_sum * s, const float *const *row, int64_t n, int64_t first, int64_t width),
         (s, row, n, first, width))
VARIANTS(columns, (const float *const *row, int64_t n, int64_t first, int64_t width, float *result),
         (row, n, first, width, result))

const exact_lanes exactly = {add, whole, add_columns, columns};

// The same as a reduction of a fused kernel (rows.h): its state is an exact sum.

BODY state_begin_body(void *state) {
    memset(state, 0, sizeof(exact_sum));
}
BODY state_add_body(void *state, int64_t at, const void *x, int64_t n) {
    (void)at;
    add_body(state, x, n);
}
BODY state_fold_body(void *state, void *result) {
    *(float *)result = exact_result(state);
}
BODY state_whole_body(const void *x, int64_t n, void *result) {
    whole_body(x, n, result);
}
VARIANTS(state_begin, (void *state), (state))
VARIANTS(state_add, (void *state, int64_t at, const void *x, int64_t n), (state, at, x, n))
VARIANTS(state_fold, (void *state, void *result), (state, result))
VARIANTS(state_whole, (const void *x, int64_t n, void *result), (x, n, result))

const reduction exact_sum_f32 = {state_begin, state_add, state_fold, state_whole, .unbroken = 1};
