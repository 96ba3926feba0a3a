// The blocked contraction behind every matrix product and convolution; gemm.h defines the order of its
// arithmetic.
//
// The layout is that of BLIS, with the depth of a block equal to the chunk of the specification, so that a
// micro-kernel's accumulators ARE a chunk's chain:
//
//     C tile [tile_m x tile_n] of one thread
//       for each chunk of k:   pack A [tile_m x 512] as panels of `height` rows
//         for each panel of `width` columns:   pack B [512 x width]
//           for each panel of A:   acc = chain over k;   C = acc (first chunk)  or  C + acc

#include "gemm.h"
#include "operands.h"
#include "pack.h"
#include <stdlib.h>

// Return the address of element i of C, of accumulators or of a panel of A.
static void *item(const plan *p, void *from, int64_t i) {
    return (char *)from + i * p->kernel->item;
}
static void *item_of_c(const plan *p, int64_t i) {
    return p->g->bf16 ? (uint16_t *)p->g->c + i : item(p, p->g->c, i);
}

void only_part(const void *context, int64_t i, part *p) {
    (void)i;
    *p = *(const part *)context;
}

// Prefetch part `i` of `parts` of the panel that begins with the column at `next` into the second-level
// cache: its elements are too far apart for the processor to predict.
static void prefetch_b(int bf16, const void *next, const taps *t, int64_t i, int64_t parts) {
    for (int64_t k = t->ahead_count * i / parts; k < t->ahead_count * (i + 1) / parts; k++) {
        const void *at = factor_at(bf16, next, t->ahead[k]);
        __builtin_prefetch(at, 0, 2);
        __builtin_prefetch(factor_at(bf16, at, 16), 0, 2);
    }
}

// Store accumulators; `c` is the beginning of the rows.
static void store(const plan *p, const part *s, void *acc, int add, int64_t rows, const panel *columns,
                  void *c) {
    const int64_t step = apart(s->c_column.stride[LOOPS - 1]);
    for (int64_t j = 0, n; j < columns->count; j += n) {
        n = run_of(columns->c + j, columns->count - j, step);
        p->kernel->store(item(p, acc, j), p->kernel->width, add, rows, n, step, item(p, c, columns->c[j]),
                         p->g->c_row);
    }
}

// Copy n elements, mostly a few.
static void spread(const uint16_t *from, int64_t n, int64_t apart, uint16_t *to) {
    if (apart == 1 && n == 4)
        memcpy(to, from, 4 * sizeof *to);
    else if (apart == 1 && n % 8 == 0)
        for (int64_t i = 0; i < n; i += 8) memcpy(to + i, from + i, 8 * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++) to[i * apart] = from[i];
}

// Round sums of `rows` rows and a panel of columns; `c` is the beginning of the rows.
static void narrow(const plan *p, const part *s, const float *sums, int64_t rows, const panel *columns,
                   uint16_t *c) {
    const int64_t step = apart(s->c_column.stride[LOOPS - 1]);
    if (run_of(columns->c, columns->count, 1) == columns->count) {
        round_to_bf16(sums, columns->count, rows, columns->count, c + columns->c[0], p->g->c_row, p->isa);
        return;
    }
    uint16_t rounded[MAX_HEIGHT * MAX_WIDTH];
    round_to_bf16(sums, 0, 1, rows * columns->count, rounded, 0, p->isa);
    for (int64_t j = 0, n; j < columns->count; j += n) {
        n = run_of(columns->c + j, columns->count - j, step);
        for (int64_t i = 0; i < rows; i++)
            spread(rounded + i * columns->count + j, n, step, c + columns->c[j] + i * p->g->c_row);
    }
}

// Which chunk of a sum is multiplied: the totals of all but the first are added to those before.
typedef struct {
    int first, last;
} turn;

