// The operands of a contraction in the mode tc16 as panels of codes (tc16_block.h).

#ifndef REPOPS_TC16_OPERANDS_H
#define REPOPS_TC16_OPERANDS_H

#include "gemm/panels.h"
#include "tc16_kernel.h"

// A panel's columns: places in b, in c and in the image.
typedef struct {
    int64_t count;
    int64_t b[TC16_MAX_WIDTH], c[TC16_MAX_WIDTH], y[TC16_MAX_WIDTH], x[TC16_MAX_WIDTH];
} tc16_columns;

// Find the terms of a part with a number from `begin` on and below `end`, at most CHUNK: t->a are numbers
// less `begin`.
void tc16_terms(const part *s, int64_t begin, int64_t end, taps *t);

// Find `count` columns of a part from `first` on.
void tc16_find_columns(const part *s, int64_t first, int64_t count, tc16_columns *c);

// Gather rows m0 <= m < m1 for these terms of all parts; rows are CHUNK apart, and `depth` numbers of each
// are written.
void tc16_gather_rows(const gemm *g, int64_t batch, int64_t m0, int64_t m1, const taps *t, int64_t depth,
                      uint16_t *to);

// Gather a panel for the terms of a part: `depth` times `width` codes.
void tc16_gather_columns(const gemm *g, const part *s, int64_t batch, const tc16_columns *c, const taps *t,
                         int64_t depth, int64_t width, uint16_t *to);

#endif
