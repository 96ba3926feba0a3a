// One contraction for matrix products and convolutions: C[m, n] = sum over k of A[m, k] * B[k, n].
//
// Order (docs/opset.md): k ascending in chunks of 512; in a chunk a chain of fma from -0; chunk totals are
// added in ascending order.
//
// With `binary64` C is binary64, and so is all arithmetic: A and B are made so as they are used, their
// products are exact.
//
// A convolution is one too: where its operands lie is linear in the nested loops that columns and taps are,
// so its patches are never written out. What it adds are taps that do not exist.

#ifndef REPOPS_GEMM_H
#define REPOPS_GEMM_H

#include "loops.h"
#include <string.h>

#define CHUNK 512

// Columns, and those taps that exist for any of them: all, unless said otherwise.
typedef struct {
    loops columns, taps;
    linear number; // which k a tap is, ascending
    // B[k, n] is b[b_column(n) + b_tap(k)], C[m, n] is c[m * c_row + c_column(n)].
    linear b_tap, b_column, c_column;

    // With an image, tap k of column n exists if 0 <= y(n) + y(k) < high and 0 <= x(n) + x(k) < wide. Else it
    // may lie anywhere, even outside b, which has `b_size` elements.
    // INVARIANT: x_tap depends on the innermost loop only, y_tap on the one around it only.
    // `far` if what lies outside is so far off that its place in b does not fit 64 bits.
    int image, far;
    linear y_tap, x_tap, y_column, x_column;
} part;

typedef struct gemm {
    int64_t batch, rows;
    // A[m, k] is a[m * a_row + a_tap(k)]. Operands lie each in their part for the batch.
    loops taps;
    linear a_tap;
    const float *a, *b;
    void *c;
    int binary64;
    int64_t a_batch, b_batch, c_batch;
    int64_t a_row, c_row, b_size;
    int64_t high, wide;

    // The columns, in parts with at most `columns` of them.
    int64_t parts, columns;
    int filled; // C is -0 everywhere, what parts without any taps are
    void (*find_part)(const void *context, int64_t i, part *p);
    const void *context;
} gemm;

// Of a contraction in one part, its context.
void only_part(const void *context, int64_t i, part *p);

// Returns 1 if there is no memory.
int gemm_run(const gemm *g, int threads, enum isa isa);

#endif