// Store or add the chunk's totals of `rows` rows and a panel of columns. If C is bf16, they are in `sums`
// until the last chunk.
static void multiply(const plan *p, const part *s, const panel *columns, const void *a,
                     const float *const b[2], int64_t rows, turn chunk, float *sums, void *c) {
    const int64_t width = p->kernel->width, half = width / 2;
    chunk_product product = {.rows = rows,
                             .columns = columns->count,
                             .depth = columns->steps,
                             .a = a,
                             .b = {b[0], b[1]},
                             .a_step = columns->near_b || columns->some ? columns->a_step : 0,
                             .b_step = columns->near_b ? columns->b_step
                                       : columns->some ? p->packed
                                                       : 0,
                             .mask = columns->whole ? 0 : columns->exists};
    if (p->g->bf16) {
        product.add = !chunk.first, product.row = columns->count;
        product.c[0] = sums, product.c[1] = sums + half;
        // As the micro-kernel does for a C of its own type.
        for (int64_t i = 0; chunk.last && i < rows; i++)
            __builtin_prefetch((uint16_t *)c + columns->c[0] + i * p->g->c_row, 1, 3);
        p->kernel->multiply(&product);
        if (chunk.last) narrow(p, s, sums, rows, columns, c);
    } else if (columns->near_c) {
        product.add = !chunk.first, product.row = p->g->c_row;
        product.c[0] = item(p, c, columns->c[0]);
        product.c[1] = columns->count > half ? item(p, c, columns->c[half]) : product.c[0];
        p->kernel->multiply(&product);
    } else {
        _Alignas(64) union {
            float of_binary32[MAX_HEIGHT * MAX_WIDTH];
            double of_binary64[MAX_HEIGHT * MAX_WIDTH];
        } acc;
        product.row = width, product.c[0] = &acc, product.c[1] = item(p, &acc, half);
        p->kernel->multiply(&product);
        store(p, s, &acc, !chunk.first, rows, columns, c);
    }
}

// Working space of one thread: panels of A, in binary64 too if wanted, one of B, and sums if C is bf16.
typedef struct {
    float *a, *b, *sums;
    double *a_f64;
} buffers;

// Compute rows m0 <= m < m1 of the panels n0 <= n < n1 of every part.
static void tile(const plan *p, int64_t batch, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                 const buffers *to) {
    const gemm *g = p->g;
    const int64_t height = p->kernel->height, width = p->kernel->width;
    const int64_t panels = ceil_div(m1 - m0, height), total = count_of(&g->taps);
    void *const panel_a = g->binary64 ? (void *)to->a_f64 : to->a;
    taps t;
    panel columns;
    memset(&columns, 0, offsetof(panel, exists)); // a short panel is read beyond its columns

    for (int64_t k = 0; k == 0 || k < total; k += CHUNK) { // once even without taps
        const int64_t depth = min_i64(CHUNK, total - k);
        const turn chunk = {k == 0, k + CHUNK >= total};
        float *sums = to->sums;
        int64_t place[CHUNK];
        if (depth) expand(&g->taps, &g->a_tap, counters_at(&g->taps, k), depth, place);
        pack_a(p, batch, m0, m1, place, depth, to->a);
        if (g->binary64) to_f64(to->a, panels * height * depth, to->a_f64, p->isa);
        for (int64_t i = 0; i < g->parts; i++) {
            part s;
            g->find_part(g->context, i, &s);
            if (g->filled && count_of(&s.taps) == 0) continue;
            find_taps(p, &s, k, &t);
            if (t.count == 0 && k > 0 && !g->bf16) continue;
            const int64_t end = min_i64(n1 * width, count_of(&s.columns));
            for (int64_t n = n0 * width; n < end; n += width) {
                find_panel(p, &s, n, min_i64(width, end - n), &t, &columns);
                const void *all = factor_at(g->bf16, g->b, batch * g->b_batch);
                const float *from[2] = {to->b, to->b + width / 2};
                if (columns.near_b) {
                    from[0] = element(all, columns.b[0]);
                    from[1] = columns.count > width / 2 ? element(all, columns.b[width / 2]) : from[0];
                } else {
                    pack_b(p, &s, batch, &columns, &t, to->b);
                }
                int64_t next = 0;
                const int more = n + width < end;
                if (more) expand(&s.columns, &s.b_column, counters_at(&s.columns, n + width), 1, &next);
                for (int64_t j = 0; j < panels; j++) {
                    const int64_t m = m0 + j * height;
                    if (more) prefetch_b(g->bf16, factor_at(g->bf16, all, next), &t, j, panels);
                    multiply(p, &s, &columns, item(p, panel_a, j * height * depth), from,
                             min_i64(height, m1 - m), chunk, sums,
                             item_of_c(p, batch * g->c_batch + m * g->c_row));
                    if (total > CHUNK) sums += height * columns.count;
                }
            }
        }
    }
}

// Return the beginning of tile `i` of `tiles` if `panels` are split evenly.
static int64_t bound(int64_t panels, int64_t i, int64_t tiles) {
    return panels * i / tiles;
}

