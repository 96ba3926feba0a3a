// Gathers codes. What does not exist is ABSENT: numbers without a term, terms outside the image, and columns
// beyond the last.

#include "tc16_operands.h"

static const product_kernel unspaced = {.height = 1};

void tc16_terms(const part *s, int64_t begin, int64_t end, taps *t) {
    plan p;
    p.kernel = &unspaced; // of the plan, only this is read: how far apart the numbers are
    find_taps_between(&p, s, begin, end, t);
}

void tc16_find_columns(const part *s, int64_t first, int64_t count, tc16_columns *c) {
    const counters at = counters_at(&s->columns, first);
    c->count = count;
    expand(&s->columns, &s->b_column, at, count, c->b);
    expand(&s->columns, &s->c_column, at, count, c->c);
    if (s->image) {
        expand(&s->columns, &s->y_column, at, count, c->y);
        expand(&s->columns, &s->x_column, at, count, c->x);
    }
}

static void clear(uint16_t *to, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = ABSENT;
}

static const uint16_t *at(const void *from, int64_t i) {
    return factor_at(1, from, i);
}

void tc16_gather_rows(const gemm *g, int64_t batch, int64_t m0, int64_t m1, const taps *t, int64_t depth,
                      uint16_t *to) {
    for (int64_t m = m0; m < m1; m++, to += CHUNK) {
        const uint16_t *from = at(g->a, batch * g->a_batch + m * g->a_row);
        clear(to, depth);
        for (int64_t k = 0; k < t->count; k++) to[t->a[k]] = code_of(from[t->b[k]]);
    }
}

// Gather one term of all columns, or of those that have it.
static void gather_term(const void *from, const tc16_columns *c, int adjacent, const uint8_t *exists,
                        uint16_t *to) {
    if (exists) {
        // NOTE: what does not exist may be far outside of b, so its address is not even read from.
        for (int64_t j = 0; j < c->count; j++) to[j] = exists[j] ? code_of(*at(from, c->b[j])) : ABSENT;
    } else if (adjacent) {
        const uint16_t *row = at(from, c->b[0]);
        for (int64_t j = 0; j < c->count; j++) to[j] = code_of(row[j]);
    } else {
        for (int64_t j = 0; j < c->count; j++) to[j] = code_of(*at(from, c->b[j]));
    }
}

void tc16_gather_columns(const gemm *g, const part *s, int64_t batch, const tc16_columns *c, const taps *t,
                         int64_t depth, int64_t width, uint16_t *to) {
    const void *from = factor_at(1, g->b, batch * g->b_batch);
    int adjacent = 1, all = 1;
    uint8_t exists[TC16_MAX_WIDTH];
    for (int64_t j = 1; j < c->count; j++) adjacent &= c->b[j] - c->b[j - 1] == 1;
    if (t->count < depth || c->count < width) clear(to, depth * width);
    for (int64_t k = 0; k < t->count; k++) {
        // The terms of a tap follow one another, at the same place of the image.
        if (s->image && (k == 0 || t->y[k] != t->y[k - 1] || t->x[k] != t->x[k - 1])) {
            all = 1;
            for (int64_t j = 0; j < c->count; j++) {
                const int64_t y = c->y[j] + t->y[k], x = c->x[j] + t->x[k];
                exists[j] = y >= 0 && y < g->high && x >= 0 && x < g->wide;
                all &= exists[j];
            }
        }
        gather_term(at(from, t->b[k]), c, adjacent, all ? 0 : exists, to + t->a[k] * width);
    }
}
