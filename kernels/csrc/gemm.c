// The blocked contraction behind every matrix product and convolution; the order of its arithmetic is in
// gemm.h.
//
// Layout, as in BLIS, with the depth of a block equal to the chunk of the specification, so that a
// micro-kernel's accumulators ARE a chunk's chain:
//
//     C tile [tile_m x tile_n] of one thread
//       for each chunk of k:   pack A [tile_m x 512] as panels of `height` rows
//         for each panel of `width` columns:   pack B [512 x width]
//           for each panel of A:   acc = chain over k;   C = acc (first chunk)  or  C + acc

#include "gemm.h"
#include "pack.h"
#include <stdlib.h>

typedef struct {
    const gemm *g;
    const microkernel *kernel;
    enum isa isa;
    int64_t columns;
    int64_t tiles_m, tiles_n;
    int failed;
} plan;

// The taps of one chunk.
typedef struct {
    int64_t count;
    int64_t number[CHUNK], a[CHUNK], b[CHUNK], y[CHUNK], x[CHUNK];
} taps;

// The columns of one panel, and which taps exist for them.
typedef struct {
    int64_t count;
    int64_t b[MAX_WIDTH], c[MAX_WIDTH], y[MAX_WIDTH], x[MAX_WIDTH];
    uint32_t exists[CHUNK];
    int whole; // every tap exists for every column
} panel;

static int64_t count_of(const loops *l) {
    return product(l->size, LOOPS);
}

// The values of f for `count` indices from `begin`.
// NOTE: unsigned, because far from the image (gemm.h) they wrap around.
static void expand(const loops *l, const linear *f, int64_t begin, int64_t count, int64_t *out) {
    if (count == 0) return;
    int64_t inner = begin % l->size[2], middle = begin / l->size[2] % l->size[1];
    int64_t outer = begin / l->size[2] / l->size[1];
    for (int64_t done = 0; done < count;) {
        const int64_t run = min_i64(l->size[2] - inner, count - done);
        const uint64_t step = (uint64_t)f->stride[2];
        const uint64_t first = (uint64_t)f->start + (uint64_t)outer * (uint64_t)f->stride[0] +
                               (uint64_t)middle * (uint64_t)f->stride[1] + (uint64_t)inner * step;
        for (int64_t i = 0; i < run; i++) out[done + i] = (int64_t)(first + (uint64_t)i * step);
        done += run;
        inner = 0;
        if (++middle == l->size[1]) middle = 0, outer++;
    }
}

// The taps from `first` on that are in one chunk.
static void find_taps(const gemm *g, int64_t first, taps *t) {
    const int64_t most = min_i64(CHUNK, count_of(&g->taps) - first);
    expand(&g->taps, &g->number, first, most, t->number);
    t->count = 0;
    while (t->count < most && t->number[t->count] / CHUNK == t->number[0] / CHUNK) t->count++;
    expand(&g->taps, &g->a_tap, first, t->count, t->a);
    expand(&g->taps, &g->b_tap, first, t->count, t->b);
    if (!g->image) return;
    expand(&g->taps, &g->y_tap, first, t->count, t->y);
    expand(&g->taps, &g->x_tap, first, t->count, t->x);
}

// Bit i: 0 <= at[i] + shift < size.
BODY inside_body(const int64_t *at, int64_t shift, int64_t size, uint32_t *bits) {
    uint32_t found = 0;
    for (int i = 0; i < MAX_WIDTH; i++) {
        const int64_t place = at[i] + shift;
        found |= (uint32_t)((place >= 0) & (place < size)) << i;
    }
    *bits = found;
}
VARIANTS(inside, (const int64_t *at, int64_t shift, int64_t size, uint32_t *bits), (at, shift, size, bits))

static void find_existing(const gemm *g, const taps *t, enum isa isa, panel *p) {
    const int64_t inner = g->taps.size[2], window = g->taps.size[1] * inner;
    const uint32_t all = (uint32_t)((UINT64_C(1) << p->count) - 1);
    const int64_t once = min_i64(window, t->count); // then the same again
    uint32_t across[CHUNK], down = 0, common = all;
    for (int64_t k = 0; k < once; k++) {
        if (k < inner)
            inside[isa](p->x, t->x[k], g->wide, &across[k]);
        else
            across[k] = across[k - inner];
        if (k == 0 || t->y[k] != t->y[k - 1]) inside[isa](p->y, t->y[k], g->high, &down);
        p->exists[k] = across[k] & down & all;
        common &= p->exists[k];
    }
    for (int64_t done = once, more; done < t->count; done += more) {
        more = min_i64(done, t->count - done);
        memcpy(p->exists + done, p->exists, (size_t)more * sizeof *p->exists);
    }
    p->whole = common == all;
}

