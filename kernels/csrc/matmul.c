// mm and bmm: the contraction of gemm.h over plain row-major operands.

#include "gemm.h"

typedef struct {
    const float *a, *b;
} matrices;

static void pack_a(const gemm *g, int64_t batch, int64_t row, int64_t rows, int64_t height, int64_t k0,
                   int64_t k1, float *out) {
    const float *a = ((const matrices *)g->operands)->a + (batch * g->m + row) * g->k;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = k0; k < k1; k++) out[(k - k0) * height + i] = a[i * g->k + k];
}

static void pack_b(const gemm *g, int64_t batch, int64_t column, int64_t columns, int64_t width, int64_t k0,
                   int64_t k1, float *out, uint32_t *mask) {
    (void)mask;
    const float *b = ((const matrices *)g->operands)->b + batch * g->k * g->n + column;
    for (int64_t k = k0; k < k1; k++) copy_floats(out + (k - k0) * width, b + k * g->n, columns);
}

static int product_of(call c, int64_t batch) {
    const tensor *a = input(c.sig, 0), *b = input(c.sig, 1);
    matrices operands = {c.data[0], c.data[1]};
    gemm g = {.batch = batch,
              .m = a->dim[a->rank - 2],
              .n = b->dim[b->rank - 1],
              .k = a->dim[a->rank - 1],
              .c = c.data[2],
              .plane = b->dim[b->rank - 1],
              .batch_stride = a->dim[a->rank - 2] * b->dim[b->rank - 1],
              .pack_a = pack_a,
              .pack_b = pack_b,
              .operands = &operands};
    return gemm_run(&g, c.threads, c.isa);
}

OPERATOR(mm) {
    return product_of(CALL, 1);
}

OPERATOR(bmm) {
    return product_of(CALL, input(sig, 0)->dim[0]);
}
