// Blocks one by one, by the kernels of contractions: for comparison with what a device gave.

#include "tc16_kernel.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const uint16_t *a, *b; // TC16_TERMS factors of each block
    const uint32_t *c;
    uint32_t *d;
    const tc16_kernel *kernel;
    int failed;
} blocks;

static void gather(const uint16_t *from, int64_t apart, uint16_t *to) {
    for (int k = 0; k < TC16_TERMS; k++) to[k * apart] = code_of(from[k]);
}

// A block is one row and one column; all others have no terms.
static void range(void *context, int64_t begin, int64_t end) {
    blocks *s = context;
    const int64_t width = s->kernel->width;
    uint16_t row[TC16_TERMS], column[TC16_TERMS * TC16_MAX_WIDTH];
    uint32_t acc[TC16_MAX_WIDTH];
    void *rows = aligned_alloc(64, (size_t)ceil_div(s->kernel->of_row + 1, 64) * 64);
    void *columns = aligned_alloc(64, (size_t)ceil_div(s->kernel->of_columns + 1, 64) * 64);
    if (!rows || !columns) __atomic_store_n(&s->failed, 1, __ATOMIC_RELAXED);
    for (int64_t i = begin; i < end && rows && columns; i++) {
        const int64_t j = i % width;
        for (int64_t k = 0; k < TC16_TERMS * width; k++) column[k] = ABSENT;
        memset(acc, 0, sizeof acc);
        gather(s->a + i * TC16_TERMS, 1, row);
        gather(s->b + i * TC16_TERMS, width, column + j);
        acc[j] = s->c[i] == UINT32_C(1) << 31 ? 0 : s->c[i]; // neither zero is a term
        s->kernel->prepare_row(row, 1, rows);
        s->kernel->prepare_columns(column, 1, columns);
        const tc16_product p = {1, 1, TC16_TERMS, row, column, rows, columns, acc};
        s->kernel->multiply(&p);
        s->d[i] = acc[j];
    }
    free(rows), free(columns);
}

// d[i] = c[i] + the sum of a[16 i + k] b[16 i + k] over k < 16, by the rule of a block. Return 1 if there is
// no memory.
REPOPS_EXPORT int repops_tc16_blocks(int64_t count, const uint16_t *a, const uint16_t *b, const uint32_t *c,
                                     uint32_t *d, int isa) {
    blocks s = {a, b, c, d, tc16_kernels[isa], 0};
    parallel(1, count, 1, range, &s);
    return s.failed;
}
