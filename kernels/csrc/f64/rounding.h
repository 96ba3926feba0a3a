// Rounding to a grid, for kernels with binary64 results.
//
// grid(b): the binary32 values whose last 32 - b mantissa bits are zero.

#ifndef ROUNDING_H
#define ROUNDING_H

#include "runtime/repops.h"

// Round any x to grid(bits); NaN becomes canonical. Return 0 if the nearest midpoint is further than widen *
// r away or r is 0; else 1 if r is below an eighth of the grid's spacing, 2 if not. `zero` is added to zeros:
// +0 removes their sign, -0 keeps it.
int round_one(double x, double r, int bits, double widen, double zero, float *out);

#endif
