// Rounds binary64 sums whose error is bounded, and tells which of them that does not decide.

#ifndef REPOPS_EXACT_ROUND_H
#define REPOPS_EXACT_ROUND_H

#include "exact_operands.h"
#include "exact_sum.h"

// A row of a block of sums, and what is known of its row of A and of its columns of B: norms whose product is
// the radius, and norms in units (lane_bound).
typedef struct {
    const double *sum;
    double norm, in_units;
    const double *norms, *all_in_units;
} sum_row;

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

// Round `width` sums to binary32, or to values of bf16; return whether any of them is open. `width` is that
// of the instruction set's blocks.
extern int (*const exact_round[ISA_COUNT])(const sum_row *s, int64_t width, float *to);
extern int (*const exact_round_bf16[ISA_COUNT])(const sum_row *s, int64_t width, float *to);

#endif
