// Adds rows to rows in binary64, with the sums that an error bound needs; visits only the rows that receive
// additions.
//
// A bit for each row of the base marks these rows; a count of bits gives a row's number among them.

#include "runtime/repops.h"
#include <math.h>
#include <string.h>

typedef struct {
    const float *base, *source; // [height][width], [count][width]
    const int64_t *index;       // [count]
    const uint64_t *met;        // a bit for each row of the base
    const int64_t *before;      // marked rows in the words before
    int64_t height, width, count, found;
    const int64_t *rows; // the `found` marked rows
    int64_t *terms;
    double *sum, *magnitude; // [found][width]
    enum isa isa;
} scatter;

// Columns begin <= j < end of all rows.
BODY scatter_columns_body(const scatter *c, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < c->found; i++)
        for (int64_t j = begin; j < end; j++) {
            const double v = c->base[c->rows[i] * c->width + j];
            c->sum[i * c->width + j] = v;
            c->magnitude[i * c->width + j] = fabs(v);
        }
    for (int64_t i = 0; i < c->count; i++) {
        const int64_t row = c->index[i];
        if (row < 0 || row >= c->height) continue;
        const uint64_t below = c->met[row / 64] & (((uint64_t)1 << row % 64) - 1);
        const int64_t number = c->before[row / 64] + __builtin_popcountll(below);
        const float *from = c->source + i * c->width;
        double *sum = c->sum + number * c->width, *magnitude = c->magnitude + number * c->width;
        if (begin == 0) c->terms[number]++;
        NO_DEPENDENCE
        for (int64_t j = begin; j < end; j++) {
            const double v = from[j];
            sum[j] += v;
            magnitude[j] += fabs(v);
        }
    }
}
VARIANTS(scatter_columns, (const scatter *c, int64_t begin, int64_t end), (c, begin, end))

static void scatter_range(void *context, int64_t begin, int64_t end) {
    const scatter *c = context;
    scatter_columns[c->isa](c, begin, min_i64(end, c->width));
}

// Add source[count][width] to the rows `index` of base[height][width]; skip indices out of range. `met` and
// `before` have a word for each 64 rows of the base. Return the number of rows that receive additions. The
// outputs describe these rows in ascending order: `rows`, number of additions, sums, and sums of magnitudes,
// base included. They need room for min(count, height) rows.
REPOPS_EXPORT int64_t repops_f64_scatter(int64_t height, int64_t width, int64_t count, const float *base,
                                         const int64_t *index, const float *source, uint64_t *met,
                                         int64_t *before, int64_t *rows, int64_t *terms, double *sum,
                                         double *magnitude, int threads, int isa) {
    const int64_t words = ceil_div(height, 64);
    memset(met, 0, (size_t)words * sizeof *met);
    for (int64_t i = 0; i < count; i++)
        if (index[i] >= 0 && index[i] < height) met[index[i] / 64] |= (uint64_t)1 << index[i] % 64;
    int64_t found = 0;
    for (int64_t word = 0; word < words; word++) {
        before[word] = found;
        for (uint64_t rest = met[word]; rest; rest &= rest - 1) {
            const int64_t row = word * 64 + __builtin_ctzll(rest);
            terms[found] = 0;
            rows[found++] = row;
        }
    }
    scatter c = {.base = base,
                 .source = source,
                 .index = index,
                 .met = met,
                 .before = before,
                 .height = height,
                 .width = width,
                 .count = count,
                 .found = found,
                 .rows = rows,
                 .terms = terms,
                 .sum = sum,
                 .magnitude = magnitude,
                 .isa = (enum isa)isa};
    // NOTE: empty rows count as having one column, so that the additions are still counted.
    parallel(threads, max_i64(width, 1), max_i64(16, THREAD_WORK / 4 / max_i64(1, count)), scatter_range, &c);
    return found;
}
