// Elementary functions rounded to grid(b), one element at a time, for elements that the vector code leaves.

#ifndef REPOPS_GRID_UNARY_H
#define REPOPS_GRID_UNARY_H

#include "shared/elementary.h"
#include "grid.h"

// `f64` is the function in binary64, an expression in x; `ordinary` is the condition for its use. All other
// values are those of docs/opset.md, which are on every grid.
#define GRID_FUNCTION(name, f64, ordinary)                                                                   \
    FN float name##_on_grid(float x, int bits, int *doubt) {                                                 \
        if (ordinary) return decide_on_grid(f64, bits, doubt);                                               \
        const float y = name##_f32(x);                                                                       \
        return y != y ? NOT_A_NUMBER : y + 0.0f;                                                             \
    }

#define FINITE (magnitude(x) < INFINITE)

GRID_FUNCTION(exp, exp_f64((double)x), FINITE)
GRID_FUNCTION(log, log_f64((double)x), (x > 0.0f) & (x < INFINITE))
GRID_FUNCTION(log1p, log1p_f64((double)x), (x > -1.0f) & (x < INFINITE))
GRID_FUNCTION(tanh, tanh_f64((double)x), FINITE)
GRID_FUNCTION(erf, erf_f64((double)x), FINITE)
GRID_FUNCTION(sin, with_sign_of64(sin_shifted(magnitude(x), 0), (double)x), FINITE)
GRID_FUNCTION(cos, sin_shifted(magnitude(x), 1), FINITE)

// A kernel whose operand runs (stride 1) or stands (stride 0); for a standing operand all results are equal.
#define GRID_KERNEL(name, running)                                                                           \
    void name(int64_t n, float *out, const float *a, int64_t sa, const float *b, int64_t sb, int bits,       \
              int *doubt) {                                                                                  \
        (void)b, (void)sb;                                                                                   \
        running(out, a, sa ? n : min_i64(n, 1), bits, doubt);                                                \
        for (int64_t i = 1; i < n && !sa; i++) out[i] = out[0];                                              \
    }

#endif
