// The parts of a contraction for each instruction set: the innermost loop, and moves in and out of panels.

#ifndef REPOPS_MICROKERNEL_H
#define REPOPS_MICROKERNEL_H

#include "runtime/repops.h"

#define MAX_HEIGHT 12
#define MAX_WIDTH 32 // maximal columns of a panel: one bit each in a mask

// acc[i, j] = chain over k < depth of fma(a[a_step[k] + i], B[k, j], .), from -0, for i < rows, j < columns.
//
// A panel of columns has two halves of width / 2, each contiguous in B and in C: half h of B[k] is at b[h] +
// b_step[k]. Without steps, panels are whole: a_step[k] = k * height, b_step[k] = k * width, b aligned. With
// a mask, column j skips step k, and does not read it, if bit j of mask[k] is clear. Without a mask, memory
// behind the last column of a half may be read. Half h of row i of C is at c[h] + i * row: acc replaces it or
// is added to it.
//
// B is binary32 even if A's panels and C are binary64.
typedef struct {
    int64_t rows, columns, depth;
    const void *a;
    const float *b[2];
    const int64_t *a_step, *b_step;
    const uint32_t *mask;
    int add;
    void *c[2];
    int64_t row;
    int64_t a_row, b_row, skip; // of multiply_rows
} chunk_product;

// A panel of A has `height` rows, a panel of B `width` columns. Elements of A's panels and of C have `item`
// bytes.
typedef struct {
    int64_t height, width, item;
    void (*multiply)(const chunk_product *p);
    // c[i * row + j * apart] = (add ? its old value : -0) + acc[i * stride + j], for i < rows, j < columns;
    // apart is 1 or 2
    void (*store)(const void *acc, int64_t stride, int add, int64_t rows, int64_t columns, int64_t apart,
                  void *c, int64_t row);
} product_kernel;

// Call f(steps, p, mask), with the presence of steps and the absence of a mask as constants.
#define WITH_CONSTANTS(f, p)                                                                                 \
    ((p)->a_step && (p)->mask ? f(1, p, (p)->mask)                                                           \
     : (p)->a_step            ? f(1, p, 0)                                                                   \
     : (p)->mask              ? f(0, p, (p)->mask)                                                           \
                              : f(0, p, 0))

// Compute an address by arithmetic that may wrap around: an element that the mask excludes may be anywhere.
static inline const float *element(const float *base, int64_t at) {
    return (const float *)((uintptr_t)base + (uintptr_t)at * sizeof *base);
}

// to[k * width + i] = from[first + i * apart + step[k]], for i < lanes <= MAX_WIDTH and k < steps
typedef void copier(const void *from, int64_t first, int64_t lanes, int64_t apart, const int64_t *step,
                    int64_t steps, float *to, int64_t width);
// to[k * width + i] = from[first + k * apart + lane[i]], for i < lanes <= MAX_WIDTH and k < steps
typedef void transposer(const void *from, int64_t first, int64_t steps, int64_t apart, const int64_t *lane,
                        int64_t lanes, float *to, int64_t width);

// Functions on binary32. Every `apart` is 1 or 2.
typedef struct {
    product_kernel product;
    // From binary32, and from bf16, which is widened.
    copier *copy[2];
    transposer *transpose[2];
    // sum[i] = chain over k < steps of fma(vector[k], from[i * stride + k], .) from sum[i], for i < rows
    void (*dot)(const float *vector, const float *from, int64_t stride, int64_t steps, int64_t rows,
                float *sum);
    // As multiply, for operands in place, or 0: A[i, k] is a[i * a_row + k], half h of B[k] at b[h] + k *
    // b_row. The number of rows is a multiple of `few_rows`, and the first `skip` are not stored. Vectors of
    // B are read whole. It is used for at most `few_columns`, which do not repay the packing of A.
    int64_t few_rows, few_columns;
    void (*multiply_rows)(const chunk_product *p);
} microkernel;

extern const microkernel *const microkernels[ISA_COUNT];
#if defined(__x86_64__)
extern const microkernel avx2_kernel, avx512_kernel;
void avx512_multiply_rows(const chunk_product *p);
extern copier avx512_copy_bf16;
extern transposer avx512_transpose_bf16;
#endif

// Kernels with binary64 results from binary32 operands (microkernel_f64.h).
extern const product_kernel *const f64_kernels[ISA_COUNT];
#if defined(__x86_64__)
extern const product_kernel avx2_f64, avx512_f64;
#endif

#endif