static void range(void *context, int64_t begin, int64_t end) {
    plan *p = context;
    const gemm *g = p->g;
    const int64_t width = p->kernel->width, height = p->kernel->height;
    const int64_t panels_m = ceil_div(g->rows, height), panels_n = ceil_div(g->columns, width);
    const int64_t depth = min_i64(CHUNK, max_i64(1, count_of(&g->taps)));
    const int64_t tile_m = ceil_div(panels_m, p->tiles_m) * height;
    const int64_t tile_n = count_of(&g->taps) > CHUNK
                               ? g->parts * min_i64(g->columns, ceil_div(panels_n, p->tiles_n) * width)
                               : width;
    const size_t of_a = (size_t)(ceil_div(tile_m * depth, 16) * 64);
    const buffers to = {.a = aligned_alloc(64, of_a),
                        .b = aligned_alloc(64, (size_t)(ceil_div(width * depth, 16) * 64)),
                        .sums = g->bf16 ? aligned_alloc(64, (size_t)(ceil_div(tile_m * tile_n, 16) * 64)) : 0,
                        .a_f64 = g->binary64 ? aligned_alloc(64, 2 * of_a) : 0};
    if (to.a && to.b && (to.sums || !g->bf16) && (to.a_f64 || !g->binary64)) {
        for (int64_t i = begin; i < end; i++) {
            const int64_t m = i % p->tiles_m, n = i / p->tiles_m % p->tiles_n;
            tile(p, i / p->tiles_m / p->tiles_n, bound(panels_m, m, p->tiles_m) * height,
                 min_i64(g->rows, bound(panels_m, m + 1, p->tiles_m) * height),
                 bound(panels_n, n, p->tiles_n), bound(panels_n, n + 1, p->tiles_n), &to);
        }
    } else {
        __atomic_store_n(&p->failed, 1, __ATOMIC_RELAXED);
    }
    free(to.a);
    free(to.b);
    free(to.sums);
    free(to.a_f64);
}

#define TILE_ROWS 240          // for binary32, half as many for binary64: 480 KiB, in the second-level cache
#define TILE_COLUMNS 2048      // the tile of C takes 2 MiB, in the third-level cache
#define PART (4 * THREAD_WORK) // multiply-adds

// Return whether B is read in place where it consists of runs, rather than from packed panels: not if the
// taps of a chunk are pages apart, or in the same few lines of the first-level cache.
static int reads_directly(const gemm *g) {
    if (g->bf16) return 0;
    part s;
    int64_t distance = 0; // bytes
    g->find_part(g->context, 0, &s);
    for (int d = 0; d < LOOPS; d++)
        if (s.taps.size[d] > 1) distance = max_i64(distance, s.b_tap.stride[d] * (int64_t)sizeof(float));
    return distance < 4096 && distance % 2048;
}

int gemm_run(const gemm *g, int threads, enum isa isa) {
    const product_kernel *kernel = g->binary64 ? f64_kernels[isa] : &microkernels[isa]->product;
    plan p;
    p.g = g, p.kernel = kernel, p.moves = microkernels[isa], p.isa = isa, p.failed = 0;
    const int64_t total = g->batch * g->rows * g->columns;
    if (total == 0) return 0;
    p.direct = reads_directly(g);
    for (int64_t k = 0; k < min_i64(CHUNK, count_of(&g->taps)); k++) p.packed[k] = k * kernel->width;

    const int64_t panels_m = ceil_div(g->rows, kernel->height),
                  panels_n = ceil_div(g->columns, kernel->width);
    p.tiles_m = ceil_div(panels_m, TILE_ROWS * (int64_t)sizeof(float) / kernel->item / kernel->height);
    p.tiles_n = ceil_div(panels_n, max_i64(1, TILE_COLUMNS / kernel->width / g->parts));
    const int64_t work = total * max_i64(1, count_of(&g->taps));
    const int64_t parts = min_i64(threads, max_i64(1, work / PART));
    // Split until the threads have equal work.
    while (g->batch * p.tiles_m * p.tiles_n % parts && g->batch * p.tiles_m * p.tiles_n < 4 * parts) {
        if (p.tiles_m < panels_m && (panels_m * p.tiles_n > panels_n * p.tiles_m || p.tiles_n == panels_n))
            p.tiles_m++;
        else if (p.tiles_n < panels_n)
            p.tiles_n++;
        else
            break;
    }
    const int64_t tiles = g->batch * p.tiles_m * p.tiles_n;
    parallel(threads, tiles, ceil_div(tiles, parts), range, &p);
    return p.failed;
}
