// The operands of a contraction as panels, packed for the micro-kernel of a plan. They are binary32, whatever
// the arithmetic.

#ifndef REPOPS_OPERANDS_H
#define REPOPS_OPERANDS_H

#include "panels.h"

// Pack the panels of rows m0 <= m < m1, one after the other, for `count` taps at these places in a row: at
// most CHUNK.
void pack_a(const plan *p, int64_t batch, int64_t m0, int64_t m1, const int64_t *tap, int64_t count,
            float *out);

// Pack a panel of B: the taps that exist for any of its columns.
void pack_b(const plan *p, const part *s, int64_t batch, const panel *columns, const taps *t, float *out);

#endif
