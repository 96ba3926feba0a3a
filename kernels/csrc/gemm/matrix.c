// The blocked product of matrices. As in gemm.c, the depth of a block is the chunk of the specification, so
// that a micro-kernel's accumulators ARE a chunk's chain:
//
//     C tile [tile_m x tile_n] of one thread
//       for each chunk of k:   pack A [tile_m x 512] as panels of `height` rows
//         for each block of columns:   pack B [512 x block] as panels of `width` columns
//           for each panel of A:
//             for each panel of B in the block:   acc = chain over k;   C = acc (first chunk)  or  C + acc
//
// A panel of A stays in the first-level cache, a block of B in the second-level cache, and the innermost loop
// goes along rows of C. Where few columns would not repay the packing of A, its rows are read where they are,
// and so is B if it is small.

#include "matrix.h"
#include "contraction.h"
#include "pack.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TILE_ROWS 1536    // of packed A: 3 MiB
#define TILE_COLUMNS 4096 // of C: with these rows 16 MiB, in the third-level cache
#define NARROW 256        // rows of B in place are close together: few pages, and all sets of the cache
#define SMALL_B 16384     // elements: with a panel of A not much more than the first-level cache
#define STEPS 64          // that are packed at a time where lanes are adjacent: rows are read in pieces
#define PART (4 * THREAD_WORK)

typedef struct {
    const product_shape *s;
    const void *a, *b;
    void *c;
    const microkernel *kernel;
    enum isa isa;
    int64_t height, width;
    int64_t tiles_m, tiles_n;
    int64_t block;      // panels of B that are packed together
    int near_a, near_b; // in place
    // Places within a panel of a chunk.
    int64_t a_lane[MAX_HEIGHT], b_lane[MAX_WIDTH], a_step[CHUNK], b_step[CHUNK];
    int failed;
} plan;

// An operand whose lanes are packed in panels: rows of A, columns of B.
typedef struct {
    int bf16;
    int64_t lane_stride, step_stride, size; // size of a panel
    const int64_t *lane, *step;
} operand;

// Pack all panels of some lanes, `depth` steps each, one after the other. The missing lanes of the last panel
// are 0 (operands.c has the reason).
static void pack_panels(const plan *p, const operand *o, const void *from, int64_t lanes, int64_t depth,
                        float *to) {
    const int64_t some = o->lane_stride == 1 ? STEPS : CHUNK, last = lanes / o->size * o->size;
    if (last < lanes) memset(to + last * depth, 0, (size_t)(o->size * depth) * sizeof *to);
    for (int64_t k = 0; k < depth; k += some)
        for (int64_t i = 0; i < lanes; i += o->size) {
            const gathered panel = {.data = factor_at(o->bf16, from, i * o->lane_stride),
                                    .bf16 = o->bf16,
                                    .lanes = min_i64(o->size, lanes - i),
                                    .steps = min_i64(some, depth - k),
                                    .lane = o->lane,
                                    .step = o->step + k,
                                    .lane_apart = apart(o->lane_stride),
                                    .step_apart = apart(o->step_stride),
                                    .step_runs = o->step_stride == apart(o->step_stride) ? 1 : depth};
            pack(&panel, p->kernel, to + i * depth + k * o->size, o->size);
        }
}

// A chunk of a tile: rows m0 <= m < m1, columns n0 <= n < n1 of C.
typedef struct {
    int64_t m0, m1, n0, n1, depth;
    int add;
    const float *a, *b; // packed panels of these rows and columns, or the first row and column in place
    float *c;           // of row m0 and column n0
    int64_t row;        // distance of rows of C
} chunk;

static void multiply_panels(const plan *p, const chunk *t) {
    for (int64_t m = t->m0; m < t->m1; m += p->height)
        for (int64_t n = t->n0; n < t->n1; n += p->width) {
            const float *b = t->b + (n - t->n0) * t->depth;
            float *c = t->c + (m - t->m0) * t->row + n - t->n0;
            const chunk_product product = {.rows = min_i64(p->height, t->m1 - m),
                                           .columns = min_i64(p->width, t->n1 - n),
                                           .depth = t->depth,
                                           .a = t->a + (m - t->m0) * t->depth,
                                           .b = {b, b + p->width / 2},
                                           .add = t->add,
                                           .c = {c, c + p->width / 2},
                                           .row = t->row};
            p->kernel->product.multiply(&product);
        }
}

