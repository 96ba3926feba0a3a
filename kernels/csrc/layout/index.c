// take and scatter_add: rows of a table, chosen by an index tensor. An index out of range chooses no row.

#include "runtime/repops.h"
#include <string.h>

typedef struct {
    const char *table;
    const int64_t *index;
    char *out;
    int64_t rows, row_bytes;
} taking;

static void take_range(void *context, int64_t begin, int64_t end) {
    const taking *t = context;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = t->index[i];
        char *to = t->out + i * t->row_bytes;
        if (row >= 0 && row < t->rows)
            memcpy(to, t->table + row * t->row_bytes, (size_t)t->row_bytes);
        else
            memset(to, 0, (size_t)t->row_bytes);
    }
}

OPERATOR(take) {
    (void)isa;
    const tensor *x = input(sig, 0);
    taking t = {.table = data[0], .index = data[1], .out = data[2], .rows = x->dim[0]};
    t.row_bytes = product(x->dim + 1, x->rank - 1) * item_size(x->dtype);
    parallel(threads, elements(input(sig, 1)), max_i64(1, 4 * THREAD_WORK / max_i64(t.row_bytes, 1)),
             take_range, &t);
    return 0;
}

// Source rows are added to each destination in ascending order. So threads divide the COLUMNS, or the
// destinations if a row is too narrow; then each thread reads all indices and uses only its own.
typedef struct {
    const int64_t *index;
    const float *src;
    float *out;
    int64_t count, rows, width;
    int by_column;
} adding;

BODY add_row_body(float *restrict to, const float *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = to[i] + from[i];
}
VARIANTS(add_row, (float *restrict to, const float *from, int64_t n), (to, from, n))

typedef struct {
    adding a;
    enum isa isa;
} scatter;

static void scatter_range(void *context, int64_t begin, int64_t end) {
    const scatter *s = context;
    const adding *a = &s->a;
    const int64_t c0 = a->by_column ? begin : 0, c1 = a->by_column ? end : a->width;
    const int64_t r0 = a->by_column ? 0 : begin, r1 = a->by_column ? a->rows : end;
    for (int64_t i = 0; i < a->count; i++) {
        const int64_t row = a->index[i];
        if (row >= r0 && row < r1)
            add_row[s->isa](a->out + row * a->width + c0, a->src + i * a->width + c0, c1 - c0);
    }
}

OPERATOR(scatter_add) {
    const tensor *base = input(sig, 0);
    adding a = {.index = data[1], .src = data[2], .out = data[3], .count = elements(input(sig, 1))};
    a.rows = base->dim[0];
    a.width = product(base->dim + 1, base->rank - 1);
    a.by_column = a.width >= 64;
    memcpy(a.out, data[0], (size_t)elements(base) * sizeof(float));
    scatter s = {a, (enum isa)isa};
    if (a.by_column)
        parallel(threads, a.width, max_i64(32, THREAD_WORK / max_i64(a.count, 1)), scatter_range, &s);
    else
        parallel(threads, a.rows, max_i64(1, a.count < THREAD_WORK / 4 ? a.rows : 1), scatter_range, &s);
    return 0;
}
