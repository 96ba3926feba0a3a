// A contraction in the mode exact: every element of C is the real sum of its products, rounded once.

#ifndef REPOPS_EXACT_GEMM_H
#define REPOPS_EXACT_GEMM_H

#include "gemm.h"

// What gemm_run and exact_gemm_run are.
typedef int contraction(const gemm *g, int threads, enum isa isa);

// As gemm_run. C is binary32 and written everywhere; `filled` has no effect. A sum without taps is +0.
contraction exact_gemm_run;

#endif
