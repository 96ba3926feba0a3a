// Kernels over one run of elements whose results are rounded to grid(b), b < 32: arithmetic and elementary
// functions in the mode rounded-f64. Values stay binary64 as long as they are in registers.
//
// A function's value in binary64 has a relative error below 2^-51. If a midpoint of the grid is so near that
// this error could matter, a kernel leaves the decision to its caller: it sets *doubt, and its results are
// unusable.

#ifndef REPOPS_GRID_H
#define REPOPS_GRID_H

#include "shared/bits.h"
#include "rounding.h"

// out[i] = f(a[i * sa], b[i * sb]) for i < n; strides are 0 or 1. A unary kernel gets its operand twice.
// `out` may be an operand's own memory for arithmetic, but not for a function.
typedef void grid_kernel(int64_t n, float *out, const float *a, int64_t sa, const float *b, int64_t sb,
                         int bits, int *doubt);

// Tables by instruction set with names such as "grid_exp"; the last name is NULL. Arithmetic comes first.
typedef struct {
    const char *name;
    grid_kernel *const *kernel;
} named_grid_kernel;

extern const named_grid_kernel named_grid_kernels[];

#define DECLARE_GRID(isa)                                                                                    \
    grid_kernel grid_exp_##isa, grid_log_##isa, grid_log1p_##isa, grid_tanh_##isa, grid_erf_##isa,           \
        grid_sin_##isa, grid_cos_##isa;

DECLARE_GRID(portable)
DECLARE_GRID(avx2)
DECLARE_GRID(avx512)

// The fast way for every x that is not `odd`: integer rounding of the mantissa, branch-free and vectorised by
// the compiler. INVARIANT: the result is a binary32 value, or below half of the smallest one, so that the
// conversion is exact or gives zero.
FN double grid_nearest(double x, int bits) {
    const int dropped = 61 - bits;
    const uint64_t u = (uint64_t)bits64(x), below_half = ((uint64_t)1 << (dropped - 1)) - 1;
    return f64_of((int64_t)((u + below_half + ((u >> dropped) & 1)) & ~(((uint64_t)1 << dropped) - 1)));
}

#define GRID_ZERO ((uint64_t)(1023 - 151) << 52) // below 2^-151 everything rounds to zero
#define GRID_LEAST ((uint64_t)(1023 - 126) << 52)
#define GRID_MOST ((uint64_t)(1023 + 127) << 52)

// Return whether the grid at x ends, or has another spacing than x's mantissa implies.
FN int64_t odd(double x) {
    const uint64_t size = (uint64_t)bits64(x) & 0x7FFFFFFFFFFFFFFF;
    return (size - GRID_ZERO < GRID_LEAST - GRID_ZERO) | (size >= GRID_MOST);
}

// Return whether x is within `units` units of its last place of a midpoint.
FN int64_t near_middle(double x, int bits, int64_t units) {
    const int dropped = 61 - bits;
    const uint64_t rest = ((uint64_t)bits64(x) & (((uint64_t)1 << dropped) - 1)) + (uint64_t)units;
    return rest - ((uint64_t)1 << (dropped - 1)) <= 2 * (uint64_t)units;
}

// Relative distance from a midpoint beyond which no evaluation with an error of four ulps or less is in the
// band of a log (docs/rounding-logs.md, section 3): 5/4 of 2^-50, plus 2^-50, plus our own error.
#define GRID_MARGIN 0x1p-48
#define GRID_UNITS 32 // the same in units of the last place, at most

// Round a function's binary64 value y to the grid; zeros become positive.
FN float decide_on_grid(double y, int bits, int *doubt) {
    float out;
    if (round_one(y, fabs(y) * GRID_MARGIN, bits, 1, 0, &out)) *doubt = 1;
    return out;
}

#endif
