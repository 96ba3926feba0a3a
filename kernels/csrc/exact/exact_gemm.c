// The driver of contractions in the mode exact. A tile of C is summed in binary64, then rounded; elements
// whose rounding the error could change are decided (exact_open.h).
//
//     C tile [tile_m x tile_n] of one part, for one thread
//       for each DEPTH taps:   pack A [tile_m x DEPTH] as panels, convert them
//         for each panel of columns:   pack B [DEPTH x width], convert it
//           for each half of it, for each panel of A:   a block of the tile += sum over k
//     for each block: round it
//
// A sum of K terms takes 64 in a register, DEPTH / 64 of such sums, and then the sums of blocks, 64 at a
// time: a term goes through at most 63 + DEPTH / 64 - 1 + 63 + ceil(K / (64 DEPTH)) additions that round.
// (The first of a register is to zero, and products are exact.)
//
// INVARIANT: let c be that number. With u = 2^-53 the sum y of products p_k is off by at most gamma_c times
// the sum of |p_k|, where gamma_c = c u / (1 - c u), and that is at most gamma_c |a| |b| (Cauchy-Schwarz).
// Nothing underflows, because all sums are multiples of 2^-298. The radius r is computed from norms that are
// too large (bound_of) as (c + 4) u |a| |b|: one unit is for gamma_c instead of c u and for the roundings in
// r, since c < 2^20; two are for those of y - r and y + r, because |y| <= (1 + gamma_c) |a| |b|. So the real
// sum lies between y - r and y + r as they are computed. Rounding to binary32 is monotonic: if both give the
// same, the sum does.

#include "exact_gemm.h"
#include "exact_kernel.h"
#include "exact_round.h"
#include "exact_open.h"
#include "gemm/operands.h"
#include "gemm/pack.h"
#include <stdlib.h>

#define DEPTH 256
#define JOINED 64              // blocks of DEPTH whose sums are added before they join the total
#define TILE_ROWS 516          // A takes 1 MiB, half of a second-level cache
#define TILE_COLUMNS 1024      // the tile of C takes 4 MiB
#define PART (4 * THREAD_WORK) // multiply-adds
#define PAD 64                 // a conversion may leave its panel by a few lanes

typedef struct {
    plan packing;
    const exact_kernel *kernel;
    int64_t lanes; // of a panel of A that are converted
    double scale;  // of a radius: the product of norms times this
    int deep;      // there is a total besides the sum of the last blocks
} exact_plan;

// Working space of a thread. Blocks of the tile stand panel of columns by panel of columns.
typedef struct {
    float *a, *b; // packed panels
    double *a_wide, *b_wide;
    double *sums, *totals;
    lane_facts row_facts, column_facts;
    double *norms[2], *in_units[2]; // of rows, of columns
    int nonfinite;                  // in A's panels
    open_elements open;
} space;

// A tile: rows m0 <= m < m1 of columns n0 <= n < n1 of a part.
typedef struct {
    const part *s;
    int64_t batch, m0, m1, n0, n1, panels; // panels of A
} tile;

static double *block_at(const exact_plan *p, const tile *t, double *blocks, int64_t n, int64_t j) {
    return blocks + (n / p->kernel->width * t->panels + j) * p->kernel->panels.height * p->kernel->width;
}

static void convert_a(const exact_plan *p, const tile *t, int64_t first, int64_t depth, space *to) {
    const gemm *g = p->packing.g;
    const int64_t height = p->kernel->panels.height;
    int64_t place[DEPTH];
    if (depth) expand(&g->taps, &g->a_tap, counters_at(&g->taps, first), depth, place);
    pack_a(&p->packing, t->batch, t->m0, t->m1, place, depth, to->a);
    to->nonfinite = 0;
    for (int64_t j = 0; j < t->panels; j++)
        for (int64_t i = 0; i < height; i += LANES_CONVERTED) {
            const conversion c = {.from = to->a + j * height * depth + i,
                                  .from_stride = height,
                                  .steps = depth,
                                  .nonfinite = &to->nonfinite,
                                  .to = to->a_wide + j * height * depth + i,
                                  .to_stride = height};
            exact_convert[p->packing.isa](&c, &to->row_facts, j * p->lanes + i);
        }
}

