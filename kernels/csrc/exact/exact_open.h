// Elements of a contraction whose rounding a binary64 sum does not decide.

#ifndef REPOPS_EXACT_OPEN_H
#define REPOPS_EXACT_OPEN_H

#include "gemm/panels.h"

#define OPEN_ELEMENTS 64

// Elements of one part in one batch, by row and by column of the part.
typedef struct {
    int64_t count, row[OPEN_ELEMENTS], column[OPEN_ELEMENTS];
} open_elements;

// Compute these elements and write them to C.
void exact_decide(const plan *p, const part *s, int64_t batch, const open_elements *open);

#endif