static void find_panel(const plan *p, int64_t first, int64_t count, const taps *t, panel *c) {
    const gemm *g = p->g;
    c->count = count;
    c->whole = 1;
    expand(&g->columns, &g->b_column, first, count, c->b);
    expand(&g->columns, &g->c_column, first, count, c->c);
    if (!g->image) return;
    expand(&g->columns, &g->y_column, first, count, c->y);
    expand(&g->columns, &g->x_column, first, count, c->x);
    find_existing(g, t, p->isa, c);
}

// The panels of rows m0 <= m < m1, one after the other. Where rows lie close together, a few taps of all are
// taken at a time, so that memory is read in its order.
static void pack_a(const plan *p, int64_t batch, int64_t m0, int64_t m1, const taps *t, float *out) {
    const gemm *g = p->g;
    const int64_t height = p->kernel->height, block = g->a_row < CHUNK ? 64 : CHUNK;
    for (int64_t k = 0; k < t->count; k += block)
        for (int64_t m = m0; m < m1; m += height) {
            int64_t lane[MAX_HEIGHT];
            for (int64_t i = 0; i < height; i++) lane[i] = (m + i) * g->a_row;
            const gathered from = {.data = g->a + batch * g->a_batch,
                                   .lanes = min_i64(height, m1 - m),
                                   .steps = min_i64(block, t->count - k),
                                   .lane = lane,
                                   .step = t->a + k,
                                   .lane_apart = apart(g->a_row),
                                   .step_apart = apart(g->a_tap.stride[2])};
            pack(&from, p->kernel, out + (m - m0) * t->count + k * height, height);
        }
}

// Taps that do not exist are read along with the others where that stays inside b. Where it would not, the
// tap is moved inside, and its elements are fetched one by one afterwards.
static void pack_b(const plan *p, int64_t batch, const panel *columns, const taps *t, float *out) {
    const gemm *g = p->g;
    const int64_t width = p->kernel->width, *lane = columns->b;
    gathered from = {.data = g->b + batch * g->b_batch,
                     .lanes = columns->count,
                     .steps = t->count,
                     .lane = lane,
                     .step = t->b,
                     .lane_apart = apart(g->b_column.stride[2]),
                     .step_apart = apart(g->b_tap.stride[2])};
    if (columns->whole) {
        pack(&from, p->kernel, out, width);
        return;
    }
    int64_t first = INT64_MIN / 2, last = g->b_size - batch * g->b_batch - 1; // the taps that stay inside b
    for (int64_t j = 0; j < columns->count && !g->far; j++) {
        first = max_i64(first, -lane[j]);
        last = min_i64(last, g->b_size - batch * g->b_batch - 1 - lane[j]);
    }
    const int some = !g->far && first <= last;
    int64_t moved[CHUNK];
    for (int64_t k = 0; k < t->count; k++) moved[k] = max_i64(first, min_i64(last, t->b[k]));
    if (some) {
        from.step = moved;
        pack(&from, p->kernel, out, width);
    }
    for (int64_t k = 0; k < t->count; k++) {
        if (some && moved[k] == t->b[k]) continue;
        for (int64_t j = 0; j < columns->count; j++)
            out[k * width + j] =
                columns->exists[k] >> j & 1 ? from.data[(uint64_t)lane[j] + (uint64_t)t->b[k]] : -0.0f;
    }
}

// Part `i` of `parts` of the elements of the panel that begins with a column, into the second-level cache:
// they lie too far apart for the processor to foresee them.
static void prefetch_b(const gemm *g, int64_t batch, int64_t column, const taps *t, int64_t i,
                       int64_t parts) {
    int64_t lane;
    expand(&g->columns, &g->b_column, column, 1, &lane);
    for (int64_t k = t->count * i / parts; k < t->count * (i + 1) / parts; k++) {
        if (k > 0 && t->b[k] - t->b[k - 1] == 1) continue; // the same cache lines
        const uintptr_t at =
            (uintptr_t)(g->b + batch * g->b_batch) + ((uintptr_t)lane + (uintptr_t)t->b[k]) * sizeof *g->b;
        __builtin_prefetch((const void *)at, 0, 2);
        __builtin_prefetch((const void *)(at + 64), 0, 2);
    }
}

static void store(const plan *p, const float *acc, int add, int64_t rows, const panel *columns, float *c) {
    const int64_t step = apart(p->g->c_column.stride[2]);
    for (int64_t j = 0, n; j < columns->count; j += n) {
        n = run_of(columns->c + j, columns->count - j, step);
        p->kernel->store(acc + j, p->kernel->width, add, rows, n, step, c + columns->c[j], p->g->c_row);
    }
}