static void convert_b(const exact_plan *p, const tile *t, int64_t n, const panel *columns, const taps *k,
                      space *to) {
    const int64_t width = p->kernel->width, all = p->kernel->panels.width;
    pack_b(&p->packing, t->s, t->batch, columns, k, to->b);
    for (int64_t j = 0; j < all; j += LANES_CONVERTED) {
        const conversion c = {.from = to->b + j,
                              .from_stride = all,
                              .steps = columns->steps,
                              .exists = columns->whole ? 0 : columns->exists,
                              .shift = (int)j,
                              .to = to->b_wide + j / width * width * columns->steps + j % width,
                              .to_stride = width};
        exact_convert[p->packing.isa](&c, &to->column_facts, n - t->n0 + j);
    }
}

// Add a panel of columns from n on, converted, to the blocks of the tile.
static void multiply(const exact_plan *p, const tile *t, int64_t n, const panel *columns, int64_t depth,
                     int add, const space *from) {
    const int64_t width = p->kernel->width, height = p->kernel->panels.height;
    for (int64_t half = 0; half < columns->count; half += width) {
        exact_product product = {.columns = columns->count - half,
                                 .depth = columns->steps,
                                 .b = from->b_wide + half * columns->steps,
                                 .a_step = columns->some ? columns->a_step : 0,
                                 .mask = columns->whole || !from->nonfinite ? 0 : columns->exists,
                                 .shift = (int)half,
                                 .add = add};
        for (int64_t j = 0; j < t->panels; j++) {
            product.rows = t->m1 - t->m0 - j * height;
            product.a = from->a_wide + j * height * depth;
            product.c = block_at(p, t, from->sums, n - t->n0 + half, j);
            p->kernel->multiply(&product);
        }
    }
}

static void sum_tile(const exact_plan *p, const tile *t, space *to) {
    const gemm *g = p->packing.g;
    const int64_t total = count_of(&g->taps), width = p->kernel->panels.width;
    const int64_t blocks = ceil_div(t->n1 - t->n0, p->kernel->width) * t->panels;
    const int64_t items = blocks * p->kernel->width * p->kernel->panels.height;
    taps k;
    panel columns;
    memset(&columns, 0, offsetof(panel, exists)); // a short panel is read beyond its columns
    for (int64_t first = 0; first == 0 || first < total; first += DEPTH) { // once even without taps
        const int64_t depth = min_i64(DEPTH, total - first);
        const int add = first / DEPTH % JOINED != 0;
        if (first && !add) {
            for (int64_t i = 0; i < items; i++)
                to->totals[i] = (first == JOINED * DEPTH ? 0 : to->totals[i]) + to->sums[i];
        }
        find_taps_between(&p->packing, t->s, first, first + depth, &k);
        if (k.count == 0 && add) continue;
        convert_a(p, t, first, depth, to);
        for (int64_t n = t->n0; n < t->n1; n += width) {
            find_panel(&p->packing, t->s, n, min_i64(width, t->n1 - n), &k, &columns);
            convert_b(p, t, n, &columns, &k, to);
            multiply(p, t, n, &columns, depth, add, to);
        }
    }
    for (int64_t i = 0; p->deep && i < items; i++) to->sums[i] += to->totals[i];
}

// Put the norms of `count` lanes, and these in units, side by side for the rounding.
static void find_norms(const lane_facts *facts, int64_t count, double scale, double *norms,
                       double *in_units) {
    for (int64_t i = 0; i < count; i++) {
        const lane_bound bound = bound_of(facts, i);
        norms[i] = bound.norm * scale, in_units[i] = bound.in_units;
    }
}

static void decide_open(const exact_plan *p, const tile *t, space *from) {
    exact_decide(&p->packing, t->s, t->batch, &from->open);
    from->open.count = 0;
}