// The same with A in place. The last rows of a tile overlap those before, which are computed again and not
// stored.
static void multiply_rows(const plan *p, const chunk *t) {
    const product_shape *s = p->s;
    for (int64_t m = t->m0, rows; m < t->m1; m += rows) {
        rows = min_i64(p->height, t->m1 - m);
        const int64_t skip = ceil_div(rows, p->kernel->few_rows) * p->kernel->few_rows - rows,
                      first = m - skip;
        for (int64_t n = t->n0; n < t->n1; n += p->width) {
            const float *b = t->b + (n - t->n0) * (p->near_b ? 1 : t->depth);
            float *c = t->c + (first - t->m0) * t->row + n - t->n0;
            const chunk_product product = {.rows = rows + skip,
                                           .columns = min_i64(p->width, t->n1 - n),
                                           .depth = t->depth,
                                           .a = t->a + (first - t->m0) * s->a[ROW],
                                           .b = {b, b + p->width / 2},
                                           .add = t->add,
                                           .c = {c, c + p->width / 2},
                                           .row = t->row,
                                           .a_row = s->a[ROW],
                                           .b_row = p->near_b ? s->b[ROW] : p->width,
                                           .skip = skip};
            p->kernel->multiply_rows(&product);
        }
    }
}

// Whether sums are rounded to bf16 block of columns by block, so that there need be no tile of them.
static int at_once(const product_shape *s) {
    return s->c_bf16 && s->k <= CHUNK;
}

// Working space of a thread: packed panels, and what is summed of C if C is bf16.
typedef struct {
    float *a, *b, *c;
} space;

static void tile(const plan *p, int64_t batch, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                 const space *to) {
    const product_shape *s = p->s;
    const int a_bf16 = s->a_bf16 != 0, b_bf16 = s->b_bf16 != 0, c_bf16 = s->c_bf16 != 0;
    const operand rows = {a_bf16, s->a[ROW], s->a[COLUMN], p->height, p->a_lane, p->a_step};
    const operand columns = {b_bf16, s->b[COLUMN], s->b[ROW], p->width, p->b_lane, p->b_step};
    const int64_t panels = ceil_div(n1 - n0, p->width);
    const int64_t block = ceil_div(panels, ceil_div(panels, p->block)) * p->width;
    const int64_t place = batch * s->c[BATCH] + m0 * s->c[ROW] + n0;
    float *c = c_bf16 ? to->c : (float *)p->c + place;
    for (int64_t k = 0; k == 0 || k < s->k; k += CHUNK) { // once even without terms
        const void *a = factor_at(a_bf16, p->a, batch * s->a[BATCH] + m0 * s->a[ROW] + k * s->a[COLUMN]);
        chunk t = {.m0 = m0,
                   .m1 = m1,
                   .depth = min_i64(CHUNK, s->k - k),
                   .add = k > 0,
                   .a = p->near_a ? a : to->a,
                   .row = !c_bf16      ? s->c[ROW]
                          : at_once(s) ? block
                                       : n1 - n0};
        if (!p->near_a) pack_panels(p, &rows, a, m1 - m0, t.depth, to->a);
        for (int64_t n = n0; n < n1; n += block) {
            const void *b = factor_at(b_bf16, p->b, batch * s->b[BATCH] + k * s->b[ROW] + n * s->b[COLUMN]);
            t.n0 = n, t.n1 = min_i64(n1, n + block), t.b = p->near_b ? b : to->b,
            t.c = c + (at_once(s) ? 0 : n - n0);
            if (!p->near_b) pack_panels(p, &columns, b, t.n1 - n, t.depth, to->b);
            (p->near_a ? multiply_rows : multiply_panels)(p, &t);
            if (c_bf16 && k + t.depth == s->k) // while the sums are near
                round_to_bf16(t.c, t.row, m1 - m0, t.n1 - n, (uint16_t *)p->c + place + n - n0, s->c[ROW],
                              p->isa);
        }
    }
}

// Return the beginning of tile `i` of `tiles` if `panels` are split evenly.
static int64_t bound(int64_t panels, int64_t i, int64_t tiles) {
    return panels * i / tiles;
}

