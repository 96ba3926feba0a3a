// What a contraction needs of an instruction set: the innermost loop, and moving elements in and out of
// panels.

#ifndef REPOPS_MICROKERNEL_H
#define REPOPS_MICROKERNEL_H

#include "repops.h"

#define MAX_HEIGHT 12
#define MAX_WIDTH 32 // columns of a panel, at most: one bit each in a mask

// Panels of A are `height` rows, panels of B `width` columns. Every `apart` is 1 or 2.
typedef struct {
    int64_t height, width;
    // acc[i * stride + j] = chain over k < depth of fma(a[k * height + i], b[k * width + j], .), from -0.
    // With a mask, column j leaves out step k where bit j of mask[k] is clear, whatever lies in b there.
    // All of a panel may be computed and written; only i < rows and j < columns are asked for.
    void (*multiply)(int64_t rows, int64_t columns, int64_t depth, const float *a, const float *b,
                     const uint32_t *mask, float *acc, int64_t stride);
    // to[k * width + i] = from[first + i * apart + step[k]], for i < lanes <= MAX_WIDTH and k < steps
    void (*copy)(const float *from, int64_t first, int64_t lanes, int64_t apart, const int64_t *step,
                 int64_t steps, float *to, int64_t width);
    // to[k * width + i] = from[first + k * apart + lane[i]], for any number of lanes, k < steps
    void (*transpose)(const float *from, int64_t first, int64_t steps, int64_t apart, const int64_t *lane,
                      int64_t lanes, float *to, int64_t width);
    // c[i * row + j * apart] = (add ? its old value : -0) + acc[i * stride + j], for i < rows, j < columns
    void (*store)(const float *acc, int64_t stride, int add, int64_t rows, int64_t columns, int64_t apart,
                  float *c, int64_t row);
    // sum[i] = chain over k < steps of fma(vector[k], from[i * stride + k], .) from sum[i], for i < rows
    void (*dot)(const float *vector, const float *from, int64_t stride, int64_t steps, int64_t rows,
                float *sum);
} microkernel;

extern const microkernel *const microkernels[ISA_COUNT];
#if defined(__x86_64__)
extern const microkernel avx2_kernel, avx512_kernel;
#endif

#endif