// Round the block of panel j of rows and of columns from n on, which go to `column`.
static void round_of(const exact_plan *p, const tile *t, int64_t j, int64_t n, const int64_t *column,
                     space *from) {
    const gemm *g = p->packing.g;
    const int64_t width = p->kernel->width, height = p->kernel->panels.height, m = t->m0 + j * height;
    const int64_t rows = min_i64(height, t->m1 - m), count = min_i64(width, t->n1 - n);
    const sum_block block = {.sum = block_at(p, t, from->sums, n - t->n0, j),
                             .row_norms = from->norms[0] + j * p->lanes,
                             .row_in_units = from->in_units[0] + j * p->lanes,
                             .norms = from->norms[1] + n - t->n0,
                             .in_units = from->in_units[1] + n - t->n0};
    const int64_t to = t->batch * g->c_batch + m * g->c_row;
    round_block *const round = (g->bf16 ? exact_round_for_bf16 : exact_round)[p->packing.isa];
    const int adjacent = run_of(column, count, 1) == count;
    float result[MAX_HEIGHT * MAX_WIDTH];
    int open;
    if (!g->bf16 && adjacent && count == width) {
        open = round(&block, rows, width, (float *)g->c + to + column[0], g->c_row);
    } else {
        open = round(&block, rows, width, result, width);
        if (g->bf16 && adjacent)
            round_to_bf16(result, width, rows, count, (uint16_t *)g->c + to + column[0], g->c_row,
                          p->packing.isa);
        else
            for (int64_t i = 0; i < rows; i++)
                for (int64_t k = 0; k < count; k++)
                    put_exact(g->c, to + i * g->c_row + column[k], result[i * width + k], g->bf16);
    }
    for (int64_t i = 0; open && i < rows; i++) {
        const sum_row row = row_of(&block, i, width);
        for (int64_t k = 0; k < count; k++) {
            if (!is_open(&row, k, g->bf16)) continue;
            from->open.row[from->open.count] = m + i, from->open.column[from->open.count++] = n + k;
            if (from->open.count == OPEN_ELEMENTS) decide_open(p, t, from);
        }
    }
}

static void round_tile(const exact_plan *p, const tile *t, space *from) {
    const int64_t width = p->kernel->width;
    find_norms(&from->row_facts, t->panels * p->lanes, p->scale, from->norms[0], from->in_units[0]);
    find_norms(&from->column_facts, t->n1 - t->n0, 1, from->norms[1], from->in_units[1]);
    for (int64_t n = t->n0; n < t->n1; n += width) {
        const int64_t count = min_i64(width, t->n1 - n);
        int64_t column[MAX_WIDTH];
        expand(&t->s->columns, &t->s->c_column, counters_at(&t->s->columns, n), count, column);
        for (int64_t j = 0; j < t->panels; j++) round_of(p, t, j, n, column, from);
    }
    if (from->open.count) decide_open(p, t, from);
}

static void run_tile(const exact_plan *p, const tile *t, space *with) {
    const int64_t rows = t->panels * p->lanes, columns = t->n1 - t->n0 + p->kernel->panels.width;
    facts_clear(&with->row_facts, rows);
    facts_clear(&with->column_facts, columns);
    sum_tile(p, t, with);
    round_tile(p, t, with);
}

typedef struct {
    exact_plan p;
    int64_t tiles_m, tiles_n, panels_m, panels_n;
    int failed;
} work;

static void space_free(space *s) {
    free(s->a), free(s->b), free(s->a_wide), free(s->b_wide), free(s->sums), free(s->totals);
    free(s->row_facts.squares), free(s->row_facts.set), free(s->row_facts.least);
    free(s->column_facts.squares), free(s->column_facts.set), free(s->column_facts.least);
    for (int i = 0; i < 2; i++) free(s->norms[i]), free(s->in_units[i]);
}

static void *items_of(int64_t count, size_t size) {
    return aligned_alloc(64, ((size_t)count * size + 63) / 64 * 64);
}

static int facts_make(lane_facts *f, int64_t count) {
    f->squares = items_of(count, sizeof *f->squares);
    f->set = items_of(count, sizeof *f->set);
    f->least = items_of(count, sizeof *f->least);
    return f->squares && f->set && f->least;
}

// Return whether there is memory for tiles of this many panels.
static int space_make(const exact_plan *p, int64_t panels_m, int64_t panels_n, space *s) {
    const int64_t height = p->kernel->panels.height, width = p->kernel->panels.width;
    const int64_t depth = max_i64(1, min_i64(DEPTH, count_of(&p->packing.g->taps)));
    const int64_t of_a = panels_m * height * depth + PAD, of_b = width * depth;
    const int64_t of_c = panels_m * height * panels_n * width;
    const int64_t rows = panels_m * p->lanes, columns = (panels_n + 1) * width;
    s->open.count = 0;
    s->a = items_of(of_a, sizeof *s->a), s->a_wide = items_of(of_a, sizeof *s->a_wide);
    s->b = items_of(of_b, sizeof *s->b), s->b_wide = items_of(of_b, sizeof *s->b_wide);
    s->sums = items_of(of_c, sizeof *s->sums);
    s->totals = p->deep ? items_of(of_c, sizeof *s->totals) : 0;
    s->norms[0] = items_of(rows, sizeof(double)), s->in_units[0] = items_of(rows, sizeof(double));
    s->norms[1] = items_of(columns, sizeof(double)), s->in_units[1] = items_of(columns, sizeof(double));
    const int facts = facts_make(&s->row_facts, rows) & facts_make(&s->column_facts, columns);
    if (!s->a || !s->a_wide || !s->b || !s->b_wide || !s->sums || (p->deep && !s->totals)) return 0;
    if (!s->norms[0] || !s->norms[1] || !s->in_units[0] || !s->in_units[1] || !facts) return 0;
    // Lanes beyond the last row and column are never written; they are multiplied all the same.
    memset(s->a, 0, (size_t)of_a * sizeof *s->a);
    memset(s->b, 0, (size_t)of_b * sizeof *s->b);
    return 1;
}

