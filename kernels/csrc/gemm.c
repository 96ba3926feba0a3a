// The blocked contraction behind every matrix product and convolution; the order of its arithmetic is in
// gemm.h.
//
// Layout, as in BLIS, with the depth of a block equal to the chunk of the specification, so that a
// micro-kernel's accumulators ARE a chunk's chain:
//
//     C tile [tile_m x tile_n] of one thread
//       for each chunk of k:   pack A [tile_m x 512] as panels of `height` rows, B [512 x tile_n] of `width`
//       columns
//         for each pair of panels:   acc = chain over k;   C = acc (first chunk)  or  C + acc

#include "gemm.h"
#include "microkernel.h"
#include <stdlib.h>

typedef struct {
    const gemm *g;
    const microkernel *kernel;
    int64_t tile_m, tile_n, tiles_m, tiles_n;
    int failed;
} plan;

static void store(const gemm *g, int64_t batch, int64_t row, int64_t rows, int64_t column, int64_t columns,
                  const float *acc, int64_t width, int first) {
    for (int64_t done = 0; done < columns;) { // a run of columns in one plane
        const int64_t image = (column + done) / g->plane, at = (column + done) % g->plane;
        const int64_t run = min_i64(g->plane - at, columns - done);
        float *c = g->c + batch * g->batch_stride + image * g->image_stride + row * g->plane + at;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < run; j++) {
                const float chunk = acc[i * width + done + j];
                c[i * g->plane + j] = first ? chunk : c[i * g->plane + j] + chunk;
            }
        done += run;
    }
}

static void tile(const plan *p, int64_t batch, int64_t m0, int64_t n0, float *a, float *b, uint32_t *mask) {
    const gemm *g = p->g;
    const microkernel *kernel = p->kernel;
    const int64_t height = kernel->height, width = kernel->width;
    const int64_t m1 = min_i64(m0 + p->tile_m, g->m), n1 = min_i64(n0 + p->tile_n, g->n);

    for (int64_t k0 = 0; k0 < g->k; k0 += CHUNK) {
        const int64_t k1 = min_i64(k0 + CHUNK, g->k), depth = k1 - k0;
        for (int64_t m = m0; m < m1; m += height)
            g->pack_a(g, batch, m, min_i64(height, m1 - m), height, k0, k1, a + (m - m0) * depth);

        for (int64_t n = n0; n < n1; n += width) {
            const int64_t columns = min_i64(width, n1 - n);
            const uint32_t all = (uint32_t)((UINT64_C(1) << columns) - 1);
            uint32_t common = all;
            if (g->has_padding)
                for (int64_t k = 0; k < depth; k++) mask[k] = all;
            g->pack_b(g, batch, n, columns, width, k0, k1, b, mask);
            if (g->has_padding)
                for (int64_t k = 0; k < depth; k++) common &= mask[k];

            for (int64_t m = m0; m < m1; m += height) {
                float acc[MAX_HEIGHT * MAX_COLUMNS];
                if (common == all)
                    kernel->whole(depth, a + (m - m0) * depth, b, acc);
                else
                    kernel->masked(depth, a + (m - m0) * depth, b, mask, acc);
                store(g, batch, m, min_i64(height, m1 - m), n, columns, acc, width, k0 == 0);
            }
        }
    }
}

static void range(void *context, int64_t begin, int64_t end) {
    plan *p = context;
    const int64_t width = p->kernel->width, height = p->kernel->height;
    const size_t a_size = (size_t)(ceil_div(p->tile_m, height) * height * CHUNK);
    // Cleared, because the rows and columns of a panel beyond the matrix are computed too, and thrown away.
    float *a = aligned_alloc(64, a_size * sizeof *a);
    float *b = aligned_alloc(64, (size_t)(width * CHUNK) * sizeof *b);
    uint32_t mask[CHUNK];
    if (a && b) {
        memset(a, 0, a_size * sizeof *a);
        memset(b, 0, (size_t)(width * CHUNK) * sizeof *b);
        for (int64_t t = begin; t < end; t++) {
            const int64_t batch = t / (p->tiles_m * p->tiles_n), rest = t % (p->tiles_m * p->tiles_n);
            tile(p, batch, rest / p->tiles_n * p->tile_m, rest % p->tiles_n * p->tile_n, a, b, mask);
        }
    } else {
        __atomic_store_n(&p->failed, 1, __ATOMIC_RELAXED);
    }
    free(a);
    free(b);
}

int gemm_run(const gemm *g, int threads, enum isa isa) {
    const microkernel *kernel = &microkernels[isa];
    const int64_t total = g->batch * g->m * g->n;
    if (total == 0) return 0;
    if (g->k == 0) {
        for (int64_t i = 0; i < total; i++) g->c[i] = -0.0f;
        return 0;
    }
    // A tile's A panels (tile_m * 512 floats) stay in the second-level cache while B panels stream by.
    plan p = {.g = g, .kernel = kernel};
    p.tile_m = min_i64(ceil_div(g->m, kernel->height), 240 / kernel->height) * kernel->height;
    p.tile_n = ceil_div(g->n, kernel->width) * kernel->width;
    p.tiles_m = ceil_div(g->m, p.tile_m);
    // Split columns until each thread has a few tiles, while a tile still repays the packing of its A.
    while (g->batch * p.tiles_m * ceil_div(g->n, p.tile_n) < 4 * threads && p.tile_n > 4 * kernel->width)
        p.tile_n = ceil_div(p.tile_n / 2, kernel->width) * kernel->width;
    p.tiles_n = ceil_div(g->n, p.tile_n);

    const int64_t tiles = g->batch * p.tiles_m * p.tiles_n;
    const int64_t work = min_i64(p.tile_m, g->m) * min_i64(p.tile_n, g->n) * g->k; // multiply-adds of a tile
    parallel(threads, tiles, max_i64(1, 400000 / max_i64(work, 1)), range, &p);
    return p.failed;
}
