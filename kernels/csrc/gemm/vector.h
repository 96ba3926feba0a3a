// A vector times a matrix: the contraction of gemm.h with a single row, where packing would cost more than it
// saves.

#ifndef REPOPS_VECTOR_H
#define REPOPS_VECTOR_H

#include "runtime/repops.h"

// c[n] = sum over k of vector[k] * matrix[k, n], for each of a batch, one after the other. The matrix is [k,
// n], or [n, k] if it is transposed.
void vector_product(const float *vector, const float *matrix, int transposed, int64_t batch, int64_t k,
                    int64_t n, float *c, int threads, enum isa isa);

#endif
