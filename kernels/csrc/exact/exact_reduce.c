// sum of f32 in the mode exact, over any dimensions: rows or columns of exact_tiles.h. Where few results have
// many elements, threads share them: each computes exact sums of some elements, which are joined at the end.

#include "reduce/axes.h"
#include "exact_tiles.h"
#include <stdlib.h>

#define GRAIN THREAD_WORK
#define GATHERED 1024

typedef struct {
    enum isa isa;
    const float *from;
    float *to; // [outer][width]
    axes kept, reduced;
    int64_t outer, width; // kept positions: outer ones, and contiguous ones
    int64_t n, strips;    // reduced elements; strips of EXACT_COLUMNS contiguous results
    int64_t parts;        // of the elements of a result
    exact_sum *sums;      // [outer][width][parts], if there are several parts
} sums_plan;

// Copy up to GATHERED of the elements begin <= i < end of a result whose elements begin at x; return how
// many.
static int64_t gather(const sums_plan *p, const float *x, int64_t begin, int64_t end, float *to) {
    const int64_t inner = p->reduced.dim[p->reduced.rank - 1], all = min_i64(end - begin, GATHERED);
    for (int64_t i = 0, length; i < all; i += length) {
        const float *run = x + axes_offset(&p->reduced, begin + i);
        length = min_i64(inner - (begin + i) % inner, all - i);
        memcpy(to + i, run, (size_t)length * sizeof *run);
    }
    return all;
}

// Add elements begin <= i < end of a result whose elements begin at x.
static void add_row(const sums_plan *p, const float *x, int64_t begin, int64_t end, exact_sum *to) {
    if (p->reduced.rank <= 1) {
        exactly[p->isa]->add(to, x + begin, end - begin);
        return;
    }
    float gathered[GATHERED];
    for (int64_t i = begin, count; i < end; i += count) {
        count = gather(p, x, i, end, gathered);
        exactly[p->isa]->add(to, gathered, count);
    }
}

static void rows_range(void *context, int64_t begin, int64_t end) {
    const sums_plan *p = context;
    for (int64_t at = begin; at < end; at++) { // (outer, part)
        const int64_t outer = at / p->parts, part = at % p->parts;
        const float *x = p->from + axes_offset(&p->kept, outer);
        if (p->parts > 1) {
            add_row(p, x, p->n * part / p->parts, p->n * (part + 1) / p->parts, &p->sums[at]);
        } else if (p->reduced.rank <= 1) {
            exactly[p->isa]->whole(x, p->n, &p->to[outer]);
        } else if (p->n <= GATHERED) {
            float gathered[GATHERED];
            exactly[p->isa]->whole(gathered, gather(p, x, 0, p->n, gathered), &p->to[outer]);
        } else {
            exact_sum sum = {0};
            add_row(p, x, 0, p->n, &sum);
            p->to[outer] = exact_result(&sum, 0);
        }
    }
}

static void columns_range(void *context, int64_t begin, int64_t end) {
    const sums_plan *p = context;
    int64_t offset[EXACT_ROWS];
    const float *row[EXACT_ROWS];
    for (int64_t at = begin; at < end; at++) { // (outer, part, strip)
        const int64_t strip = at % p->strips, part = at / p->strips % p->parts;
        const int64_t outer = at / p->strips / p->parts, first = strip * EXACT_COLUMNS;
        const int64_t width = min_i64(EXACT_COLUMNS, p->width - first);
        const float *x = p->from + axes_offset(&p->kept, outer);
        const int64_t i0 = p->n * part / p->parts, i1 = p->n * (part + 1) / p->parts;
        float *to = p->to + outer * p->width + first;
        exact_sum sum[EXACT_COLUMNS];
        const int several = p->parts > 1 || i1 - i0 > EXACT_ROWS;
        if (several) memset(sum, 0, sizeof sum);
        for (int64_t i = i0; i == i0 || i < i1; i += EXACT_ROWS) { // once even without elements
            const int64_t count = min_i64(EXACT_ROWS, i1 - i);
            axes_offsets(&p->reduced, i, i + count, offset);
            for (int64_t k = 0; k < count; k++) row[k] = x + offset[k];
            if (several)
                exactly[p->isa]->add_columns(sum, row, count, first, width);
            else
                exactly[p->isa]->columns(row, count, first, width, to);
        }
        for (int64_t j = 0; several && j < width; j++) {
            if (p->parts > 1)
                p->sums[(outer * p->width + first + j) * p->parts + part] = sum[j];
            else
                to[j] = exact_result(&sum[j], 0);
        }
    }
}

static void join_range(void *context, int64_t begin, int64_t end) {
    const sums_plan *p = context;
    for (int64_t i = begin; i < end; i++) {
        exact_sum *sum = p->sums + i * p->parts;
        for (int64_t part = 1; part < p->parts; part++) exact_join(sum, sum + part);
        p->to[i] = exact_result(sum, 0);
    }
}

OPERATOR(exact_sum) {
    const tensor *x = input(sig, 0);
    sums_plan p = {.isa = (enum isa)isa, .from = data[0], .to = data[1], .parts = 1};
    p.width = axes_split(x, attributes(sig), &p.kept, &p.reduced);
    p.n = product(p.reduced.dim, p.reduced.rank);
    p.outer = product(p.kept.dim, p.kept.rank);
    const int64_t results = p.outer * p.width;
    if (results == 0) return 0;
    p.strips = p.width == 1 ? 1 : ceil_div(p.width, EXACT_COLUMNS);
    const int64_t units = p.outer * p.strips, work = max_i64(1, results * p.n / units);
    if (units < 4 * threads) p.parts = max_i64(1, min_i64(ceil_div(4 * threads, units), work / (GRAIN / 4)));
    if (p.parts > 1) {
        p.sums = calloc((size_t)(results * p.parts), sizeof *p.sums);
        if (!p.sums) return 1;
    }
    const int64_t grain = max_i64(1, GRAIN / max_i64(1, work / p.parts));
    parallel(threads, units * p.parts, grain, p.width == 1 ? rows_range : columns_range, &p);
    if (p.parts > 1) parallel(threads, results, results, join_range, &p);
    free(p.sums);
    return 0;
}