// The chunk's totals of `rows` rows and a panel of columns, stored or added.
static void multiply(const plan *p, const panel *columns, const taps *t, const float *a, const float *b,
                     int64_t rows, int add, float *c) {
    const microkernel *kernel = p->kernel;
    const int64_t width = kernel->width, last = columns->c[columns->count - 1];
    const uint32_t *mask = columns->whole ? 0 : columns->exists;
    if (!add && rows == kernel->height && columns->count == width && last - columns->c[0] == width - 1) {
        kernel->multiply(rows, width, t->count, a, b, mask, c + columns->c[0], p->g->c_row);
    } else {
        _Alignas(64) float acc[MAX_HEIGHT * MAX_WIDTH];
        kernel->multiply(rows, columns->count, t->count, a, b, mask, acc, width);
        store(p, acc, add, rows, columns, c);
    }
}

static void tile(const plan *p, int64_t batch, int64_t m0, int64_t m1, int64_t n0, int64_t n1, float *a,
                 float *b) {
    const gemm *g = p->g;
    const int64_t height = p->kernel->height, width = p->kernel->width;
    const int64_t panels = ceil_div(m1 - m0, height), total = count_of(&g->taps);
    taps t;
    panel columns = {0};

    int64_t k = 0;
    do { // once even if there are no taps
        find_taps(g, k, &t);
        pack_a(p, batch, m0, m1, &t, a);
        for (int64_t n = n0; n < n1; n += width) {
            find_panel(p, n, min_i64(width, n1 - n), &t, &columns);
            pack_b(p, batch, &columns, &t, b);
            for (int64_t i = 0; i < panels; i++) {
                const int64_t m = m0 + i * height;
                if (n + width < n1) prefetch_b(g, batch, n + width, &t, i, panels);
                multiply(p, &columns, &t, a + i * height * t.count, b, min_i64(height, m1 - m), k > 0,
                         g->c + batch * g->c_batch + m * g->c_row);
            }
        }
        k += t.count;
    } while (k < total);
}

// Where tile `i` of `tiles` begins, if `size` rows or columns are split evenly into panels of `step`.
static int64_t bound(int64_t size, int64_t step, int64_t i, int64_t tiles) {
    return min_i64(size, ceil_div(size, step) * i / tiles * step);
}

static void range(void *context, int64_t begin, int64_t end) {
    plan *p = context;
    const gemm *g = p->g;
    const int64_t width = p->kernel->width, height = p->kernel->height;
    const int64_t depth = min_i64(CHUNK, max_i64(1, count_of(&g->taps)));
    const int64_t tile_m = ceil_div(ceil_div(g->rows, height), p->tiles_m) * height;
    float *a = aligned_alloc(64, (size_t)(ceil_div(tile_m * depth, 16) * 64));
    float *b = aligned_alloc(64, (size_t)(ceil_div(width * depth, 16) * 64));
    if (a && b) {
        for (int64_t i = begin; i < end; i++) {
            const int64_t m = i % p->tiles_m, n = i / p->tiles_m % p->tiles_n;
            tile(p, i / p->tiles_m / p->tiles_n, bound(g->rows, height, m, p->tiles_m),
                 bound(g->rows, height, m + 1, p->tiles_m), bound(p->columns, width, n, p->tiles_n),
                 bound(p->columns, width, n + 1, p->tiles_n), a, b);
        }
    } else {
        __atomic_store_n(&p->failed, 1, __ATOMIC_RELAXED);
    }
    free(a);
    free(b);
}

#define TILE_ROWS 240          // the A panels of a tile, 480 KiB, stay in the second-level cache
#define TILE_COLUMNS 2048      // its part of C, 2 MiB, in the third
#define PART (4 * THREAD_WORK) // multiply-adds

int gemm_run(const gemm *g, int threads, enum isa isa) {
    const microkernel *kernel = microkernels[isa];
    plan p = {.g = g, .kernel = kernel, .isa = isa, .columns = count_of(&g->columns)};
    const int64_t total = g->batch * g->rows * p.columns;
    if (total == 0) return 0;

    const int64_t panels_m = ceil_div(g->rows, kernel->height), panels_n = ceil_div(p.columns, kernel->width);
    p.tiles_m = ceil_div(panels_m, TILE_ROWS / kernel->height);
    p.tiles_n = ceil_div(panels_n, TILE_COLUMNS / kernel->width);
    const int64_t work = total * max_i64(1, count_of(&g->taps));
    const int64_t parts = min_i64(threads, max_i64(1, work / PART));
    // Split until the threads have equally much to do.
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