static void range(void *context, int64_t begin, int64_t end) {
    work *w = context;
    const gemm *g = w->p.packing.g;
    const int64_t height = w->p.kernel->panels.height, width = w->p.kernel->panels.width;
    space with = {0};
    if (space_make(&w->p, ceil_div(w->panels_m, w->tiles_m), ceil_div(w->panels_n, w->tiles_n), &with)) {
        for (int64_t i = begin; i < end; i++) { // (batch, part, column, row)
            const int64_t m = i % w->tiles_m, n = i / w->tiles_m % w->tiles_n;
            const int64_t rest = i / w->tiles_m / w->tiles_n;
            part s;
            g->find_part(g->context, rest % g->parts, &s);
            tile t = {.s = &s,
                      .batch = rest / g->parts,
                      .m0 = w->panels_m * m / w->tiles_m * height,
                      .m1 = min_i64(g->rows, w->panels_m * (m + 1) / w->tiles_m * height),
                      .n0 = w->panels_n * n / w->tiles_n * width,
                      .n1 = min_i64(count_of(&s.columns), w->panels_n * (n + 1) / w->tiles_n * width)};
            t.panels = ceil_div(t.m1 - t.m0, height);
            if (t.n0 < t.n1) run_tile(&w->p, &t, &with);
        }
    } else {
        __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
    }
    space_free(&with);
}

// Return the greatest number of additions that round on a term's way.
static int64_t roundings_of(int64_t terms) {
    const int64_t in_register = min_i64(terms, EXACT_CHUNK),
                  in_block = ceil_div(min_i64(terms, DEPTH), EXACT_CHUNK);
    const int64_t blocks = ceil_div(terms, DEPTH), groups = ceil_div(blocks, JOINED);
    return in_register + in_block + min_i64(blocks, JOINED) + groups - 4;
}

int exact_gemm_run(const gemm *g, int threads, enum isa isa) {
    if (g->batch == 0 || g->rows == 0 || g->columns == 0) return 0;
    const exact_kernel *kernel = exact_kernels[isa];
    const int64_t terms = max_i64(1, count_of(&g->taps));
    work w = {.p = {.kernel = kernel,
                    .lanes = ceil_div(kernel->panels.height, LANES_CONVERTED) * LANES_CONVERTED,
                    .scale = (double)(roundings_of(terms) + 4) * 0x1p-53,
                    .deep = terms > JOINED * DEPTH}};
    plan *p = &w.p.packing;
    p->g = g, p->kernel = &kernel->panels, p->moves = microkernels[isa], p->isa = isa, p->direct = 0;
    w.panels_m = ceil_div(g->rows, kernel->panels.height),
    w.panels_n = ceil_div(g->columns, kernel->panels.width);
    w.tiles_m = ceil_div(w.panels_m, TILE_ROWS / kernel->panels.height);
    w.tiles_n = ceil_div(w.panels_n, TILE_COLUMNS / kernel->panels.width);
    const int64_t parts = min_i64(threads, max_i64(1, g->batch * g->rows * g->columns * terms / PART));
    // Split until the threads have equal work.
    int64_t *const m = &w.tiles_m, *const n = &w.tiles_n;
    while (g->batch * g->parts * *m * *n % parts && g->batch * g->parts * *m * *n < 4 * parts) {
        if (*m < w.panels_m && (w.panels_m * *n > w.panels_n * *m || *n == w.panels_n))
            ++*m;
        else if (*n < w.panels_n)
            ++*n;
        else
            break;
    }
    const int64_t tiles = g->batch * g->parts * w.tiles_m * w.tiles_n;
    parallel(threads, tiles, ceil_div(tiles, parts), range, &w);
    return w.failed;
}
