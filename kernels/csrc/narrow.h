// Kernels over one run of elements whose results are rounded to grid(b), b < 32: what the mode rounded-f64
// makes of arithmetic and of elementary functions. Values are binary64 for as long as they are in registers.
//
// A function's value in binary64 is off by less than 2^-51 of it. Where a midpoint of the grid is so near
// that this could matter, a kernel leaves the decision to its caller: it sets *doubt, and the result is of no
// use.

#ifndef REPOPS_NARROW_H
#define REPOPS_NARROW_H

#include "bits.h"
#include "rounding.h"

// out[i] = f(a[i * sa], b[i * sb]) for i < n; strides are 0 or 1. A unary kernel is given its operand twice.
// `out` may be an operand's own memory, but of a function.
typedef void narrow_kernel(int64_t n, float *out, const float *a, int64_t sa, const float *b, int64_t sb,
                           int bits, int *doubt);

// Tables by instruction set behind names as "narrow_exp"; the last name is NULL. Arithmetic comes first.
typedef struct {
    const char *name;
    narrow_kernel *const *kernel;
} named_narrow;

extern const named_narrow named_narrows[];

#define DECLARE_NARROW(isa)                                                                                  \
    narrow_kernel narrow_exp_##isa, narrow_log_##isa, narrow_log1p_##isa, narrow_tanh_##isa,                 \
        narrow_erf_##isa, narrow_sin_##isa, narrow_cos_##isa;

DECLARE_NARROW(portable)
DECLARE_NARROW(avx2)
DECLARE_NARROW(avx512)

// The quick way, for whatever is not `odd`, branch-free and vectorised by the compiler: integer rounding of
// the mantissa. INVARIANT: what it gives is a binary32 value, or below half of the smallest one, so that the
// conversion rounds nothing, or to zero.
FN double narrowed(double x, int bits) {
    const int dropped = 61 - bits;
    const uint64_t u = (uint64_t)bits64(x), below_half = ((uint64_t)1 << (dropped - 1)) - 1;
    return f64_of((int64_t)((u + below_half + ((u >> dropped) & 1)) & ~(((uint64_t)1 << dropped) - 1)));
}

#define NARROW_ZERO ((uint64_t)(1023 - 151) << 52) // below 2^-151 everything is rounded to zero
#define NARROW_LEAST ((uint64_t)(1023 - 126) << 52)
#define NARROW_MOST ((uint64_t)(1023 + 127) << 52)

// Where the grid has another spacing than the mantissa says, or ends.
FN int64_t odd(double x) {
    const uint64_t size = (uint64_t)bits64(x) & 0x7FFFFFFFFFFFFFFF;
    return (size - NARROW_ZERO < NARROW_LEAST - NARROW_ZERO) | (size >= NARROW_MOST);
}

// Is x within so many units of its last place of a midpoint?
FN int64_t near_middle(double x, int bits, int64_t units) {
    const int dropped = 61 - bits;
    const uint64_t rest = ((uint64_t)bits64(x) & (((uint64_t)1 << dropped) - 1)) + (uint64_t)units;
    return rest - ((uint64_t)1 << (dropped - 1)) <= 2 * (uint64_t)units;
}

// So far from a midpoint, relatively, no evaluation that is off by four ulps or less would be in the band of
// a log (docs/rounding-logs.md, section 3): 5/4 of 2^-50, and 2^-50 more, and what we are off by ourselves.
#define NARROW_MARGIN 0x1p-48
#define NARROW_UNITS 32 // the same in units of the last place, at most

// A function's value y in binary64 rounded to the grid; zeros are positive.
FN float settle_narrow(double y, int bits, int *doubt) {
    float out;
    if (round_one(y, fabs(y) * NARROW_MARGIN, bits, 1, 0, &out)) *doubt = 1;
    return out;
}

#endif
