// One contraction for matrix products and convolutions: C[m, n] = sum over k of A[m, k] * B[k, n].
//
// Order (docs/opset.md): k ascending in chunks of 512; in a chunk a chain of fma from -0; chunk totals are
// added in ascending order. The operands are fetched by `pack_a` and `pack_b`, so a convolution never writes
// its patches out.

#ifndef REPOPS_GEMM_H
#define REPOPS_GEMM_H

#include "repops.h"
#include <string.h>

#define CHUNK 512
#define MAX_COLUMNS 32 // columns of a panel, at most: one bit each in a mask

typedef struct gemm gemm;

struct gemm {
    int64_t batch, m, n, k;

    // C[m, n] of a batch is at c + batch * batch_stride + (n / plane) * image_stride + m * plane + n % plane:
    // for a convolution the columns are the positions of all images, so that one packing of the weights
    // serves them all.
    float *c;
    int64_t plane, image_stride, batch_stride;

    // Fill a panel of A: out[(k - k0) * height + i] = A[row + i, k], for i < rows and k0 <= k < k1.
    void (*pack_a)(const gemm *g, int64_t batch, int64_t row, int64_t rows, int64_t height, int64_t k0,
                   int64_t k1, float *out);
    // Fill a panel of B: out[(k - k0) * width + j] = B[k, column + j], for j < columns. mask[k - k0] comes
    // with a bit set for each column; clear the bit where the tap does not exist, and write -0 there.
    void (*pack_b)(const gemm *g, int64_t batch, int64_t column, int64_t columns, int64_t width, int64_t k0,
                   int64_t k1, float *out, uint32_t *mask);
    int has_padding; // pack_b may clear mask bits
    const void *operands;
};

// Copy a few floats: in line, where a call of memcpy would cost more than the copy.
static inline void copy_floats(float *restrict to, const float *restrict from, int64_t count) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) memcpy(to + i, from + i, 8 * sizeof(float));
    for (; i < count; i++) to[i] = from[i];
}

// Returns 1 if there is no memory.
int gemm_run(const gemm *g, int threads, enum isa isa);

#endif
