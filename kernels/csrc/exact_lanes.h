// Exact sums of binary32 values: of values side by side, and of rows, element by element.

#ifndef REPOPS_EXACT_LANES_H
#define REPOPS_EXACT_LANES_H

#include "exact_sum.h"

// The most columns that are summed at once, and rows.
#define EXACT_COLUMNS 64
#define EXACT_ROWS 512

// Every member is a table by instruction set. A value may be infinite or NaN.
typedef struct {
    // Add n values.
    void (*const *add)(exact_sum *s, const float *x, int64_t n);
    // The sum of n values, rounded.
    void (*const *whole)(const float *x, int64_t n, float *result);
    // Add row[i][first + j], for i < n <= EXACT_ROWS, to s[j], for j < width <= EXACT_COLUMNS.
    void (*const *add_columns)(exact_sum *s, const float *const *row, int64_t n, int64_t first,
                               int64_t width);
    // These sums, rounded.
    void (*const *columns)(const float *const *row, int64_t n, int64_t first, int64_t width, float *result);
} exact_lanes;

extern const exact_lanes exactly;

#endif
