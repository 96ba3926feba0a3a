// One contraction for matrix products and convolutions: C[m, n] = sum over k of A[m, k] * B[k, n].
//
// Order (docs/opset.md, section 2): k ascends in chunks of 512; a chunk is a chain of fma from -0; chunk
// totals are added in ascending order.
//
// With `binary64`, C and all arithmetic are binary64. A and B are converted as they are used, and their
// products are exact.
//
// Factors of bf16 are widened as they are packed, and each sum of binary32 is rounded again, to bf16.
//
// A convolution is such a contraction: the places of its operands are linear in the nested loops of columns
// and taps, so its patches are never materialised. In addition, it has taps that do not exist.

#ifndef REPOPS_CONTRACTION_H
#define REPOPS_CONTRACTION_H

#include "shared/bits.h"
#include "runtime/loops.h"
#include <string.h>

#define CHUNK 512

// Columns, and the taps that exist for any of them: all taps by default.
typedef struct {
    loops columns, taps;
    linear number; // the k of a tap, ascending
    // B[k, n] is b[b_column(n) + b_tap(k)], C[m, n] is c[m * c_row + c_column(n)].
    linear b_tap, b_column, c_column;

    // With an image, tap k of column n exists if 0 <= y(n) + y(k) < high and 0 <= x(n) + x(k) < wide.
    // Otherwise its place may be anywhere, even outside b, which has `b_size` elements.
    // INVARIANT: x_tap depends on the innermost loop only, y_tap on the loop around it only, unless tc16_turn
    // has turned the loops. `far`: places outside the image may be so far away that their offset in b does
    // not fit in 64 bits.
    int image, far;
    linear y_tap, x_tap, y_column, x_column;
} part;

typedef struct gemm {
    int64_t batch, rows;
    // A[m, k] is a[m * a_row + a_tap(k)]. Each operand has its own stride for the batch.
    loops taps;
    linear a_tap;
    const void *a, *b;
    void *c;
    int binary64;
    int bf16; // A, B and C are bf16, otherwise binary32
    int64_t a_batch, b_batch, c_batch;
    int64_t a_row, c_row, b_size;
    int64_t high, wide;

    // The columns, in parts with at most `columns` of them.
    int64_t parts, columns;
    int filled; // C is -0 everywhere, the value of parts without taps
    // In the mode tc16, where the terms that exist need not have successive numbers: those of `taps`. Factors
    // are bf16; so is C, if `bf16` says so.
    linear number;
    void (*find_part)(const void *context, int64_t i, part *p);
    const void *context;
} gemm;

// Compute the address of a factor. The arithmetic may wrap around: a tap that does not exist may be anywhere.
static inline const void *factor_at(int bf16, const void *from, int64_t i) {
    return (const void *)((uintptr_t)from + (uintptr_t)i * (bf16 ? sizeof(uint16_t) : sizeof(float)));
}

static inline float factor(int bf16, const void *at) {
    return bf16 ? from_bf16(*(const uint16_t *)at) : *(const float *)at;
}

#endif
