// A contraction in the mode tc16: every element of C is a chain of blocks.

#ifndef REPOPS_TC16_GEMM_H
#define REPOPS_TC16_GEMM_H

#include "gemm/contraction.h"

// As gemm_run, for factors of bf16. C is written everywhere; `filled` has no effect. The terms of the
// contraction have the numbers g->number. C is bf16 or, unless g->bf16, binary32. A sum without terms is +0.
// Return 1 if there is no memory.
int tc16_gemm_run(const gemm *g, int threads, enum isa isa);

// Give a part, and the rows of a contraction, the order of the mode: terms (c, r, s) in the loops 1, 2, 3,
// which are numbered as in repops-f32, become (r, s, c), and each tap's channels have the numbers of whole
// blocks.
void tc16_turn(part *p);
void tc16_turn_rows(gemm *g);

#endif
