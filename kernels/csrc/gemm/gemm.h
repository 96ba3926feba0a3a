// Computes a contraction (contraction.h): packs its operands, and multiplies panels.

#ifndef REPOPS_GEMM_H
#define REPOPS_GEMM_H

#include "contraction.h"

// `find_part` of a contraction with one part, which is its context.
void only_part(const void *context, int64_t i, part *p);

// Return 1 if there is no memory.
int gemm_run(const gemm *g, int threads, enum isa isa);

#endif
