// sum and amax over any dimensions. The reduced elements, row-major, are cut into blocks of 4096; lanes.c
// reduces a block; block results are reduced by the same rule until one is left.
//
// After dimensions are merged, either the reduced elements form runs (rows), or neighbouring results have
// neighbouring elements (columns):
//
//     out[kept] <- for each block: rows or columns -> partial[kept][block] -> the same again, until one block

#include "axes.h"
#include "runtime/rows.h"
#include <stdlib.h>
#include <string.h>

#define GRAIN THREAD_WORK
#define GROUP 32 // results whose lanes fit in the first-level cache

// One level of the reduction.
typedef struct {
    const reduction *kernel;
    enum isa isa;
    int64_t size; // of an item
    const char *from;
    char *to; // [outer, width, blocks]
    axes kept, reduced;
    int64_t outer, width; // kept positions: outer ones, and contiguous ones
    int64_t n, blocks;    // reduced elements, and the number of their blocks
    int64_t strips;       // of COLUMNS contiguous results
    int failed;
} level;

// ----------------------------------------------------------------------------------------------------- rows

// Reduce block `block` of the result at kept position `outer`, whose elements are contiguous.
static void one_row(const level *l, int64_t block, int64_t outer) {
    const char *x = l->from + (axes_offset(&l->kept, outer) + block * BLOCK) * l->size;
    l->kernel->whole[l->isa](x, min_i64(BLOCK, l->n - block * BLOCK),
                             l->to + (outer * l->blocks + block) * l->size);
}

// Reduce a block of `count` results whose elements are many runs. The results take turns run by run, because
// the runs of neighbouring results are neighbours in memory.
static void block_of_runs(const level *l, int64_t block, int64_t outer, int64_t count) {
    int64_t state[GROUP][LANES];
    const char *base[GROUP];
    for (int64_t g = 0; g < count; g++) {
        base[g] = l->from + axes_offset(&l->kept, outer + g) * l->size;
        l->kernel->begin[l->isa](state[g]);
    }
    // INVARIANT: the last reduced axis has stride 1. An axis of stride 1 exists, since axes of size 1 are
    // dropped; if it were a kept axis, the results would be columns.
    const int64_t inner = l->reduced.dim[l->reduced.rank - 1];
    const int64_t i0 = block * BLOCK, i1 = min_i64(i0 + BLOCK, l->n);
    for (int64_t i = i0; i < i1;) {
        const int64_t run = min_i64(inner - i % inner, i1 - i), offset = axes_offset(&l->reduced, i);
        for (int64_t g = 0; g < count; g++)
            l->kernel->add[l->isa](state[g], i - i0, base[g] + offset * l->size, run);
        i += run;
    }
    for (int64_t g = 0; g < count; g++)
        l->kernel->fold[l->isa](state[g], l->to + ((outer + g) * l->blocks + block) * l->size);
}

static void rows_range(void *context, int64_t begin, int64_t end) {
    const level *l = context;
    for (int64_t at = begin; at < end;) { // (block, outer)
        const int64_t block = at / l->outer, outer = at % l->outer;
        int64_t count = min_i64(l->outer - outer, end - at);
        if (l->reduced.rank > 1) {
            count = min_i64(count, GROUP);
            block_of_runs(l, block, outer, count);
        } else {
            for (int64_t i = 0; i < count; i++) one_row(l, block, outer + i);
        }
        at += count;
    }
}

// -------------------------------------------------------------------------------------------------- columns

static void columns_range(void *context, int64_t begin, int64_t end) {
    level *l = context;
    int64_t *offset = malloc(BLOCK * sizeof *offset);
    if (!offset) {
        __atomic_store_n(&l->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    int64_t known = -1; // the block whose offsets are known

    for (int64_t at = begin; at < end; at++) { // (outer, block, strip)
        const int64_t strip = at % l->strips, block = at / l->strips % l->blocks;
        const int64_t outer = at / l->strips / l->blocks, column = strip * COLUMNS;
        const int64_t i0 = block * BLOCK, n = min_i64(BLOCK, l->n - i0);
        if (known != block) axes_offsets(&l->reduced, i0, i0 + n, offset);
        known = block;
        const char *x = l->from + (axes_offset(&l->kept, outer) + column) * l->size;
        char *to = l->to + ((outer * l->width + column) * l->blocks + block) * l->size;
        l->kernel->columns[l->isa](x, offset, n, min_i64(COLUMNS, l->width - column), to, l->blocks);
    }
    free(offset);
}

// -------------------------------------------------------------------------------------------- the reduction

static void run_level(level *l, int threads) {
    const int64_t results = l->outer * l->blocks, n = min_i64(l->n, BLOCK);
    if (l->width == 1)
        parallel(threads, results, max_i64(1, GRAIN / n), rows_range, l);
    else
        parallel(threads, results * l->strips, max_i64(1, GRAIN / n / min_i64(l->width, COLUMNS)),
                 columns_range, l);
}

// A sum or maximum of one element is that element; of no element, the identity.
static void trivial(const level *l, void *to) {
    const int64_t count = l->outer * l->width;
    if (l->n == 1) {
        memcpy(to, l->from, (size_t)(count * l->size));
        return;
    }
    int64_t state[LANES], identity;
    l->kernel->begin[l->isa](state);
    l->kernel->fold[l->isa](state, &identity);
    for (int64_t i = 0; i < count; i++) memcpy((char *)to + i * l->size, &identity, (size_t)l->size);
}

static int reduce(call c, const reduction *f32, const reduction *i64) {
    const tensor *x = input(c.sig, 0);
    level l = {
        .kernel = x->dtype == F32 ? f32 : i64, .isa = c.isa, .size = item_size(x->dtype), .from = c.data[0]};
    l.width = axes_split(x, attributes(c.sig), &l.kept, &l.reduced);
    l.n = product(l.reduced.dim, l.reduced.rank);
    l.outer = product(l.kept.dim, l.kept.rank);
    if (l.outer * l.width == 0) return 0;
    if (l.n <= 1) {
        trivial(&l, c.data[1]);
        return 0;
    }

    for (void *partial = NULL;;) {
        l.blocks = ceil_div(l.n, BLOCK);
        l.strips = ceil_div(l.width, COLUMNS);
        void *to = l.blocks == 1 ? c.data[1] : malloc((size_t)(l.outer * l.width * l.blocks * l.size));
        l.to = to;
        l.failed = !to;
        if (to) run_level(&l, c.threads);
        free(partial);
        if (l.blocks == 1 || l.failed) {
            if (l.blocks > 1) free(to);
            return l.failed;
        }
        // The next level: rows of block results.
        partial = to;
        l.from = to;
        l.outer *= l.width;
        l.width = 1;
        l.n = l.blocks;
        l.kept = (axes){.rank = 1, .dim = {l.outer}, .stride = {l.blocks}};
        l.reduced = (axes){.rank = 1, .dim = {l.blocks}, .stride = {1}};
    }
}

OPERATOR(sum) {
    return reduce(CALL, &sum_f32, &sum_i64);
}

OPERATOR(amax) {
    return reduce(CALL, &amax_f32, &amax_i64);
}
