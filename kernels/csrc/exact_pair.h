// Sums as two binary64 values, and what they lack.

#ifndef REPOPS_EXACT_PAIR_H
#define REPOPS_EXACT_PAIR_H

#include "exact_sum.h"

// Return the sum of two values, rounded; *error is what it lacks, exactly.
static inline __attribute__((always_inline)) double two_sum(double a, double b, double *error) {
    const double sum = a + b, of_b = sum - a;
    *error = (a - (sum - of_b)) + (b - of_b);
    return sum;
}

// Return the sum of two values rounded to odd, as exact_odd does.
static inline __attribute__((always_inline)) double pair_odd(double a, double b) {
    double error;
    const double sum = two_sum(a, b, &error);
    const uint64_t word = word_of(sum);
    if (error == 0 || word & 1) return sum;
    // The value of the other neighbour is odd; a larger word is a larger magnitude.
    return double_of((error < 0) == (sum < 0) ? word + 1 : word - 1);
}

#endif
