// A contraction in the mode exact: every element of C is the real sum of its products, rounded once.

#ifndef REPOPS_EXACT_GEMM_H
#define REPOPS_EXACT_GEMM_H

#include "gemm/contraction.h"

// What gemm_run and exact_gemm_run are.
typedef int contraction(const gemm *g, int threads, enum isa isa);

// As gemm_run. C is written everywhere; `filled` has no effect. A sum without taps is +0. If the factors are
// bf16, so is C: the sum is rounded to it, not to binary32 first.
contraction exact_gemm_run;

#endif
