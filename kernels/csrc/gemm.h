// One contraction for matrix products and convolutions: C[m, n] = sum over k of A[m, k] * B[k, n].
//
// Order (docs/opset.md): k ascending in chunks of 512; in a chunk a chain of fma from -0; chunk totals are
// added in ascending order.
//
// A convolution is one too: where its operands lie is linear in the nested loops that columns and taps are,
// so its patches are never written out. What it adds are taps that do not exist.

#ifndef REPOPS_GEMM_H
#define REPOPS_GEMM_H

#include "repops.h"
#include <string.h>

#define CHUNK 512
#define LOOPS 3

// Nested loops, the last one fastest, counted through by one index.
typedef struct {
    int64_t size[LOOPS];
} loops;

// start + i[0] * stride[0] + i[1] * stride[1] + i[2] * stride[2] for the counters i of some loops.
typedef struct {
    int64_t start, stride[LOOPS];
} linear;

typedef struct {
    int64_t batch, rows;
    loops columns, taps;

    // A[m, k] is a[m * a_row + a_tap(k)], B[k, n] is b[b_column(n) + b_tap(k)], C[m, n] is
    // c[m * c_row + c_column(n)]; each in its part for the batch.
    const float *a, *b;
    float *c;
    int64_t a_batch, b_batch, c_batch;
    int64_t a_row, c_row;
    linear a_tap, b_tap, b_column, c_column;

    // A tap's number in the order, ascending. Taps that exist for no column may be left out.
    linear number;

    // With an image, tap k of column n exists if 0 <= y(n) + y(k) < high and 0 <= x(n) + x(k) < wide. Else it
    // may lie anywhere, even outside b, which has `b_size` elements.
    // INVARIANT: y_tap and x_tap do not depend on the outermost loop, x_tap not on the middle one.
    // `far` if what lies outside is so far off that its place in b does not fit 64 bits.
    int image, far;
    int64_t high, wide, b_size;
    linear y_tap, x_tap, y_column, x_column;
} gemm;

// Returns 1 if there is no memory.
int gemm_run(const gemm *g, int threads, enum isa isa);

#endif
