// Exact sums of binary32 values: of values side by side, and of rows, element by element.

#ifndef REPOPS_EXACT_TILES_H
#define REPOPS_EXACT_TILES_H

#include "exact_sum.h"

// The most columns that are summed at once, and rows.
#define EXACT_COLUMNS 64
#define EXACT_ROWS 512

// A value may be infinite or NaN.
typedef struct {
    // Add n values.
    void (*add)(exact_sum *s, const float *x, int64_t n);
    // The sum of n values, rounded.
    void (*whole)(const float *x, int64_t n, float *result);
    // Add row[i][first + j], for i < n <= EXACT_ROWS, to s[j], for j < width <= EXACT_COLUMNS.
    void (*add_columns)(exact_sum *s, const float *const *row, int64_t n, int64_t first, int64_t width);
    // These sums, rounded.
    void (*columns)(const float *const *row, int64_t n, int64_t first, int64_t width, float *result);
} exact_tiles;

extern const exact_tiles exact_tiles_portable, exact_tiles_avx2, exact_tiles_avx512;
// By instruction set.
extern const exact_tiles *const exactly[ISA_COUNT];

#endif
