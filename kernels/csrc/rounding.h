// Rounding to a grid, for kernels that have binary64 results at hand.

#ifndef ROUNDING_H
#define ROUNDING_H

#include "repops.h"

// x rounded to grid(bits); zeros keep their sign.
void round_plain(const double *x, int64_t n, int bits, float *out, enum isa isa);

#endif
