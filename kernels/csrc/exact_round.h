// Rounds binary64 sums whose error is bounded, and tells which of them that does not decide.

#ifndef REPOPS_EXACT_ROUND_H
#define REPOPS_EXACT_ROUND_H

#include "exact_operands.h"
#include "exact_sum.h"

// A block of sums, row after row, and what is known of its rows of A and of its columns of B: norms whose
// product is the radius, and norms in units (lane_bound).
typedef struct {
    const double *sum;
    const double *row_norms, *row_in_units;
    const double *norms, *in_units;
} sum_block;

// One of its rows.
typedef struct {
    const double *sum;
    double norm, in_units;
    const double *norms, *all_in_units;
} sum_row;

static inline __attribute__((always_inline)) sum_row row_of(const sum_block *s, int64_t i, int64_t width) {
    return (sum_row){s->sum + i * width, s->row_norms[i], s->row_in_units[i], s->norms, s->in_units};
}

// Bound the error of sum j.
//
// INVARIANT: if the product of the norms is below 2^53 in units of which all products of elements are
// multiples, so is every partial sum. Then no addition rounds.
static inline __attribute__((always_inline)) double radius_of(const sum_row *s, int64_t j) {
    const double radius = s->norm * s->norms[j];
    return s->in_units * s->all_in_units[j] < 0x1p53 ? 0 : radius;
}

// Return whether the error of sum j could change its rounding. NOTE: a sum that is not finite is right as it
// is, and its ends are equal or NaN.
static inline __attribute__((always_inline)) int is_open(const sum_row *s, int64_t j, int bf16) {
    const double radius = radius_of(s, j), low = s->sum[j] - radius, high = s->sum[j] + radius;
    return bf16 ? nearest_bf16(low) < nearest_bf16(high) : (float)low < (float)high;
}

// Round rows of `width` sums to binary32, or to values of bf16, at to[i * to_row]; return whether any of them
// is open. `width` is that of the instruction set's blocks.
typedef int round_block(const sum_block *s, int64_t rows, int64_t width, float *to, int64_t to_row);
extern round_block *const exact_round[ISA_COUNT], *const exact_round_bf16[ISA_COUNT];

#endif
