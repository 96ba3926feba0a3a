// Sums a block of columns at a time, in the order of gemm.h.

#include "vector.h"
#include "contraction.h"
#include "microkernel.h"
#include <math.h>

#define BLOCK 1024 // maximal columns
#define STEP 64    // minimal columns; exactly this many if transposed, since each is a stream from memory

typedef struct {
    const float *vector, *matrix;
    int transposed;
    int64_t k, n, block, blocks;
    float *c;
    enum isa isa;
} product_plan;

// sum[j] = chain of fma(vector[k], matrix[k * stride + j], .) from sum[j]. Takes four links at a time, to
// save loads and stores.
BODY chain_body(const float *vector, const float *matrix, int64_t stride, int64_t count, int64_t columns,
                float *restrict sum) {
    int64_t k = 0;
    for (; k + 4 <= count; k += 4) {
        const float *row = matrix + k * stride, *v = vector + k;
        for (int64_t j = 0; j < columns; j++) {
            float s = fmaf(v[0], row[j], sum[j]);
            s = fmaf(v[1], row[stride + j], s);
            s = fmaf(v[2], row[2 * stride + j], s);
            sum[j] = fmaf(v[3], row[3 * stride + j], s);
        }
    }
    for (; k < count; k++)
        for (int64_t j = 0; j < columns; j++) sum[j] = fmaf(vector[k], matrix[k * stride + j], sum[j]);
}
VARIANTS(chain,
         (const float *vector, const float *matrix, int64_t stride, int64_t count, int64_t columns,
          float *restrict sum),
         (vector, matrix, stride, count, columns, sum))

static void range(void *context, int64_t begin, int64_t end) {
    const product_plan *p = context;
    for (int64_t i = begin; i < end; i++) {
        const int64_t batch = i / p->blocks, first = i % p->blocks * p->block;
        const int64_t columns = min_i64(p->block, p->n - first);
        const float *vector = p->vector + batch * p->k, *matrix = p->matrix + batch * p->k * p->n;
        float *c = p->c + batch * p->n + first;
        int64_t k = 0;
        do { // once even without taps
            const int64_t count = min_i64(CHUNK, p->k - k);
            float sum[BLOCK];
            for (int64_t j = 0; j < columns; j++) sum[j] = -0.0f;
            if (p->transposed)
                microkernels[p->isa]->dot(vector + k, matrix + first * p->k + k, p->k, count, columns, sum);
            else
                chain[p->isa](vector + k, matrix + k * p->n + first, p->n, count, columns, sum);
            for (int64_t j = 0; j < columns; j++) c[j] = k == 0 ? sum[j] : c[j] + sum[j];
            k += count;
        } while (k < p->k);
    }
}

void vector_product(const float *vector, const float *matrix, int transposed, int64_t batch, int64_t k,
                    int64_t n, float *c, int threads, enum isa isa) {
    product_plan p = {vector, matrix, transposed, k, n, .c = c, .isa = isa};
    p.block = transposed ? STEP : min_i64(BLOCK, ceil_div(n, STEP * threads) * STEP);
    if (batch * n == 0) return;
    p.blocks = ceil_div(n, p.block);
    parallel(threads, batch * p.blocks, max_i64(1, THREAD_WORK / (p.block * max_i64(k, 1))), range, &p);
}
