// scatter_add in the mode exact: each row of the base, and the source rows that are added to it, are rows of
// exact_tiles.h. The source rows of each destination are listed first.

#include "exact_tiles.h"
#include <stdlib.h>

#define GATHERED (EXACT_ROWS - 1) // source rows at a time, as there is also the base

typedef struct {
    enum isa isa;
    const float *base, *source;
    float *out;
    int64_t width, strips;
    int64_t *first;  // [rows + 1]: where the list of a destination begins
    int64_t *listed; // source rows by destination
} scatter_plan;

// List the source rows of each destination; an index out of range adds to none.
static void list_rows(const int64_t *index, int64_t count, int64_t rows, const scatter_plan *p) {
    for (int64_t i = 0; i < count; i++)
        if (index[i] >= 0 && index[i] < rows) p->first[index[i] + 1]++;
    for (int64_t r = 0; r < rows; r++) p->first[r + 1] += p->first[r];
    // Fill each list from its beginning, which moves to its end, and then back.
    for (int64_t i = 0; i < count; i++)
        if (index[i] >= 0 && index[i] < rows) p->listed[p->first[index[i]]++] = i;
    for (int64_t r = rows; r > 0; r--) p->first[r] = p->first[r - 1];
    p->first[0] = 0;
}

BODY copy_body(float *restrict to, const float *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = from[i] + 0.0f; // -0 becomes +0
}
VARIANTS(copy, (float *restrict to, const float *from, int64_t n), (to, from, n))

static void scatter_range(void *context, int64_t begin, int64_t end) {
    const scatter_plan *p = context;
    const float *row[1 + GATHERED];
    for (int64_t at = begin; at < end; at++) { // (row, strip)
        const int64_t r = at / p->strips, first = at % p->strips * EXACT_COLUMNS;
        const int64_t width = min_i64(EXACT_COLUMNS, p->width - first);
        const int64_t i0 = p->first[r], i1 = p->first[r + 1];
        float *to = p->out + r * p->width + first;
        row[0] = p->base + r * p->width;
        if (i0 == i1) {
            copy[p->isa](to, row[0] + first, width);
            continue;
        }
        exact_sum sum[EXACT_COLUMNS];
        const int several = i1 - i0 > GATHERED;
        if (several) memset(sum, 0, sizeof sum);
        for (int64_t i = i0; i < i1; i += GATHERED) {
            const int64_t base = i == i0, count = min_i64(GATHERED, i1 - i);
            for (int64_t k = 0; k < count; k++) row[base + k] = p->source + p->listed[i + k] * p->width;
            if (several)
                exactly[p->isa]->add_columns(sum, row, base + count, first, width);
            else
                exactly[p->isa]->columns(row, base + count, first, width, to);
        }
        for (int64_t j = 0; several && j < width; j++) to[j] = exact_result(&sum[j], 0);
    }
}

OPERATOR(exact_scatter_add) {
    const tensor *base = input(sig, 0);
    const int64_t rows = base->dim[0], count = elements(input(sig, 1));
    scatter_plan p = {.isa = (enum isa)isa, .base = data[0], .source = data[2], .out = data[3]};
    p.width = product(base->dim + 1, base->rank - 1);
    p.strips = ceil_div(p.width, EXACT_COLUMNS);
    if (!p.strips) return 0; // there may be 2^40 rows without an element, and no memory has their lists
    p.first = calloc((size_t)rows + 1, sizeof *p.first);
    p.listed = malloc((size_t)(count + 1) * sizeof *p.listed);
    const int failed = !p.first || !p.listed;
    if (!failed) {
        list_rows(data[1], count, rows, &p);
        const int64_t units = rows * p.strips, work = (rows + count) * p.width / max_i64(units, 1);
        parallel(threads, units, max_i64(1, THREAD_WORK / max_i64(work, 1)), scatter_range, &p);
    }
    free(p.first);
    free(p.listed);
    return failed;
}
