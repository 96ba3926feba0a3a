// Additions together with their errors.

#ifndef REPOPS_EXACT_PAIR_H
#define REPOPS_EXACT_PAIR_H

#include "exact_sum.h"

// sum = sum + value; value = what that sum lacks, exactly
#define ADD_WITH_ERROR(T, sum, value)                                                                        \
    do {                                                                                                     \
        const T old_ = (sum), more_ = (value), sum_ = old_ + more_, part_ = sum_ - old_;                     \
        (value) = (old_ - (sum_ - part_)) + (more_ - part_);                                                 \
        (sum) = sum_;                                                                                        \
    } while (0)

// Return the sum of two values rounded to odd, as exact_odd does.
static inline __attribute__((always_inline)) double pair_odd(double a, double b) {
    double sum = a, error = b;
    ADD_WITH_ERROR(double, sum, error);
    const uint64_t word = word_of(sum);
    if (error == 0 || word & 1) return sum;
    // The value of the other neighbour is odd; a larger word is a larger magnitude.
    return double_of((error < 0) == (sum < 0) ? word + 1 : word - 1);
}

#endif