static void range(void *context, int64_t begin, int64_t end) {
    plan *p = context;
    const product_shape *s = p->s;
    const int64_t panels_m = ceil_div(s->m, p->height), panels_n = ceil_div(s->n, p->width);
    const int64_t depth = min_i64(CHUNK, s->k), columns = min_i64(p->block, ceil_div(panels_n, p->tiles_n));
    const int64_t of_a = p->near_a ? 0 : ceil_div(panels_m, p->tiles_m) * p->height * depth;
    const int64_t of_b = p->near_b ? 0 : columns * p->width * depth;
    const int64_t summed = at_once(s) ? columns : ceil_div(panels_n, p->tiles_n);
    const int64_t of_c = s->c_bf16 ? ceil_div(panels_m, p->tiles_m) * p->height * summed * p->width : 0;
    const int64_t lines_a = ceil_div(of_a, 16), lines_b = ceil_div(of_b, 16);
    const int64_t lines = lines_a + lines_b + ceil_div(of_c, 16);
    float *packed = aligned_alloc(64, (size_t)max_i64(lines, 1) * 64);
    if (packed) {
        const space to = {packed, packed + lines_a * 16, packed + (lines_a + lines_b) * 16};
        for (int64_t i = begin; i < end; i++) {
            const int64_t m = i % p->tiles_m, n = i / p->tiles_m % p->tiles_n;
            tile(p, i / p->tiles_m / p->tiles_n, bound(panels_m, m, p->tiles_m) * p->height,
                 min_i64(s->m, bound(panels_m, m + 1, p->tiles_m) * p->height),
                 bound(panels_n, n, p->tiles_n) * p->width,
                 min_i64(s->n, bound(panels_n, n + 1, p->tiles_n) * p->width), &to);
        }
    } else {
        __atomic_store_n(&p->failed, 1, __ATOMIC_RELAXED);
    }
    free(packed);
}

// Return how many panels of B, of one chunk each, fill an eighth of the second-level cache, or a quarter if A
// is in place. The rest is for panels of A on their way, for C, and for a neighbour with whom the core may
// share it.
static int64_t panels_in_cache(int64_t width, int near_a) {
    long bytes = 0;
#if defined(_SC_LEVEL2_CACHE_SIZE)
    bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    if (bytes <= 0) bytes = 1 << 20; // unknown
    return max_i64(1, bytes / (near_a ? 4 : 8) / (CHUNK * width * (int64_t)sizeof(float)));
}

int matrix_product(const product_shape *s, const void *a, const void *b, void *c, int threads, enum isa isa) {
    const microkernel *kernel = microkernels[isa];
    const int64_t height = kernel->product.height, width = kernel->product.width;
    plan p;
    p.s = s, p.a = a, p.b = b, p.c = c, p.kernel = kernel, p.isa = isa;
    p.height = height, p.width = width, p.failed = 0;
    if (s->batch * s->m * s->n == 0) return 0;
    for (int64_t i = 0; i < height; i++) p.a_lane[i] = i * s->a[ROW];
    for (int64_t i = 0; i < width; i++) p.b_lane[i] = i * s->b[COLUMN];
    for (int64_t k = 0; k < min_i64(CHUNK, s->k); k++)
        p.a_step[k] = k * s->a[COLUMN], p.b_step[k] = k * s->b[ROW];
    p.near_a = !s->a_bf16 && !s->c_bf16 && kernel->multiply_rows && s->a[COLUMN] == 1 && s->m >= height &&
               s->n <= kernel->few_columns;
    p.near_b = p.near_a && !s->b_bf16 && s->b[COLUMN] == 1 && s->n % (width / 2) == 0 && s->k <= CHUNK &&
               s->b[ROW] <= NARROW && s->b[ROW] * s->k <= SMALL_B;
    p.block = panels_in_cache(width, p.near_a);

    const int64_t panels_m = ceil_div(s->m, height), panels_n = ceil_div(s->n, width);
    p.tiles_m = ceil_div(panels_m, TILE_ROWS / height);
    p.tiles_n = ceil_div(panels_n, TILE_COLUMNS / width);
    const int64_t work = s->batch * s->m * s->n * max_i64(1, s->k);
    const int64_t parts = min_i64(threads, max_i64(1, work / PART));
    // Split until the threads have equal work.
    while (s->batch * p.tiles_m * p.tiles_n % parts && s->batch * p.tiles_m * p.tiles_n < 4 * parts) {
        if (p.tiles_m < panels_m && (panels_m * p.tiles_n > panels_n * p.tiles_m || p.tiles_n == panels_n))
            p.tiles_m++;
        else if (p.tiles_n < panels_n)
            p.tiles_n++;
        else
            break;
    }
    const int64_t tiles = s->batch * p.tiles_m * p.tiles_n;
    parallel(threads, tiles, ceil_div(tiles, parts), range, &p);
    return p.failed;
}
