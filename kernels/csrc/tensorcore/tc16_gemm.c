// The driver of contractions in the mode tc16. A chunk's accumulators start as +0; its totals are added to
// those of the chunks before, in the standard floating-point environment.
//
//     C tile [tile_m x tile_n] of one part, for one thread
//       for each chunk of 512 numbers:   gather and prepare A [tile_m x 512]
//         for each panel of columns:   gather and prepare B [512 x width]
//           acc = chain of blocks from +0, for all rows;   totals = acc (first chunk)  or  totals + acc
//     store the totals

#include "tc16_gemm.h"
#include "gemm/pack.h"
#include "tc16_operands.h"
#include <stdlib.h>

#define TILE_ROWS 128
#define TILE_COLUMNS 1024      // totals take half a MiB
#define PART (THREAD_WORK / 2) // multiply-adds, each of which takes as long as a few of another mode
#define BLOCKS (CHUNK / TC16_TERMS)

// Working space of a thread.
typedef struct {
    uint16_t *a, *b;
    void *rows, *columns;
    uint32_t *acc;
    float *totals; // panel by panel
} space;

typedef struct {
    const gemm *g;
    const tc16_kernel *kernel;
    enum isa isa;
    int64_t numbers, tiles_m, tiles_n, panels_n;
    int failed;
} work;

// A tile: rows m0 <= m < m1 of columns n0 <= n < n1 of a part.
typedef struct {
    const part *s;
    int64_t batch, m0, m1, n0, n1;
} tile;

// The terms of the contraction as a part, whose operand is A.
static part terms_of(const gemm *g) {
    return (part){.taps = g->taps, .number = g->number, .b_tap = g->a_tap};
}

static void add_totals(const uint32_t *acc, int64_t count, int first, float *totals) {
    for (int64_t i = 0; i < count; i++) {
        const float more = f32_of((int32_t)acc[i]);
        totals[i] = first ? more : totals[i] + more;
    }
}

static void sum_tile(const work *w, const tile *t, const space *with) {
    const gemm *g = w->g;
    const int64_t width = w->kernel->width, height = t->m1 - t->m0;
    const part all = terms_of(g);
    taps of_rows, of_columns;
    tc16_columns columns;
    for (int64_t begin = 0; begin == 0 || begin < w->numbers; begin += CHUNK) { // once even without terms
        const int64_t end = min_i64(begin + CHUNK, w->numbers), blocks = ceil_div(end - begin, TC16_TERMS);
        const int64_t depth = blocks * TC16_TERMS;
        tc16_terms(&all, begin, end, &of_rows);
        tc16_terms(t->s, begin, end, &of_columns);
        tc16_gather_rows(g, t->batch, t->m0, t->m1, &of_rows, depth, with->a);
        for (int64_t i = 0; i < height; i++)
            w->kernel->prepare_row(with->a + i * CHUNK, blocks,
                                   (char *)with->rows + i * blocks * w->kernel->of_row);
        for (int64_t n = t->n0; n < t->n1; n += width) {
            memset(with->acc, 0, (size_t)(height * width) * sizeof *with->acc);
            if (of_columns.count) {
                tc16_find_columns(t->s, n, min_i64(width, t->n1 - n), &columns);
                tc16_gather_columns(g, t->s, t->batch, &columns, &of_columns, depth, width, with->b);
                w->kernel->prepare_columns(with->b, blocks, with->columns);
                const tc16_product p = {height,  blocks,     CHUNK,         with->a,
                                        with->b, with->rows, with->columns, with->acc};
                w->kernel->multiply(&p);
            }
            add_totals(with->acc, height * width, begin == 0, with->totals + (n - t->n0) * height);
        }
    }
}

static void store_tile(const work *w, const tile *t, const space *from) {
    const gemm *g = w->g;
    const int64_t width = w->kernel->width, height = t->m1 - t->m0;
    const int64_t first = t->batch * g->c_batch + t->m0 * g->c_row;
    for (int64_t n = t->n0; n < t->n1; n += width) {
        const float *totals = from->totals + (n - t->n0) * height;
        tc16_columns columns;
        tc16_find_columns(t->s, n, min_i64(width, t->n1 - n), &columns);
        if (g->bf16 && run_of(columns.c, columns.count, 1) == columns.count) {
            round_to_bf16(totals, width, height, columns.count, (uint16_t *)g->c + first + columns.c[0],
                          g->c_row, w->isa);
            continue;
        }
        for (int64_t i = 0; i < height; i++)
            for (int64_t j = 0; j < columns.count; j++) {
                const int64_t place = first + i * g->c_row + columns.c[j];
                if (g->bf16)
                    ((uint16_t *)g->c)[place] = to_bf16(totals[i * width + j]);
                else
                    ((float *)g->c)[place] = totals[i * width + j];
            }
    }
}

