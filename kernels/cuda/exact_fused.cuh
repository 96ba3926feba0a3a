// The common parts of kernels of fused expressions with sums of f32 in the mode exact.

#ifndef REPOPS_EXACT_FUSED_CUH
#define REPOPS_EXACT_FUSED_CUH

#include "fused.cuh"
#include "exact_sum.cuh"

// The exact sum of a row, by its warp: a compensated sum, and where that is open, one of digits.
struct Total {
    Compensated sum;
    double odd; // of lane 0

    DEVICE_MEMBER void begin() { sum.begin(); }
    // NOTE: an infinity or a NaN makes an error that is NaN, so the sum is open.
    DEVICE_MEMBER void take(float x) { sum.add_finite(x); }
    // NOTE: all lanes must call these, and get the same answers.
    DEVICE_MEMBER bool is_open() {
        sum = fold(sum);
        odd = sum.odd();
        return from_lane(sum.inexact, 0);
    }
    DEVICE_MEMBER void set(Digits &digits) {
        fold(digits);
        odd = digits.odd();
    }
    DEVICE_MEMBER float of_one_block() const { return f32_of(from_lane((int)rounded<float>(odd), 0)); }
};

#endif
