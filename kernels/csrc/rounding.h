// Rounding to a grid, for kernels that have binary64 results at hand.
//
// grid(b): the binary32 values whose last 32 - b mantissa bits are zero.

#ifndef ROUNDING_H
#define ROUNDING_H

#include "repops.h"

// One element, whatever it is: x rounded to grid(bits), a NaN canonical. 0 if its nearest midpoint is further
// than widen * r away, or r is 0; else 1 if r is below an eighth of the grid's spacing, 2 if not. `zero` is
// added to zeros: +0 takes their sign away, -0 leaves it.
int round_one(double x, double r, int bits, double widen, double zero, float *out);

#endif