static void *items_of(int64_t count, int64_t size) {
    return aligned_alloc(64, (size_t)(ceil_div(max_i64(1, count * size), 64) * 64));
}

// Return whether there is memory for tiles of this size.
static int space_make(const work *w, int64_t height, int64_t columns, space *s) {
    const int64_t width = w->kernel->width;
    s->a = items_of(height * CHUNK, sizeof *s->a), s->b = items_of(width * CHUNK, sizeof *s->b);
    s->rows = items_of(height * BLOCKS, w->kernel->of_row);
    s->columns = items_of(BLOCKS, w->kernel->of_columns);
    s->acc = items_of(height * width, sizeof *s->acc);
    s->totals = items_of(height * columns, sizeof *s->totals);
    return s->a && s->b && s->rows && s->columns && s->acc && s->totals;
}

static void space_free(const space *s) {
    free(s->a), free(s->b), free(s->rows), free(s->columns), free(s->acc), free(s->totals);
}

static void range(void *context, int64_t begin, int64_t end) {
    work *w = context;
    const gemm *g = w->g;
    const int64_t width = w->kernel->width;
    space with;
    if (space_make(w, ceil_div(g->rows, w->tiles_m), ceil_div(w->panels_n, w->tiles_n) * width, &with)) {
        for (int64_t i = begin; i < end; i++) { // (batch, part, column, row)
            const int64_t m = i % w->tiles_m, n = i / w->tiles_m % w->tiles_n;
            const int64_t rest = i / w->tiles_m / w->tiles_n;
            part s;
            g->find_part(g->context, rest % g->parts, &s);
            const tile t = {.s = &s,
                            .batch = rest / g->parts,
                            .m0 = g->rows * m / w->tiles_m,
                            .m1 = g->rows * (m + 1) / w->tiles_m,
                            .n0 = w->panels_n * n / w->tiles_n * width,
                            .n1 = min_i64(count_of(&s.columns), w->panels_n * (n + 1) / w->tiles_n * width)};
            if (t.n0 < t.n1) sum_tile(w, &t, &with), store_tile(w, &t, &with);
        }
    } else {
        __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
    }
    space_free(&with);
}

// Return the number of the last term, plus 1. Numbers behind it have no terms, so they do not count.
static int64_t numbers_of(const gemm *g) {
    const int64_t count = count_of(&g->taps);
    int64_t last = -1;
    if (count) expand(&g->taps, &g->number, counters_at(&g->taps, count - 1), 1, &last);
    return last + 1;
}

int tc16_gemm_run(const gemm *g, int threads, enum isa isa) {
    if (g->batch == 0 || g->rows == 0 || g->columns == 0) return 0;
    work w = {.g = g, .kernel = tc16_kernels[isa], .isa = isa, .numbers = numbers_of(g)};
    w.panels_n = ceil_div(g->columns, w.kernel->width);
    w.tiles_m = ceil_div(g->rows, TILE_ROWS);
    w.tiles_n = ceil_div(w.panels_n, TILE_COLUMNS / w.kernel->width);
    const int64_t terms = g->batch * g->rows * g->columns * max_i64(1, w.numbers);
    const int64_t parts = min_i64(threads, max_i64(1, terms / PART));
    // Split until the threads have equal work.
    int64_t *const m = &w.tiles_m, *const n = &w.tiles_n;
    while (g->batch * g->parts * *m * *n % parts && g->batch * g->parts * *m * *n < 4 * parts) {
        if (*n < w.panels_n)
            ++*n;
        else if (*m < g->rows)
            ++*m;
        else
            break;
    }
    const int64_t tiles = g->batch * g->parts * w.tiles_m * w.tiles_n;
    parallel(threads, tiles, ceil_div(tiles, parts), range, &w);
    return w.failed;
}
