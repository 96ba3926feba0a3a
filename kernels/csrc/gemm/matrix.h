// The product of matrices with any strides, in the order of gemm.h.

#ifndef REPOPS_MATRIX_H
#define REPOPS_MATRIX_H

#include "runtime/repops.h"

enum { BATCH, ROW, COLUMN };

// C[b, m, n] = sum over k of A[b, m, k] B[b, k, n]; strides in elements, of A, B and C. A matrix is of
// binary32, or of bf16: sums of binary32 are rounded again if C is.
typedef struct {
    int64_t batch, m, k, n;
    int64_t a[3], b[3], c[3];
    int64_t a_bf16, b_bf16, c_bf16;
} product_shape;

#define OUTER 4

// Arguments of repops_product: the batch is nested loops, the last one fastest, with strides of their own.
typedef struct {
    int64_t outer[OUTER], a_outer[OUTER], b_outer[OUTER], c_outer[OUTER];
    product_shape inner;
} product_words;

// INVARIANT: columns of C are adjacent (c[COLUMN] is 1). Return 1 if there is no memory.
int matrix_product(const product_shape *s, const void *a, const void *b, void *c, int threads, enum isa isa);

#endif
