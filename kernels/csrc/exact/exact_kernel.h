// The micro-kernels of the mode exact, by instruction set.

#ifndef REPOPS_EXACT_KERNEL_H
#define REPOPS_EXACT_KERNEL_H

#include "gemm/microkernel.h"
#include <string.h>

#define EXACT_CHUNK 64 // terms that are summed in a register

// C[i, j] = (add ? its old value : 0) + sum over k < depth of A[k, i] * B[k, j], for at least i < rows and
// j < columns. A[k, i] is a[a_step[k] + i], without steps a[k * height + i]; B[k, j] is b[k * width + j], and
// C[i, j] is c[i * width + j].
//
// With a mask, term k of column j is left out if bit shift + j of mask[k] is clear. Without a mask, such a
// term must be zero in B; then it adds nothing as long as A is finite.
typedef struct {
    int64_t rows, columns, depth;
    const double *a, *b;
    const int64_t *a_step;
    const uint32_t *mask;
    int shift, add;
    double *c;
} exact_product;

// `panels`: the panels that are packed, of binary32. One of B is two that are multiplied.
typedef struct {
    product_kernel panels;
    int64_t width;
    void (*multiply)(const exact_product *p);
} exact_kernel;

extern const exact_kernel *const exact_kernels[ISA_COUNT];
#if defined(__x86_64__)
extern const exact_kernel avx2_exact, avx512_exact;
#endif

#endif
