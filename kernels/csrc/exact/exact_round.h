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
//
// INVARIANT: to round to binary32 first changes a rounding to bf16 only where it gives a midpoint of bf16
// that the real sum is not.
static inline __attribute__((always_inline)) int is_open(const sum_row *s, int64_t j, int bf16) {
    const double radius = radius_of(s, j), low = s->sum[j] - radius, high = s->sum[j] + radius;
    const int open = (float)low < (float)high;
    if (!bf16) return open;
    const float nearest = (float)s->sum[j];
    const double unlike = radius + __builtin_fabs(s->sum[j] - (double)nearest);
    // NOTE: a multiple of it is compared as a float, because comparisons of doubles and of integers together
    // are not vectorised. Nothing but 0 becomes 0: sums are multiples of 2^-298, and a radius that is not 0
    // is at least 2^-352.
    return open | (((bits_of(nearest) & 0xFFFF) == 0x8000) & ((float)(unlike * 0x1p300) > 0));
}

// Round rows of `width` sums to binary32, at to[i * to_row]; return whether any of them is open, with `bf16`
// for values that are rounded to bf16 next. `width` is that of the instruction set's blocks.
typedef int round_block(const sum_block *s, int64_t rows, int64_t width, float *to, int64_t to_row);
extern round_block *const exact_round[ISA_COUNT], *const exact_round_for_bf16[ISA_COUNT];

#endif
