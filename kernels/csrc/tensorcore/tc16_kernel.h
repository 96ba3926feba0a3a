// The products of a panel of columns in the mode tc16, by instruction set.

#ifndef REPOPS_TC16_KERNEL_H
#define REPOPS_TC16_KERNEL_H

#include "tc16_block.h"

#define TC16_MAX_WIDTH 64

// Blocks of a chunk, for some rows and a panel of columns. Term k of row i has the code a[i * a_row + k], of
// column j the code b[k * width + j]. `rows` and `columns` are what the kernel has prepared of these.
// acc[i * width + j] are accumulators of binary32, as bits, to which the blocks are applied. None is -0: a
// chain begins with +0, and no block gives -0. So where a block has no terms, the accumulator is the result.
typedef struct {
    int64_t height, blocks, a_row;
    const uint16_t *a, *b;
    const void *rows, *columns;
    uint32_t *acc;
} tc16_product;

// A panel has `width` columns. Of each block of a row the kernel prepares `of_row` bytes, one row after the
// other; of each block of a panel `of_columns` bytes. Both are multiples of 64.
typedef struct {
    int64_t width, of_row, of_columns;
    void (*prepare_row)(const uint16_t *codes, int64_t blocks, void *to);
    void (*prepare_columns)(const uint16_t *codes, int64_t blocks, void *to);
    void (*multiply)(const tc16_product *p);
} tc16_kernel;

extern const tc16_kernel *const tc16_kernels[ISA_COUNT];
#if defined(__x86_64__)
extern const tc16_kernel avx2_tc16, avx512_tc16;
#endif

#endif
