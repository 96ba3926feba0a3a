// Kernels over one run of elements: the innermost loops of the operators in pointwise.c, where.c and
// reduce.c, which fused.c combines.

#ifndef REPOPS_ROWS_H
#define REPOPS_ROWS_H

#include "repops.h"

// out[i] = f(a[i * sa], b[i * sb]) for i < n; strides are 0 or 1. A unary kernel gets its operand twice.
typedef void row_kernel(int64_t n, void *out, const void *a, int64_t sa, const void *b, int64_t sb);

// out[i] = cond[i * sc] ? a[i * sa] : b[i * sb].
typedef void select_kernel(int64_t n, void *out, const void *cond, int64_t sc, const void *a, int64_t sa,
                           const void *b, int64_t sb);

#define LANES 32
#define BLOCK 4096
#define COLUMNS 128

// A reduction in the order of docs/opset.md, section 2. The state of one result is LANES words of 8 bytes; an
// f32 lane uses half of a word. Every member is a table by instruction set.
typedef struct {
    void (*const *begin)(void *state);
    // Add element i of x to lane (at + i) mod LANES, ascending in i. `at` counts from the block's beginning.
    void (*const *add)(void *state, int64_t at, const void *x, int64_t n);
    void (*const *fold)(void *state, void *result);
    // All three steps for n contiguous elements.
    void (*const *whole)(const void *x, int64_t n, void *result);
    // Reduce blocks of n elements of `width` <= COLUMNS neighbouring results: element i of result j is
    // x[offset[i] + j]. Result j is written to results[j * apart].
    void (*const *columns)(const void *x, const int64_t *offset, int64_t n, int64_t width, void *results,
                           int64_t apart);
    // There are no blocks: one state takes all elements, and is folded after the last.
    int unbroken;
} reduction;

extern const reduction sum_f32, sum_i64, amax_f32, amax_i64, exact_sum_f32;

// Tables behind the names of repops/fuse/fusion.py: "add_f32", "lt_i64", "cast_f32_i64", "exp_f32", "where_4"
// (bytes of an item), "sum_f32". Each table ends with a NULL name.
typedef struct {
    const char *name;
    row_kernel *const *kernel;
} named_row;
typedef struct {
    const char *name;
    select_kernel *const *kernel;
} named_select;
typedef struct {
    const char *name;
    const reduction *kernel;
} named_reduction;

extern const named_row named_rows[];
extern const named_select named_selects[];
extern const named_reduction named_reductions[];

#endif
